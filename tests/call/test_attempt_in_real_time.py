"""Attempts on real event loops with a real clock, few and short: does it hold where time cannot be told to wait?"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from msgspec.structs import replace
from support.calls.attempts import AttemptHarness, case_of, failure_of, flat, reply_of, request_of, route_to

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.loop import new_loop, run
from turnbuckle.call.transport import Connections
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.connection import Progress
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case, Comments, Finish, Say, ScriptItem, Stall
from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.events import Event

pytestmark = pytest.mark.realtime
T = TypeVar("T")
HALF = ANSWER[:44]
HANGS = 100.0
PATIENT = StallSettings(
    connect=HANGS, first_event=HANGS, gap=HANGS, gap_in_call=HANGS, thinking=HANGS, silence=HANGS
)
"""No clock fires. A test sets the one that it is about: of two short ones a busy machine would choose."""
LOOPS = pytest.mark.parametrize("loop", [new_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
Loop = Callable[[], asyncio.AbstractEventLoop]


def really(loop: Loop, case: Case | str, scenario: Callable[[AttemptHarness], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Provider(case) as provider, Connections() as connections:
            return await scenario(AttemptHarness(provider, connections, SystemClock()))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


async def seen_closing(harness: AttemptHarness) -> None:
    """Wait until the provider has seen the client leave."""
    progress = harness.provider.requests[0].progress
    async with asyncio.timeout(HANGS):
        while progress.over_at is None:
            await asyncio.sleep(0)
    assert progress.over == "client left"


@LOOPS
@pytest.mark.parametrize(
    "steps, clock",
    [
        pytest.param((Stall("forever"),), "first_event", id="P1"),
        pytest.param((Say(HALF), Stall("forever")), "silence", id="P7"),
        pytest.param((Say(HALF), Comments("forever", 0.05)), "gap", id="P5"),
    ],
)
def test_a_stalled_peer_is_left_when_the_clock_fires_and_sees_the_close(
    loop: Loop, steps: tuple[ScriptItem, ...], clock: str
):
    async def scenario(harness: AttemptHarness):
        batches = await harness.run("anthropic", stall=replace(PATIENT, **{clock: 0.3}))
        await seen_closing(harness)
        return batches

    assert failure_of(really(loop, case_of(*steps), scenario)).clock == clock


@LOOPS
def test_a_stop_frees_the_reader_and_the_peer_sees_it(loop: Loop):
    async def scenario(harness: AttemptHarness):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        batches = await harness.run(stop=stop, stall=PATIENT)
        await seen_closing(harness)
        return batches

    assert failure_of(really(loop, case_of(Say(HALF), Stall("forever")), scenario)).kind == "cancelled"


@LOOPS
def test_a_loop_that_was_blocked_reads_what_came_meanwhile_before_it_judges(loop: Loop):
    async def main(provider: Provider) -> list[list[Event]]:
        batches: list[list[Event]] = []
        blocked = False
        route = route_to(provider.url + "/v1", stall=replace(PATIENT, gap=0.3, silence=0.3))
        async with Connections() as connections:
            async for batch in Attempt(route, request_of(), connections=connections, clock=SystemClock()):
                batches.append(batch)
                if not blocked and reply_so_far(batches) == HALF:
                    # Both the second block and the watching timer become due during the first block. The second lasts
                    # until the rest was sent, however late that is.
                    blocked = True
                    running = asyncio.get_running_loop()
                    running.call_later(0.05, _block, provider.requests[0].progress)
                    running.call_soon(_block, time.monotonic() + 0.6)
        return batches

    case = case_of(Say(HALF, 0), Stall(1.0), Say(ANSWER[44:], 0), Finish())
    with provider_beside(case) as provider, asyncio.Runner(loop_factory=loop) as runner:
        batches = runner.run(main(provider))
    assert reply_of(batches).text == ANSWER


def reply_so_far(batches: list[list[Event]]) -> str:
    return fold(flat(batches)).text


def _block(until: float | Progress) -> None:
    """Keep the loop busy, as a slow piece of code would, until some time or until all was sent."""
    hangs = time.monotonic() + HANGS
    while time.monotonic() < until if isinstance(until, float) else until.over_at is None:
        assert time.monotonic() < hangs


@contextmanager
def provider_beside(case: Case) -> Iterator[Provider]:
    """A provider in a thread of its own, so that it goes on while our loop is blocked."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    provider = Provider(case)
    asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result(HANGS)
    try:
        yield provider
    finally:
        asyncio.run_coroutine_threadsafe(provider.__aexit__(), loop).result(HANGS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(HANGS)
        loop.close()


def test_run_uses_the_fast_loop():
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith("uvloop")
