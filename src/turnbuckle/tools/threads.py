"""Plain functions beside the event loop, each in a thread of its own.

A shared pool would fill up with functions that hang, and then nothing would run any more. These threads are
daemons: one that never ends does not keep the process alive.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Threaded(Generic[T]):
    """A function that runs in a thread. `result` can be awaited more than once, and survives a cancelled
    wait."""

    def __init__(self, function: Callable[[], T], name: str) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self._value: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._done.is_set()

    async def wait(self) -> None:
        await self._done.wait()

    async def result(self) -> T:
        """What the function gave, or raised."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._done.set)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more


async def in_thread(function: Callable[[], T], name: str = "turnbuckle-tool") -> T:
    """Run a short blocking function without holding up the loop."""
    return await Threaded(function, name).result()
