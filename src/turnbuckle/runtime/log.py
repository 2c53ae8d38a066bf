"""A run's own end of the journal: facts are appended here and nowhere else, in one order, under one claim.

A store that is full or fails for a while does not end a run. Whoever appends waits here until the store takes
it, and everything of the run waits with it: the model's stream, a tool's result, a wish to stop. What a store
raises that will not pass by itself is raised here too, and so is everything once the run is to be let go of.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from turnbuckle.journal.port import Claim, Conflict, Grade, IndexUpdate, Journal, StorageError
from turnbuckle.runtime.consent_book import OwnersRules
from turnbuckle.runtime.lease import LEASE, is_held
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
    Streamed,
    SummaryDropped,
    ToolFinished,
    ToolStarted,
    UserSpoke,
    Waited,
    decode,
    encode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.messages import Message

_SURE = frozenset(
    {
        RunStarted,
        RunClaimed,
        Decided,
        Compacted,
        SummaryDropped,
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
_LAST_WORDS = (Ended, Cut)
_ASKED = 2
"""Passes of the loop after which the request of a run that has begun is on its way: its driver goes on in the
next one, and writes it if a connection is free."""
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
    could be lost. Only the beginning of a run is folded before, to make the first request of it meanwhile."""

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
        self.lease = LEASE
        self.given: OwnersRules | None = None
        """What the owner of the run has allowed for good, to be looked at before calls are judged."""
        self.elapsed = elapsed
        self._marked_at = elapsed() if elapsed is not None else 0.0
        self._watch = watch
        self.head = claim.head
        self.waits = 0
        """How many times in a row nothing more was stored than that the run waits."""
        self._folded = 0
        self._journal = journal
        self._claim = claim
        self._lock = asyncio.Lock()
        self._on_its_way: Streamed | None = None
        self._unstored: Streamed | None = None
        """A burst that the store did not take. Nothing is stored before it."""
        self._mistake: Exception | None = None
        """What went wrong as a stored burst was taken in. Nothing can follow it."""
        self._landing: asyncio.Future[None] | None = None
        self._trying: asyncio.Task[None] | None = None
        self._is_let_go = False
        self._beginning: list[Fact] | None = None
        """What the run begins with, while it is taken in and not stored."""
        self._is_stored_now = False
        self._untold: list[Fact] = []
        """What is stored of the beginning, and not seen by `watch` yet."""
        self._base_of = base_of or _no_base

    @property
    def stream(self) -> str:
        return self._claim.stream

    async def load(self) -> int:
        """Fold all that is stored and not yet folded. Returns how many facts there were."""
        count = 0
        async with self._lock:
            await self._settle()
            while items := await self._journal.read(self.stream, self._folded):
                for item in items:
                    fact = decode(item.data)
                    if isinstance(fact, RunStarted) and fact.base:
                        self.fold.base = await self._base_of(fact)
                    self._take(fact)
                    if fact == self._unstored:  # a try that was broken off had done it
                        self._unstored = None
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
            if self._on_its_way or self._unstored or self._mistake:
                await self._land(waits)
            turn = self.fold.turn
            if turn.phase == "ended" or (only_if is not None and not only_if(turn)):
                return False
            facts = self._marked(self._with_added(facts))
            items = [encode(fact) for fact in facts]
            head = await self._stored(items, grade, note, waits)
            try:
                if type(facts[-1]) is Streamed:
                    await asyncio.sleep(0)  # whoever reads it has the word before anything is made of it here
            finally:
                self.head = self._folded = head
                if self.elapsed is not None:
                    self._marked_at = self.elapsed()  # what the store took is nobody's work
                for fact in facts:
                    self._take_in(fact)
        return True

    async def begin(self, facts: Sequence[Fact]) -> None:
        """Take in what a run begins with, before `store_beginning` stores it. Until that is done nothing else
        is stored, so nothing is shown and no tool is run. Only the first request is made meanwhile."""
        await self._lock.acquire()
        self._beginning = []
        self.append_to_beginning(facts)

    def append_to_beginning(self, facts: Sequence[Fact]) -> bool:
        """Take in facts that are to be stored together with the beginning. False if that is too late: then
        they are to be appended."""
        if self._beginning is None or self._is_stored_now:
            return False
        for fact in self._marked(facts):
            self._beginning.append(fact)
            self._take(fact)
        if self.elapsed is not None:
            self._marked_at = self.elapsed()
        return True

    async def store_beginning(self, note: IndexUpdate | None = None, grade: Grade = Grade.SYNCED) -> None:
        """Store what the run begins with, all or none. Raises `JournalError`: then nothing of the run is
        stored, and nothing ever will be from here."""
        facts = self._beginning
        assert facts is not None
        try:
            await asyncio.sleep(0)  # whoever drives the run comes as far as its first request
            self._is_stored_now = True
            items = [encode(fact) for fact in facts]
            self.head = self._folded = await self._stored(items, grade, note, waits=False)
            if self.elapsed is not None:
                self._marked_at = self.elapsed()
            if self._watch is not None:
                self._untold = facts
                self._tell_beginning_after(_ASKED)
        except BaseException:
            self._mistake = RuntimeError(f"the beginning of the run {self.stream} was not stored")
            raise
        finally:
            self._beginning = None
            self._lock.release()

    def _tell_beginning_after(self, passes: int) -> None:
        if passes:
            asyncio.get_running_loop().call_soon(self._tell_beginning_after, passes - 1)
        else:
            self._tell_beginning()

    def _tell_beginning(self) -> None:
        facts, self._untold = self._untold, []
        if self._watch is not None:
            for fact in facts:
                self._watch(self.stream, fact)

    async def beginning_stored(self) -> None:
        """Wait until what the run begins with is stored: nobody outside hears of it before. Raises if it
        could not be."""
        if self._beginning is not None:
            async with self._lock:
                pass
            if self._mistake is not None:
                raise self._mistake

    @property
    def is_free(self) -> bool:
        """Whether nothing is on its way that has to be waited for first."""
        return not (self._on_its_way or self._unstored or self._mistake or self._lock.locked())

    def append_soon(self, at: float, attempt: int, events: tuple[Event, ...]) -> bool:
        """Begin to store a burst of the model that decides nothing, as nearly every one; it is taken in when
        it is stored. False if it does, or something else has to be waited for first: then nothing was begun,
        and it is to be appended. Whatever is appended next waits for it."""
        if self._on_its_way or self._unstored or self._mistake or self._lock.locked():
            return False
        if self.fold.turn.phase == "ended" or isinstance(events[-1], _LAST_WORDS):
            return False
        now = 0.0
        worked: float | UnsetType = UNSET
        if self.elapsed is not None:
            now = self.elapsed()
            worked = round(now - self._marked_at, 3) if now > self._marked_at else 0.0
        fact = Streamed(at, attempt, events, worked=worked)
        claim, item = self._claim, encode(fact)
        self._on_its_way = fact
        begun = self._journal.append_soon(
            claim.stream, item, after=self.head, epoch=claim.epoch, landed=self._landed
        )
        if begun:
            self._marked_at = now
        else:
            self._on_its_way = None
        return begun

    def _landed(self, head: int, error: StorageError | None) -> None:
        fact, self._on_its_way = self._on_its_way, None
        assert fact is not None
        if error is not None:
            self._unstored = fact  # it is tried again with whatever comes next, and if nothing does
            if self.sleep is not None and not self._is_let_go and (not self._trying or self._trying.done()):
                self._trying = asyncio.ensure_future(self._try_again(self.sleep))
        else:
            self.head = self._folded = head
            try:
                self.fold.take(fact)
                self.waits = 0
                if self._watch is not None:
                    if self._untold:
                        self._tell_beginning()
                    self._watch(self._claim.stream, fact)
            except Exception as mistake:  # whoever stores is not to suffer from it
                self._mistake = mistake
        if self._landing is not None and not self._landing.done():
            self._landing.set_result(None)

    async def _try_again(self, sleep: Sleep) -> None:
        """A model may be silent for long. Until then its last words would be kept from all who read it."""
        tries = 0
        while self._unstored is not None:
            await sleep(pause(tries))
            tries += 1
            try:
                async with self._lock:
                    await self._land(waits=False)
            except Exception as error:
                if not may_pass(error):
                    return  # whoever appends next is told

    async def let_go(self) -> None:
        """From here on nothing is stored but what is appended."""
        self._is_let_go = True
        if self._beginning is not None:
            async with self._lock:
                pass  # whoever goes on with the run finds its beginning
        self._tell_beginning()
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.wait({self._trying})

    async def _settle(self) -> None:
        if self._on_its_way is not None:
            self._landing = asyncio.get_running_loop().create_future()
            await self._landing

    async def _land(self, waits: bool) -> None:
        """Wait for the burst that is on its way, and store it again if that went wrong."""
        began = self.elapsed() if self.elapsed is not None else 0.0
        await self._settle()
        if self._mistake is not None:
            raise self._mistake
        if (fact := self._unstored) is not None:
            items = [encode(fact)]
            self.head = self._folded = await self._stored(items, Grade.FLUSHED, None, waits, again=True)
            self._unstored = None
            try:
                self._take_in(fact)
            except Exception as mistake:
                self._mistake = mistake
                raise
        if self.elapsed is not None:
            self._marked_at += self.elapsed() - began  # what the store took is nobody's work

    def _take_in(self, fact: Fact) -> None:
        self._take(fact)
        if self._watch is not None:
            if self._untold:
                self._tell_beginning()
            self._watch(self._claim.stream, fact)

    def _take(self, fact: Fact) -> None:
        self.fold.take(fact)
        self.waits = self.waits + 1 if isinstance(fact, Waited) else 0

    async def _stored(
        self,
        items: list[bytes],
        grade: Grade,
        note: IndexUpdate | None,
        waits: bool,
        *,
        again: bool = False,
    ) -> int:
        tries = 0
        while True:
            try:
                claim = self._claim
                return await self._journal.append(
                    claim.stream, items, after=self.head, epoch=claim.epoch, grade=grade, note=note
                )
            except (StorageError, OSError) as error:
                if self.sleep is None or not waits or not may_pass(error):
                    raise
                if not tries:
                    log.warning("the run %s waits for the store: %s", self.stream, error)
                await self.sleep(pause(tries))
                tries += 1
            except Conflict as conflict:
                if (again or tries) and (head := await self._is_there(items, conflict.head)):
                    return head  # the store had said that it failed, and had done it all the same
                raise

    async def _is_there(self, items: list[bytes], head: int) -> int:
        """The number of the last of these items, if they are what the stream ends with; else 0."""
        stored = await self._journal.read(self.stream, self.head, len(items) + 1)
        return head if [item.data for item in stored] == items else 0

    def _with_added(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts, with what the run added to its conversation beside its end."""
        ended = facts[-1]
        if not isinstance(ended, RunEnded):
            return facts
        turn = self.fold.after(facts[:-1])
        if turn is None or turn.phase == "new":
            return facts
        compaction = turn.compaction if turn.told_by == turn.run else None
        left = len(turn.messages) - turn.measured
        measure = None if turn.measure is None else replace(turn.measure, left=left)
        words_only = turn.words_only[:-1] if turn.on_trial else turn.words_only
        added = turn.added
        fits = sum(map(_size, added)) <= MOST_ADDED
        ended = replace(
            ended,
            compaction=compaction,
            measure=measure,
            drafted=turn.drafted,
            spent=turn.tally.spent,
            routes=turn.tally.routes,
            words_only=words_only,
            added=added if fits else ended.added,
        )
        return [*facts[:-1], ended]

    def _marked(self, facts: Sequence[Fact]) -> Sequence[Fact]:
        """The facts, the first of them with the seconds that were worked since the last ones."""
        if self.elapsed is None:
            return facts
        took = round(max(self.elapsed() - self._marked_at, 0.0), 3)
        marked: list[Fact] = []
        for fact in facts:
            is_timed = getattr(fact, "worked", None) is UNSET
            marked.append(replace(fact, worked=took) if is_timed else fact)
            took = 0.0 if is_timed else took
        return marked

    def moment(self, wall: Callable[[], float]) -> float:
        """Now, as the turn counts its time: from its last fact on, only work moves it."""
        if self.elapsed is None:
            return wall()
        return self.fold.turn.now + self.fold.unsettled + max(self.elapsed() - self._marked_at, 0.0)

    async def settled(self) -> None:
        """Wait for an append that is under way, until what it stored is folded too."""
        async with self._lock:
            await self._settle()

    async def caught_up(self) -> None:
        """The same, but only if the store has it already: one that takes nothing is not waited for."""
        is_under_way = self._lock.locked() or self._on_its_way is not None
        if is_under_way and await self._journal.head(self.stream) > self.head:
            await self.settled()

    async def wait(self) -> None:
        """Wait until more is stored than is known here."""
        await self._journal.wait(self.stream, self.head)

    async def is_held(self) -> bool:
        """Whether this process may still act for the run."""
        return await is_held(self._journal, self._claim, self.lease)
