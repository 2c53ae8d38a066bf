"""Who begins first when many come at once."""

import asyncio

import pytest
from support.http.all_endpoints import ENDPOINTS
from support.http.memory_server import MemoryServer, memory_server

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.entrance import AT_ONCE, LATE, LONGEST, LOOK, Entrance
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Operation
from turnbuckle.server.settings import ServerSettings
from turnbuckle.testing.clock import VirtualClock

CROWD = ServerSettings(port=0, requests_per_minute=0)


class Busy:
    """A loop that has more to do than it can: whatever is due comes far too late."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() * (2 + LATE / LOOK)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_those_who_find_no_place_come_in_one_by_one_in_the_order_in_which_they_came():
    clock = VirtualClock()
    order: list[str] = []

    async def come(entrance: Entrance, name: str) -> None:
        await entrance.turn()
        order.append(name)

    async def main() -> list[list[str]]:
        entrance = Entrance(2, Busy(clock).now)
        first, second = entrance.place(), entrance.place()
        assert first is not None
        assert second is not None
        assert entrance.place() is None
        waiting = [asyncio.create_task(come(entrance, name)) for name in "abc"]
        seen = []
        for place in (second, first):
            await settled()
            entrance.leave(place)
            entrance.leave(place)  # once is enough
            assert entrance.place() is None  # nobody overtakes
            await settled()
            seen.append(list(order))
        await asyncio.gather(*waiting)
        return seen

    assert clock.run(main, quiet=0.0) == [["a"], ["a", "b"]]
    assert order == ["a", "b", "c"]


def test_while_the_loop_has_time_nobody_waits_for_those_who_wait_themselves():
    clock = VirtualClock()

    async def main() -> list[float]:
        entrance = Entrance(2)
        assert entrance.place()
        assert entrance.place()
        waiting = [asyncio.create_task(entrance.turn()) for _ in range(5)]
        came = []
        for each in waiting:
            await each
            came.append(clock.now())
        return came

    assert clock.run(main, quiet=0.0) == pytest.approx([LOOK, LOOK, 2 * LOOK, 2 * LOOK, 3 * LOOK])


def test_while_the_loop_is_busy_nobody_is_waited_for_longer_than_he_may_take():
    clock = VirtualClock()

    async def main() -> float:
        busy = Busy(clock)
        entrance = Entrance(1, busy.now)
        assert entrance.place()
        await entrance.turn()
        return busy.now()

    assert LONGEST <= clock.run(main, quiet=0.0) <= LONGEST + 3 * (LOOK + LATE)


@pytest.mark.parametrize("is_given", [False, True])
def test_a_place_that_nobody_wants_any_more_goes_to_the_next(is_given: bool):
    clock = VirtualClock()

    async def main() -> float:
        entrance = Entrance(1, Busy(clock).now)
        place = entrance.place()
        assert place is not None
        given_up, stays = (asyncio.create_task(entrance.turn()) for _ in range(2))
        await settled()
        if is_given:
            entrance.leave(place)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert given_up.cancelled()
        entrance.leave(place)
        await stays
        return clock.now()

    assert clock.run(main, quiet=0.0) == 0.0


def test_a_crowd_of_requests_that_wait_for_each_other_comes_in():
    """Those inside may wait for those outside: all that holds anybody up is a loop that is busy."""
    count = 2 * AT_ONCE + 1
    inside: list[int] = []

    async def scenario(server: MemoryServer) -> list[int]:
        replies = await asyncio.gather(*(server.ask("POST", "/meet", body=b"{}") for _ in range(count)))
        return [reply.status for reply in replies]

    async def main() -> list[int]:
        all_here = asyncio.Event()

        async def meet(exchange: Exchange) -> Answer:
            inside.append(1)
            if len(inside) == count:
                all_here.set()
            await all_here.wait()
            return json_answer({})

        row = Endpoint("POST", "/meet", meet, Operation("meet", "Meet", "sample"), by_turns=True)
        async with asyncio.timeout(20), memory_server(CROWD, endpoints=[row]) as server:
            return await scenario(server)

    assert asyncio.run(main()) == [200] * count


def test_whoever_begins_a_run_and_reads_it_comes_by_turns_and_nobody_else():
    """A stop, an approval or a look at what runs is never behind a crowd."""
    turns = {(each.method, each.path) for each in ENDPOINTS if each.by_turns}
    assert turns == {("POST", f"/v1/{name}") for name in ("chat/completions", "responses", "messages")}
