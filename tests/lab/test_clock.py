"""Time that passes only when told to."""

import asyncio
import math

import pytest

from turnbuckle.lab.clock import RealClock
from turnbuckle.testing.clock import VirtualClock


async def _sleeper(clock: VirtualClock, log: list[tuple[str, float]], name: str, *naps: float) -> None:
    for nap in naps:
        await clock.sleep(nap)
        log.append((name, clock.now()))


def test_nobody_wakes_before_time_is_moved() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[str, float]] = []
        task = asyncio.create_task(_sleeper(clock, log, "a", 5))
        await clock.advance(4.9)
        assert log == []
        assert clock.sleepers == 1
        await clock.advance(0.1)
        assert log == [("a", 5.0)]
        await task

    asyncio.run(main())


def test_sleepers_wake_in_the_order_of_their_deadlines_and_may_sleep_again() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log: list[tuple[str, float]] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(_sleeper(clock, log, "late", 3))
            group.create_task(_sleeper(clock, log, "early", 1, 1.5, 1))
            group.create_task(_sleeper(clock, log, "tie", 3))
            await clock.advance(10)
        assert log == [("early", 1.0), ("early", 2.5), ("late", 3.0), ("tie", 3.0), ("early", 3.5)]
        assert clock.now() == 10.0

    asyncio.run(main())


def test_a_cancelled_sleeper_is_forgotten() -> None:
    async def main() -> None:
        clock = VirtualClock()
        task = asyncio.create_task(clock.sleep(5))
        await clock.advance(0)
        task.cancel()
        await clock.advance(0)
        assert clock.sleepers == 0
        assert clock.next_deadline() == math.inf

    asyncio.run(main())


def test_time_jumps_when_everybody_waits() -> None:
    clock = VirtualClock()
    log: list[tuple[str, float]] = []

    async def main() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(_sleeper(clock, log, "a", 86_400, 86_400))
            group.create_task(_sleeper(clock, log, "b", 100_000))
        return "done"

    assert clock.run(main) == "done"
    assert log == [("a", 86_400.0), ("b", 100_000.0), ("a", 172_800.0)]


def test_time_outs_of_the_loop_itself_jump_along() -> None:
    clock = VirtualClock()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await clock.sleep(math.inf)
        return clock.now()

    assert clock.run(main) == pytest.approx(3600)


def test_bytes_between_sockets_come_before_a_jump() -> None:
    clock = VirtualClock()

    async def main() -> list[bytes]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(3):
                await clock.sleep(10)
                writer.write(f"{clock.now():.0f} ".encode())
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        async with asyncio.timeout(31):
            got = await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return got.split()

    assert clock.run(main) == [b"10", b"20", b"30"]


def test_the_real_clock_moves_by_itself_and_an_endless_sleep_ends_only_by_cancellation() -> None:
    async def main() -> None:
        clock = RealClock()
        before = clock.now()
        await clock.sleep(0)
        assert clock.now() >= before
        endless = asyncio.create_task(clock.sleep(math.inf))
        await asyncio.sleep(0)
        assert not endless.done()
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless

    asyncio.run(main())
