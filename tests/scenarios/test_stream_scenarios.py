"""What streams tell twice, wrongly or not at all, played through whole turns, by the ids of the scenario catalogue (P)."""

from pathlib import Path

import pytest
from support.runs.run_harness import RunHarness, RunRecord, run_case, run_scenario

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, CutOff, Raw, Say, When
from turnbuckle.reply.anchor import anchor_of
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_P10_an_end_without_a_reason_is_an_end_on_a_host_that_never_gives_one(
    tmp_path: Path, protocol: ProtocolName
):
    """The terminal event came and gave no reason, and the host is known for that: the answer is whole."""
    known = {"quirks": Quirks(bare_done=True)}
    record = run_case(tmp_path, "no-reason", protocol=protocol, route=known)
    assert (record.outcome.kind, record.shown, len(record.requests)) == ("completed", ANSWER, 1)


@pytest.mark.requirement("A14")
def test_P10_a_host_that_never_gives_a_reason_is_learned_and_then_believed(tmp_path: Path):
    """Nothing is known of the host at first: it is asked once to go on, brings nothing new, and is believed then."""

    async def scenario(harness: RunHarness) -> list[RunRecord]:
        return [await harness.run() for _ in range(3)]

    first, second, third = run_scenario(tmp_path, "no-reason", scenario)
    assert (first.outcome.kind, first.shown, len(first.requests)) == ("completed", ANSWER, 2)
    for record in (second, third):
        assert (record.outcome.kind, record.shown, record.decided) == ("completed", ANSWER, [])


def _without_reasons(*texts: str) -> Case:
    """A host whose replies are these, in turn, each behind its end mark alone."""
    end = (When("openai_chat streaming", (Raw("data: [DONE]\n\n"),)), CutOff("tidy"))
    return Case("own", "never a reason", tuple((*((Say(text),) if text else ()), *end) for text in texts))


@pytest.mark.requirement("A14")
@pytest.mark.parametrize(
    ("replies", "kind", "shown", "requests"),
    [
        ([ANSWER, ""], "completed", ANSWER, 2),
        ([ANSWER, anchor_of(ANSWER)], "completed", ANSWER, 2),
        (["Paris", "Paris"], "completed", "Paris", 2),  # who says the last words again has no more to say
        ([ANSWER[:60], anchor_of(ANSWER[:60]) + ANSWER[60:], ""], "completed", ANSWER, 3),
        ([ANSWER[:60], anchor_of(ANSWER[:60])[:10], ""], "partial", ANSWER[:60], 4),
        ([ANSWER[:60], ""], "partial", ANSWER[:60], 4),  # a relay that has lost its upstream for good
    ],
)
def test_P10_an_end_without_a_reason_is_proved_by_a_continuation_that_brings_nothing(
    tmp_path: Path, replies: list[str], kind: str, shown: str, requests: int
):
    """The text looks whole and nothing comes behind it, or its last words come again and nothing behind them."""
    record = run_case(tmp_path, _without_reasons(*replies))
    assert (record.outcome.kind, record.shown, len(record.requests)) == (kind, shown, requests)


@pytest.mark.requirement("A14")
def test_P10_an_end_mark_behind_nothing_does_not_finish_a_text_that_broke_otherwise(tmp_path: Path):
    """The stream was reset behind a full stop, and the relay in front has lost its upstream by then."""
    done = (When("openai_chat streaming", (Raw("data: [DONE]\n\n"),)), CutOff("tidy"))
    record = run_case(tmp_path, Case("own", "reset, then blank", ((Say(ANSWER), CutOff("reset")), done)))
    assert (record.outcome.kind, record.shown) == ("partial", ANSWER)


@pytest.mark.requirement("A14")
def test_P10_a_relay_that_breaks_texts_off_is_never_taken_for_a_host_without_reasons(tmp_path: Path):
    """Two texts that end in mid-sentence teach nothing, so the third is still gone on with."""

    async def scenario(harness: RunHarness) -> list[RunRecord]:
        return [await harness.run() for _ in range(3)]

    halves = [ANSWER[:60], "", "", ""] * 3
    stories = run_scenario(tmp_path, _without_reasons(*halves), scenario)
    assert [record.outcome.kind for record in stories] == ["partial"] * 3


@pytest.mark.requirement("A14")
def test_P10_an_end_mark_of_a_relay_that_lost_its_upstream_is_gone_on_behind(tmp_path: Path):
    """[DONE] in mid-text without a reason: the text stays, and the model goes on behind it."""
    record = run_case(tmp_path, "bare-done-in-text")
    assert (record.outcome.kind, record.shown, len(record.requests)) == ("completed", ANSWER, 2)
    assert [decided.verdict for decided in record.decided] == ["cut_by_transport"]


@pytest.mark.requirement("A14", "B1")
def test_P10_calls_in_front_of_an_end_mark_alone_never_run(tmp_path: Path):
    """A whole call and [DONE] without a reason, known for it or not: nobody knows whether that was all of it."""
    for quirks in (Quirks(), Quirks(bare_done=True)):
        record = run_case(
            tmp_path, "bare-done-behind-a-call", route={"quirks": quirks}, policy={"continuations": 1}
        )
        assert record.started == []
        assert record.outcome.kind != "completed"


@EVERY
@pytest.mark.requirement("A13")
@pytest.mark.parametrize(
    "case", ["same-object-twice", "empty-object-first", "whole-message-last", "other-ids-at-the-end"]
)
def test_P12_a_call_that_is_told_twice_runs_once(tmp_path: Path, protocol: ProtocolName, case: str):
    """The same object twice, an empty one first, the whole message or other ids in the end: one call, run once."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert [(started.name, started.arguments) for started in record.started] == [
        ("get_weather", {"city": "Oslo"})
    ]


@EVERY
@pytest.mark.requirement("A14")
def test_P11_of_two_reasons_the_worse_one_counts(tmp_path: Path, protocol: ProtocolName):
    """Length and then stop: it was cut, and the text is gone on with."""
    record = run_case(tmp_path, "two-reasons", protocol=protocol)
    assert record.decided[0].verdict == "cut_by_length"


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_P22_an_event_inside_the_text_that_cannot_be_read_is_a_hole(tmp_path: Path, protocol: ProtocolName):
    """It may have held words: nothing behind it is shown, and the model goes on from before it."""
    record = run_case(tmp_path, "hole-in-text", protocol=protocol)
    assert (record.outcome.kind, record.shown, len(record.requests)) == ("completed", ANSWER, 2)
    assert [decided.verdict for decided in record.decided] == ["cut_by_transport"]
