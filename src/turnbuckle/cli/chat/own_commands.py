"""`!command`: the user's own command, in their own shell, with their own rights.

No model is involved: nothing is asked, nothing is kept in the sandbox, and nothing of it is told to anybody.
The output is shown, and offered: `/share` sends it to the conversation, without what looks like a credential.
So nobody sends by accident what a command printed. It has no input, and Ctrl-C ends it with all that it
started. It is for a person at a terminal: a line of a pipe that begins with `!` is a message like any other.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from turnbuckle.call.clock import SystemClock
from turnbuckle.cli.chat.workspace_files import ChatFiles
from turnbuckle.tools.process import CommandEnd, run_command
from turnbuckle.tools.spec import ToolError

HEAD, TAIL = 20_000, 10_000
"""Bytes of the output that are kept: its beginning, and its end."""
SHOWN_LINES = 200


class CommandRan(Struct, frozen=True):
    """A command that is over. `code` is None if it was stopped."""

    command: str
    code: int | None
    output: str

    @property
    def end(self) -> str:
        return "stopped" if self.code is None else f"exit code {self.code}"


class OwnCommands:
    """Runs one command at a time, and remembers the last."""

    def __init__(
        self, folder: Path, redact: Callable[[str], str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.running = ""
        self.last: CommandRan | None = None
        self._folder = folder
        self._redact = redact
        self._environment = dict(os.environ if environment is None else environment)
        self._task: asyncio.Future[CommandEnd] | None = None

    async def run(self, command: str) -> CommandRan:
        """Run it to its end. Raises ToolError if it cannot be started."""
        kept = _CappedOutput()
        shell = self._environment.get("SHELL") or "/bin/sh"
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"{self._folder}: {error.strerror}") from None
        try:
            self.running = command
            running = asyncio.ensure_future(
                run_command(
                    [shell, "-c", command],
                    folder=folder,
                    environment=self._environment,
                    heard=kept.take,
                    clock=SystemClock(),
                )
            )
            self._task = running
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                running.cancel()
                await asyncio.wait({running})
                raise
        finally:
            self.running, self._task = "", None
            os.close(folder)
        end = None if running.cancelled() else running.result()  # stopped before it began, or ended
        self.last = CommandRan(command, None if end is None or end.stopped else end.code, kept.text)
        return self.last

    def stop(self) -> bool:
        """End the command that runs. False if there is none."""
        if self._task is None:
            return False
        self._task.cancel()
        return True

    def message(self, words: str) -> str:
        """The last command and its output as a message. Raises ToolError if there was none."""
        if self.last is None:
            raise ToolError("nothing to share yet: !COMMAND runs one of your own commands")
        ran, fence = self.last, "```"
        while fence in ran.output:
            fence += "`"
        told = f"I ran `{ran.command}` ({ran.end}). It printed:\n{fence}\n{ran.output}\n{fence}"
        return self._redact(f"{told}\n{words}".rstrip())


def shown(ran: CommandRan) -> str:
    """A command that is over, for the screen."""
    lines = ran.output.splitlines()
    cut = len(lines) - SHOWN_LINES
    if cut > 0:
        lines = [*lines[: SHOWN_LINES // 2], f"… {cut:,} lines …", *lines[-SHOWN_LINES // 2 :]]
    offer = "; /share sends this to the model" if lines else ""
    return "\n".join([f"! {ran.command}", *lines, f"[{ran.end}{offer}]"])


class UsersMachine(Struct, frozen=True):
    """What a person at a terminal has beside the chat: own commands, and the files that `@` names."""

    commands: OwnCommands
    files: ChatFiles | None = None


class _CappedOutput:
    """The beginning and the end of an output, whatever its length."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def take(self, data: bytes) -> None:
        room = HEAD - len(self._head)
        self._head += data[: max(room, 0)]
        self._tail += data[max(room, 0) :]
        if (over := len(self._tail) - TAIL) > 0:
            del self._tail[:over]
            self._left_out += over

    @property
    def text(self) -> str:
        cut = f"\n… {self._left_out:,} bytes …\n".encode() if self._left_out else b""
        return bytes(self._head + cut + self._tail).decode("utf-8", "replace").rstrip("\n")
