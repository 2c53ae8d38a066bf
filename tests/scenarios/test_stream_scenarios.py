"""What streams tell twice, wrongly or not at all, played through whole turns, by the ids of the scenario catalogue (P)."""

from pathlib import Path

import pytest
from stage import Stage, Story, on_stage, play

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.vocab.ids import PROTOCOLS, Protocol
from turnbuckle.vocab.quirks import Quirks

EVERY = pytest.mark.parametrize("protocol", PROTOCOLS)


@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_P10_an_end_without_a_reason_is_an_end_on_a_host_that_never_gives_one(tmp_path: Path, protocol: Protocol):
    """The terminal event came and gave no reason, and the host is known for that: the answer is whole."""
    known = {"quirks": Quirks(bare_done=True)}
    story = play(tmp_path, "no-reason", protocol=protocol, route=known)
    assert (story.outcome.kind, story.shown, len(story.requests)) == ("completed", ANSWER, 1)


@pytest.mark.requirement("A14")
def test_P10_a_host_that_never_gives_a_reason_is_learned_and_then_believed(tmp_path: Path):
    """Nothing is known of the host at first, so its answer is gone on with. That ends by itself, and for good."""

    async def scene(stage: Stage) -> list[Story]:
        return [await stage.run() for _ in range(3)]

    first, second, third = on_stage(tmp_path, "no-reason", scene)
    assert first.outcome.kind in ("completed", "partial")
    assert first.shown == ANSWER
    assert len(first.requests) <= 4
    for story in (second, third):
        assert (story.outcome.kind, story.shown, story.decided) == ("completed", ANSWER, [])


@pytest.mark.requirement("A14")
def test_P10_an_end_mark_of_a_relay_that_lost_its_upstream_is_gone_on_behind(tmp_path: Path):
    """[DONE] in mid-text without a reason: the text stays, and the model goes on behind it."""
    story = play(tmp_path, "bare-done-in-text")
    assert (story.outcome.kind, story.shown, len(story.requests)) == ("completed", ANSWER, 2)
    assert [decided.verdict for decided in story.decided] == ["cut_by_transport"]


@pytest.mark.requirement("A14", "B1")
def test_P10_calls_in_front_of_an_end_mark_alone_never_run(tmp_path: Path):
    """A whole call and [DONE] without a reason, known for it or not: nobody knows whether that was all of it."""
    for quirks in (Quirks(), Quirks(bare_done=True)):
        story = play(tmp_path, "bare-done-behind-a-call", route={"quirks": quirks}, policy={"continuations": 1})
        assert story.started == []
        assert story.outcome.kind != "completed"


@EVERY
@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    "case", ["same-object-twice", "empty-object-first", "whole-message-last", "other-ids-at-the-end"]
)
def test_P12_a_call_that_is_told_twice_runs_once(tmp_path: Path, protocol: Protocol, case: str):
    """The same object twice, an empty one first, the whole message or other ids in the end: one call, run once."""
    story = play(tmp_path, case, protocol=protocol)
    assert story.outcome.kind == "completed"
    assert [(started.name, started.arguments) for started in story.started] == [("get_weather", {"city": "Oslo"})]


@EVERY
@pytest.mark.requirement("A14")
def test_P11_of_two_reasons_the_worse_one_counts(tmp_path: Path, protocol: Protocol):
    """Length and then stop: it was cut, and the text is gone on with."""
    story = play(tmp_path, "two-reasons", protocol=protocol)
    assert story.decided[0].verdict == "cut_by_length"


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_P22_an_event_inside_the_text_that_cannot_be_read_is_a_hole(tmp_path: Path, protocol: Protocol):
    """It may have held words: nothing behind it is shown, and the model goes on from before it."""
    story = play(tmp_path, "hole-in-text", protocol=protocol)
    assert (story.outcome.kind, story.shown, len(story.requests)) == ("completed", ANSWER, 2)
    assert [decided.verdict for decided in story.decided] == ["cut_by_transport"]
