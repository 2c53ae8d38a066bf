"""Servers with a fault get exactly the marks refused that they deserve: the grades can fail."""

from pathlib import Path

import pytest
from support.lab.faulty_servers import (
    Hangs,
    HangsUp,
    Naive,
    Remembers,
    Runs,
    Skips,
    Spends,
    StartsOver,
    open_server,
)
from support.server import live_server

from turnbuckle.lab.score.player import Scorer, ScoreRow, Scoring, new_score_provider
from turnbuckle.lab.score.trials import find_trials

WORD = "0123456789ab"


def scored(
    kind: type[Naive], cases: str, *, seconds: float = 5.0, canary: Path | None = None
) -> list[ScoreRow]:
    async def main() -> list[ScoreRow]:
        async with new_score_provider("127.0.0.1", 0) as provider, open_server(kind(provider.url)) as address:
            player = Scorer(provider, Scoring(address, WORD, seconds=seconds, canary=canary))
            return [row async for row in player.rows(find_trials(cases))]

    return live_server.run(main())


def refused(rows: list[ScoreRow]) -> dict[str, set[str]]:
    """The marks that were not given, by case."""
    assert [row.trial for row in rows if row.play.idle] == []
    named = {f"{row.trial} plain" if row.play.heard.plain else row.trial: row for row in rows}
    return {
        name: {grade for grade, mark in row.marks.items() if mark.given is False}
        for name, row in named.items()
    }


@pytest.mark.requirement("H4")
def test_a_relay_that_always_says_stop_is_not_honest_and_heals_nothing():
    lies = {"honest", "healed"}
    cases = "clean,reset-in-text,close-in-text,end-without-finish,error-in-text,split-unicode,html-page-once"
    assert refused(scored(Naive, cases)) == {
        "clean": set(),
        "clean plain": set(),
        "reset-in-text": lies,
        "reset-in-text plain": lies,
        "close-in-text": lies,
        "end-without-finish": lies,
        "end-without-finish plain": lies,
        "error-in-text": {"healed"},  # it passes on the error, too
        "html-page-once": lies,
        "split-unicode": set(),
    }


@pytest.mark.requirement("H4")
def test_a_relay_that_hands_half_a_call_over_as_a_whole_one_is_found():
    found = refused(scored(Naive, "cut-in-arguments,cut-in-command,lying-finish"))
    assert list(found) == ["cut-in-arguments", "cut-in-command", "lying-finish"]
    assert all(grades == {"honest", "untouched", "healed"} for grades in found.values())


@pytest.mark.realtime
@pytest.mark.requirement("H4")
def test_a_relay_that_hangs_does_not_end():
    assert refused(scored(Hangs, "clean,close-in-text", seconds=0.5)) == {
        "clean": set(),
        "clean plain": set(),
        "close-in-text": {"ends", "healed"},
    }


def test_a_relay_that_hangs_up_does_not_end():
    assert refused(scored(HangsUp, "close-in-text,end-without-finish"))["close-in-text"] == {"ends", "healed"}


@pytest.mark.requirement("H4")
def test_a_relay_that_starts_over_says_things_twice():
    assert refused(scored(StartsOver, "close-in-text,server-error-once")) == {
        "close-in-text": {"once"},
        "server-error-once": set(),
        "server-error-once plain": {"honest", "healed"},
    }


def test_a_relay_that_loses_words_at_the_seam_is_found():
    assert refused(scored(Skips, "close-in-text")) == {"close-in-text": {"kept", "honest", "healed"}}


def test_a_relay_that_has_five_answers_made_is_not_frugal():
    assert refused(scored(Spends, "close-in-text")) == {"close-in-text": {"frugal"}}


@pytest.mark.requirement("H4")
def test_an_agent_that_carries_out_cut_calls_is_found_by_the_marks_that_they_leave(tmp_path: Path):
    rows = scored(Runs, "cut-in-arguments,cut-in-command,lying-finish,whole-call", canary=tmp_path)
    found = refused(rows)
    assert found["whole-call"] == set()
    assert [name for name, grades in found.items() if "untouched" in grades] == [
        "cut-in-arguments",
        "cut-in-command",
        "lying-finish",
    ]
    assert {row.play.wanted.own_tools for row in rows} == {True}


def test_an_agent_that_carries_out_cut_calls_is_found_without_a_folder_by_the_results_that_it_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # its tools work where it stands
    found = refused(scored(Runs, "cut-in-arguments,cut-in-command,lying-finish,whole-call"))
    assert [name for name, grades in found.items() if "untouched" in grades] == [
        "cut-in-arguments",
        "cut-in-command",
        "lying-finish",
    ]


@pytest.mark.requirement("H4")
def test_a_server_that_knows_keys_but_begins_a_dropped_request_anew_is_found():
    assert refused(scored(Remembers, "comes-back")) == {"comes-back": {"comes back"}}


def test_a_server_that_knows_no_keys_is_not_asked_to_come_back():
    (row,) = scored(Naive, "comes-back")
    assert row.marks["comes back"].given is None
    assert refused([row]) == {"comes-back": set()}
