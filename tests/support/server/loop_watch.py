"""How long the event loop was held by one piece of work, while something else was done."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

LONGEST = 0.25
"""Seconds for which nothing that a stranger sends may hold the loop."""


async def held_while(work: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """What the work gave, and the most processor time that the loop's thread spent between two turns of it.

    Processor time, since a busy machine takes the processor away from everybody for longer than that."""
    longest, over = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        ended = asyncio.ensure_future(over.wait())
        while not over.is_set():
            before = time.thread_time()
            await asyncio.wait({ended}, timeout=0.002)
            longest = max(longest, time.thread_time() - before)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        return await work(), longest
    finally:
        over.set()
        await watching
