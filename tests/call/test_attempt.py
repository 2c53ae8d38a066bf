"""One attempt against the lab's provider, over real sockets, in virtual time."""

import asyncio

import pytest
from support.calls.attempts import (
    AttemptHarness,
    case_of,
    failure_of,
    flat,
    reply_of,
    request_of,
    run_scenario,
)

from turnbuckle.call.limits import StallSettings
from turnbuckle.call.stall import Activity
from turnbuckle.lab.cases import CASES
from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.script import Call, Case, Comments, CutOff, Finish, More, Open, Reason, Say, Stall, Status
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.events import Event, TextDelta
from turnbuckle.vocab.failure import FailureKind
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.wire.failures import from_response
from turnbuckle.wire.registry import PROTOCOLS

HALF = ANSWER[:44]
FAST = StallSettings(connect=5, first_event=20, gap=10, gap_in_call=30, thinking=60, silence=8)


@pytest.mark.requirement("A10")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
def test_a_whole_reply_comes_through_in_every_protocol(protocol: ProtocolName, stream: bool):
    async def scenario(harness: AttemptHarness):
        return await harness.run(protocol, request=request_of(stream=stream))

    reply = reply_of(run_scenario("reasoning", scenario))
    assert (reply.text, reply.ended) == (ANSWER, True)
    assert reply.reasoning == THOUGHT


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
@pytest.mark.parametrize("case, times", [("slow-drip", 1), ("plain-answer", 1), ("tool", 1), ("says-nothing", 0), ("server-error", 0)])  # fmt: skip
def test_the_first_delta_is_announced_exactly_once(
    protocol: ProtocolName, stream: bool, case: str, times: int
):
    announced: list[str] = []

    async def scenario(harness: AttemptHarness):
        return await harness.run(
            protocol, request=request_of(stream=stream), first_delta=lambda: announced.append("x")
        )

    reply_of(run_scenario(case, scenario))
    assert len(announced) == times


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_event_refreshes_the_activity_time_and_deltas_come_in_order(protocol: ProtocolName):
    async def scenario(harness: AttemptHarness):
        attempt = harness.attempt(protocol)
        seen = []
        async for batch in attempt:
            assert attempt.activity.last_event == harness.clock.now()
            seen.append((harness.clock.now(), batch))
        return seen

    seen = run_scenario("slow-drip", scenario)
    text = "".join(event.text for _, batch in seen for event in batch if isinstance(event, TextDelta))
    assert text == ANSWER
    assert len({moment for moment, _ in seen}) > 20


@pytest.mark.requirement("A9", "B12")
@pytest.mark.parametrize(
    "case, kind",
    [
        ("closed-before-headers", "reset"),
        ("reset-before-headers", "reset"),
        ("fin-in-text", "incomplete"),
        ("reset-in-text", "reset"),
        ("tidy-end-in-text", "incomplete"),
        ("fails-twice-then-works", "server"),
        ("rate-limited", "rate_limited"),
        ("overloaded", "overloaded"),
        ("unauthorized", "auth"),
        ("no-streaming", "unstreamable"),
        ("html-page", "garbage"),
        ("error-in-stream", "server"),
        ("silent", "stalled"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_failure_is_one_attempt_one_request_and_one_last_word(
    protocol: ProtocolName, case: str, kind: FailureKind
):
    """P34: nothing below the turn tries again."""

    async def scenario(harness: AttemptHarness):
        batches = await harness.run(protocol, stall=FAST)
        return batches, len(harness.provider.requests)

    batches, requests = run_scenario(case, scenario)
    assert (failure_of(batches).kind, requests) == (kind, 1)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
def test_every_case_of_the_lab_ends_with_exactly_one_last_word(protocol: ProtocolName, stream: bool):
    async def scenario(harness: AttemptHarness):
        replies = []
        for case in CASES:
            request = request_of(model=f"lab:{case.name}", stream=stream)
            attempt = harness.attempt(protocol, request=request, stall=FAST)
            replies.append(reply_of([batch async for batch in attempt]))
        return replies

    assert len(run_scenario("happy", scenario, quiet=0.001)) == len(CASES)


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    "steps, clock, seconds",
    [
        pytest.param((Stall("forever"),), "first_event", 20, id="P1 never a byte"),
        pytest.param((Open(), Stall("forever")), "silence", 8, id="P2 opens, then nothing"),
        pytest.param((Say(HALF), Comments("forever", 1.0)), "gap", 10, id="P5 only comments"),
        pytest.param((Open(), Comments("forever", 1.0)), "gap", 10, id="P5 only comments from the start"),
        pytest.param((Open(), Comments("forever", 1.0, "ping")), "gap", 60, id="P5 only pings"),
        pytest.param((Say(HALF), Stall("forever")), "silence", 8, id="P7 as if half open"),
        pytest.param(
            (Call("f", '{"a', closed=False), Comments("forever", 1.0)), "gap", 30, id="P6 in a call"
        ),
    ],
)
def test_a_stall_is_cut_by_the_right_clock_and_the_socket_is_closed(
    protocol: ProtocolName, steps, clock, seconds
):
    if seconds == 60 and protocol != "anthropic":
        seconds = 10  # these have no pings, only comments, which count for nothing
    if seconds == 30 and not PROTOCOLS[protocol].streams_arguments:
        seconds = 10  # nobody sees that a call is being made

    async def scenario(harness: AttemptHarness):
        begun = harness.clock.now()
        batches = await harness.run(protocol, stall=FAST)
        taken = harness.clock.now() - begun
        await asyncio.sleep(0.5)
        return batches, taken, harness.provider.requests[0].progress

    batches, taken, progress = run_scenario(case_of(*steps), scenario)
    failure = failure_of(batches)
    assert (failure.kind, failure.clock) == ("stalled", clock)
    assert seconds <= taken <= seconds + 1.0
    assert progress.over == "client left"
    assert progress.over_at is not None


def test_comments_before_the_first_event_do_not_move_the_first_event_clock():
    async def scenario(harness: AttemptHarness):
        batches = await harness.run(stall=FAST)
        return batches, harness.clock.now()

    batches, taken = run_scenario(case_of(Comments("forever", 1.0)), scenario)
    assert (failure_of(batches).clock, round(taken)) == ("first_event", 20)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("case", ["thinks-behind-pings", "stalls-in-arguments", "slow-first-byte"])
def test_a_slow_but_living_stream_is_not_killed_by_the_default_clocks(protocol: ProtocolName, case: str):
    """P3, P4 and P6."""

    async def scenario(harness: AttemptHarness):
        return await harness.run(protocol)

    unseen = case == "stalls-in-arguments" and not PROTOCOLS[protocol].streams_arguments
    assert reply_of(run_scenario(case, scenario, quiet=0.001)).ended is not unseen


def test_while_it_thinks_behind_pings_one_can_see_for_how_long():
    async def scenario(harness: AttemptHarness):
        attempt = harness.attempt("anthropic")
        words = []
        async for _ in attempt:
            words.append(attempt.activity.words(harness.clock.now()))
        return words

    words = run_scenario(
        case_of(Open(), Comments(95, 10, "ping"), Say(ANSWER), Finish()), scenario, quiet=0.001
    )
    assert "thinking, 90 s" in words
    assert words[-1] == "done"


def test_the_activity_names_what_is_waited_for():
    async def scenario(harness: AttemptHarness):
        attempt = harness.attempt("anthropic")
        seen: list[Activity] = [attempt.activity]
        reading = asyncio.create_task(anext(attempt))
        await asyncio.sleep(3)
        seen.append(attempt.activity)
        await reading
        seen.append(attempt.activity)
        async for _ in attempt:
            seen.append(attempt.activity)
        return [(activity.waiting, activity.tool) for activity in seen]

    script = case_of(
        Stall(5),
        Say("a"),
        Stall(1),
        Call("write_file", '{"a', closed=False),
        Stall(1),
        More('":1}'),
        Stall(1),
        Finish(),
    )
    seen = run_scenario(script, scenario)
    assert list(dict.fromkeys(seen)) == [
        ("connect", ""),
        ("first_event", ""),
        ("more", ""),
        ("arguments", "write_file"),
        ("nothing", ""),
    ]


@pytest.mark.requirement("G2")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((Stall("forever"),), id="before the first byte"),
        pytest.param((Say(HALF), Stall("forever")), id="in silence"),
        pytest.param((Say(HALF), Comments("forever", 0.3)), id="between comments"),
    ],
)
def test_a_stop_frees_the_reader_at_once_and_closes_the_socket(protocol: ProtocolName, steps):
    async def scenario(harness: AttemptHarness):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(3, stop.set)
        batches = await harness.run(protocol, stop=stop)
        stopped = harness.clock.now()
        await asyncio.sleep(0.5)
        return batches, stopped, harness.provider.requests[0].progress

    batches, stopped, progress = run_scenario(case_of(*steps), scenario)
    assert failure_of(batches).kind == "cancelled"
    assert stopped == pytest.approx(3, abs=0.3)
    assert progress.over == "client left"


def test_a_stop_that_was_there_before_sends_nothing():
    async def scenario(harness: AttemptHarness):
        stop = asyncio.Event()
        stop.set()
        return await harness.run(stop=stop), list(harness.provider.requests)

    batches, requests = run_scenario("happy", scenario)
    assert (failure_of(batches).kind, requests) == ("cancelled", [])


@pytest.mark.parametrize(
    "steps", [(Stall("forever"),), (Say(HALF), Stall("forever"))], ids=["sending", "reading"]
)
def test_a_cancelled_task_closes_the_socket_and_stays_cancelled(steps):
    async def scenario(harness: AttemptHarness):
        reading = asyncio.create_task(harness.run())
        await asyncio.sleep(2)
        reading.cancel()
        await asyncio.wait([reading])
        await asyncio.sleep(0.5)
        return reading.cancelled(), harness.provider.requests[0].progress.over

    assert run_scenario(case_of(*steps), scenario) == (True, "client left")


def test_an_attempt_that_is_left_early_closes_its_socket():
    async def scenario(harness: AttemptHarness):
        async with harness.attempt() as attempt:
            async for _ in attempt:
                break
        await asyncio.sleep(0.5)
        return harness.provider.requests[0].progress.over, [batch async for batch in attempt]

    assert run_scenario(case_of(Say(HALF), Stall("forever")), scenario) == ("client left", [])


def test_a_slow_reader_is_not_taken_for_a_stalled_peer():
    async def scenario(harness: AttemptHarness):
        batches = []
        async for batch in harness.attempt(stall=FAST):
            batches.append(batch)
            if len(batches) == 1:
                await asyncio.sleep(100)
        return batches

    batches = run_scenario(case_of(Say(HALF), Stall(1), Say(ANSWER[44:]), Finish()), scenario)
    assert reply_of(batches).text == ANSWER


def test_a_stall_behind_a_slow_reader_closes_the_socket_without_waiting_for_the_reader():
    async def scenario(harness: AttemptHarness):
        batches = []
        left = None
        async for batch in harness.attempt(stall=FAST):
            batches.append(batch)
            if left is None and fold(flat(batches)).text == HALF:
                await asyncio.sleep(100)
                left = harness.provider.requests[0].progress.over_at
        return batches, left

    batches, left = run_scenario(case_of(Say(HALF), Stall("forever")), scenario)
    assert failure_of(batches).kind == "stalled"
    assert left is not None
    assert left < 10
    assert reply_of(batches).text == HALF


def test_what_arrived_before_a_reset_is_handed_over_though_nobody_was_reading():
    async def scenario(harness: AttemptHarness):
        batches = []
        async for batch in harness.attempt(stall=FAST):
            batches.append(batch)
            if len(batches) == 1:
                await asyncio.sleep(5)
        return batches

    batches = run_scenario(case_of(Say("first "), Stall(1), Say("second "), Stall(1), Say("third"), Stall(1), CutOff("reset")), scenario)  # fmt: skip
    assert reply_of(batches).text == "first second third"
    assert failure_of(batches).kind == "reset"


def test_a_burst_is_one_batch():
    async def scenario(harness: AttemptHarness):
        batches = []
        async for batch in harness.attempt():
            batches.append(batch)
            await asyncio.sleep(1)
        return batches

    batches = run_scenario("long", scenario)
    assert len(flat(batches)) > 1000
    assert len(batches) < 20


class JumpingClock:
    """A clock that goes on while the loop's time stands still, as when the machine sleeps."""

    def __init__(self, under: VirtualClock) -> None:
        self.under = under
        self.slept = 0.0

    def now(self) -> float:
        return self.under.now() + self.slept

    async def sleep(self, seconds: float) -> None:
        await self.under.sleep(seconds)


@pytest.mark.parametrize(
    "steps", [(Say(HALF), Stall("forever")), (Stall("forever"),)], ids=["in text", "at first"]
)
def test_a_machine_that_slept_ends_the_attempt_at_once_and_says_how_long(steps):
    """P8."""

    async def scenario(harness: AttemptHarness):
        clock = JumpingClock(harness.clock)
        loop = asyncio.get_running_loop()
        loop.call_later(4, lambda: setattr(clock, "slept", 21600.0))
        batches = await harness.run(clock=clock)
        return batches, loop.time()

    batches, ended = run_scenario(case_of(*steps), scenario)
    failure = failure_of(batches)
    assert (failure.kind, failure.clock) == ("stalled", "silence")
    assert "slept for 21600 s" in failure.message
    assert ended < 7


@pytest.mark.parametrize("slept", [30.0, 21600.0], ids=["a short sleep", "a long sleep"])
def test_a_stream_that_goes_on_after_a_sleep_is_kept(slept: float):
    async def scenario(harness: AttemptHarness):
        clock = JumpingClock(harness.clock)
        asyncio.get_running_loop().call_later(4, lambda: setattr(clock, "slept", slept))
        return await harness.run(clock=clock)

    batches = run_scenario("slow-drip", scenario)
    assert reply_of(batches).text == ANSWER


@pytest.mark.requirement("B10")
def test_after_a_stall_another_protocol_and_the_same_route_again_both_work_over_the_same_pool():
    async def scenario(harness: AttemptHarness):
        first = await harness.run("openai_chat", stall=FAST)
        return first, await harness.run("anthropic"), await harness.run("openai_chat")

    case = Case("test", "silent once", ((Stall("forever"),), (Say(ANSWER), Finish())))
    first, second, third = run_scenario(case, scenario)
    assert failure_of(first).kind == "stalled"
    assert reply_of(second).ended
    assert reply_of(third).ended


def test_connections_are_used_again_after_a_proper_end_and_never_after_a_cut():
    async def scenario(harness: AttemptHarness):
        made: list[int] = []
        for _ in range(3):
            await harness.run("openai_chat")
            await asyncio.sleep(0.2)
            made.append(len(harness.provider._connections))
        return made

    assert run_scenario("happy", scenario) == [1, 1, 1]
    assert run_scenario("reset-in-text", scenario) == [0, 0, 0]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_says_where_to(status: int):
    async def scenario(harness: AttemptHarness):
        return await harness.run(), len(harness.provider.requests)

    batches, requests = run_scenario(
        case_of(Status(status, headers={"location": "https://elsewhere.example/v1"})), scenario
    )
    failure = failure_of(batches)
    assert (failure.kind, failure.retryable, requests) == ("not_found", False, 1)
    assert "https://elsewhere.example/v1" in failure.message


def test_a_request_that_cannot_be_written_ends_with_a_last_word():
    async def scenario(harness: AttemptHarness):
        return await harness.run(request=request_of(extra={"what": object()}))

    assert failure_of(run_scenario("happy", scenario)).kind == "invalid"


def test_a_large_request_gets_through():
    async def scenario(harness: AttemptHarness):
        await harness.run(request=request_of("x" * 3_000_000))
        return len(harness.provider.requests[0].body["messages"][0]["content"])

    assert run_scenario("happy", scenario) == 3_000_000


def test_the_limits_in_force_can_be_read_from_the_attempt():
    async def scenario(harness: AttemptHarness):
        attempt = harness.attempt(stall=StallSettings(gap=33))
        _ = [batch async for batch in attempt]
        return attempt.limits

    limits = run_scenario("happy", scenario)
    assert (limits.gap.seconds, limits.gap.source) == (33, "configured")


def test_reasoning_that_stops_is_a_stall_too():
    async def scenario(harness: AttemptHarness):
        return await harness.run("openai_responses", stall=FAST)

    batches: list[list[Event]] = run_scenario(
        case_of(Reason("Let me think about"), Stall("forever")), scenario
    )
    assert "while thinking" in failure_of(batches).message


@pytest.mark.parametrize(
    "status, limit", [(200, 20), (299, 20), (400, 10), (401, 10), (404, 10), (429, 10), (500, 10), (599, 10)]
)
def test_the_body_of_an_error_is_waited_for_only_a_short_time(status: int, limit: float):
    """The status says most of it. A refusal whose body never comes must not hold the turn as long as an answer may."""

    async def scenario(harness: AttemptHarness):
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
            writer.write(head.encode())
            await reader.read()
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            begun = harness.clock.now()
            stall = StallSettings(first_event=20.0, gap=60.0, silence=60.0)
            batches = await harness.run(url=address, stall=stall)
            return batches, harness.clock.now() - begun

    batches, taken = run_scenario("happy", scenario)
    assert limit <= taken <= limit + 1.0
    told = failure_of(batches)
    assert told.kind == ("stalled" if status < 300 else from_response(status, {}, b"").kind)
