"""A loop that was held is told of; one that is only busy, or on a busy machine, is not."""

import asyncio
import logging
import time

import pytest

from turnbuckle.observe.loop_watch import EVERY, LONGEST, LoopWatch
from turnbuckle.observe.metrics import Metrics


def burn(seconds: float) -> None:
    """Use so much processor time in one piece."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def watched(metrics: Metrics, pieces: list[float]) -> None:
    watch = asyncio.create_task(LoopWatch(metrics).run())
    await asyncio.wait({watch}, timeout=2 * EVERY)
    for seconds in pieces:
        burn(seconds)
        await asyncio.wait({watch}, timeout=EVERY)
    await asyncio.wait({watch}, timeout=2 * EVERY)
    watch.cancel()
    await asyncio.wait({watch})


def counted(metrics: Metrics) -> float:
    lines = metrics.render().decode().splitlines()
    return float(next(line for line in lines if line.startswith("turnbuckle_loop_held_total ")).split()[1])


@pytest.mark.requirement("R1")
def test_one_long_piece_of_work_is_counted_and_logged(caplog: pytest.LogCaptureFixture):
    metrics = Metrics()
    with caplog.at_level(logging.WARNING, "turnbuckle.loop"):
        asyncio.run(watched(metrics, [LONGEST + 2 * EVERY]))
    assert counted(metrics) == 1
    assert "the event loop was blocked for 0." in caplog.text


def test_many_short_pieces_and_a_machine_that_is_busy_with_others_are_not_counted():
    metrics = Metrics()
    asyncio.run(watched(metrics, [0.02] * 20))
    assert counted(metrics) == 0
    late = iter([0.0, 1.0, 9.0, 9.1])  # by the clock, while no work was done

    async def on_a_busy_machine() -> None:
        watch = asyncio.create_task(
            LoopWatch(metrics, thread_time=lambda: 1.0, clock=lambda: next(late)).run()
        )
        await asyncio.wait({watch}, timeout=10)  # ends when the clock has no more to tell

    asyncio.run(on_a_busy_machine())
    assert counted(metrics) == 0
    assert 'turnbuckle_loop_late_seconds_bucket{le="+Inf"}' in metrics.render().decode()
