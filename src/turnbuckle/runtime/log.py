"""A run's own end of the journal: facts are appended here and nowhere else, in one order, under one claim."""

import asyncio
from collections.abc import Sequence

from turnbuckle.journal.port import Claim, Grade, Journal, Note
from turnbuckle.turn.facts import (
    Decided,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    RunClaimed,
    RunEnded,
    RunStarted,
    StopAsked,
    ToolFinished,
    ToolStarted,
    decode,
    encode,
)
from turnbuckle.turn.fold import TurnFold

_SURE = (
    RunStarted,
    RunClaimed,
    Decided,
    DraftKept,
    DraftGrown,
    DraftClosed,
    ToolStarted,
    ToolFinished,
    StopAsked,
    RunEnded,
)
"""What must survive a loss of power before anybody acts on it."""


class RunLog:
    """Appends facts and folds them. A fact is folded only when it is stored, so nothing is acted on that could be
    lost."""

    def __init__(self, journal: Journal, claim: Claim, fold: TurnFold) -> None:
        self.fold = fold
        self.head = claim.head
        self._journal = journal
        self._claim = claim
        self._lock = asyncio.Lock()

    @property
    def stream(self) -> str:
        return self._claim.stream

    async def load(self) -> int:
        """Fold all that is stored. Returns how many facts there were."""
        count, after = 0, 0
        while items := await self._journal.read(self.stream, after):
            for item in items:
                self.fold.take(decode(item.data))
                count += 1
            after = items[-1].seq
        self.head = max(self.head, after)
        return count

    async def append(self, facts: Sequence[Fact], note: Note | None = None) -> None:
        """Store facts, all or none, and take them in. Raises `JournalError`. Behind the end of a run nothing is
        stored: a late word of a tool, or a wish to stop, has nobody to tell it to any more."""
        if not facts:
            return
        grade = Grade.SURE if any(isinstance(fact, _SURE) for fact in facts) else Grade.SEEN
        items = [encode(fact) for fact in facts]
        async with self._lock:
            if self.fold.turn.phase == "ended":
                return
            self.head = await self._journal.append(
                self.stream, items, after=self.head, epoch=self._claim.epoch, grade=grade, note=note
            )
            for fact in facts:
                self.fold.take(fact)

    def still_mine(self) -> bool:
        """Whether this process may still act for the run."""
        return self._journal.still_mine(self._claim)
