"""An event loop in a thread of its own, for programs that have none: scripts, notebooks, plain functions."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from turnbuckle.call.loop import new_loop

T = TypeVar("T")


class LoopThread:
    """Runs until `close`. It is a daemon, so a program that forgets it can still end."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="turnbuckle-agent", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._ended():
                pass
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def _ended(self) -> bool:
        """Run until `close`. A task that wants to leave the program cannot do so from this thread: whoever
        waits for the task is told, and nobody else is left waiting."""
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            return False
        return True


def call_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop that another thread runs, and wait for it. Ctrl-C cancels it, and it may
    still end in good order; a second one leaves at once."""
    done: Future[T] = Future()
    tasks: list[asyncio.Task[T]] = []

    def begin() -> None:
        task = loop.create_task(work)
        tasks.append(task)
        task.add_done_callback(settle)

    def settle(task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            done.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(task.result())

    def cancel() -> None:
        tasks[0].cancel()

    loop.call_soon_threadsafe(begin)
    try:
        return done.result()
    except BaseException:
        if not done.done():
            loop.call_soon_threadsafe(cancel)
            done.exception()  # until it has come to its end
        raise
