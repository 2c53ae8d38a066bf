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

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ImportRefused
from turnbuckle.journal.port import (
    Append,
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
from turnbuckle.runtime.conversation import Conversations, Link, merged
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.held_session import KIND, OPEN
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import READING, listed
from turnbuckle.session import facts as session_facts
from turnbuckle.session.facts import (
    MessageAccepted,
    MessageInjected,
    MessageRefused,
    RunDeleted,
    SessionFact,
    SessionMade,
    Suspended,
    TakenUp,
    Undone,
)
from turnbuckle.session.state import fold
from turnbuckle.turn import facts as run_facts
from turnbuckle.turn.commands import Record, SettleTool
from turnbuckle.turn.facts import (
    SESSION,
    Fact,
    RunClaimed,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import unknown

FORMAT = "turnbuckle.session"
VERSION = 1
IMPORTING = "import"
"""The kind of a run that is on its way in."""
LONGEST_TITLE = 200
_LEASE = 60.0
_CHUNK = 500
_CHUNK_BYTES = 1 << 20  # one append: as much as one page of a reader
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunHead(Struct, frozen=True):
    """One run in the first line."""

    run: str
    items: int
    title: str = ""
    status: str = ""
    created: float = 0.0


class ArchiveHead(Struct, frozen=True):
    """The first line."""

    format: str
    version: int
    session: str
    items: int
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    exported: float = 0.0
    runs: tuple[RunHead, ...] = ()


class _Line(Struct, frozen=True):
    stream: str
    seq: int
    fact: msgspec.Raw


class Archive(Struct, frozen=True):
    """A file that was read and found good."""

    head: ArchiveHead
    facts: tuple[SessionFact, ...]
    runs: tuple[tuple[RunHead, tuple[Fact, ...]], ...]


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
    count, after = 0, 0
    while items := await journal.read(stream, after):
        count, after = count + len(items), items[-1].seq
    return count


# In


def read_archive(lines: Iterable[bytes]) -> Archive:
    """Read a file, all of it. Raises ImportRefused, which names the line."""
    numbered = _numbered(lines)
    head = _head(next(numbered, (1, b""))[1])
    own: list[SessionFact] = []
    runs: dict[str, list[Fact]] = {run.run: [] for run in head.runs}
    if len(runs) != len(head.runs):
        raise ImportRefused("line 1: a run is named twice")
    last: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for number, text in numbered:
        line = _parsed(number, text)
        is_own = len(own) < head.items  # they come first, and a run may have the session's name
        known = line.stream == head.session if is_own else line.stream in runs
        if not known:
            raise ImportRefused(f"line {number}: nothing of {line.stream[:100]!r} is expected here by line 1")
        if line.seq <= last[is_own].get(line.stream, 0):
            raise ImportRefused(f"line {number}: item {line.seq} of {line.stream} is out of order")
        last[is_own][line.stream] = line.seq
        try:
            if is_own:
                own.append(session_facts.decode(bytes(line.fact)))
            else:
                runs[line.stream].append(run_facts.decode(bytes(line.fact)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ImportRefused(f"line {number}: this is no fact that we know: {error}") from None
    return _checked(Archive(head, tuple(own), tuple((run, tuple(runs[run.run])) for run in head.runs)))


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _head(text: bytes) -> ArchiveHead:
    try:
        told = msgspec.json.decode(text)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ImportRefused(
                f'line 1: this is no exported session: it must begin with {{"format":"{FORMAT}"'
            )
        if told.get("version") != VERSION:
            known = f"this turnbuckle reads version {VERSION}"
            raise ImportRefused(f"line 1: the file has version {told.get('version')!r}, and {known}")
        head = msgspec.convert(told, ArchiveHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImportRefused(f"line 1: this is no exported session: {error}") from None
    if bad := next((run.run for run in head.runs if not _RUN_NAME.fullmatch(run.run)), None):
        raise ImportRefused(f"line 1: {bad[:100]!r} cannot be the name of a run")
    return head


def _parsed(number: int, text: bytes) -> _Line:
    try:
        return msgspec.json.decode(text, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImportRefused(f"line {number} is broken: {error}") from None


def _checked(archive: Archive) -> Archive:
    """Whole, and able to be folded: what breaks a fold here would break the session later."""
    if len(archive.facts) != archive.head.items:
        raise ImportRefused(
            f"the session has {len(archive.facts)} items, and line 1 says {archive.head.items}"
        )
    made = archive.facts[0] if archive.facts else None
    if not isinstance(made, SessionMade):
        raise ImportRefused("the session does not begin with how it was made")
    if made.base:
        raise ImportRefused(f"the session stands on the run {made.base}, which is not in the file")
    bases: dict[RunId, RunId] = {}
    for run, facts in archive.runs:
        if len(facts) != run.items:
            raise ImportRefused(f"the run {run.run} has {len(facts)} items, and line 1 says {run.items}")
        if not facts or not isinstance(facts[0], RunStarted):
            raise ImportRefused(f"the run {run.run} does not begin with its task")
        bases[RunId(run.run)] = facts[0].base
        ends = [place for place, fact in enumerate(facts) if isinstance(fact, RunEnded)]
        if ends and ends != [len(facts) - 1]:
            raise ImportRefused(f"the run {run.run} goes on behind its end")
        _folded(run.run, facts)
    _check_bases(bases)
    return archive


def _check_bases(bases: dict[RunId, RunId]) -> None:
    """What each run stands on is in the file, and does not stand on the run itself."""
    sound = {RunId(""), SESSION}
    for run, base in bases.items():
        chain, name = [run], base
        while name not in sound:
            if name in chain or name not in bases:
                raise ImportRefused(f"the run {chain[-1]} stands on {name[:100]!r}, which is not before it")
            chain.append(name)
            name = bases[name]
        sound.update(chain)


def _folded(run: str, facts: Iterable[Fact]) -> TurnFold:
    made = TurnFold(READING)
    try:
        for fact in facts:
            made.take(fact)
    except (
        Exception
    ) as error:  # the facts are a stranger's: whatever they do to the fold, it is they who are wrong
        raise ImportRefused(f"the facts of the run {run} do not fit together: {error!r}") from None
    return made


class _Names(dict[str, RunId]):
    """The new id of each run that an archive names, also of one that is not in it: such an id means nothing
    here, so a forged line cannot lead to a run of somebody else."""

    def __init__(self, new: Callable[[], RunId]) -> None:
        super().__init__({"": RunId(""), SESSION: SESSION})
        self._new = new

    def __missing__(self, run: str) -> RunId:
        made = self[run] = self._new()
        return made


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
        names = _Names(self._new_run)
        claim = await journal.claim(session, self._owner, _LEASE)
        if not isinstance(claim, Claim):
            return None
        made: list[RunId] = []
        stored = False
        try:
            if claim.head:
                return None
            items = 0
            for run, facts in archive.runs:
                made.append(names[run.run])
                items += await self._store_run(
                    _renamed(run, facts, names, session, self._wall()), run, session, user
                )
                await journal.renew(claim, _LEASE)
            own = [session_facts.encode(fact) for fact in _own_facts(archive.facts, names, self._wall())]
            title = " ".join(archive.head.title.split())[:LONGEST_TITLE]
            note = IndexUpdate(kind=KIND, title=title, status=OPEN, user=user, words=title)
            shown = [(name, IndexUpdate(kind=RUN)) for name in made]
            await journal.change_all(
                appends=(Append(session, tuple(own), 0, claim.epoch, note),), notes=shown
            )
            stored = True
        finally:
            with suppress(JournalError):  # what is left lying is dropped by `finish_imports`
                await journal.release(claim)
                if not stored:
                    await journal.change_all(drops=(*made, session))
        return Imported(session, title, len(made), items + len(own))

    async def _store_run(self, facts: tuple[Fact, ...], run: RunHead, session: SessionId, user: str) -> int:
        started, ended = facts[0], facts[-1]
        assert isinstance(started, RunStarted)
        assert isinstance(ended, RunEnded)
        journal, name = self._journal, started.run
        title = " ".join(run.title.split())[:LONGEST_TITLE]
        words = _words(facts)
        note = IndexUpdate(
            kind=IMPORTING, parent=session, title=title, status=ended.outcome.kind, user=user, words=words
        )
        await journal.note(
            name, IndexUpdate(kind=IMPORTING, parent=session)
        )  # so that what is left behind is known
        claim = await journal.claim(name, self._owner, _LEASE)
        if not isinstance(claim, Claim) or claim.head:
            raise ImportRefused(f"somebody begins a run {name} at this moment; try again")
        try:
            after = 0
            chunks = list(_chunks([run_facts.encode(fact) for fact in facts]))
            for place, chunk in enumerate(chunks, 1):
                last = place == len(chunks)
                grade, told = (Grade.SYNCED, note) if last else (Grade.FLUSHED, None)
                after = await journal.append(
                    name, chunk, after=after, epoch=claim.epoch, grade=grade, note=told
                )
                await journal.renew(claim, _LEASE)
        finally:
            await journal.release(claim)
        return len(facts)


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


def _chunks(items: list[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item)
        if len(chunk) >= _CHUNK or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _renamed(
    run: RunHead, facts: tuple[Fact, ...], names: _Names, session: SessionId, now: float
) -> tuple[Fact, ...]:
    """The facts of a run under its new name, with an end."""
    started = facts[0]
    assert isinstance(started, RunStarted)
    begun = replace(started, run=names[run.run], session=session, base=names[started.base])
    whole = (begun, *facts[1:])
    return whole if isinstance(whole[-1], RunEnded) else (*whole, *_ending(run.run, whole, now))


def _ending(run: str, facts: tuple[Fact, ...], now: float) -> tuple[Fact, ...]:
    """What brings a run to its end as if it had been stopped where it stands."""
    made = _folded(run, facts)
    added: list[Fact] = []

    def take(*more: Fact) -> None:
        for fact in more:
            made.take(fact)
            added.append(fact)

    take(RunClaimed(now, 0), StopAsked(now, "import"))
    while due := made.due():
        match due[0]:
            case Record(more):
                take(*more)
            case SettleTool(call_id, name):
                take(ToolFinished(now, call_id, name, unknown("This session was exported while it ran.")))
            case other:
                raise ImportRefused(f"the run {run} cannot be ended: it wants {other}")
    return tuple(added)


def _own_facts(facts: tuple[SessionFact, ...], names: _Names, now: float) -> Iterator[SessionFact]:
    """The session's own facts with the new names of its runs. What nobody had answered is refused."""
    for fact in facts:
        match fact:
            case MessageAccepted():
                yield replace(fact, run=names[fact.run], into=names[fact.into])
            case MessageInjected() | Suspended() | TakenUp() | Undone() | RunDeleted():
                yield replace(fact, run=names[fact.run])
            case _:
                yield fact
    state = fold(facts)
    for message in (*state.waiting, *state.steering):
        yield MessageRefused(now, message.id, "the session was exported before it was answered")


def _words(facts: tuple[Fact, ...]) -> str:
    """By what a run is found: what the user said, and what the model answered."""
    said: list[str] = []
    for fact in facts:
        if isinstance(fact, RunStarted):
            fresh = fact.messages[len(fact.messages) - fact.fresh :]
            said += [text_of(message.parts) + "\n" for message in fresh if message.role == "user"]
        elif isinstance(fact, Streamed):
            said += [event.text for event in fact.events if isinstance(event, TextDelta)]
    return "".join(said)
