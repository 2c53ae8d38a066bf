"""A run that is under way in this process, for whoever wants something of it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from turnbuckle.journal.port import Grade, IndexUpdate
from turnbuckle.runtime.consent_book import RuleBook
from turnbuckle.runtime.driver import Driver, PersonsAnswer
from turnbuckle.runtime.log import RunLog
from turnbuckle.turn.approvals import question
from turnbuckle.turn.facts import Fact, Waited
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome


class Running:
    """A run that this process drives. It stays the same through all of its lives: when its driver came to a
    halt, another one goes on."""

    def __init__(
        self, run: RunId, log: RunLog, driver: Driver, allowed: RuleBook, user: str | None = None
    ) -> None:
        self.run = run
        self.user = user
        """Whose it is; None if that is not known yet."""
        self.log = log
        self.leaving = ""
        """Why it is let go of, if it is."""
        self._driver = driver
        self._allowed = allowed
        self._work: asyncio.Task[Outcome] = asyncio.get_running_loop().create_future()  # type: ignore[assignment]

    async def begin(
        self, facts: tuple[Fact, ...], note: IndexUpdate, grade: Grade, work: Coroutine[Any, Any, Outcome]
    ) -> None:
        """Store what it begins with, while `work` begins to drive it: as far as the first request to its
        model, which waits for the store. Raises `JournalError`; then it is not driven any more."""
        await self.log.begin(facts)
        self.drive(work)
        try:
            await self.log.store_beginning(note, grade)
        except BaseException:
            self._work.cancel()  # at once: nothing may come of it any more
            await asyncio.wait({self._work})
            raise

    def drive(self, work: Coroutine[Any, Any, Outcome]) -> "asyncio.Task[Outcome]":
        """From here on this is the work that brings it to its end."""
        self._work = asyncio.create_task(work, name=f"run {self.run}")
        return self._work

    @property
    def driver(self) -> Driver:
        return self._driver

    def live_again(self, log: RunLog, driver: Driver) -> None:
        """Another driver goes on. A wish to stop stays."""
        if self._driver.stop.is_set():
            driver.stop.ask(self._driver.stop.by, keeps=self._driver.stop.keeps)
        self.log, self._driver = log, driver

    def stop(self, by: str = "user", *, keeps: bool = False) -> None:
        """Ask it to end. What is under way ends first, and says how. `keeps`: it is an interrupt, and the
        conversation goes on from what there is."""
        self._driver.stop.ask(by, keeps=keeps)

    async def answer(
        self, approval: str, verdict: PersonsAnswer, by: str, text: str = "", *, always: bool = False
    ) -> bool:
        """Give a person's answer to what the run has asked. False if nobody waits for it. `always`: the rules
        that the question came with hold from here on, in every run of its owner."""
        # Whoever brought the answer may go away meanwhile: the rule was given all the same.
        return await asyncio.shield(asyncio.ensure_future(self._answer(approval, verdict, by, text, always)))

    async def _answer(self, approval: str, verdict: PersonsAnswer, by: str, text: str, always: bool) -> bool:
        await self.log.settled()  # so that the question is known here, too
        asked = question(self.turn, approval)
        if not await self._driver.answer(approval, verdict, by, text, always):
            return False
        if always and asked is not None and self.user is not None:
            # No others of this run: one that was taken away since must not come back with these.
            await self._allowed.add(self.user, asked.always)
        return True

    async def steer(self, message: str, messages: tuple[Message, ...], origin: Origin) -> bool:
        """Say something into the turn that is under way. False if that has ended."""
        return await self._driver.steer(message, messages, origin)

    @property
    def waits_for_person(self) -> bool:
        """Whether nothing of it is under way but the wait for somebody's answer, which may take forever."""
        return self._driver.waits_for_person

    @property
    def waits(self) -> int:
        """How many times in a row it was only noted that it waits."""
        return self.log.waits

    async def note_wait(self, at: float) -> bool:
        """Store that it waits, unless it is let go of. Raises `JournalError`; nobody waits for the store
        here."""
        return await self.log.append([Waited(at)], only_if=lambda turn: not turn.left, waits=False)

    @property
    def turn(self) -> Turn:
        """Where it stands at this moment."""
        return self._driver.turn

    async def outcome(self) -> Outcome:
        """Wait for its end. Raises ClaimLost, or what the journal raises; the run is unfinished then."""
        return await asyncio.shield(self._work)

    async def over(self) -> None:
        """Wait until it is no longer driven here, whatever the reason is."""
        await asyncio.wait({self._work})

    @property
    def is_given_up(self) -> bool:
        """Whether its work was told to let go of it, also if the work made something else of that."""
        return self._work.cancelling() > 0

    async def abandon(self, before: Callable[[], None] = lambda: None) -> None:
        """Let go of it without an end, as a crash would, and wait until nothing of it is under way."""
        await asyncio.sleep(0)  # it has begun by then: a task that never did could not give its claim back
        before()
        self._work.cancel()
        await asyncio.wait({self._work})

    def when_done(self, call: Callable[[BaseException | None], None]) -> None:
        """Call this when it is over, with what it was let go of for, if it did not come to its end."""

        def over(work: "asyncio.Task[Outcome]") -> None:
            call(None if work.cancelled() else work.exception())

        self._work.add_done_callback(over)

    async def leave(self, why: str) -> None:
        """Let go of it in good order: it is marked, has no end, and can be taken up again. The mark is the
        last thing that is written, when nothing of it is under way any more."""
        self.leaving = why
        await self.abandon(before=self._driver.leaving.set)

    async def settled(self) -> None:
        """If it has its end, wait until it is let go of: whoever reads it knows of its end a moment before
        that, and before it is known here."""
        if self.turn.outcome is None and not self.done:
            await self.log.caught_up()
        if self.turn.outcome is not None:
            await asyncio.wait({self._work})

    @property
    def done(self) -> bool:
        return self._work.done()
