"""Commands that go on in the background, beyond the call and the run that started them, and beyond the
server.

Each has a folder of its own in `processes/`. What is to be started is written down there before anything is
started (`record.json`); its keeper writes down that it runs and how it ended (see `keeper`). Nothing about
them is held in memory, so whoever comes back after a crash knows as much as whoever was there before: a
process is running if its keeper is alive, which is told by its number and the moment at which it began; it
has ended if the keeper wrote so; and if neither is true it is lost, which the model is told with the next run
of the session.

They belong to a session. Runs of other sessions do not see them, and they are ended when the session is
deleted.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.tools.identity import identity_of
from turnbuckle.tools.keeper import ENDED, LOG, RUNNING, store
from turnbuckle.tools.process import GRACE, PATIENCE, open_plan, plan_word
from turnbuckle.tools.sandbox.plan import SandboxPlan
from turnbuckle.tools.sandbox.scratch import forget_scratch
from turnbuckle.tools.session_folder import forget_folder
from turnbuckle.tools.spec import ToolError
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.clock import Clock

T = TypeVar("T")

FOLDER = "processes"
LONGEST_ID = 64
RECORD = "record.json"
TOLD = "told"
MOST = 20
"""Processes of one session that may run at the same time, and ended ones that are remembered."""
LOG_CAP = 4 << 20
"""Bytes of one piece of the output; two are kept, so that a noisy process takes at most twice as much of the
disk."""
STEP = 0.05
_SHOWN = 300  # characters of a command in a note to the model

_ROOT = Path(__file__).parents[2]
_KEEPER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from turnbuckle.tools.keeper import main; main()"

ProcessState = Literal["starting", "running", "ended", "stopped", "lost"]


class ProcessRecord(Struct, frozen=True):
    """What is to be started, and by whom."""

    id: str
    command: str
    run: str
    session: str
    folder: str
    at: float
    starter: int
    starter_identity: str


class _KeeperRecord(Struct, frozen=True):
    keeper: int
    identity: str
    pid: int


class _End(Struct, frozen=True):
    status: int | None
    stopped: bool
    at: float
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    limit: str = ""


class BackgroundProcess(Struct, frozen=True):
    """A background process as it stands. `lost`: it is not there any more, and nobody saw how it ended."""

    id: str
    command: str
    run: str
    session: str
    folder: str
    state: ProcessState
    started_at: float
    pid: int = 0
    exit_code: int | None = None
    ended_at: float | None = None
    output_bytes: int = 0
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    limit: str = ""
    """The bound that it broke, for which it was ended."""

    @property
    def is_alive(self) -> bool:
        return self.state in ("starting", "running")


class Piece(Struct, frozen=True):
    """A part of what a process printed: its bytes from `begins` on, and how many there are in all by now."""

    data: bytes
    begins: int
    total: int


class Processes:
    """The background processes of one data folder. Any number of these may look at the same folder."""

    def __init__(
        self, data: Path, clock: Clock, cap: int = LOG_CAP, *, folders_in: Path | None = None
    ) -> None:
        """`cap` is how many bytes a piece of the output has. `folders_in`: where sessions have folders of
        their own."""
        self._home = data / FOLDER
        self._folders_in = folders_in
        self._clock = clock
        self._cap = cap

    # Looking

    def named(self, name: str) -> BackgroundProcess | None:
        """The process with this id, whose ever it is."""
        is_id = name.isascii() and name.isalnum() and len(name) <= LONGEST_ID
        return self._process(self._home / name) if is_id else None

    def find(self, name: str, session: str) -> BackgroundProcess | None:
        """The process of this session with this id."""
        found = self.named(name)
        return found if found is not None and found.session == session else None

    def listed(self, session: str | None = None) -> tuple[BackgroundProcess, ...]:
        """Those of a session, or all, in the order in which they were started."""
        mark = "" if session is None else _mark(session)
        found = [one for one in self._all(mark) if session is None or one.session == session]
        return tuple(sorted(found, key=lambda one: (one.started_at, one.id)))

    def read(self, name: str, after: int | None, most: int) -> Piece:
        """What it printed behind so many bytes; without `after`, the last of it. What was dropped is not
        there."""
        logs = _logs(self._home / name)
        total = _end_of(logs)
        begins = max(total - most if after is None else min(after, total), logs[0].begins if logs else 0)
        pieces, left = [], most
        for one in logs:
            try:
                with one.path.open("rb") as file:
                    file.seek(max(begins - one.begins, 0))
                    pieces.append(file.read(left))
            except FileNotFoundError:  # it was dropped a moment ago
                begins = max(begins, one.begins + one.size)
                continue
            left -= len(pieces[-1])
        return Piece(b"".join(pieces), begins, total)

    # Starting and ending

    async def start(
        self,
        argv: Sequence[str],
        command: str,
        *,
        run: str,
        session: str,
        key: str,
        where: int,
        folder: str,
        environment: Mapping[str, str],
        plan: SandboxPlan | None = None,
    ) -> BackgroundProcess:
        """Start a command in the open folder `where`, in a sandbox if there is a plan for one. The same `key`
        never starts a second one. Raises ToolError."""
        name = name_of(session, key)
        home = self._home / name
        if (there := self._process(home)) is not None:
            return there
        others = self.listed(session)
        if sum(one.is_alive for one in others) >= MOST:
            raise ToolError(
                f"{MOST} background processes of this session run already; stop one of them first"
            )
        for old in [one for one in others if not one.is_alive][: -MOST + 1]:
            shutil.rmtree(self._home / old.id, ignore_errors=True)
        me = os.getpid()
        record = ProcessRecord(name, command, run, session, folder, time.time(), me, identity_of(me) or "")
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            store(str(home / RECORD), msgspec.json.encode(record))
            await in_thread(lambda: _launch(home, argv, where, environment, self._cap, plan))
        except OSError as error:
            shutil.rmtree(home, ignore_errors=True)
            raise ToolError(f"the command could not be started: {error}") from error
        started = self._process(home)
        if started is None:
            raise ToolError("the command could not be started")
        return started

    async def stop(self, name: str, grace: float = GRACE) -> BackgroundProcess | None:
        """End a process with all that came from it, and wait for that. One that has ended stays as it is."""
        home = self._home / name
        kept = _stored(home / RUNNING, _KeeperRecord)
        if kept is not None and _send(kept.keeper, kept.identity, signal.SIGTERM):
            until = self._clock.now() + grace + PATIENCE
            while self._clock.now() < until and (found := self._process(home)) is not None and found.is_alive:
                await self._clock.sleep(STEP)
            if (found := self._process(home)) is not None and found.is_alive:
                if kept.pid > 1:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(kept.pid, signal.SIGKILL)
                _send(kept.keeper, kept.identity, signal.SIGKILL)
        return self._process(home)

    async def end_all(self, session: str) -> None:
        """End and forget all processes of a session, and what else it has left on this machine."""
        found = self.listed(session)
        await asyncio.gather(*(self.stop(one.id) for one in found if one.is_alive))
        for one in found:
            shutil.rmtree(self._home / one.id, ignore_errors=True)
        forget_scratch(self._home.parent, session)
        if self._folders_in is not None:
            forget_folder(self._folders_in, session)

    # Telling

    def lost(self, session: str) -> tuple[BackgroundProcess, ...]:
        """Those that are lost and of which nobody was told."""
        found = [one for one in self.listed(session) if one.state == "lost"]
        return tuple(one for one in found if not (self._home / one.id / TOLD).exists())

    def told(self, lost: Sequence[BackgroundProcess]) -> None:
        """The model knows of these."""
        for one in lost:
            with contextlib.suppress(OSError):  # then it is told once more
                (self._home / one.id / TOLD).touch()

    def _all(self, mark: str) -> Iterator[BackgroundProcess]:
        try:
            names = os.listdir(self._home)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            found = self._process(self._home / name) if name.startswith(mark) else None
            if found is not None:
                yield found

    def _process(self, home: Path) -> BackgroundProcess | None:
        record = _stored(home / RECORD, ProcessRecord)
        if record is None:
            return None
        kept = _stored(home / RUNNING, _KeeperRecord)
        alive = kept is not None and identity_of(kept.keeper) == kept.identity
        end = _stored(
            home / ENDED, _End
        )  # looked for last: a keeper that is gone has written it before it went
        shown = BackgroundProcess(
            record.id,
            record.command,
            record.run,
            record.session,
            record.folder,
            "lost",
            record.at,
            kept.pid if kept is not None else 0,
            output_bytes=_end_of(_logs(home)),
        )
        if end is not None:
            state: ProcessState = "stopped" if end.stopped else "ended"
            shown = replace(shown, state=state, exit_code=end.status, ended_at=end.at)
            return replace(shown, killed=end.killed, survivors=end.survivors, limit=end.limit)
        if alive:
            return replace(shown, state="running")
        starting = kept is None and identity_of(record.starter) == record.starter_identity
        return replace(shown, state="starting") if starting else shown


def name_of(session: str, key: str) -> str:
    """The id of a process. It begins with a mark of its session, so that nobody looks into folders of
    others."""
    return f"{_mark(session)}{_digest(key)[:8]}"


def _mark(session: str) -> str:
    return f"p{_digest(session)[:6]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def lost_note(lost: Sequence[BackgroundProcess]) -> str:
    """What the model is told of processes that are not there any more."""
    names = "; ".join(f"{one.id} ({one.command[:_SHOWN]})" for one in lost)
    return (
        "[Runtime] These background processes are not there any more, and nobody saw how they ended: "
        f"{names}. "
        "Start again what is still needed."
    )


def _launch(
    home: Path,
    argv: Sequence[str],
    where: int,
    environment: Mapping[str, str],
    cap: int,
    plan: SandboxPlan | None,
) -> None:
    """Start the keeper, and wait until it says that the command runs. Raises OSError."""
    with contextlib.ExitStack() as mine:
        ready, report = os.pipe()
        mine.callback(os.close, ready)
        with contextlib.ExitStack() as theirs:
            theirs.callback(os.close, report)
            planned = open_plan(plan, theirs)
            launch = [sys.executable, "-I", "-S", "-c", _KEEPER, str(_ROOT), str(home), str(report)]
            launch += [str(where), str(GRACE), str(cap), plan_word(planned)]
            try:
                starting = subprocess.Popen(
                    [*launch, *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(report, where, *planned),
                    env=dict(environment),
                    start_new_session=True,
                )
            except ValueError as error:
                raise OSError(str(error)) from error
        starting.wait()
        said = os.read(ready, 4096)  # ends when it is said, or when nobody is left who could say it
    if not said:
        raise OSError("its keeper ended at once")


def _send(pid: int, identity: str, number: int) -> bool:
    """Send a signal to exactly this process. False if it is not there any more."""
    if not hasattr(os, "pidfd_open"):
        if identity_of(pid) != identity:
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
        return True
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if identity_of(pid) != identity:  # the handle stays with the process that is looked at here
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


class _Log(Struct, frozen=True):
    begins: int
    size: int
    path: Path


def _logs(home: Path) -> list[_Log]:
    """The kept pieces of the output, by where they begin in the whole."""
    found = []
    for path in home.glob(f"{LOG}*"):
        with contextlib.suppress(FileNotFoundError):
            found.append(_Log(int(path.name.removeprefix(LOG)), path.stat().st_size, path))
    return sorted(found, key=lambda log: log.begins)


def _end_of(logs: list[_Log]) -> int:
    return logs[-1].begins + logs[-1].size if logs else 0


def _stored(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None
