"""Attempts on real event loops with a real clock, few and short: does it hold where time cannot be told to wait?"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from support.calls.attempts import AttemptHarness, case_of, failure_of, flat, reply_of, request_of, route_to

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.loop import new_loop, run
from turnbuckle.call.transport import Connections
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case, Comments, Finish, Say, ScriptItem, Stall
from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.events import Event

pytestmark = pytest.mark.realtime
T = TypeVar("T")
HALF = ANSWER[:44]
TINY = StallSettings(connect=2, first_event=0.3, gap=0.3, silence=0.2)
LOOPS = pytest.mark.parametrize("loop", [new_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
Loop = Callable[[], asyncio.AbstractEventLoop]


def really(loop: Loop, case: Case | str, scenario: Callable[[AttemptHarness], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Provider(case) as provider, Connections() as connections:
            return await scenario(AttemptHarness(provider, connections, SystemClock()))

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


async def closed_at(harness: AttemptHarness) -> float:
    """When the provider saw the client leave; waits for it for a second at most."""
    progress = harness.provider.requests[0].progress
    patience = asyncio.get_running_loop().time() + 1.0
    while progress.over_at is None and asyncio.get_running_loop().time() < patience:
        await asyncio.sleep(0)
    assert progress.over == "client left"
    assert progress.over_at is not None
    return progress.over_at


@LOOPS
@pytest.mark.parametrize(
    "steps, clock",
    [
        pytest.param((Stall("forever"),), "first_event", id="P1"),
        pytest.param((Say(HALF), Stall("forever")), "silence", id="P7"),
        pytest.param((Say(HALF), Comments("forever", 0.05)), "gap", id="P5"),
    ],
)
def test_a_stalled_peer_is_left_within_a_second_and_sees_the_close(
    loop: Loop, steps: tuple[ScriptItem, ...], clock: str
):
    async def scenario(harness: AttemptHarness):
        begun = time.monotonic()
        batches = await harness.run("anthropic", stall=TINY)
        ended = time.monotonic()
        return batches, ended - begun, await closed_at(harness) - ended

    batches, taken, after = really(loop, case_of(*steps), scenario)
    assert failure_of(batches).clock == clock
    assert taken < 1.3
    assert after < 1.0


@LOOPS
def test_a_stop_frees_the_reader_within_a_second_and_the_peer_sees_it(loop: Loop):
    async def scenario(harness: AttemptHarness):
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(0.1, stop.set)
        begun = time.monotonic()
        batches = await harness.run(stop=stop)
        ended = time.monotonic()
        return batches, ended - begun, await closed_at(harness) - ended

    batches, taken, after = really(loop, case_of(Say(HALF), Stall("forever")), scenario)
    assert failure_of(batches).kind == "cancelled"
    assert taken < 1.0
    assert after < 1.0


@LOOPS
def test_a_loop_that_was_blocked_reads_what_came_meanwhile_before_it_judges(loop: Loop):
    async def main(url: str) -> list[list[Event]]:
        batches: list[list[Event]] = []
        blocked = False
        async with Connections() as connections:
            async for batch in Attempt(
                route_to(url, stall=TINY), request_of(), connections=connections, clock=SystemClock()
            ):
                batches.append(batch)
                if not blocked and reply_so_far(batches) == HALF:
                    # Both the second block and the watching timer become due during the first block.
                    blocked = True
                    running = asyncio.get_running_loop()
                    running.call_later(0.05, _block, 0.8)
                    running.call_soon(_block, 0.6)
        return batches

    case = case_of(Say(HALF, 0), Stall(1.0), Say(ANSWER[44:], 0), Finish())
    with provider_beside(case) as url, asyncio.Runner(loop_factory=loop) as runner:
        batches = runner.run(main(url + "/v1"))
    assert reply_of(batches).text == ANSWER


def reply_so_far(batches: list[list[Event]]) -> str:
    return fold(flat(batches)).text


def _block(seconds: float) -> None:
    """Keep the loop busy, as a slow piece of code would."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@contextmanager
def provider_beside(case: Case) -> Iterator[str]:
    """A provider in a thread of its own, so that it goes on while our loop is blocked."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    provider = Provider(case)
    asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result(10)
    try:
        yield provider.url
    finally:
        asyncio.run_coroutine_threadsafe(provider.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(100)
        loop.close()


def test_run_uses_the_fast_loop():
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()).startswith("uvloop")
