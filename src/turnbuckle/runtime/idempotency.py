"""Requests that count once: one that is sent again with the same `Idempotency-Key` gets the run of the first.

A key belongs to its user. Its record is a stream of the journal with one item, the fingerprint of the request
and the id of the run, and the record is sure before anything starts. So whoever brings the key later, at the
same moment, after a crash or after a restart, gets that id and no other. Nobody keeps a cursor into such a
stream, so its name may be used again when the record was swept.

Between the record and the first fact of its run a process may die, or have no room for the run. Then the
record names a run of which there is nothing, and the next who brings the key may start it, under that id.
`starting` lets one do so at a time. A run that was deleted is not started again as long as its record is
there.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec import Struct

from turnbuckle.journal.port import (
    Fenced,
    Grade,
    Held,
    IndexUpdate,
    Journal,
    JournalError,
    Reader,
    StreamQuery,
)
from turnbuckle.runtime.environment import Environment
from turnbuckle.vocab.ids import RunId

KIND = "once"
DELETED = "deleted"
MAX_KEY = 255
LEASE = 10.0
"""How long a record may be in the making. Two commits take milliseconds; a process that takes longer is
stuck."""
PATIENCE = 10.0
"""How long `starting` waits for the first fact of a run that was started. A disk that takes longer is
failing."""
_PAGE = 50


class New(Struct, frozen=True):
    """The key is new: start this run."""

    run: RunId


class Replay(Struct, frozen=True):
    """The same request came before, and this is its run. It may still have to be started."""

    run: RunId


class KeyConflict(Struct, frozen=True):
    """The key was used for another request."""


Reservation = New | Replay | KeyConflict


class _KeyRecord(Struct, frozen=True):
    fingerprint: str
    run: RunId
    at: float


class _Turn:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class Turns:
    """One at a time for each name. A name that nobody uses costs nothing."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(name, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[name]


class IdempotencyStore:
    """The records of one journal."""

    def __init__(self, journal: Journal, environment: Environment) -> None:
        self._journal = journal
        self._owner = environment.owner
        self._wall = environment.wall
        self._new_run = environment.new_run
        self._turns = Turns()
        self._under_way: set[asyncio.Task[Reservation]] = set()

    async def reserve(self, user: str, key: str, fingerprint: str) -> Reservation:
        """The run that belongs to this key of this user. When it returns, the answer survives a loss of
        power.

        Raises ValueError for a key in which `key_fault` finds one, and what the journal raises."""
        if fault := key_fault(key):
            raise ValueError(fault)
        work = asyncio.create_task(self._reserve(stream_of(user, key), user, fingerprint))
        self._under_way.add(work)
        work.add_done_callback(self._over)
        return await asyncio.shield(
            work
        )  # a client that goes away leaves no half record that others wait for

    async def _reserve(self, stream: str, user: str, fingerprint: str) -> Reservation:
        async with self._turns.of(stream):
            record = await self._read(stream)
            if record is None:
                mine = _KeyRecord(fingerprint, self._new_run(), self._wall())
                record = await self._write(stream, user, mine)
                if record is mine:
                    return New(mine.run)
        return Replay(record.run) if record.fingerprint == fingerprint else KeyConflict()

    def _over(self, work: "asyncio.Task[Reservation]") -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # whoever waits is told by `shield`; if nobody does, nobody needs to know

    @asynccontextmanager
    async def starting(self, run: RunId) -> AsyncIterator[bool]:
        """Whether the run is still to be started, by whoever is inside now; all others wait and are told no.

        If it was started inside, the next one is let in when its first fact is stored. If it was not, or if
        that fact does not come, the next one is told yes."""
        async with self._turns.of(run):
            fresh = await self._is_fresh(run)
            yield fresh
            if fresh and not await self._journal.head(run):
                await self.wait_for_first_fact(run)

    async def deleted(self, run: RunId) -> None:
        """The run is about to be deleted. Its key stays used, and it is not started again."""
        for name, note in await marks_of_deleted(self._journal, (run,)):
            await self._journal.note(name, note)

    async def sweep(self, older_than: float) -> int:
        """Drop the records that are older than so many seconds; their keys are new again. Returns how
        many."""
        count, place = 0, (self._wall() - older_than, "")
        while page := await self._journal.streams(StreamQuery(kind=KIND), place, _PAGE):
            for row in page:
                async with self._turns.of(row.name):
                    count += await self._journal.drop(row.name)
            place = page[-1].place
        return count

    async def wait_for_first_fact(self, run: RunId) -> None:
        """Of a run that somebody starts at this moment."""
        if await self._journal.streams(StreamQuery(name=run), limit=1):  # somebody claimed it
            with suppress(TimeoutError, JournalError):  # whatever went wrong, the next one may try
                async with asyncio.timeout(PATIENCE):
                    await self._journal.wait(run, 0)

    async def _read(self, stream: str) -> _KeyRecord | None:
        items = await self._journal.read(stream, limit=1)
        return msgspec.json.decode(items[0].data, type=_KeyRecord) if items else None

    async def _write(self, stream: str, user: str, record: _KeyRecord) -> _KeyRecord:
        """Store the record, unless another process was quicker. Returns the one that is stored."""
        data = msgspec.json.encode(record)
        kind = IndexUpdate(kind=KIND, user=user)
        note = IndexUpdate(kind=KIND, user=user, parent=record.run)
        while True:
            await self._journal.note(
                stream, kind
            )  # first, so that whatever is left behind is known for what it is
            claim = await self._journal.claim(stream, self._owner, LEASE)
            if isinstance(claim, Held):
                with suppress(TimeoutError):
                    async with asyncio.timeout(claim.seconds):
                        await self._journal.wait(stream, 0)
                if stored := await self._read(stream):
                    return stored
                continue
            try:
                if stored := await self._read(stream):
                    return stored
                await self._journal.append(
                    stream, [data], after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED, note=note
                )
                return record
            except Fenced:
                continue
            finally:
                with suppress(JournalError):  # a claim that is not given back ends by itself
                    await self._journal.release(claim)

    async def _is_fresh(self, run: RunId) -> bool:
        if await self._journal.head(run):
            return False
        return not await self._journal.streams(StreamQuery(kind=KIND, parent=run, status=DELETED), limit=1)


async def marks_of_deleted(journal: Reader, runs: Iterable[RunId]) -> list[tuple[str, IndexUpdate]]:
    """What is noted when these runs are deleted: no key begins them again, as long as it is known."""
    marks: list[tuple[str, IndexUpdate]] = []
    for run in dict.fromkeys(runs):
        marks += [
            (row.name, IndexUpdate(status=DELETED))
            for row in await journal.streams(StreamQuery(kind=KIND, parent=run))
        ]
    return marks


def key_fault(key: str) -> str:
    """What is wrong with a key, as a sentence for the client; empty if nothing is."""
    if not key:
        return "The Idempotency-Key is empty."
    if len(key) > MAX_KEY:
        return f"The Idempotency-Key has {len(key)} characters; at most {MAX_KEY} are allowed."
    if not (key.isascii() and key.isprintable()):
        return "The Idempotency-Key may hold only printable ASCII characters."
    return ""


def stream_of(user: str, key: str) -> str:
    """Where the record of a key is. No key holds a zero byte, so no two pairs have one name."""
    digest = hashlib.sha256(f"{user}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{KIND}:{digest}"
