"""A server that is a program: started under a guard, in the sandbox, and talked to by its input and output.

The guard ends it, and all that comes from it, when this process wants it or is gone. Its errors are its own
notes; the last of them tell why it ended."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from turnbuckle.tools.mcp.messages import LineSplitter, Unreadable
from turnbuckle.tools.mcp.session import McpSession
from turnbuckle.tools.process import GRACE, PATIENCE, CommandEnd, GuardedProcess
from turnbuckle.tools.sandbox.plan import SandboxPlan
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.visible import visible_line

NOTES_KEPT, NOTES_SHOWN = 8 << 10, 500
"""Bytes of a server's last words. More is kept than shown, so that a secret is whole when it is found."""
LEAVE = 0.3
"""Seconds that a server has to end by itself when its input ends."""


class StdioLink:
    """A running server. What it says goes to a session."""

    def __init__(
        self,
        session: McpSession,
        argv: Sequence[str],
        folder: int,
        environment: Mapping[str, str],
        plan: SandboxPlan | None,
        clock: Clock,
    ) -> None:
        """Raises ToolError if it cannot be started."""
        self._session = session
        self._clock = clock
        self._lines = LineSplitter()
        self._notes = b""
        self._given = 0
        self._process = GuardedProcess(
            argv, folder, environment, self._heard, complained=self._complained, plan=plan
        )
        self._watch = asyncio.create_task(self._watched(), name=f"mcp process {session.name}")

    @property
    def unsent(self) -> int:
        return self._process.unsent

    def send(self, message: bytes) -> int:
        self._process.write(message)
        self._given += len(message)
        return self._given

    def has_sent(self, mark: int) -> bool:
        return self._given - self._process.unsent >= mark

    def drop(self, mark: int) -> None:
        return  # what is in the pipe cannot be taken back

    async def close(self) -> str:
        self._process.close_input()
        leaving = asyncio.ensure_future(self._clock.sleep(LEAVE))
        over = asyncio.ensure_future(self._process.over.wait())
        await asyncio.wait({leaving, over}, return_when=asyncio.FIRST_COMPLETED)
        self._process.ask_to_stop()
        leaving.cancel()
        patience = asyncio.ensure_future(self._clock.sleep(GRACE + PATIENCE))
        await asyncio.wait({patience, over}, return_when=asyncio.FIRST_COMPLETED)
        patience.cancel()
        over.cancel()
        self._process.over.set()
        return await self._watch

    def _heard(self, data: bytes) -> None:
        if self._session.over.is_set():
            return  # nobody listens to it until it is gone
        try:
            for line in self._lines.add(data):
                self._session.heard(line)
        except Unreadable as error:
            self._session.end(str(error))

    def _complained(self, data: bytes) -> None:
        self._notes = (self._notes + data[-NOTES_KEPT:])[-NOTES_KEPT:]
        self._session.count_unasked(len(data))

    async def _watched(self) -> str:
        """Until the process is gone. How it ended, in words."""
        await self._process.over.wait()
        try:
            words = _words(await self._process.ended(stopped=False))
        finally:
            self._process.close()
        await self._session.settled()
        size = len(self._notes)
        last = self._session.redactor.part(self._notes, max(size - NOTES_SHOWN, 0), size)
        notes = visible_line(last.decode("utf-8", "replace").strip())
        self._session.end(f"{words}. Its last words: {notes}" if notes else words)
        return words


def _words(ended: CommandEnd) -> str:
    if ended.limit:
        return f"it was killed: {ended.limit}"
    if ended.code is None:
        return "it was killed"
    code = ended.code if ended.code >= 0 else 128 - ended.code
    return f"it ended with exit code {code}"


def open_at(path: str) -> int:
    """The folder to start in. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
