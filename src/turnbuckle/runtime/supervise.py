"""Work in the background that nobody waits for. What it raises is told by the log, and what must not end does
not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from turnbuckle.runtime.ports import Sleep

log = logging.getLogger("turnbuckle.background")


async def keep_going(name: str, work: Callable[[], Awaitable[object]], every: float, sleep: Sleep) -> None:
    """Do this again and again, with so many seconds between, until somebody cancels it. An error is logged,
    and is not a reason to end."""
    while True:
        try:
            await work()
        except Exception as error:
            log.error("%s failed, and goes on in %g s: %s", name, every, error, exc_info=error)
        await sleep(every)


def told(task: "asyncio.Task[Any]", name: str) -> "asyncio.Task[Any]":
    """The same task; if it fails, the log has it."""

    def over(task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed: %s", name, error, exc_info=error)

    task.add_done_callback(over)
    return task
