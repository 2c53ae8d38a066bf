"""What is kept, and for how long.

A run that ended long ago needs no bursts any more: nobody watches it being written. Bursts that follow each
other in one attempt become one, which holds the same words in the same order. Every other fact stays as it
is, with its number, and the fold of the run is the same. Runs that nobody can come back to are deleted:
answers that were not to be stored, and relays whose client has the conversation. Outputs that tools left in
files go with their runs.

A mark in the journal says up to which time everything was looked at. Whatever happens to a run later moves it
behind the mark, so a sweep reads only what has come of age since the last one.
"""

import asyncio
import logging
import secrets
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from turnbuckle.journal.port import (
    EPOCH_BITS,
    Claim,
    IndexUpdate,
    Item,
    Journal,
    JournalError,
    Merge,
    StreamQuery,
    StreamRow,
)
from turnbuckle.journal.tail import read_all
from turnbuckle.objects.port import ObjectStoreError
from turnbuckle.runtime.archive import finish_imports
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.ports import Wall
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, TOLD
from turnbuckle.runtime.undo import undo_name
from turnbuckle.tools.changes import FOLDER as CHANGES
from turnbuckle.turn.facts import RunStarted, Streamed, decode, encode
from turnbuckle.vocab.events import (
    Alive,
    CallArgs,
    CallNamed,
    CallStarted,
    ChoiceNoted,
    Cut,
    Ended,
    Event,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.ids import RunId

log = logging.getLogger("turnbuckle.retention")

KIND = "retention"
"""The kind of the streams that hold the marks, in their status."""
DELTAS = "retention:deltas"
RELAYS = "retention:relays"
SWEEP = "retention:sweep"
"""The stream that whoever sweeps holds meanwhile."""
SWEEP_SECONDS = 3600.0  # a sweep that takes longer is swept beside; the claim of a dead process ends with it
IMPORT_SECONDS = 3600.0  # far longer than any import takes
_PAGE = 50
STEP_ITEMS = 2000
"""Items that are merged in one transaction, about: others want to write, too."""
_MOST_BYTES = 1 << 20  # of one merged item: as much as one page of a reader
_CONTENT = (TextDelta, ReasoningDelta, RefusalDelta, CallArgs, CallStarted, CallNamed, ChoiceNoted)
"""What moves the time of a model's last word on."""


class Keeping(Struct, frozen=True):
    """The settings, in seconds. Zero: forever."""

    deltas: float = 0.0
    relays: float = 0.0


class Swept(Struct, frozen=True):
    """What one sweep did: runs whose bursts were merged, items that are gone, runs that were deleted,
    folders of outputs that went with their runs, objects of a store that nobody refers to."""

    merged: int = 0
    items: int = 0
    deleted: int = 0
    outputs: int = 0
    objects: int = 0


class ObjectUpkeep(Struct, frozen=True):
    """What a store of objects needs: `sweep` deletes what nobody refers to, and `catch_up` stores what could
    not be stored before. Both raise ObjectStoreError."""

    sweep: Callable[[], Awaitable[int]]
    catch_up: Callable[[], Awaitable[int]] | None = None


class Retention:
    """Sweeps one journal. `folder` is where the tools' outputs and the contents of changed files lie;
    `deleted` is told of every run that is about to be deleted."""

    def __init__(
        self,
        journal: Journal,
        keeping: Keeping,
        folder: Path,
        *,
        wall: Wall,
        deleted: Callable[[RunId], Awaitable[None]],
        objects: ObjectUpkeep | None = None,
    ) -> None:
        self._journal = journal
        self._keeping = keeping
        self._folder = folder
        self._wall = wall
        self._deleted = deleted
        self._objects = objects

    async def sweep(self) -> Swept:
        """Everything that is due now. Raises JournalError; what was done by then stays done."""
        now = self._wall()
        deleted, merged, items = 0, 0, 0
        async with self._alone() as alone:
            if alone:
                await finish_imports(self._journal, older_than=now - IMPORT_SECONDS)
                deleted = await self._delete_relays(now) if self._keeping.relays else 0
                merged, items = await self._merge_deltas(now) if self._keeping.deltas else (0, 0)
        outputs = await prune_outputs(self._journal, self._folder)
        return Swept(merged, items, deleted, outputs, await self._look_after_objects())

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Whether no other node sweeps at this moment. What one does need not be done by all, and they would
        merge the same items."""
        await self._journal.note(SWEEP, IndexUpdate(kind=KIND))  # so that it is known for what it is
        claim = await self._journal.claim(SWEEP, f"sweep {secrets.token_hex(4)}", SWEEP_SECONDS)
        try:
            yield isinstance(claim, Claim)
        finally:
            if isinstance(claim, Claim):
                with suppress(JournalError):  # a claim that is not given back ends by itself
                    await self._journal.release(claim)

    async def _look_after_objects(self) -> int:
        if self._objects is None:
            return 0
        try:
            if self._objects.catch_up is not None:
                await self._objects.catch_up()
            return await self._objects.sweep()
        except ObjectStoreError as error:  # the next sweep does it
            log.warning("the objects cannot be looked after now: %s", error)
            return 0

    async def _delete_relays(self, now: float) -> int:
        until = now - self._keeping.relays
        count = 0
        for kind in (RUN, TOLD):
            async for row in self._between(kind, await self._mark(f"{RELAYS}:{kind}"), until):
                if row.status != RUNNING and (kind == TOLD or await self._is_relay(row)):
                    await self._deleted(RunId(row.name))
                    count += await self._journal.drop(row.name)
            await self._set_mark(f"{RELAYS}:{kind}", until)
        return count

    async def _merge_deltas(self, now: float) -> tuple[int, int]:
        until = now - self._keeping.deltas
        runs = items = 0
        async for row in self._between(RUN, await self._mark(DELTAS), until):
            if row.status == RUNNING:
                continue
            if gone := await merge_run(self._journal, row.name):
                runs, items = runs + 1, items + gone
        await self._set_mark(DELTAS, until)
        return runs, items

    async def _between(self, kind: str, since: float, until: float) -> AsyncIterator[StreamRow]:
        """What was last touched in this time, the newest first."""
        place = (until, "")
        while page := await self._journal.streams(StreamQuery(kind=kind), place, _PAGE):
            for row in page:
                if row.updated < since:
                    return
                yield row
                await asyncio.sleep(0)  # others want to read too
            place = page[-1].place

    async def _is_relay(self, row: StreamRow) -> bool:
        """Whether nobody can come back to this run: it belongs to no session that is there, and its answer
        was not to be stored, or its client sends the whole conversation each time."""
        if await self._journal.streams(StreamQuery(kind=SESSION, name=row.parent), limit=1):
            return False
        first = await self._journal.read(row.name, 0, 1)
        started = decode(first[0].data) if first else None
        if not isinstance(started, RunStarted):
            return False
        is_stateless = started.origin.surface == "chat" and not started.options.own_tools
        return is_stateless or not started.origin.store

    async def _mark(self, name: str) -> float:
        rows = await self._journal.streams(StreamQuery(kind=KIND, name=name), limit=1)
        return float(rows[0].status) if rows else 0.0

    async def _set_mark(self, name: str, until: float) -> None:
        if until > await self._mark(name):
            await self._journal.note(name, IndexUpdate(kind=KIND, status=repr(until)))


async def prune_outputs(journal: Journal, folder: Path) -> int:
    """Remove the outputs of runs that are gone, what they had changed, and that it was undone. Returns how
    many folders went."""
    count = 0
    for name in ("kept", CHANGES):
        for kept in await asyncio.to_thread(_folders, folder / name):
            if not await journal.head(kept.name):
                await journal.drop(undo_name(kept.name))
                await asyncio.to_thread(shutil.rmtree, kept, True)
                count += 1
    return count


def _folders(kept: Path) -> list[Path]:
    return sorted(entry for entry in kept.iterdir() if entry.is_dir()) if kept.is_dir() else []


async def merge_run(journal: Journal, run: str) -> int:
    """Merge the bursts of a run that has ended. Returns how many items it has less."""
    merging = Merging()
    async for items in read_all(journal, run):
        for item in items:
            merging.take(item)
        await asyncio.sleep(0)
    gone = 0
    for merges, count in in_steps(merging.done(), merging.counts):
        if not await journal.merge(run, merges):
            break
        gone += count
        await asyncio.sleep(0)
    return gone


def in_steps(merges: Sequence[Merge], counts: Sequence[int]) -> Iterator[tuple[list[Merge], int]]:
    """Merges in pieces that hold nobody up, each with how many items it takes away, of which `counts` has
    those of each merge."""
    step: list[Merge] = []
    count = 0
    for merge, taken in zip(merges, counts, strict=True):
        step.append(merge)
        count += taken
        if count >= STEP_ITEMS:
            yield step, count
            step, count = [], 0
    if step:
        yield step, count


class Merging:
    """`take` the items of a run in their order; `done` gives what becomes of them."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        """By merges: how many items it takes away."""
        self._merges: list[Merge] = []
        self._bursts: list[tuple[Item, Streamed]] = []
        self._size = 0

    def take(self, item: Item) -> None:
        fact = decode(item.data)
        if not isinstance(fact, Streamed):
            self._close()
        else:
            if self._bursts and not self._belongs(item, fact):
                self._close()
            self._bursts.append((item, fact))
            self._size += len(item.data)
            if fact.events and isinstance(fact.events[-1], (Ended, Cut)):
                self._close()

    def done(self) -> list[Merge]:
        self._close()
        return self._merges

    def _belongs(self, item: Item, fact: Streamed) -> bool:
        before, last = self._bursts[-1]
        same_epoch = before.seq >> EPOCH_BITS == item.seq >> EPOCH_BITS
        return same_epoch and last.attempt == fact.attempt and self._size + len(item.data) <= _MOST_BYTES

    def _close(self) -> None:
        """Words, and what came behind the last of them, stay apart: when something was last heard is told by
        it."""
        bursts, self._bursts, self._size = self._bursts, [], 0
        heard = [place for place, (_, fact) in enumerate(bursts) if _is_heard(fact)]
        cut = heard[-1] + 1 if heard else 0
        for group in (bursts[:cut], bursts[cut:]):
            if len(group) > 1:
                self._merges.append(_merged(group))
                self.counts.append(len(group) - 1)


def _merged(group: list[tuple[Item, Streamed]]) -> Merge:
    first, last = group[0], group[-1]
    begins = first[0].seq - max(first[1].merged - 1, 0)
    events = joined(event for _, fact in group for event in fact.events)
    merged = Streamed(last[1].at, last[1].attempt, events, last[0].seq - begins + 1, price=last[1].price)
    return Merge(first[0].seq, Item(last[0].seq, encode(merged)))


def _is_heard(fact: Streamed) -> bool:
    return any(isinstance(event, _CONTENT) for event in fact.events)


def joined(events: Iterable[Event]) -> tuple[Event, ...]:
    """The same words in the same order, in as few events as can be. Signs of life, and counts of tokens that
    another one replaced, are left out."""
    made: list[Event] = []
    pieces: list[str] = []
    counted: int | None = None

    def close() -> None:
        if len(pieces) > 1:
            made[-1] = type(made[-1])(made[-1].block, "".join(pieces))  # type: ignore[union-attr, call-arg, arg-type]
        pieces.clear()

    for event in events:
        match event:
            case Alive():
                continue
            case TextDelta() | ReasoningDelta() | RefusalDelta() | CallArgs():
                if pieces and type(made[-1]) is type(event) and made[-1].block == event.block:
                    pieces.append(event.text)
                    continue
                close()
                pieces.append(event.text)
            case UsageNoted() if counted is not None:
                made[counted] = event
                continue
            case UsageNoted():
                close()
                counted = len(made)
            case _:
                close()
        made.append(event)
    close()
    return tuple(made)
