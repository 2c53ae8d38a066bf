"""What the commands about sessions do. Looking works beside a living server; changing needs the journal to itself."""

import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import msgspec
from msgspec import Struct

from turnbuckle.app import App as Opened
from turnbuckle.app import lanes_of, new_name, open_app, open_reader, writer_of
from turnbuckle.cli.run import Look, begun, checked_name, watched
from turnbuckle.config import Loaded
from turnbuckle.errors import ImportRefused, SessionBusy, SessionUnknown, TurnbuckleError
from turnbuckle.journal.port import InUse, Journal, Reader, StreamRow, Wanted
from turnbuckle.runtime.archive import Imported, Importer, exported, read_archive
from turnbuckle.runtime.lane import KIND, Lane
from turnbuckle.runtime.lanes import Lanes
from turnbuckle.runtime.retention import prune_outputs
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import READING, RUNNING, Runs, listed
from turnbuckle.runtime.sessions import Sessions, Told
from turnbuckle.server.names import LOCAL, public_session
from turnbuckle.session.state import SessionState
from turnbuckle.vocab.ids import RunId, SessionId

Verb = Literal["stop", "new", "reset", "undo"]
BY = "user"
LONGEST_FILE = 1 << 30  # bytes of a file to import, which is read into memory; years of talk have less
_SEARCHED = 200  # hits that are looked at: several runs of one session may fit


class JournalTaken(TurnbuckleError):
    """Another process has the journal."""


class Line(Struct, frozen=True):
    """A session in a list."""

    session: str
    owner: str
    title: str
    status: str
    created: float
    updated: float
    run: str | None = None
    snippet: str | None = None


class Shown(Struct, frozen=True):
    """A session and all that was said in it."""

    line: Line
    state: SessionState
    runs: tuple[StreamRow, ...]
    told: tuple[Told, ...]


class Done(Struct, frozen=True):
    """What was done to a session, as the server says it, too."""

    did: str
    run: str | None = None
    refused: tuple[str, ...] = ()


# Looking


async def lines(loaded: Loaded, limit: int, owner: str) -> list[Line]:
    """The sessions that something happened in last."""
    async with open_reader(loaded) as reader:
        if reader is None:
            return []
        lives = _writer(loaded, reader.has_writer)
        wanted = Wanted(kind=KIND, user=owner) if owner else Wanted(kind=KIND)
        return [await _line(reader, row, lives) for row in await reader.streams(wanted, limit=limit)]


async def found(loaded: Loaded, words: str, limit: int, owner: str) -> list[Line]:
    """Sessions whose title, questions or answers hold the words."""
    async with open_reader(loaded) as reader:
        if reader is None:
            return []
        lives = _writer(loaded, reader.has_writer)
        made: dict[str, Line] = {}
        for kind in (KIND, RUN):
            wanted = Wanted(kind=kind, user=owner) if owner else Wanted(kind=kind)
            for hit in await reader.search(words, wanted, _SEARCHED):
                name = hit.row.name if kind == KIND else hit.row.parent
                if name in made or len(made) >= limit:
                    continue
                for row in await reader.streams(Wanted(kind=KIND, name=name), limit=1):
                    made[name] = await _line(reader, row, lives, hit.snippet)
        return list(made.values())


async def shown(loaded: Loaded, text: str) -> Shown:
    """Raises SessionUnknown."""
    async with open_reader(loaded) as reader:
        row = await find_session(reader, text)
        assert reader is not None
        sessions, session = _only_reading(reader), SessionId(row.name)
        return Shown(
            await _line(reader, row, _writer(loaded, reader.has_writer)),
            await sessions.state(session),
            tuple(await sessions.runs_of(session)),
            tuple(await sessions.messages(session)),
        )


async def find_session(reader: Reader | None, text: str) -> StreamRow:
    """The session with this id, or the only one whose id contains the text; the latest without one. Raises
    SessionUnknown."""
    if reader is None:
        raise SessionUnknown("no sessions yet")
    wanted = Wanted(kind=KIND, name=text) if text else Wanted(kind=KIND)
    for row in await reader.streams(wanted, limit=1):
        return row
    if not text:
        raise SessionUnknown("no sessions yet")
    fits = [row for row in await listed(reader, Wanted(kind=KIND)) if text in row.name]
    if len(fits) == 1:
        return fits[0]
    if fits:
        names = ", ".join(row.name for row in fits[:5])
        raise SessionUnknown(f"{text} fits {len(fits)} sessions: {names}{' …' if len(fits) > 5 else ''}")
    raise SessionUnknown(f"there is no session {text}; `turnbuckle sessions list` shows them all")


async def export(loaded: Loaded, text: str, target: Path | None) -> tuple[StreamRow, int]:
    """Write a session to a new file, or to stdout. Returns its row and how many bytes that were. Raises
    SessionUnknown, and OSError."""
    async with open_reader(loaded) as reader:
        row = await find_session(reader, text)
        assert reader is not None
        pieces = exported(reader, row, public_session(row.user, row.name), time.time())
        if target is None:
            return row, await _write(pieces, sys.stdout.buffer)
        if target.exists():
            raise FileExistsError(f"{target} is there already, and is left alone")
        part = target.with_name(f"{target.name}.part")  # the file is whole, or not there
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                size = await _write(pieces, file)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return row, size


async def _write(pieces: AsyncIterator[bytes], file: IO[bytes]) -> int:
    size = 0
    async for piece in pieces:
        file.write(piece)
        size += len(piece)
    file.flush()
    return size


def _writer(loaded: Loaded, has_writer: bool) -> str:
    return writer_of(Path(loaded.settings.data)) if has_writer else ""


async def _line(reader: Reader, row: StreamRow, lives: str, snippet: str | None = None) -> Line:
    """A run without an end is only running while the living process holds it."""
    under_way = await reader.streams(Wanted(kind=RUN, parent=row.name, status=RUNNING), limit=1)
    run = under_way[0] if under_way else None
    status = "idle"
    if run is not None:
        status = "running" if lives and run.holder.startswith(lives) else "unfinished"
    elif row.status == "active":
        status = "waiting"
    name = run.name if run is not None else None
    return Line(row.name, row.user, row.title, status, row.created, row.updated, name, snippet)


class _Reading:
    """As much of `Runs` as it takes to read."""

    policy = READING


def _only_reading(reader: Reader) -> Sessions:
    """Sessions to look at. What changes one can not be asked of these."""
    return Sessions(cast(Journal, reader), cast(Runs, _Reading()), owner="", wall=time.time)


# Changing


class Hands:
    """A journal of one's own, and the sessions in it."""

    def __init__(self, opened: Opened, lanes: Lanes) -> None:
        self.opened = opened
        self.lanes = lanes
        self.sessions = Sessions(opened.journal, opened.runs, owner=opened.owner, wall=time.time)

    async def find(self, text: str) -> StreamRow:
        return await find_session(self.opened.journal, text)

    async def lane(self, row: StreamRow, running: Running | None = None) -> Lane:
        return await self.lanes.open(SessionId(row.name), row.user or LOCAL, running)


@asynccontextmanager
async def changing(loaded: Loaded, call: str, *, begins: bool = False, attended: bool = False) -> AsyncIterator[Hands]:
    """The journal to change. With `begins`, what waits in a session that is opened begins. `call` is what a running
    server can be asked instead. Raises JournalTaken."""
    try:
        async with open_app(loaded, attended=attended) as opened:
            lanes = lanes_of(opened, lambda running, user: None)
            if not begins:
                lanes.rest()
            try:
                yield Hands(opened, lanes)
            finally:
                await lanes.close()
    except InUse as error:
        server = loaded.settings.server
        base = f"http://{server.host}:{server.port}"
        raise JournalTaken(f"{error}. If it is a server, add --server {base}, which does: {call}") from None


async def changed(loaded: Loaded, text: str, verb: Verb) -> Done:
    """Stop a session, begin it anew, or take its last run back. Raises SessionUnknown, SessionBusy, JournalTaken."""
    async with changing(loaded, f"POST /v1/sessions/{text or 'ID'}/{verb}") as hands:
        row = await hands.find(text)
        left = await hands.sessions.running(SessionId(row.name))
        if verb == "undo":
            _refuse_beside(left)
            run = await (await hands.lane(row)).undo()
            return Done("nothing" if run is None else "undone", run)
        lane = await _stopping(hands, row, left)
        stopped = await lane.stop(BY) if verb == "stop" else await lane.begin_anew(verb, BY)
        if verb != "stop":
            return Done("begun_anew", stopped.run or left, stopped.refused)
        did = "stopped" if left or stopped.run or stopped.refused else "nothing"
        return Done(did, stopped.run or left, stopped.refused)


async def _stopping(hands: Hands, row: StreamRow, left: RunId | None) -> Lane:
    """The lane of a session; a run that has no end is asked to stop before it can do anything more."""
    if left is None:
        return await hands.lane(row)
    running = await hands.opened.runs.resume(left)
    running.stop(BY)
    lane = await hands.lane(row, running)
    await lane.suspend("stopped", left)
    await running.outcome()
    return lane


def _refuse_beside(left: RunId | None) -> None:
    if left is not None:
        way_out = f"`turnbuckle runs resume {left}` goes on with it, and `turnbuckle sessions stop` ends it"
        raise SessionBusy(f"the run {left} of this session has no end; {way_out}")


async def retried(loaded: Loaded, text: str, look: Look) -> int | None:
    """Say the last message again, and show what comes. None if there is none."""
    call = f"POST /v1/sessions/{text or 'ID'}/retry"
    async with changing(loaded, call, begins=True, attended=look.ask is not None) as hands:
        row = await hands.find(text)
        _refuse_beside(await hands.sessions.running(SessionId(row.name)))
        taken = await (await hands.lane(row)).retry()
        if taken is None:
            return None
        return await watched(hands.opened, lambda: begun(hands.opened, taken.run), look)


async def renamed(loaded: Loaded, text: str, title: str) -> str:
    async with changing(loaded, f"PATCH /v1/sessions/{text}") as hands:
        row = await hands.find(text)
        await hands.sessions.rename(SessionId(row.name), title)
        return row.name


async def forked(loaded: Loaded, text: str, name: str, title: str | None, run: str | None, after: int | None) -> str:
    """Returns the name of the new one. Raises SessionUnknown, and ConfigError for a name that can not be one."""
    async with changing(loaded, f"POST /v1/sessions/{text}/fork") as hands:
        row = await hands.find(text)
        owner = row.user or LOCAL
        new = checked_name(owner, name or new_name("s"))
        told = row.title if title is None else title
        session = SessionId(row.name)
        if not await hands.sessions.fork(session, new, owner, told, RunId(run) if run else None, after):
            raise SessionBusy(f"there is a session {new} already")
        return new


async def deleted(loaded: Loaded, text: str) -> str:
    async with changing(loaded, f"DELETE /v1/sessions/{text}") as hands:
        row = await hands.find(text)
        await hands.sessions.delete(SessionId(row.name))
        await prune_outputs(hands.opened.journal, Path(loaded.settings.data) / "kept")
        return row.name


async def imported(loaded: Loaded, file: Path, name: str, owner: str) -> Imported:
    """Raises ImportRefused, SessionBusy, OSError, and ConfigError for a name that can not be one."""
    with file.open("rb") as opened_file:
        if os.fstat(opened_file.fileno()).st_size > LONGEST_FILE:
            raise ImportRefused(f"{file} has more than {LONGEST_FILE >> 30} GiB")
        archive = read_archive(opened_file)
    async with changing(loaded, "POST /v1/sessions/import") as hands:
        opened = hands.opened
        importer = Importer(opened.journal, owner=opened.owner, wall=time.time, new_name=new_name)
        made = await importer.bring_in(archive, checked_name(owner, name or archive.head.session), owner)
        if made is None and not name:
            made = await importer.bring_in(archive, checked_name(owner, new_name("s")), owner)
        if made is None:
            raise SessionBusy(f"there is a session {name} already")
        return made


def rows_of(made: list[Line]) -> Iterator[dict[str, Any]]:
    for line in made:
        yield {key: value for key, value in msgspec.to_builtins(line).items() if value is not None}
