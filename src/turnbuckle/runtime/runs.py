"""Runs by name: start one, take one up again after a crash, and tell which are unfinished.

A run is a stream of the journal, and its name is the run's id. Whoever drives it holds its claim and renews it; when
the claim is lost the driver is stopped at once, and the fence keeps whatever it still wanted to write out of the
journal. A run that has no end and no driver is unfinished, and `resume` folds what is stored and goes on.

Runs belong to a session. A run of a session begins with the whole history of the one before it, exactly as the
provider saw it: nothing that was sent is edited later.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct

from turnbuckle.errors import ClaimLost, RunHeld, RunUnknown
from turnbuckle.journal.port import Claim, Fenced, Grade, Held, Journal, JournalError, Note, Reader, StreamRow, Wanted
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.driver import Driver, PersonsAnswer
from turnbuckle.runtime.holding import LEASE, hold
from turnbuckle.runtime.log import RunLog, Watch
from turnbuckle.runtime.ports import Model, Sleep, Tools, Wall
from turnbuckle.tools.background import Processes, lost_note
from turnbuckle.turn import prompts
from turnbuckle.turn.facts import DraftKept, Fact, ModelAsked, RunEnded, RunStarted, StopAsked, Streamed, decode, encode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import Price
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Ended, FinishNoted, TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, text_of
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import Wishes

KIND = "run"
TOLD = "told"
"""The kind of an answer that came from the runtime itself."""
RUNNING = "running"
READING = Policy((RouteFacts(RouteName(""), "openai_chat", ""),))
"""Enough of a policy to read what happened. What comes next can not be asked with it."""
_TITLE = 100
_PAGE = 50


class NewRun(Struct, frozen=True):
    """What a run begins with. `history` is what the model is told before the task; None: what its session holds, or the
    usual opening of a new one. `run` and `session` are new ones where they are not given."""

    messages: tuple[Message, ...]
    session: SessionId | None = None
    history: tuple[Message, ...] | None = None
    user: str = ""
    wishes: Wishes = Wishes()
    asked: dict[str, Any] = {}
    run: RunId | None = None
    left: tuple[DraftKept, ...] = ()
    """Drafts that the run before this one left; the history tells the model of them."""

    @property
    def title(self) -> str:
        """The user's last words, in one line."""
        said = [text_of(message.parts) for message in self.messages if message.role == "user" and not message.note]
        return " ".join((said[-1] if said else "").split())[:_TITLE]

    @property
    def words(self) -> str:
        """By what it can be found: all that the user said."""
        return "\n".join(text_of(message.parts) for message in self.messages if message.role == "user")


class Running:
    """A run that this process drives."""

    def __init__(self, run: RunId, driver: Driver, work: "asyncio.Task[Outcome]", leaving: "list[str]") -> None:
        self.run = run
        self._driver = driver
        self._work = work
        self._leaving = leaving

    def stop(self, by: str = "user") -> None:
        """Ask it to end. What is under way ends first, and says how."""
        self._driver.stop.ask(by)

    async def answer(self, approval: str, verdict: PersonsAnswer, by: str, text: str = "") -> bool:
        """Give a person's answer to what the run has asked. False if nobody waits for it."""
        return await self._driver.answer(approval, verdict, by, text)

    async def steer(self, message: str, messages: tuple[Message, ...]) -> None:
        """Say something into the turn that is under way."""
        await self._driver.steer(message, messages)

    @property
    def waits_for_person(self) -> bool:
        """Whether nothing of it is under way but the wait for somebody's answer, which may take for ever."""
        return self._driver.waits_for_person

    @property
    def turn(self) -> Turn:
        """Where it stands at this moment."""
        return self._driver.turn

    async def outcome(self) -> Outcome:
        """Wait for its end. Raises ClaimLost, or what the journal raises; the run is unfinished then."""
        return await asyncio.shield(self._work)

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
        """Let go of it in good order: it is marked, has no end, and can be taken up again. The mark is the last thing
        that is written, when nothing of it is under way any more."""
        self._leaving.append(why)
        await self.abandon(before=self._driver.leaving.set)

    async def settled(self) -> None:
        """If it has its end, wait until it is let go of: whoever reads it knows of its end a moment before that."""
        if self.turn.outcome is not None:
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
        watch: Watch | None = None,
        background: Processes | None = None,
    ) -> None:
        self.policy = policy
        self.background = background
        self._journal = journal
        self._model = model
        self._tools = tools
        self._owner = owner
        self._wall = wall
        self._sleep = sleep
        self._new_name = new_name
        self._opening = opening
        self._price = price
        self._watch = watch
        self._live: dict[RunId, Running] = {}

    async def start(self, task: str, session: SessionId | None = None) -> Running:
        """Begin a run, in a session that goes on or in a new one."""
        return await self.begin(NewRun((task_message(task),), session))

    async def begin(self, new: NewRun) -> Running:
        """Begin a run. It is stored when this returns. Raises RunHeld if somebody begins the same one, or has begun
        it before."""
        history = new.history
        if history is None:
            history = self._opening if new.session is None else await self.history(new.session)
        session = new.session or SessionId(self._new_name("s"))
        run = new.run or RunId(self._new_name("r"))
        claim = await self._claim(run)
        row = Note(kind=KIND, parent=session, title=new.title, status=RUNNING, user=new.user, words=new.words)
        lost = () if self.background is None else self.background.lost(session)
        messages = (*history, *(() if not lost else (prompts.note(lost_note(lost)),)), *new.messages)
        started = RunStarted(self._wall(), run, session, messages, len(new.messages), new.wishes, new.asked)
        driver = self._driver(claim)
        async with self._let_go_of_on_error(claim):
            if claim.head:
                raise RunHeld(f"the run {run} has begun already")
            await driver.begin(started, row, new.left)
        if self.background is not None:
            self.background.told(lost)
        return self._driven(claim, driver)

    async def tell(self, text: str, new: NewRun, session: SessionId) -> None:
        """Write down an answer of the runtime's own as a run that has ended, for readers to read like any other. It has
        a kind of its own: no list of runs holds it, and no model is told of it."""
        at = self._wall()
        events = (TextDelta(0, text), FinishNoted("stop", "stop"), Ended("runtime"))
        asked = ModelAsked(at, 1, RouteName("runtime"), "openai_chat", "runtime", "first")
        await self._write_whole(new, session, TOLD, (asked, Streamed(at, 1, events)), Outcome("completed"))

    async def decline(self, new: NewRun, session: SessionId, why: str, by: str = "") -> None:
        """Write down that a run will not begin, as one that was stopped before it did."""
        stop = StopAsked(self._wall(), by or new.user)
        await self._write_whole(new, session, KIND, (stop,), Outcome("cancelled", why))

    async def _write_whole(
        self, new: NewRun, session: SessionId, kind: str, facts: tuple[Fact, ...], outcome: Outcome
    ) -> None:
        assert new.run is not None
        claim = await self._claim(new.run)
        at = self._wall()
        started = RunStarted(at, new.run, session, new.messages, len(new.messages), new.wishes, new.asked)
        items = [encode(fact) for fact in (started, *facts, RunEnded(at, outcome))]
        note = Note(kind=kind, parent=session, title=new.title, status=outcome.kind, user=new.user)
        try:
            await self._journal.append(new.run, items, after=claim.head, epoch=claim.epoch, grade=Grade.SURE, note=note)
        finally:
            await self._journal.release(claim)

    async def resume(self, run: RunId) -> Running:
        """Take up a run where its journal ends. One that has ended gives its outcome again. When this returns the
        run knows where it stands, so it can be asked, answered and stopped. Raises RunHeld."""
        if not await self._journal.head(run):
            raise RunUnknown(f"there is no run {run}")
        claim = await self._claim(run)
        driver = self._driver(claim)
        async with self._let_go_of_on_error(claim):
            await driver.take_up(claim.epoch)
        return self._driven(claim, driver)

    def live(self, run: RunId) -> Running | None:
        """The run, if this process drives it at this moment."""
        return self._live.get(run)

    @property
    def all_live(self) -> tuple[Running, ...]:
        return tuple(self._live.values())

    def new_id(self) -> RunId:
        return RunId(self._new_name("r"))

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
        return (await fold_run(self._journal, RunId(found[0].name), self.policy)).messages

    async def _claim(self, run: RunId) -> Claim:
        claim = await self._journal.claim(run, self._owner, LEASE)
        if isinstance(claim, Held):
            raise RunHeld(f"{claim.by} drives the run {run} at this moment")
        return claim

    def _driver(self, claim: Claim) -> Driver:
        run = RunId(claim.stream)
        log = RunLog(self._journal, claim, TurnFold(self.policy, self._price), self._watch)
        return Driver(log, self._model, self._tools(run), wall=self._wall, sleep=self._sleep)

    @contextlib.asynccontextmanager
    async def _let_go_of_on_error(self, claim: Claim) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(JournalError):
                await self._journal.release(claim)
            raise

    def _driven(self, claim: Claim, driver: Driver) -> Running:
        run, leaving = RunId(claim.stream), list[str]()
        task = asyncio.create_task(self._drive(claim, driver, leaving), name=f"run {run}")
        running = self._live[run] = Running(run, driver, task, leaving)
        task.add_done_callback(lambda _: self._live.pop(run, None) if self._live.get(run) is running else None)
        return running

    async def _drive(self, claim: Claim, driver: Driver, leaving: list[str]) -> Outcome:
        """`leaving` holds why the run is let go of, if it is."""
        driving = asyncio.create_task(driver.go_on())
        holding = asyncio.create_task(hold(self._journal, claim, self._sleep))
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
            if leaving:
                with contextlib.suppress(JournalError):  # a run without its mark looks like one whose process died
                    await driver.leave(leaving[0])
            with contextlib.suppress(JournalError):  # and so does a claim that is not given back
                await self._journal.release(claim)


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
