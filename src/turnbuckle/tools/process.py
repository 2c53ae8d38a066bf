"""Run a command under its guard, with live output, until it or somebody else ends it.

Two pipes come back: output and report. The report ends the wait, not the output, since a process that could
not be killed may hold the output open forever. When the wait is cancelled, the guard's input is closed,
which makes it kill everything, and its report is still waited for: so `run_command` returns instead of
raising, and tells what was killed.

A program that is talked to (`complained` is given) has an input, and its errors come apart from its output.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from turnbuckle.tools.sandbox.plan import SandboxPlan
from turnbuckle.tools.spec import ToolError
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.clock import Clock

GRACE = 0.4
"""Seconds between asking a process to end and killing it. A stop must be over within a second."""
PATIENCE = 2.0
"""Seconds beyond the grace time until the guard itself is given up."""
READ = 64 * 1024
LAST_READS = 64

_ROOT = Path(__file__).parents[2]
_GUARD = "import sys; sys.path.insert(0, sys.argv.pop(1)); from turnbuckle.tools.guard import main; main()"


class GuardReport(Struct, frozen=True):
    """The guard's last words."""

    status: int | None = None
    why: str = ""
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    limit: str = ""
    pid: int = 0


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended. `stopped` if we wanted it to; `code` is None if it was not seen to end. `limit` is
    the bound that it broke."""

    code: int | None
    stopped: bool
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    limit: str = ""


async def run_command(
    argv: Sequence[str],
    *,
    folder: int,
    environment: Mapping[str, str],
    heard: Callable[[bytes], None],
    clock: Clock,
    plan: SandboxPlan | None = None,
    grace: float = GRACE,
) -> CommandEnd:
    """Run `argv` in an open folder, in a sandbox if there is a plan for one. `heard` gets the output as it
    comes; its errors and its plain output are one."""
    running = GuardedProcess(argv, folder, environment, heard, plan=plan, grace=grace)
    stopped = False
    try:
        try:
            await running.over.wait()
        except asyncio.CancelledError:
            stopped = True
            running.ask_to_stop()
            await _within(clock, grace + PATIENCE, running.over)
        return await running.ended(stopped)
    finally:
        running.close()


async def _within(clock: Clock, seconds: float, event: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(clock.sleep(seconds))]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


class GuardedProcess:
    """A program under its guard. `over` is set when everything that came from it has ended."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: int,
        environment: Mapping[str, str],
        heard: Callable[[bytes], None],
        *,
        complained: Callable[[bytes], None] | None = None,
        plan: SandboxPlan | None = None,
        grace: float = GRACE,
    ) -> None:
        """Raises ToolError if it cannot be started."""
        self._loop = asyncio.get_running_loop()
        self._said = bytearray()
        self._input = -1
        self._unsent = bytearray()
        self.over = asyncio.Event()
        with contextlib.ExitStack() as mine:
            control, self._control = _pipe(mine)
            self._output, output = _pipe(mine)
            self._report, report = _pipe(mine)
            planned = open_plan(plan, mine)
            given: tuple[int, ...] = ()
            errors, self._errors = output, -1
            if complained is not None:
                taken, self._input = _pipe(mine)
                self._errors, errors = _pipe(mine)
                given = (taken,)
            launch = [sys.executable, "-I", "-S", "-c", _GUARD, str(_ROOT)]
            launch += [str(os.getpid()), str(report), str(folder), str(grace)]
            launch += [plan_word(planned), plan_word(given)]
            try:
                self._process = subprocess.Popen(
                    [*launch, *argv],
                    stdin=control,
                    stdout=output,
                    stderr=errors,
                    pass_fds=(report, folder, *planned, *given),
                    env=dict(environment),
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ToolError(f"the command could not be started: {error}") from error
            for end in {control, output, errors, report, *planned, *given}:
                os.close(end)
            mine.pop_all()
        self._heard = {self._output: heard}
        if complained is not None:
            self._heard[self._errors] = complained
        for end in (*self._heard, self._report, *([] if self._input < 0 else [self._input])):
            os.set_blocking(end, False)
        for end in self._heard:
            self._loop.add_reader(end, self._read, end)
        self._loop.add_reader(self._report, self._read_report)

    @property
    def unsent(self) -> int:
        """Bytes that were given to `write` and are not with the program yet."""
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Give the program something to read. What it does not take at once waits here."""
        waits = bool(self._unsent)
        self._unsent += data
        if not waits:
            self._flush()

    def close_input(self) -> None:
        """The program sees the end of what it reads."""
        if self._input >= 0:
            self._loop.remove_writer(self._input)
            os.close(self._input)
            self._input = -1

    def _flush(self) -> None:
        if self._input < 0:
            return
        try:
            while self._unsent:
                del self._unsent[: os.write(self._input, self._unsent[:READ])]
        except BlockingIOError:
            self._loop.add_writer(self._input, self._flush)
            return
        except OSError:
            self.close_input()  # it reads no more, and says so by its end
            return
        self._loop.remove_writer(self._input)

    def ask_to_stop(self) -> None:
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    async def ended(self, stopped: bool) -> CommandEnd:
        """The end, when it is over. A guard that says nothing is killed itself, with the command's process
        group."""
        lines = [line for line in bytes(self._said).split(b"\n") if line]
        reports = [msgspec.json.decode(line, type=GuardReport) for line in lines]
        last = reports[-1] if reports else GuardReport()
        if not last.why:
            self._kill_by_hand(last.pid)
        await in_thread(self._process.wait)
        for end in self._heard:
            self._drain(end)
        if not last.why:
            left = f"whatever process group {last.pid} left behind" if last.pid else "the command"
            return CommandEnd(None, stopped, ("the guard of the command",), (left,))
        return CommandEnd(last.status, stopped, last.killed, last.survivors, last.limit)

    def close(self) -> None:
        self.ask_to_stop()
        self.close_input()
        for end in (*self._heard, self._report):
            self._loop.remove_reader(end)
            os.close(end)

    def _kill_by_hand(self, command: int) -> None:
        for group in (command, self._process.pid):
            if group:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)

    def _read(self, end: int) -> bool:
        try:
            data = os.read(end, READ)
        except BlockingIOError:
            return False
        if data:
            self._heard[end](data)
        else:
            self._loop.remove_reader(end)
        return bool(data)

    def _drain(self, end: int) -> None:
        """What is in the pipe at the end; a process that still writes is not listened to forever."""
        for _ in range(LAST_READS):
            if not self._read(end):
                return

    def _read_report(self) -> None:
        try:
            data = os.read(self._report, READ)
        except BlockingIOError:
            return
        self._said += data
        if not data:
            self._loop.remove_reader(self._report)
            self.over.set()


def open_plan(plan: SandboxPlan | None, owner: contextlib.ExitStack) -> tuple[int, ...]:
    """The file, which lies nowhere, in which a guard finds its plan; none without a plan. It is closed with
    its owner."""
    if plan is None:
        return ()
    opened = os.memfd_create("plan")
    owner.callback(os.close, opened)
    with os.fdopen(os.dup(opened), "wb") as file:
        file.write(plan.encode())
    return (opened,)


def plan_word(opened: tuple[int, ...]) -> str:
    """How a guard is told of an open file, such as its plan."""
    return str(opened[0]) if opened else "-"


def _pipe(owner: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        owner.callback(os.close, end)
    return ends
