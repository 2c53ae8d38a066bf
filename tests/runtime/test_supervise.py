"""Work in the background that fails goes on, and what it raised is in the log."""

import asyncio
import logging

import pytest

from turnbuckle.runtime.supervise import keep_going, told
from turnbuckle.testing.clock import VirtualClock


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "error", [RuntimeError("nobody expects this"), KeyError("gone"), TimeoutError(), OSError("no")]
)
def test_work_that_must_not_end_goes_on_after_an_error_that_nobody_expected(error, caplog):
    clock = VirtualClock()
    done: list[float] = []

    async def work():
        done.append(clock.now())
        if len(done) in (1, 3):
            raise error

    async def main():
        going = asyncio.ensure_future(keep_going("the sweep", work, 60.0, clock.sleep))
        await clock.sleep(250)
        going.cancel()
        await asyncio.wait({going})
        return going.cancelled()

    with caplog.at_level(logging.ERROR):
        assert clock.run(main, quiet=0)
    assert len(done) == 5
    assert caplog.text.count("the sweep failed") == 2


def test_a_task_that_nobody_waits_for_tells_the_log_how_it_failed(caplog):
    async def fails():
        raise RuntimeError("nobody expects this")

    async def main():
        tasks = [
            told(asyncio.create_task(fails()), "a chore"),
            told(asyncio.create_task(asyncio.sleep(9)), "another"),
        ]
        tasks[1].cancel()
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert "a chore failed: nobody expects this" in caplog.text
    assert "another" not in caplog.text
