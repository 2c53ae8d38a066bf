"""Run a command under its guard, with live output, until it or somebody else ends it.

Two pipes come back: output and report. The report ends the wait, not the output, since a process that could
not be killed may hold the output open forever. When the wait is cancelled, the guard's input is closed,
which makes it kill everything, and its report is still waited for: so `run_command` returns instead of
raising, and tells what was killed.
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
    running = _Running(argv, folder, environment, heard, plan, grace)
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


class _Running:
    def __init__(
        self,
        argv: Sequence[str],
        folder: int,
        environment: Mapping[str, str],
        heard: Callable[[bytes], None],
        plan: SandboxPlan | None,
        grace: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = heard
        self._said = bytearray()
        self.over = asyncio.Event()
        with contextlib.ExitStack() as mine:
            control, self._control = _pipe(mine)
            self._output, output = _pipe(mine)
            self._report, report = _pipe(mine)
            planned = open_plan(plan, mine)
            launch = [sys.executable, "-I", "-S", "-c", _GUARD, str(_ROOT)]
            launch += [str(os.getpid()), str(report), str(folder), str(grace), plan_word(planned)]
            try:
                self._process = subprocess.Popen(
                    [*launch, *argv],
                    stdin=control,
                    stdout=output,
                    stderr=output,
                    pass_fds=(report, folder, *planned),
                    env=dict(environment),
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ToolError(f"the command could not be started: {error}") from error
            for end in (control, output, report, *planned):
                os.close(end)
            mine.pop_all()
        for end in (self._output, self._report):
            os.set_blocking(end, False)
        self._loop.add_reader(self._output, self._read_output)
        self._loop.add_reader(self._report, self._read_report)

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
        self._drain()
        if not last.why:
            left = f"whatever process group {last.pid} left behind" if last.pid else "the command"
            return CommandEnd(None, stopped, ("the guard of the command",), (left,))
        return CommandEnd(last.status, stopped, last.killed, last.survivors, last.limit)

    def close(self) -> None:
        self.ask_to_stop()
        for end in (self._output, self._report):
            self._loop.remove_reader(end)
            os.close(end)

    def _kill_by_hand(self, command: int) -> None:
        for group in (command, self._process.pid):
            if group:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)

    def _read_output(self) -> bool:
        try:
            data = os.read(self._output, READ)
        except BlockingIOError:
            return False
        if data:
            self._heard(data)
        else:
            self._loop.remove_reader(self._output)
        return bool(data)

    def _drain(self) -> None:
        """What is in the pipe at the end; a process that still writes is not listened to forever."""
        for _ in range(LAST_READS):
            if not self._read_output():
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
    """How a guard is told of its plan."""
    return str(opened[0]) if opened else "-"


def _pipe(owner: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        owner.callback(os.close, end)
    return ends
