"""The file of an exported session: read, checked, and made ready to be stored. All of it is pure, so that it
can be done in a thread: a file is a stranger's, and may be made to take long.

What a live session could not have, an archive cannot bring: so many waiting messages, runs and changes. A
session is folded by whoever opens it, for as long as it lives, so a cap that is missing here is missing for
good.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import ImportRefused
from turnbuckle.runtime.runs import READING
from turnbuckle.session import facts as session_facts
from turnbuckle.session.facts import (
    CompactionUndone,
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
from turnbuckle.vocab.messages import words_of
from turnbuckle.vocab.tooling import unknown

FORMAT = "turnbuckle.session"
VERSION = 1
LONGEST_TITLE = 200
MOST_WAITING = 500
"""Messages that wait at once: as many as a server has runs, by `server.max_runs`."""
MOST_RUNS = 50_000
MOST_CHANGES = 10_000
"""Facts that give up, take up, take back or delete a run. Each is looked at by every later one."""
MOST_ITEMS = 1_000_000
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


def read_archive(lines: Iterable[bytes]) -> Archive:
    """Read a file, all of it. Raises ImportRefused, which names the line."""
    numbered = _numbered(lines)
    head = _head(next(numbered, (1, b""))[1])
    own: list[SessionFact] = []
    caps = _Caps()
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
                own.append(caps.take(session_facts.decode(bytes(line.fact))))
            else:
                runs[line.stream].append(run_facts.decode(bytes(line.fact)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ImportRefused(f"line {number}: this is not a fact that we know: {error}") from None
    return _checked(Archive(head, tuple(own), tuple((run, tuple(runs[run.run])) for run in head.runs)))


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, 1):
        if number > 2 * MOST_ITEMS:
            raise ImportRefused(f"line {number}: a file has at most {2 * MOST_ITEMS:,} lines")
        if line.strip():
            yield number, line


def _head(text: bytes) -> ArchiveHead:
    try:
        told = msgspec.json.decode(text)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            raise ImportRefused(
                f'line 1: this is not an exported session: it must begin with {{"format":"{FORMAT}"'
            )
        if told.get("version") != VERSION:
            known = f"this turnbuckle reads version {VERSION}"
            raise ImportRefused(f"line 1: the file has version {told.get('version')!r}, and {known}")
        head = msgspec.convert(told, ArchiveHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ImportRefused(f"line 1: this is not an exported session: {error}") from None
    items = head.items + sum(run.items for run in head.runs)
    if len(head.runs) > MOST_RUNS or items > MOST_ITEMS:
        raise ImportRefused(f"line 1: a session has at most {MOST_RUNS:,} runs and {MOST_ITEMS:,} items")
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
    fold = TurnFold(READING)
    try:
        for fact in facts:
            fold.take(fact)
    except (
        Exception
    ) as error:  # the facts are a stranger's: whatever they do to the fold, it is they who are wrong
        raise ImportRefused(f"the facts of the run {run} do not fit together: {error!r}") from None
    return fold


class _Caps:
    """No more than a live session may have, at any time of its life."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._changes = 0

    def take(self, fact: SessionFact) -> SessionFact:
        match fact:
            case MessageAccepted():
                self._waiting.add(fact.id)
                if len(self._waiting) > MOST_WAITING:
                    raise ImportRefused(f"more than {MOST_WAITING} messages wait in this session")
            case MessageInjected() | MessageRefused():
                self._waiting.discard(fact.id)
            case Suspended() | TakenUp() | Undone() | RunDeleted() | CompactionUndone():
                self._changes += 1
                if self._changes > MOST_CHANGES:
                    raise ImportRefused(f"more than {MOST_CHANGES:,} runs were given up or taken back here")
            case _:
                pass
        return fact


class _Names(dict[str, RunId]):
    """The new id of each run that an archive names, also of one that is not in it: such an id means nothing
    here, so a forged line cannot lead to a run of somebody else."""

    def __init__(self, new: Callable[[], RunId]) -> None:
        super().__init__({"": RunId(""), SESSION: SESSION})
        self._new = new

    def __missing__(self, run: str) -> RunId:
        name = self[run] = self._new()
        return name


class ReadyRun(Struct, frozen=True):
    """A run under its new name, as it is stored."""

    name: RunId
    title: str
    status: str
    words: str
    items: int
    chunks: tuple[tuple[bytes, ...], ...]
    undone: bool = False


class Ready(Struct, frozen=True):
    """An archive as it is stored."""

    title: str
    facts: tuple[bytes, ...]
    runs: tuple[ReadyRun, ...]

    @property
    def items(self) -> int:
        return len(self.facts) + sum(run.items for run in self.runs)


def made_ready(archive: Archive, session: SessionId, new_run: Callable[[], RunId], now: float) -> Ready:
    """The archive with new names for its runs, and an end for each of them. Raises ImportRefused."""
    names = _Names(new_run)
    undone = fold(archive.facts).undone
    runs = tuple(
        _ready_run(run, _renamed(run, facts, names, session, now), undone) for run, facts in archive.runs
    )
    own = tuple(session_facts.encode(fact) for fact in _own_facts(archive.facts, names, now))
    return Ready(_title(archive.head.title), own, runs)


def _ready_run(run: RunHead, facts: tuple[Fact, ...], undone: frozenset[RunId]) -> ReadyRun:
    started, ended = facts[0], facts[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(ended, RunEnded)
    chunks = tuple(_chunks([run_facts.encode(fact) for fact in facts]))
    title, status = _title(run.title), ended.outcome.kind
    return ReadyRun(started.run, title, status, _words(facts), len(facts), chunks, run.run in undone)


def _title(text: str) -> str:
    return " ".join(text.lstrip()[: 10 * LONGEST_TITLE].split())[:LONGEST_TITLE]


def _chunks(items: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    chunk: list[bytes] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(item)
        if len(chunk) >= _CHUNK or size >= _CHUNK_BYTES:
            yield tuple(chunk)
            chunk, size = [], 0
    if chunk:
        yield tuple(chunk)


def _renamed(
    run: RunHead, facts: tuple[Fact, ...], names: _Names, session: SessionId, now: float
) -> tuple[Fact, ...]:
    """The facts of a run under its new name, with an end."""
    started = facts[0]
    assert isinstance(started, RunStarted)
    begun = replace(
        started,
        run=names[run.run],
        session=session,
        base=names[started.base],
        compacted=names[started.compacted],
    )
    whole = (begun, *facts[1:])
    return whole if isinstance(whole[-1], RunEnded) else (*whole, *_ending(run.run, whole, now))


def _ending(run: str, facts: tuple[Fact, ...], now: float) -> tuple[Fact, ...]:
    """What brings a run to its end as if it had been stopped where it stands."""
    fold = _folded(run, facts)
    added: list[Fact] = []

    def take(*more: Fact) -> None:
        for fact in more:
            fold.take(fact)
            added.append(fact)

    take(RunClaimed(now, 0), StopAsked(now, "import"))
    while due := fold.due():
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
            case Undone() | CompactionUndone():
                yield replace(fact, run=names[fact.run], request=names[fact.request])
            case MessageInjected() | Suspended() | TakenUp() | RunDeleted():
                yield replace(fact, run=names[fact.run])
            case _:
                yield fact
    state = fold(facts)
    for message in (*state.waiting, *state.steering):
        yield MessageRefused(now, message.id, "the session was exported before it was answered")


def _words(facts: tuple[Fact, ...]) -> str:
    """By what a run is found: what the user said, and what the model answered."""
    words: list[str] = []
    for fact in facts:
        if isinstance(fact, RunStarted):
            fresh = fact.messages[len(fact.messages) - fact.fresh :]
            words += [words_of(message.parts) + "\n" for message in fresh if message.role == "user"]
        elif isinstance(fact, Streamed):
            words += [event.text for event in fact.events if isinstance(event, TextDelta)]
    return "".join(words)
