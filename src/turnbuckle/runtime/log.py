"""A run's own end of the journal: facts are appended here and nowhere else, in one order, under one claim.

A store that is full or fails for a while does not end a run. Whoever appends waits here until the store takes
it, and everything of the run waits with it: the model's stream, a tool's result, a wish to stop. What a store
raises that will not pass by itself is raised here too, and so is everything once the run is to be let go of.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from turnbuckle.journal.port import Claim, Conflict, Grade, IndexUpdate, Journal, StorageError
from turnbuckle.runtime.lease import is_held
from turnbuckle.runtime.ports import Sleep
from turnbuckle.turn.base import Base
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    CallsHeld,
    Compacted,
    Decided,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    ToolFinished,
    ToolStarted,
    UserSpoke,
    Waited,
    decode,
    encode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.messages import Message

_SURE = frozenset(
    {
        RunStarted,
        RunClaimed,
        Decided,
        Compacted,
        DraftKept,
        DraftGrown,
        DraftClosed,
        ToolStarted,
        ToolFinished,
        ApprovalAsked,
        ApprovalAnswered,
        CallsHandedOver,
        CallsHeld,
        RunLeft,
        UserSpoke,
        StopAsked,
        RunEnded,
    }
)
"""What must survive a loss of power before anybody acts on it."""

Watch = Callable[[str, Fact], None]

BaseOf = Callable[[RunStarted], Awaitable[Base]]

MOST_ADDED = 8 << 20
"""Bytes of what a run added that are told beside its end. More is read from its facts."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0  # a store that is mended is used again within a few seconds

log = logging.getLogger("turnbuckle.run")


def may_pass(error: BaseException) -> bool:
    """Whether the same may work later, without anybody who mends anything but the store."""
    return error.passes if isinstance(error, StorageError) else isinstance(error, OSError)


def pause(tries: int) -> float:
    """Seconds until the store is asked again."""
    return min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE) if tries < 8 else _LONGEST_PAUSE


async def _no_base(_: RunStarted) -> Base:
    raise RuntimeError("this run stands on another one, and nobody said how to read that")


def _size(message: Message) -> int:
    return len(msgspec.json.encode(message))


class RunLog:
    """Appends facts and folds them. A fact is folded only when it is stored, so nothing is acted on that
    could be lost."""

    def __init__(
        self,
        journal: Journal,
        claim: Claim,
        fold: TurnFold,
        watch: Watch | None = None,
        sleep: Sleep | None = None,
        elapsed: Callable[[], float] | None = None,
        base_of: BaseOf | None = None,
    ) -> None:
        """`watch` sees every fact once it is stored. It must be quick, and must not raise. Without `sleep` no
        store is waited for. `elapsed` is a clock that goes on while this process works, and only then: facts
        are marked by it with the time that they took. `base_of` gives the history that a run stands on."""
        self.fold = fold
        self.sleep = sleep
        self._elapsed = elapsed
        self._marked_at = elapsed() if elapsed is not None else 0.0
        self._watch = watch
        self.head = claim.head
        self.waits = 0
        """How many times in a row nothing more was stored than that the run waits."""
        self._folded = 0
        self._journal = journal
        self._claim = claim
        self._lock = asyncio.Lock()
        self._base_of = base_of or _no_base

    @property
    def stream(self) -> str:
        return self._claim.stream

    async def load(self) -> int:
        """Fold all that is stored and not yet folded. Returns how many facts there were."""
        count = 0
        async with self._lock:
            while items := await self._journal.read(self.stream, self._folded):
                for item in items:
                    fact = decode(item.data)
                    if isinstance(fact, RunStarted) and fact.base:
                        self.fold.base = await self._base_of(fact)
                    self._take(fact)
                    count += 1
                self._folded = items[-1].seq
            self.head = max(self.head, self._folded)
        return count

    async def append(
        self,
        facts: Sequence[Fact],
        note: IndexUpdate | None = None,
        *,
        only_if: Callable[[Turn], object] | None = None,
        waits: bool = True,
    ) -> bool:
        """Store facts, all or none, and take them in. Raises `JournalError`. Behind the end of a run nothing
        is stored: a late word of a tool, or a wish to stop, has nobody to tell it to any more. With
        `only_if`, nothing is stored either if that does not hold when it is this append's turn. Where
        somebody is there to be told that the store fails, nothing `waits` for it. Returns whether it was
        stored."""
        if not facts:
            return False
        grade = Grade.FLUSHED if _SURE.isdisjoint(map(type, facts)) else Grade.SYNCED
        async with self._lock:
            turn = self.fold.turn
            if turn.phase == "ended" or (only_if is not None and not only_if(turn)):
                return False
            facts = self._marked(self._with_added(facts))
            items = [encode(fact) for fact in facts]
            self.head = await self._stored(items, grade, note, waits)
            self._folded = self.head
            if self._elapsed is not None:
                self._marked_at = self._elapsed()  # what the store took is nobody's work
            for fact in facts:
                self._take(fact)
                if self._watch is not None:
                    self._watch(self.stream, fact)
        return True

    def _take(self, fact: Fact) -> None:
        self.fold.take(fact)
        self.waits = self.waits + 1 if isinstance(fact, Waited) else 0

    async def _stored(self, items: list[bytes], grade: Grade, note: IndexUpdate | None, waits: bool) -> int:
        tries = 0
        while True:
            try:
                return await self._journal.append(
                    self.stream, items, after=self.head, epoch=self._claim.epoch, grade=grade, note=note
                )
            except (StorageError, OSError) as error:
                if self.sleep is None or not waits or not may_pass(error):
                    raise
                if not tries:
                    log.warning("the run %s waits for the store: %s", self.stream, error)
                await self.sleep(pause(tries))
                tries += 1
            except Conflict as conflict:
                if tries and (head := await self._is_there(items, conflict.head)):
                    return head  # the store had said that it failed, and had done it all the same
                raise

    async def _is_there(self, items: list[bytes], head: int) -> int:
        """The number of the last of these items, if they are what the stream ends with; else 0."""
        stored = await self._journal.read(self.stream, self.head, len(items) + 1)
        return head if [item.data for item in stored] == items else 0

    def _with_added(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts, with what the run added to its conversation beside its end."""
        ended = facts[-1]
        turn = self.fold.after(facts[:-1]) if isinstance(ended, RunEnded) else None
        if not isinstance(ended, RunEnded) or turn is None or turn.phase == "new":
            return facts
        compaction = turn.compaction if turn.told_by == turn.run else None
        left = len(turn.messages) - turn.measured
        measure = None if turn.measure is None else replace(turn.measure, left=left)
        ended = replace(
            ended, compaction=compaction, measure=measure, spent=turn.tally.spent, drafted=turn.drafted
        )
        fits = sum(map(_size, turn.added)) <= MOST_ADDED
        return [*facts[:-1], replace(ended, added=turn.added) if fits else ended]

    def _marked(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts, the first of them with the seconds that were worked since the last ones."""
        if self._elapsed is None:
            return facts
        took = round(max(self._elapsed() - self._marked_at, 0.0), 3)
        marked: list[Fact] = []
        for fact in facts:
            is_timed = getattr(fact, "worked", None) is UNSET
            marked.append(replace(fact, worked=took) if is_timed else fact)
            took = 0.0 if is_timed else took
        return marked

    def moment(self, wall: Callable[[], float]) -> float:
        """Now, as the turn counts its time: from its last fact on, only work moves it."""
        if self._elapsed is None:
            return wall()
        return self.fold.turn.now + self.fold.unsettled + max(self._elapsed() - self._marked_at, 0.0)

    async def settled(self) -> None:
        """Wait for an append that is under way, until what it stored is folded too."""
        async with self._lock:
            pass

    async def caught_up(self) -> None:
        """The same, but only if the store has it already: one that takes nothing is not waited for."""
        if self._lock.locked() and await self._journal.head(self.stream) > self.head:
            await self.settled()

    async def wait(self) -> None:
        """Wait until more is stored than is known here."""
        await self._journal.wait(self.stream, self.head)

    async def is_held(self) -> bool:
        """Whether this process may still act for the run."""
        return await is_held(self._journal, self._claim)
