"""Runs by name: start one, take one up again after a crash, and tell which are unfinished.

A run is a stream of the journal, and its name is the run's id. Whoever drives it holds its claim and renews it; when
the claim is lost the driver is stopped at once, and the fence keeps whatever it still wanted to write out of the
journal. A run that has no end and no driver is unfinished, and `resume` folds what is stored and goes on.

Runs belong to a session. A run of a session begins with the whole history of the one before it, exactly as the
provider saw it: nothing that was sent is edited later.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from turnbuckle.errors import ClaimLost, RunHeld, RunUnknown
from turnbuckle.journal.port import Claim, Fenced, Held, Journal, JournalError, Note, Reader, StreamRow, Wanted
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.ports import Model, Sleep, Tools, Wall
from turnbuckle.turn.facts import RunStarted, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import Price
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome

KIND = "run"
RUNNING = "running"
LEASE = 30.0
RENEWALS = 3
"""How often a claim is renewed in the time that it lasts."""
READING = Policy((RouteFacts(RouteName(""), "openai_chat", ""),))
"""Enough of a policy to read what happened. What comes next can not be asked with it."""
_TITLE = 100
_PAGE = 50


class Running:
    """A run that this process drives."""

    def __init__(self, run: RunId, driver: Driver, work: "asyncio.Task[Outcome]") -> None:
        self.run = run
        self._driver = driver
        self._work = work

    def stop(self, by: str = "user") -> None:
        """Ask it to end. What is under way ends first, and says how."""
        self._driver.stop.ask(by)

    async def outcome(self) -> Outcome:
        """Wait for its end. Raises ClaimLost, or what the journal raises; the run is unfinished then."""
        return await asyncio.shield(self._work)

    async def abandon(self) -> None:
        """Let go of it without an end, as a crash would, and wait until nothing of it is under way."""
        self._work.cancel()
        await asyncio.wait({self._work})

    @property
    def done(self) -> bool:
        return self._work.done()


class Runs:
    """All runs of one journal. `owner` names this process, and no other process ever has the same name."""

    def __init__(
        self,
        journal: Journal,
        policy: Policy,
        model: Model,
        tools: Callable[[RunId], Tools],
        *,
        owner: str,
        wall: Wall,
        sleep: Sleep,
        new_name: Callable[[str], str],
        opening: tuple[Message, ...] = (),
        price: Price | None = None,
    ) -> None:
        self._journal = journal
        self._policy = policy
        self._model = model
        self._tools = tools
        self._owner = owner
        self._wall = wall
        self._sleep = sleep
        self._new_name = new_name
        self._opening = opening
        self._price = price

    async def start(self, task: str, session: SessionId | None = None) -> Running:
        """Begin a run, in a session that goes on or in a new one."""
        history = self._opening if session is None else await self.history(session)
        session = session or SessionId(self._new_name("s"))
        run = RunId(self._new_name("r"))
        claim = await self._claim(run)
        title = " ".join(task.split())[:_TITLE]
        note = Note(kind=KIND, parent=session, title=title, status=RUNNING)
        started = RunStarted(self._wall(), run, session, (*history, task_message(task)))
        driver = self._driver(claim)
        return self._driven(claim, driver, driver.start(started, note))

    async def resume(self, run: RunId) -> Running:
        """Take up a run where its journal ends. One that has ended gives its outcome again. Raises RunHeld."""
        if not await self._journal.head(run):
            raise RunUnknown(f"there is no run {run}")
        claim = await self._claim(run)
        driver = self._driver(claim)
        return self._driven(claim, driver, driver.resume(claim.epoch))

    async def unfinished(self) -> list[StreamRow]:
        """Exactly the runs that have no end, last touched first."""
        return await listed(self._journal, Wanted(kind=KIND, status=RUNNING))

    async def latest(self) -> StreamRow | None:
        """The run that was last touched."""
        found = await self._journal.streams(Wanted(kind=KIND), limit=1)
        return found[0] if found else None

    async def history(self, session: SessionId) -> tuple[Message, ...]:
        """All that was said in a session, as its last run left it."""
        found = await self._journal.streams(Wanted(kind=KIND, parent=session), limit=1)
        if not found:
            return self._opening
        return (await fold_run(self._journal, RunId(found[0].name), self._policy)).messages

    async def _claim(self, run: RunId) -> Claim:
        claim = await self._journal.claim(run, self._owner, LEASE)
        if isinstance(claim, Held):
            raise RunHeld(f"{claim.by} drives the run {run} at this moment")
        return claim

    def _driver(self, claim: Claim) -> Driver:
        run = RunId(claim.stream)
        log = RunLog(self._journal, claim, TurnFold(self._policy, self._price))
        return Driver(log, self._policy, self._model, self._tools(run), wall=self._wall, sleep=self._sleep)

    def _driven(self, claim: Claim, driver: Driver, work: Awaitable[Outcome]) -> Running:
        task = asyncio.create_task(self._drive(claim, work), name=f"run {claim.stream}")
        return Running(RunId(claim.stream), driver, task)

    async def _drive(self, claim: Claim, work: Awaitable[Outcome]) -> Outcome:
        driving = asyncio.ensure_future(work)
        holding = asyncio.create_task(self._hold(claim))
        try:
            await asyncio.wait({driving, holding}, return_when=asyncio.FIRST_COMPLETED)
            if not driving.done():
                raise ClaimLost(f"the run {claim.stream} was taken over; this process has stopped driving it")
            return driving.result()
        except Fenced as error:
            raise ClaimLost(f"the run {claim.stream} was taken over: {error}") from error
        finally:
            holding.cancel()
            driving.cancel()
            await asyncio.wait({driving, holding})
            with contextlib.suppress(JournalError):  # a claim that is not given back looks like one whose holder died
                await self._journal.release(claim)

    async def _hold(self, claim: Claim) -> None:
        """Returns when the claim is lost, or when it could not be renewed in time."""
        while True:
            await self._sleep(LEASE / RENEWALS)
            try:
                if not await self._journal.renew(claim, LEASE):
                    return
            except JournalError:
                if not self._journal.still_mine(claim):
                    return


async def listed(journal: Reader, wanted: Wanted) -> list[StreamRow]:
    """All rows of the index that fit, page by page."""
    found: list[StreamRow] = []
    while page := await journal.streams(wanted, found[-1].place if found else None, _PAGE):
        found.extend(page)
    return found


async def fold_run(journal: Reader, run: RunId, policy: Policy = READING) -> Turn:
    """Where the stored facts of a run lead."""
    fold, after = TurnFold(policy), 0
    while items := await journal.read(run, after):
        for item in items:
            fold.take(decode(item.data))
        after = items[-1].seq
    return fold.turn


async def find_run(journal: Reader, text: str) -> RunId:
    """The run with this id, or the only one whose id contains the text. Raises RunUnknown."""
    if await journal.head(text):
        return RunId(text)
    fits = [row.name for row in await listed(journal, Wanted(kind=KIND)) if text and text in row.name]
    if len(fits) == 1:
        return RunId(fits[0])
    if fits:
        raise RunUnknown(f"{text} fits {len(fits)} runs: {', '.join(fits[:5])}{' …' if len(fits) > 5 else ''}")
    raise RunUnknown(f"there is no run {text}; `turnbuckle runs list` shows them all")
