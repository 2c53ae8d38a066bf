"""A session as lines of JSON: out of one journal, and into another.

The first line says what the file is and how many items each stream has, so that a file that lost its end is
known for what it is. Every other line is one item: `{"stream", "seq", "fact"}`, the session's own items
first, then its runs in the order in which they began. Facts stand there as they are stored; but what they
stand on that is not in the file is written into them, so that a file is whole by itself.

An import reads and checks everything before it writes anything. Runs are then stored under a kind that no
list shows; the session's own stream, stored in one piece, is what makes the import count; and then the runs
are shown. So whatever happens, there is the whole session or nothing, and `finish_imports` tidies up behind a
process that died in between.

Nothing that is imported begins to work: a run without an end is ended as stopped, with what had been said and
done kept, and a message that nobody had answered is refused.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ImportRefused
from turnbuckle.journal.port import (
    Append,
    Changes,
    Claim,
    Grade,
    IndexUpdate,
    Item,
    Journal,
    JournalError,
    Reader,
    StreamQuery,
    StreamRow,
)
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.archive_file import (
    FORMAT,
    VERSION,
    Archive,
    ArchiveHead,
    ReadyRun,
    RunHead,
    made_ready,
)
from turnbuckle.runtime.conversation import Conversations, Link, merged
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.held_session import KIND, OPEN
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import READING, listed
from turnbuckle.runtime.transcript import UNDONE
from turnbuckle.session import facts as session_facts
from turnbuckle.session.facts import (
    SessionMade,
)
from turnbuckle.turn import facts as run_facts
from turnbuckle.turn.facts import (
    SESSION,
    RunStarted,
)
from turnbuckle.vocab.ids import RunId, SessionId

IMPORTING = "import"
"""The kind of a run that is on its way in."""
_LEASE = 60.0


class Imported(Struct, frozen=True):
    """What an import made."""

    session: SessionId
    title: str
    runs: int
    items: int


# Out


async def exported(journal: Reader, row: StreamRow, public: str, now: float) -> AsyncIterator[bytes]:
    """The lines of a session. What is added to it meanwhile is left out. `public` is its id as others know
    it."""
    runs = sorted(
        await listed(journal, StreamQuery(kind=RUN, parent=row.name)), key=lambda run: (run.created, run.name)
    )
    heads = [
        RunHead(run.name, await _count(journal, run.name), run.title, run.status, run.created) for run in runs
    ]
    items = await _count(journal, row.name)
    head = ArchiveHead(FORMAT, VERSION, public, items, row.title, row.created, row.updated, now, tuple(heads))
    yield msgspec.json.encode(head) + b"\n"
    streams = [(row.name, public, items), *((run.run, run.run, run.items) for run in heads)]
    closing = _Closing(journal, {run.name for run in runs})
    for name, shown, count in streams:
        label = msgspec.json.encode(shown)
        after, left = 0, count
        while left and (page := (await journal.read(name, after))[:left]):
            if not after:
                page[0] = Item(page[0].seq, await closing.first(SessionId(row.name), name, page[0].data))
            yield b"".join(
                b'{"stream":%b,"seq":%d,"fact":%b}\n' % (label, item.seq, item.data) for item in page
            )
            after, left = page[-1].seq, left - len(page)


class _Closing:
    """Makes the first facts of streams whole: nothing in them names what is not in the file."""

    def __init__(self, journal: Reader, inside: set[str]) -> None:
        self._conversations = Conversations(journal, READING)
        self._inside = inside

    async def first(self, session: SessionId, stream: str, data: bytes) -> bytes:
        if stream == session:
            made = session_facts.decode(data)
            if not isinstance(made, SessionMade) or not made.base:
                return data
            shared = await self._conversations.until(SESSION, session)
            whole = replace(made, history=shared.messages, base=RunId(""), opening=None)
            return session_facts.encode(whole)
        started = run_facts.decode(data)
        if not isinstance(started, RunStarted) or self._is_inside(started.base):
            return data
        link = Link(started.session, started.base, started.opening, started.messages)
        while not self._is_inside(link.base):
            link = merged(await self._conversations.link(link.base, link.session), link)
        return run_facts.encode(replace(started, messages=link.own, base=link.base, opening=link.opening))

    def _is_inside(self, base: RunId) -> bool:
        return base in ("", SESSION) or base in self._inside


async def _count(journal: Reader, stream: str) -> int:
    return sum([len(items) async for items in read_all(journal, stream)])


# In


class Importer:
    """Puts archives into a journal."""

    def __init__(self, journal: Journal, environment: Environment) -> None:
        self._journal = journal
        self._owner = environment.owner
        self._wall = environment.wall
        self._new_run = environment.new_run

    async def bring_in(self, archive: Archive, session: SessionId, user: str) -> Imported | None:
        """Make a session of it. Its runs get new ids, so that no line of it can name anything that is here.
        None if there is a session of that name."""
        journal = self._journal
        if await journal.head(session):
            return None
        ready = await asyncio.to_thread(made_ready, archive, session, self._new_run, self._wall())
        claim = await journal.claim(session, self._owner, _LEASE)
        if not isinstance(claim, Claim):
            return None
        runs: list[RunId] = []
        stored = False
        try:
            if claim.head:
                return None
            for run in ready.runs:
                runs.append(run.name)
                await self._store_run(run, session, user)
                await journal.renew(claim, _LEASE)
            note = IndexUpdate(kind=KIND, title=ready.title, status=OPEN, user=user, words=ready.title)
            shown = [(name, IndexUpdate(kind=RUN)) for name in runs]
            await journal.change_all(
                Changes(appends=(Append(session, ready.facts, 0, claim.epoch, note),), notes=shown)
            )
            stored = True
        finally:
            with suppress(JournalError):  # what is left lying is dropped by `finish_imports`
                await journal.release(claim)
                if not stored:
                    await journal.change_all(Changes(drops=(*runs, session)))
        return Imported(session, ready.title, len(runs), ready.items)

    async def _store_run(self, run: ReadyRun, session: SessionId, user: str) -> None:
        journal, name = self._journal, run.name
        note = IndexUpdate(
            kind=IMPORTING, parent=session, title=run.title, status=run.status, user=user, words=run.words
        )
        if run.undone:  # it is found by nothing
            note = replace(note, words="", mark=UNDONE, forgotten=True)
        await journal.note(
            name, IndexUpdate(kind=IMPORTING, parent=session)
        )  # so that what is left behind is known
        claim = await journal.claim(name, self._owner, _LEASE)
        if not isinstance(claim, Claim) or claim.head:
            raise ImportRefused(f"somebody begins a run {name} at this moment; try again")
        try:
            after = 0
            for place, chunk in enumerate(run.chunks, 1):
                last = place == len(run.chunks)
                grade, told = (Grade.SYNCED, note) if last else (Grade.FLUSHED, None)
                after = await journal.append(
                    name, chunk, after=after, epoch=claim.epoch, grade=grade, note=told
                )
                await journal.renew(claim, _LEASE)
        finally:
            await journal.release(claim)


async def finish_imports(journal: Journal, *, older_than: float) -> int:
    """What imports that died left: runs of a session that is there are shown, others are dropped. Imports
    that began after `older_than` may be under way and are left alone. Returns how many runs there were."""
    rows = [row for row in await listed(journal, StreamQuery(kind=IMPORTING)) if row.updated < older_than]
    for row in rows:
        if row.parent and await journal.head(row.parent):
            await journal.note(row.name, IndexUpdate(kind=RUN))
        else:
            await journal.drop(row.name)
    return len(rows)
