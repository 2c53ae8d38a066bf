"""That a person has undone what a run did to a file: facts in a stream beside the run, whose own facts have
an end. The wish is stored before anything is done about it, and what became of it behind that. So it is done
once, and a process that died in between is asked again and finds out by looking.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from turnbuckle.errors import RunHeld
from turnbuckle.journal.port import Grade, Held, IndexUpdate, Journal, Reader, StreamQuery
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.lease import LEASE
from turnbuckle.vocab.ids import RunId, SessionId

KIND = "undo"
"""The kind of these streams; the session is their parent."""
_MOST_TOLD = 20

State = Literal["asked", "done", "refused"]


class FileUndone(Struct, frozen=True, tag="file_undone", omit_defaults=True):
    """What a person wants of a file, or what became of that. `after` is the mark of what the run had left
    there."""

    at: float
    run: RunId
    path: str
    after: str
    state: State
    by: str = ""
    why: str = ""


_decoder = msgspec.json.Decoder(FileUndone)


def undo_name(run: str) -> str:
    return f"{KIND}:{run}"


async def undone_in(journal: Reader, run: RunId) -> tuple[FileUndone, ...]:
    """All that was undone of a run, or asked for."""
    found: list[FileUndone] = []
    async for items in read_all(journal, undo_name(run)):
        found += [_decoder.decode(item.data) for item in items]
    return tuple(found)


async def undone_since(journal: Reader, session: SessionId, since: float) -> tuple[FileUndone, ...]:
    """What was undone in a session after a moment."""
    rows = await journal.streams(StreamQuery(kind=KIND, parent=session), limit=_MOST_TOLD)
    found: list[FileUndone] = []
    for row in rows:
        if row.updated >= since:
            facts = await undone_in(journal, RunId(row.name.removeprefix(undo_name(""))))
            found += [fact for fact in facts if fact.state == "done" and fact.at >= since]
    return tuple(sorted(found, key=lambda fact: fact.at))


class UndoLog:
    """The stream of one run, claimed for as long as something is undone. Raises RunHeld if somebody else is
    at it."""

    def __init__(self, journal: Journal, environment: Environment, run: RunId, session: str) -> None:
        self._journal = journal
        self._owner = environment.owner
        self._wall = environment.wall
        self._run = run
        self._session = session

    async def __aenter__(self) -> "UndoLog":
        claim = await self._journal.claim(undo_name(self._run), self._owner, LEASE)
        if isinstance(claim, Held):
            raise RunHeld(f"{claim.by} undoes something of the run {self._run} at this moment")
        self._claim, self._head = claim, claim.head
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._journal.release(self._claim)

    async def write(self, path: str, after: str, state: State, by: str, why: str = "") -> FileUndone:
        fact = FileUndone(self._wall(), self._run, path, after, state, by, why)
        note = IndexUpdate(kind=KIND, parent=self._session)
        self._head = await self._journal.append(
            undo_name(self._run),
            [msgspec.json.encode(fact)],
            after=self._head,
            epoch=self._claim.epoch,
            grade=Grade.SYNCED,
            note=note,
        )
        return fact
