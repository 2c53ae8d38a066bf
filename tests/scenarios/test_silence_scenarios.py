"""What a provider's silence does to a run, by the ids of the scenario catalogue (P1 to P8)."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.runs.run_harness import FAST, MAIN, RunHarness, RunRecord, run_case, run_scenario
from support.turns.histories import in_pieces

from turnbuckle.call.limits import StallSettings
from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.script import Call, Case, Comments, Finish, Frame, Reason, Say, Stall
from turnbuckle.turn.facts import Decided, Fallback, RunEnded
from turnbuckle.turn.policy import TurnLimits
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
AUTO = StallSettings()
ELSEWHERE = "happy"


def clocks(record: RunRecord) -> list[str | None]:
    return [decided.failure.clock for decided in record.decided if decided.failure is not None]


def is_plain_success(record: RunRecord, requests: int = 1) -> bool:
    """It ended well, the reader saw the answer once, and nothing was asked more often than it had to be."""
    return (record.outcome.kind, record.shown, len(record.requests)) == ("completed", ANSWER, requests)


@pytest.mark.requirement("A9", "B2", "B10")
@EVERY
def test_P1_a_provider_that_never_sends_a_byte_is_left_before_anything_is_shown(
    tmp_path: Path, protocol: ProtocolName
):
    """Accepted, then no byte: the clock of the first event ends it, and a retry or another route answers."""
    again = run_case(tmp_path, "silent-once-then-works", protocol=protocol)
    assert is_plain_success(again, requests=2)
    assert clocks(again) == ["first_event"]
    assert again.seconds == pytest.approx(20.5, abs=0.5)
    assert again.notices == []

    elsewhere = run_case(
        tmp_path, {MAIN: "silent", "other": ELSEWHERE}, protocol=protocol, policy={"stream_retries": 0}
    )
    assert is_plain_success(elsewhere, requests=2)
    assert elsewhere.decided[0].decision == Fallback(RouteName("other"))


@EVERY
def test_P2_a_stream_that_only_opened_is_left_when_nothing_follows(tmp_path: Path, protocol: ProtocolName):
    """Headers and the opening event have come, and then nothing: having begun does not save it."""
    record = run_case(tmp_path, {MAIN: "opens-then-silent", "other": ELSEWHERE}, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown == ANSWER
    assert set(clocks(record)) <= {"gap", "silence"}
    assert len(clocks(record)) == 1  # the other is healthy, so nobody waits for this one twice


@EVERY
def test_P3_a_large_prompt_may_take_minutes_before_its_first_event(tmp_path: Path, protocol: ProtocolName):
    """800 kB of prompt and three minutes of silence: waited for. A few words and the same silence: not."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, RunRecord]:
        large = await harness.run("word " * 160_000)
        small = await harness.run("word")
        return large, small

    large, small = run_scenario(tmp_path, "slow-prefill", scenario, protocol=protocol, stall=AUTO)
    assert large.outcome.kind == "completed"
    assert large.decided == []
    assert clocks(small)[0] == "first_event"


LIFECYCLE = Case(
    "lifecycle",
    "a thought, then a sign of life every ten seconds",
    (
        (
            Reason(THOUGHT),
            *(
                Stall(10),
                Frame({"type": "response.in_progress", "response": {"id": "lab", "status": "in_progress"}}),
            )
            * 9,
            Say(ANSWER),
            Finish(),
        ),
    ),
)


@pytest.mark.parametrize(
    "protocol, case", [("anthropic", "thinks-behind-signs-of-life"), ("openai_responses", LIFECYCLE)]
)
def test_P4_a_model_that_thinks_behind_signs_of_life_is_not_killed(
    tmp_path: Path, protocol: ProtocolName, case: Case | str
):
    """90 seconds of pings or lifecycle events in a thought, with a gap of 20: it goes on, and it shows."""
    said: list[str] = []

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        await harness.clock.sleep(88)
        said.extend(activity.words(harness.call_clock.now()) for activity in harness.models.activity())
        await running.outcome()
        return await harness.record(running.run)

    record = run_scenario(
        tmp_path, case, scenario, protocol=protocol, stall=StallSettings(gap=20, silence=20)
    )
    assert is_plain_success(record)
    assert said == ["thinking, 88 s"]


@EVERY
@pytest.mark.parametrize("case", ["thinks-behind-signs-of-life", "thinks-behind-pings"])
def test_P4_by_default_ninety_seconds_of_comments_are_no_stall(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """Chat Completions has no pings, only comments, which never count as progress; the usual limits allow for it."""
    assert is_plain_success(run_case(tmp_path, case, protocol=protocol, stall=AUTO))


@pytest.mark.requirement("B10")
@EVERY
def test_P5_comments_do_not_keep_a_stalled_stream_alive(tmp_path: Path, protocol: ProtocolName):
    """Bytes come every second and nothing in them: the gap ends it, and the text goes on elsewhere."""
    rest = Case("rest", "goes on", ((Say(ANSWER[44:]), Finish()),))
    setting = {"stream_retries": 0}
    record = run_case(tmp_path, {MAIN: "comments-only", "other": rest}, protocol=protocol, policy=setting)
    assert clocks(record)[0] == "gap"
    assert record.outcome.kind == "completed"
    assert record.shown == ANSWER

    thinks = Case("thinks", "a thought, then only comments", ((Reason(THOUGHT), Comments("forever", 1.0)),))
    record = run_case(tmp_path, thinks, protocol=protocol, limits=TurnLimits(model_calls=1))
    assert clocks(record) == ["gap"]
    assert record.of(RunEnded)[0].at == pytest.approx(10, abs=1)


@in_pieces
def test_P6_arguments_that_are_held_back_get_a_wider_window_which_is_told(
    tmp_path: Path, protocol: ProtocolName
):
    """300 silent seconds inside a call are waited for; when even the wider window is over, the failure names it."""
    waited: list[str] = []

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        await harness.clock.sleep(299)
        waited.extend(activity.words(harness.call_clock.now()) for activity in harness.models.activity())
        await running.outcome()
        return await harness.record(running.run)

    record = run_scenario(tmp_path, "stalls-in-arguments", scenario, protocol=protocol, stall=AUTO)
    assert record.decided == []
    assert (record.workspace / "notes.md").read_text() == "# Notes\n"
    assert waited == ["receiving write_file, 299 s"]

    never = Case("never", "", ((Call("write_file", '{"path":"a', closed=False), Stall("forever")),))
    told = run_case(tmp_path, never, protocol=protocol, stall=AUTO, limits=TurnLimits(model_calls=1)).decided[
        0
    ]
    assert told.failure is not None
    assert "in the arguments of write_file (limit 360 s, default)" in told.failure.message


@pytest.mark.realtime
@EVERY
def test_P7_a_half_open_connection_is_left_at_once_and_its_socket_closed(
    tmp_path: Path, protocol: ProtocolName
):
    """The peer is gone without a word: when the clock fires the run goes on at once, and the peer sees the close."""

    async def scenario(harness: RunHarness) -> RunRecord:
        record = await harness.run()
        async with asyncio.timeout(100):
            while not record.requests[0].progress.over:
                await harness.clock.sleep(0.01)
        return record

    rest = Case("rest", "goes on", ((Say(ANSWER[44:]), Finish()),))
    clocks = StallSettings(
        connect=100, first_event=100, gap=100, silence=0.5
    )  # a busy machine fires no other
    cases = {MAIN: "stalls-in-text", "other": rest}
    record = run_scenario(
        tmp_path, cases, scenario, protocol=protocol, stall=clocks, real=True, policy={"stream_retries": 0}
    )
    assert record.shown == ANSWER
    assert record.requests[0].progress.over == "client left"


@EVERY
def test_P8_a_machine_that_slept_ends_the_attempt_at_once_and_says_for_how_long(
    tmp_path: Path, protocol: ProtocolName
):
    """The machine sleeps for six hours in mid-text: on waking the attempt is over at once, and the lateness told."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, float]:
        asyncio.get_running_loop().call_later(4, lambda: setattr(harness.call_clock, "slept", 6 * 3600.0))
        running = await harness.start()
        await harness.until(running, Decided)
        record = await harness.record(running.run)
        seconds = harness.clock.now()
        running.stop()
        await running.outcome()
        return record, seconds

    record, seconds = run_scenario(
        tmp_path, "stalls-in-text", scenario, protocol=protocol, stall=replace(FAST, silence=60, gap=60)
    )
    told = record.decided[0].failure
    assert told is not None
    assert told.kind == "stalled"
    assert "slept for 21600 s" in told.message
    assert seconds < 7
