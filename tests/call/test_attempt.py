"""One attempt against the lab's provider, over real sockets, in virtual time."""

import asyncio

import pytest
from call_stage import Stage, failure_of, flat, on_stage, played, reply_of, request_of

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
    async def scene(stage: Stage):
        return await stage.run(protocol, request=request_of(stream=stream))

    reply = reply_of(on_stage("reasoning", scene))
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

    async def scene(stage: Stage):
        return await stage.run(
            protocol, request=request_of(stream=stream), first_delta=lambda: announced.append("x")
        )

    reply_of(on_stage(case, scene))
    assert len(announced) == times


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_event_refreshes_the_activity_time_and_deltas_come_in_order(protocol: ProtocolName):
    async def scene(stage: Stage):
        attempt = stage.attempt(protocol)
        seen = []
        async for batch in attempt:
            assert attempt.activity.last_event == stage.clock.now()
            seen.append((stage.clock.now(), batch))
        return seen

    seen = on_stage("slow-drip", scene)
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

    async def scene(stage: Stage):
        batches = await stage.run(protocol, stall=FAST)
        return batches, len(stage.provider.requests)

    batches, requests = on_stage(case, scene)
    assert (failure_of(batches).kind, requests) == (kind, 1)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
def test_every_case_of_the_lab_ends_with_exactly_one_last_word(protocol: ProtocolName, stream: bool):
    async def scene(stage: Stage):
        replies = []
        for case in CASES:
            request = request_of(model=f"lab:{case.name}", stream=stream)
            attempt = stage.attempt(protocol, request=request, stall=FAST)
            replies.append(reply_of([batch async for batch in attempt]))
        return replies

    assert len(on_stage("happy", scene, quiet=0.001)) == len(CASES)


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

    async def scene(stage: Stage):
        begun = stage.clock.now()
        batches = await stage.run(protocol, stall=FAST)
        taken = stage.clock.now() - begun
        await asyncio.sleep(0.5)
        return batches, taken, stage.provider.requests[0].progress

    batches, taken, progress = on_stage(played(*steps), scene)
    failure = failure_of(batches)
    assert (failure.kind, failure.clock) == ("stalled", clock)
    assert seconds <= taken <= seconds + 1.0
    assert progress.over == "client left"
    assert progress.over_at is not None


def test_comments_before_the_first_event_do_not_move_the_first_event_clock():
    async def scene(stage: Stage):
        batches = await stage.run(stall=FAST)
        return batches, stage.clock.now()

    batches, taken = on_stage(played(Comments("forever", 1.0)), scene)
    assert (failure_of(batches).clock, round(taken)) == ("first_event", 20)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("case", ["thinks-behind-pings", "stalls-in-arguments", "slow-first-byte"])
def test_a_slow_but_living_stream_is_not_killed_by_the_default_clocks(protocol: ProtocolName, case: str):
    """P3, P4 and P6."""

    async def scene(stage: Stage):
        return await stage.run(protocol)

    unseen = case == "stalls-in-arguments" and not PROTOCOLS[protocol].streams_arguments
    assert reply_of(on_stage(case, scene, quiet=0.001)).ended is not unseen


def test_while_it_thinks_behind_pings_one_can_see_for_how_long():
    async def scene(stage: Stage):
        attempt = stage.attempt("anthropic")
        words = []
        async for _ in attempt:
            words.append(attempt.activity.words(stage.clock.now()))
        return words

    words = on_stage(played(Open(), Comments(95, 10, "ping"), Say(ANSWER), Finish()), scene, quiet=0.001)
    assert "thinking, 90 s" in words
    assert words[-1] == "done"


def test_the_activity_names_what_is_waited_for():
    async def scene(stage: Stage):
        attempt = stage.attempt("anthropic")
        seen: list[Activity] = [attempt.activity]
        reading = asyncio.create_task(anext(attempt))
        await asyncio.sleep(3)
        seen.append(attempt.activity)
        await reading
        seen.append(attempt.activity)
        async for _ in attempt:
            seen.append(attempt.activity)
        return [(activity.waiting, activity.tool) for activity in seen]

    script = played(
        Stall(5),
        Say("a"),
        Stall(1),
        Call("write_file", '{"a', closed=False),
        Stall(1),
        More('":1}'),
        Stall(1),
        Finish(),
    )
    seen = on_stage(script, scene)
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
    async def scene(stage: Stage):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(3, stop.set)
        batches = await stage.run(protocol, stop=stop)
        stopped = stage.clock.now()
        await asyncio.sleep(0.5)
        return batches, stopped, stage.provider.requests[0].progress

    batches, stopped, progress = on_stage(played(*steps), scene)
    assert failure_of(batches).kind == "cancelled"
    assert stopped == pytest.approx(3, abs=0.3)
    assert progress.over == "client left"


def test_a_stop_that_was_there_before_sends_nothing():
    async def scene(stage: Stage):
        stop = asyncio.Event()
        stop.set()
        return await stage.run(stop=stop), list(stage.provider.requests)

    batches, requests = on_stage("happy", scene)
    assert (failure_of(batches).kind, requests) == ("cancelled", [])


@pytest.mark.parametrize(
    "steps", [(Stall("forever"),), (Say(HALF), Stall("forever"))], ids=["sending", "reading"]
)
def test_a_cancelled_task_closes_the_socket_and_stays_cancelled(steps):
    async def scene(stage: Stage):
        reading = asyncio.create_task(stage.run())
        await asyncio.sleep(2)
        reading.cancel()
        await asyncio.wait([reading])
        await asyncio.sleep(0.5)
        return reading.cancelled(), stage.provider.requests[0].progress.over

    assert on_stage(played(*steps), scene) == (True, "client left")


def test_an_attempt_that_is_left_early_closes_its_socket():
    async def scene(stage: Stage):
        async with stage.attempt() as attempt:
            async for _ in attempt:
                break
        await asyncio.sleep(0.5)
        return stage.provider.requests[0].progress.over, [batch async for batch in attempt]

    assert on_stage(played(Say(HALF), Stall("forever")), scene) == ("client left", [])


def test_a_slow_reader_is_not_taken_for_a_stalled_peer():
    async def scene(stage: Stage):
        batches = []
        async for batch in stage.attempt(stall=FAST):
            batches.append(batch)
            if len(batches) == 1:
                await asyncio.sleep(100)
        return batches

    batches = on_stage(played(Say(HALF), Stall(1), Say(ANSWER[44:]), Finish()), scene)
    assert reply_of(batches).text == ANSWER


def test_a_stall_behind_a_slow_reader_closes_the_socket_without_waiting_for_the_reader():
    async def scene(stage: Stage):
        batches = []
        left = None
        async for batch in stage.attempt(stall=FAST):
            batches.append(batch)
            if left is None and fold(flat(batches)).text == HALF:
                await asyncio.sleep(100)
                left = stage.provider.requests[0].progress.over_at
        return batches, left

    batches, left = on_stage(played(Say(HALF), Stall("forever")), scene)
    assert failure_of(batches).kind == "stalled"
    assert left is not None
    assert left < 10
    assert reply_of(batches).text == HALF


def test_what_arrived_before_a_reset_is_handed_over_though_nobody_was_reading():
    async def scene(stage: Stage):
        batches = []
        async for batch in stage.attempt(stall=FAST):
            batches.append(batch)
            if len(batches) == 1:
                await asyncio.sleep(5)
        return batches

    batches = on_stage(played(Say("first "), Stall(1), Say("second "), Stall(1), Say("third"), Stall(1), CutOff("reset")), scene)  # fmt: skip
    assert reply_of(batches).text == "first second third"
    assert failure_of(batches).kind == "reset"


def test_a_burst_is_one_batch():
    async def scene(stage: Stage):
        batches = []
        async for batch in stage.attempt():
            batches.append(batch)
            await asyncio.sleep(1)
        return batches

    batches = on_stage("long", scene)
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

    async def scene(stage: Stage):
        clock = JumpingClock(stage.clock)
        loop = asyncio.get_running_loop()
        loop.call_later(4, lambda: setattr(clock, "slept", 21600.0))
        batches = await stage.run(clock=clock)
        return batches, loop.time()

    batches, ended = on_stage(played(*steps), scene)
    failure = failure_of(batches)
    assert (failure.kind, failure.clock) == ("stalled", "silence")
    assert "slept for 21600 s" in failure.message
    assert ended < 7


@pytest.mark.parametrize("slept", [30.0, 21600.0], ids=["a short sleep", "a long sleep"])
def test_a_stream_that_goes_on_after_a_sleep_is_kept(slept: float):
    async def scene(stage: Stage):
        clock = JumpingClock(stage.clock)
        asyncio.get_running_loop().call_later(4, lambda: setattr(clock, "slept", slept))
        return await stage.run(clock=clock)

    batches = on_stage("slow-drip", scene)
    assert reply_of(batches).text == ANSWER


@pytest.mark.requirement("B10")
def test_after_a_stall_another_protocol_and_the_same_route_again_both_work_over_the_same_pool():
    async def scene(stage: Stage):
        first = await stage.run("openai_chat", stall=FAST)
        return first, await stage.run("anthropic"), await stage.run("openai_chat")

    case = Case("test", "silent once", ((Stall("forever"),), (Say(ANSWER), Finish())))
    first, second, third = on_stage(case, scene)
    assert failure_of(first).kind == "stalled"
    assert reply_of(second).ended
    assert reply_of(third).ended


def test_connections_are_used_again_after_a_proper_end_and_never_after_a_cut():
    async def scene(stage: Stage):
        made: list[int] = []
        for _ in range(3):
            await stage.run("openai_chat")
            await asyncio.sleep(0.2)
            made.append(len(stage.provider._connections))
        return made

    assert on_stage("happy", scene) == [1, 1, 1]
    assert on_stage("reset-in-text", scene) == [0, 0, 0]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_says_where_to(status: int):
    async def scene(stage: Stage):
        return await stage.run(), len(stage.provider.requests)

    batches, requests = on_stage(
        played(Status(status, headers={"location": "https://elsewhere.example/v1"})), scene
    )
    failure = failure_of(batches)
    assert (failure.kind, failure.retryable, requests) == ("not_found", False, 1)
    assert "https://elsewhere.example/v1" in failure.message


def test_a_request_that_cannot_be_written_ends_with_a_last_word():
    async def scene(stage: Stage):
        return await stage.run(request=request_of(extra={"what": object()}))

    assert failure_of(on_stage("happy", scene)).kind == "invalid"


def test_a_large_request_gets_through():
    async def scene(stage: Stage):
        await stage.run(request=request_of("x" * 3_000_000))
        return len(stage.provider.requests[0].body["messages"][0]["content"])

    assert on_stage("happy", scene) == 3_000_000


def test_the_limits_in_force_can_be_read_from_the_attempt():
    async def scene(stage: Stage):
        attempt = stage.attempt(stall=StallSettings(gap=33))
        _ = [batch async for batch in attempt]
        return attempt.limits

    limits = on_stage("happy", scene)
    assert (limits.gap.seconds, limits.gap.source) == (33, "configured")


def test_reasoning_that_stops_is_a_stall_too():
    async def scene(stage: Stage):
        return await stage.run("openai_responses", stall=FAST)

    batches: list[list[Event]] = on_stage(played(Reason("Let me think about"), Stall("forever")), scene)
    assert "while thinking" in failure_of(batches).message


@pytest.mark.parametrize(
    "status, limit", [(200, 20), (299, 20), (400, 10), (401, 10), (404, 10), (429, 10), (500, 10), (599, 10)]
)
def test_the_body_of_an_error_is_waited_for_only_a_short_time(status: int, limit: float):
    """The status says most of it. A refusal whose body never comes must not hold the turn as long as an answer may."""

    async def scene(stage: Stage):
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"
            writer.write(head.encode())
            await reader.read()
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            begun = stage.clock.now()
            stall = StallSettings(first_event=20.0, gap=60.0, silence=60.0)
            batches = await stage.run(url=address, stall=stall)
            return batches, stage.clock.now() - begun

    batches, taken = on_stage("happy", scene)
    assert limit <= taken <= limit + 1.0
    told = failure_of(batches)
    assert told.kind == ("stalled" if status < 300 else from_response(status, {}, b"").kind)
