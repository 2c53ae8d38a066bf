"""A chat without a screen: a pipe, or a terminal that cannot move its cursor. Lines in, lines out.

As with `turnbuckle run`, the model's text goes to stdout and everything else to stderr. In a pipe each line
is carried out and answered before the next one is read, and the exit code is that of the last turn. A line
that ends with a backslash goes on in the next.
"""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TextIO

from turnbuckle.cli.chat.controller import ChatController
from turnbuckle.cli.chat.renderer import ChatPiece, CommandOutput, UserWords
from turnbuckle.cli.chat.view import prompt_for
from turnbuckle.cli.follow import PIPE_EVERY
from turnbuckle.cli.pieces import Break, Line, Piece
from turnbuckle.cli.screen import Screen

LONGEST_LINE = 1 << 20  # characters of one line; a pasted file has less
_SIGN = "> "


class PlainFront:
    """`steps`: a line is read when the one before it is answered, as in a pipe."""

    def __init__(self, screen: Screen, source: TextIO | None = None, *, steps: bool) -> None:
        self._screen = screen
        self._source = sys.stdin if source is None else source
        self._steps = steps
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="screen")
        self._typed: list[str] = []
        self._left: asyncio.Future[Literal["quit", "leave"]] = asyncio.get_running_loop().create_future()
        self._prompted = False
        self._prompting: asyncio.Future[None] | None = None
        self._talk: ChatController | None = None

    def attach(self, talk: ChatController) -> None:
        self._talk = talk

    async def show(self, pieces: list[ChatPiece]) -> None:
        made: list[Piece] = []
        for piece in pieces:
            match piece:
                case UserWords(text):
                    if text in self._typed:  # it stands there already
                        self._typed.remove(text)
                    else:
                        made += [Break(), Line(f"› {text}")]
                case CommandOutput(text, tone):
                    made += [Break(), *(Line(line, tone) for line in text.split("\n"))]
                case _:
                    made.append(piece)
        if made:
            if self._prompted:
                self._prompted = False
                await self._write(lambda: self._screen.raw("\n"))
            await self._write(lambda: self._screen.show(made))

    async def shown(self) -> None:
        """It was written when `show` ended."""

    def refresh(self) -> None:
        """Somebody who types is told when it is their turn."""
        view = None if self._talk is None else self._talk.view()
        if self._steps or self._prompted or view is None:
            return
        if view.question is None and (view.running or view.queued):
            return
        prompt = prompt_for(view, _SIGN)
        self._prompted = True
        self._prompting = asyncio.ensure_future(self._write(lambda: self._screen.raw(prompt)))

    async def run(self) -> Literal["quit", "leave"]:
        """Until there are no more lines, or somebody leaves."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
        tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._tick())]
        try:
            first: set[asyncio.Future[Any]] = {*tasks, self._left}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._writer.shutdown(wait=False)
        return self._left.result() if self._left.done() else "quit"

    async def _read(self) -> None:
        lines = _Lines(self._source)
        self.refresh()
        while True:
            line = await lines.next()
            while line is not None and line.endswith("\\"):
                more = await lines.next()
                line = f"{line[:-1]}\n{more or ''}"
            if line is None or self._entered(line) == "quit":
                return
            if self._steps and self._talk is not None:
                await self._talk.settled()

    def _entered(self, line: str) -> str:
        assert self._talk is not None
        self._prompted = False
        told = self._talk.entered(line, self._talk.asking)
        if told == "taken" and not self._steps:
            self._typed = [*self._typed, line.strip()][-100:]
        return told

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PIPE_EVERY)
            view = None if self._talk is None else self._talk.view()
            if view is not None and view.waiting:
                await self.show([Line(view.waiting)])

    def _interrupt(self) -> None:
        how = "idle" if self._talk is None else self._talk.interrupt()
        if how != "stopping" and not self._left.done():
            self._left.set_result("leave" if how == "leave" else "quit")

    async def _write(self, write: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, write)
        except (OSError, ValueError):  # whoever read our output has left, as `head` does
            if not self._left.done():
                self._left.set_result("leave")
        except RuntimeError:
            return  # the chat is over


class _Lines:
    """Lines of a file that may take forever to come, read in a thread that nobody waits for. One is read
    when it is wanted, and not before."""

    def __init__(self, source: TextIO) -> None:
        self._source = source
        self._wanted = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._got: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, name="chat input", daemon=True).start()

    async def next(self) -> str | None:
        """The next line without its end; None when there are no more."""
        self._wanted.release()
        return await self._got.get()

    def _read(self) -> None:
        while True:
            self._wanted.acquire()
            try:
                line = self._source.readline(LONGEST_LINE)
            except (OSError, ValueError):
                line = ""
            with contextlib.suppress(RuntimeError):  # the loop is over
                self._loop.call_soon_threadsafe(self._got.put_nowait, line.rstrip("\n") if line else None)
            if not line:
                return
