"""Runs by name: start one, take one up again after a crash, and tell which are unfinished.

A run is a stream of the journal, and its name is the run's id. Whoever drives it holds its claim and renews
it; when the claim is lost the driver is stopped at once, and the fence keeps whatever it still wanted to
write out of the journal. A run that has no end and no driver is unfinished, and `resume` folds what is stored
and goes on.

No error leaves a run without an end. Whatever comes out of its driver, the run is claimed and taken up again
in the same task, as the next process would do it. A store that fails is waited for. An error that comes again
and again, or that will not pass, ends the run with words. Only if even that cannot be stored, or if another
process has the run, is it let go of.

Runs belong to a session. A run of a session stands on the whole history of the one before it, exactly as the
provider saw it: nothing that was sent is edited later. It stores only what is new (`conversation`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from turnbuckle.errors import BudgetSpent, ClaimLost, RunHeld, RunUnknown
from turnbuckle.journal.port import (
    Claim,
    Closed,
    Damaged,
    Fenced,
    FormatUnknown,
    Grade,
    Held,
    IndexUpdate,
    Journal,
    JournalError,
    Reader,
    StorageError,
    StreamQuery,
    StreamRow,
    TooLarge,
)
from turnbuckle.runtime.consent_book import ConsentBook, RuleBook
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.conversation import NOTHING, Conversation, Conversations
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.lease import hold
from turnbuckle.runtime.log import RunLog, Watch, may_pass, pause
from turnbuckle.runtime.plain_rest import WayBook
from turnbuckle.runtime.ports import Model, Tools
from turnbuckle.runtime.prices import PriceBook
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.session_log import SessionStates
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.tools.background import Processes, lost_note
from turnbuckle.turn import prompts
from turnbuckle.turn.base import opening_of
from turnbuckle.turn.facts import (
    DraftKept,
    Fact,
    ModelAsked,
    RunEnded,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    encode,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.events import Ended, FinishNoted, TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, title_words, words_of
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import NOTHING_SPENT
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.tooling import unknown

KIND = "run"
TOLD = "told"
"""The kind of an answer that came from the runtime itself."""
RUNNING = "running"
READING = Policy((RouteFacts(RouteName(""), "openai_chat", ""),))
"""Enough of a policy to read what happened. What comes next cannot be asked with it."""
MOST_FAILURES = 3
"""How often a run is taken up again after an error that nobody expected."""
HOPELESS = (Damaged, FormatUnknown, TooLarge, msgspec.DecodeError, BudgetSpent)
"""What is the same the next time."""
MISTAKE = "something went wrong in the server, again and again; its log tells more"
NO_ROOM = "another node has room for it"
NOT_SEEN = "How it ended was never seen."
_TITLE = 100
_PAGE = 50

log = logging.getLogger("turnbuckle.run")


class NewRun(Struct, frozen=True):
    """What a run begins with. `history` is what the model is told before the task, behind what `base` names;
    None: what its session holds, or the usual opening of a new one. The first `opening` messages of it take
    the place of the base's instructions. `run` and `session` are new ones where they are not given."""

    messages: tuple[Message, ...]
    session: SessionId | None = None
    history: tuple[Message, ...] | None = None
    user: str = ""
    options: RunOptions = RunOptions()
    origin: Origin = Origin()
    run: RunId | None = None
    left: tuple[DraftKept, ...] = ()
    """Drafts that the run before this one left; the history tells the model of them."""
    base: RunId = RunId("")
    opening: int | None = None
    undone: frozenset[RunId] = frozenset()
    """Runs whose compactions were taken back."""

    @property
    def title(self) -> str:
        """The user's last words, in one line."""
        for message in reversed(self.messages):
            if message.role == "user" and not message.note:
                said = title_words(message.parts).lstrip()
                return " ".join(said[: 10 * _TITLE].split())[:_TITLE]
        return ""

    @property
    def words(self) -> str:
        """By what it can be found: all that the user said."""
        return "\n".join([words_of(message.parts) for message in self.messages if message.role == "user"])


class RunRules(Struct, frozen=True):
    """What holds for every run: how its turn goes, the messages that open a new conversation, what its tokens
    cost, and what people have allowed for good."""

    policy: Policy
    opening: tuple[Message, ...] = ()
    prices: PriceBook | None = None
    allowed: RuleBook = field(default_factory=ConsentBook)


class Runs:
    """All runs of one journal."""

    def __init__(
        self,
        journal: Journal,
        rules: RunRules,
        model: Model,
        tools: Callable[[RunId], Tools],
        environment: Environment,
        *,
        watch: Watch | None = None,
        background: Processes | None = None,
        windows: WindowBook | None = None,
    ) -> None:
        self.rules = rules
        self.environment = environment
        self._histories = HistoryBook(environment.wall)
        self.conversations = Conversations(journal, rules.policy, self._histories)
        self.session_states = SessionStates(journal)
        self.conversations.forgets.append(self.session_states.forget)
        self.background = background
        self._journal = journal
        self._model = model
        self.tools_of = tools
        self._wall = environment.wall
        self._sleep = environment.sleep
        self._ways = WayBook()
        self.windows = windows if windows is not None else WindowBook(journal, wall=environment.wall)
        self._watch = watch
        self._live: dict[RunId, Running] = {}

    @property
    def policy(self) -> Policy:
        """The rules of every run, without what its owner has allowed for good."""
        return self.rules.policy

    async def start(self, task: str, session: SessionId | None = None) -> Running:
        """Begin a run, in a session that goes on or in a new one."""
        return await self.begin(NewRun((task_message(task),), session))

    async def begin(self, new: NewRun, *, leaves: str = "") -> Running:
        """Begin a run. It is stored when this returns. If it `leaves`, for this reason, it is left for
        others. Raises RunHeld if somebody begins the same one, or has begun it before."""
        session = new.session or SessionId(self.environment.new_name("s"))
        new = await self._based(new, session)
        base = await self._told(new, session)
        run = new.run or self.environment.new_run()
        claim = await self._claim(run, begins=True)
        row = IndexUpdate(
            kind=KIND, parent=session, title=new.title, status=RUNNING, user=new.user, words=new.words
        )
        # A session that is new has nothing in the background.
        lost = self.background.lost(session) if self.background is not None and new.session else ()
        notes = (*(new.history or ()), *(() if not lost else (prompts.note(lost_note(lost)),)))
        said = (*notes, *new.messages)
        before = (new.base, new.opening, base.told(new.opening), base.drafted, base.told_by)
        started = RunStarted(
            self._wall(), run, session, said, len(new.messages), new.options, new.origin, *before
        )
        running = self._running(claim, new.user)
        running.log.fold.base = base.as_base()
        if claim.head or leaves:
            try:
                if claim.head:
                    raise RunHeld(f"the run {run} has begun already")
                await running.driver.begin(started, row, new.left)
                await running.driver.leave(leaves)
                return running
            finally:
                await self._let_go(claim)
        # A client that cannot come back, and may simply ask again, does not wait for the disk.
        grade = Grade.FLUSHED if new.origin.dies_with_its_client else Grade.SYNCED
        await running.begin((started, *new.left), row, grade, self._drive(running, claim, None))
        # Whoever begins is told that it cannot be stored; from here on it is waited for.
        running.log.sleep = self._sleep
        if self.background is not None:
            self.background.told(lost)
        return self._now_live(running)

    async def _based(self, new: NewRun, session: SessionId) -> NewRun:
        """With what it stands on, and no instructions that stand there already."""
        if new.history is None and not new.base:
            before = await self._last_of(session) if new.session is not None else None
            history = self.rules.opening if before is None else ()
            return replace(new, history=history, base=before or RunId(""))
        history, opening = new.history or (), new.opening
        if not new.base or opening is None:
            return replace(new, opening=None)
        base = await self._told(new, session)
        if history[:opening] != opening_of(base.messages):
            return new
        return replace(new, history=history[opening:], opening=None)

    async def _told(self, new: NewRun, session: SessionId) -> Conversation:
        """What a new run stands on, as its model is told of it."""
        if not new.base:
            return NOTHING
        told_by = await self.conversations.told_by(new.base, session, new.undone)
        return await self.conversations.sent(new.base, session, told_by)

    async def tell(self, text: str, new: NewRun, session: SessionId) -> None:
        """Write down an answer of the runtime's own as a run that has ended, for readers as any other. It has
        a kind of its own: no list of runs holds it, and no model is told of it."""
        at = self._wall()
        asked = ModelAsked(at, 1, RouteName("runtime"), "openai_chat", "runtime", "first")
        said = Streamed(at, 1, (TextDelta(0, text), FinishNoted("stop", "stop"), Ended("runtime")))
        await self._write_whole(new, session, TOLD, (asked, said), Outcome("completed"))

    async def decline(
        self, new: NewRun, session: SessionId, why: str, by: str = "", *, failed: bool = False
    ) -> None:
        """Write down that a run will not begin, as one that was stopped before it did, or that could not."""
        stop = () if failed else (StopAsked(self._wall(), by or new.user),)
        await self._write_whole(new, session, KIND, stop, Outcome("failed" if failed else "cancelled", why))

    async def _write_whole(
        self, new: NewRun, session: SessionId, kind: str, facts: tuple[Fact, ...], outcome: Outcome
    ) -> None:
        assert new.run is not None
        claim = await self._claim(new.run, begins=True)
        at, said = self._wall(), new.messages
        started = RunStarted(at, new.run, session, said, len(said), new.options, new.origin)
        items = [encode(fact) for fact in (started, *facts, RunEnded(at, outcome, spent=NOTHING_SPENT))]
        note = IndexUpdate(kind=kind, parent=session, title=new.title, status=outcome.kind, user=new.user)
        place = {"after": claim.head, "epoch": claim.epoch}
        try:
            await self._journal.append(new.run, items, **place, grade=Grade.SYNCED, note=note)
        finally:
            await self._journal.release(claim)

    async def resume(self, run: RunId) -> Running:
        """Take up a run where its journal ends. One that has ended gives its outcome again. When this returns
        the run knows where it stands, so it can be asked, answered and stopped; unless something is wrong
        with the store: then it is taken up when it can be, or ended. Raises RunUnknown and RunHeld."""
        try:
            if not await self._journal.head(run):
                raise RunUnknown(f"there is no run {run}")
            claim = await self._claim(run)
            user = await self._user_of(run)
        except StorageError as error:
            return self._driven(self._running(Claim(run, self.environment.owner, -1, 0)), None, error)
        running = self._running(claim, user)
        try:
            await running.driver.take_up(claim.epoch)
        except Exception as error:
            await self._let_go(claim)
            return self._driven(running, None, error)
        except BaseException:
            await self._let_go(claim)
            raise
        running.log.sleep = self._sleep
        return self._driven(running, claim)

    def live(self, run: RunId) -> Running | None:
        """The run, if this process drives it at this moment."""
        return self._live.get(run)

    @property
    def all_live(self) -> tuple[Running, ...]:
        return tuple(self._live.values())

    def new_id(self) -> RunId:
        return self.environment.new_run()

    async def unfinished(self) -> list[StreamRow]:
        """Exactly the runs that have no end, last touched first."""
        return await listed(self._journal, StreamQuery(kind=KIND, status=RUNNING))

    async def latest(self) -> StreamRow | None:
        """The run that was last touched."""
        rows = await self._journal.streams(StreamQuery(kind=KIND), limit=1)
        return rows[0] if rows else None

    async def _last_of(self, session: SessionId) -> RunId | None:
        rows = await self._journal.streams(StreamQuery(kind=KIND, parent=session), limit=1)
        return RunId(rows[0].name) if rows else None

    async def _claim(self, run: RunId, *, begins: bool = False) -> Claim:
        claim = await self._journal.claim(run, self.environment.owner, self.environment.lease, begins=begins)
        if isinstance(claim, Held):
            raise RunHeld(f"{claim.by} drives the run {run} at this moment")
        return claim

    async def _user_of(self, run: RunId) -> str | None:
        rows = await self._journal.streams(StreamQuery(kind=KIND, name=run), limit=1)
        return rows[0].user if rows else None

    def _parts(self, claim: Claim, user: str | None) -> tuple[RunLog, Driver]:
        fold = TurnFold(self.policy, sending=True)
        fold.given = given = None if user is None else self.rules.allowed.for_run(user)
        elapsed, base_of = self.environment.elapsed, self.conversations.before
        log = RunLog(self._journal, claim, fold, self._watch, elapsed=elapsed, base_of=base_of)
        log.lease = self.environment.lease
        log.given = given
        tools = self.tools_of(RunId(claim.stream))
        books = (self._ways, self.windows, self._histories, self.rules.prices)
        return log, Driver(log, self._model, tools, self.environment, *books)

    def _running(self, claim: Claim, user: str | None = None) -> Running:
        return Running(RunId(claim.stream), *self._parts(claim, user), self.rules.allowed, user)

    async def _let_go(self, claim: Claim) -> None:
        try:
            await self._journal.release(claim)
        except Exception as error:  # a claim that is not given back ends by itself
            log.warning("the claim of the run %s could not be given back: %s", claim.stream, error)

    def _driven(self, running: Running, claim: Claim | None, error: Exception | None = None) -> Running:
        """`error` is why it has no driver yet."""
        running.drive(self._drive(running, claim, error))
        return self._now_live(running)

    def _now_live(self, running: Running) -> Running:
        self._live[running.run] = running
        running.when_done(lambda _: self._gone(running))
        return running

    def _gone(self, running: Running) -> None:
        if self._live.get(running.run) is running:
            del self._live[running.run]

    async def _drive(self, running: Running, claim: Claim | None, error: Exception | None) -> Outcome:
        """One life after the other, up to the end."""
        failures = tries = 0
        again = kept = False
        while True:
            try:
                if error is None and claim is not None:
                    return await self._live_once(running, claim, again=again, kept=kept)
            except Exception as failed:
                kept = self._journal.trouble() is not None
                if running.is_given_up:  # what broke on the way out does not make it go on
                    raise asyncio.CancelledError from failed
                error = failed
            assert error is not None
            if isinstance(error, (RunUnknown, RunHeld)) or running.turn.phase == "ended":
                raise error
            if not isinstance(error, ClaimLost):
                passes = may_pass(error)
                log.error("%s came to a halt: %s", running.run, error, exc_info=None if passes else error)
                failures += 0 if passes else MOST_FAILURES if isinstance(error, HOPELESS) else 1
                await self._sleep(pause(tries))
            tries += 1
            claim = await self._claim_back(running.run, error)
            if running.user is None:
                with contextlib.suppress(JournalError):  # then its people are asked about everything
                    running.user = await self._user_of(running.run)
            running.live_again(*self._parts(claim, running.user))
            running.log.sleep = self._sleep
            if failures >= MOST_FAILURES:
                return await self._end_with_words(running, claim, error)
            error, again = None, True

    async def _claim_back(self, run: RunId, why: Exception) -> Claim:
        """The claim of a run that this process let go of. Raises ClaimLost if another one has it."""
        tries = 0
        while True:
            try:
                claim = await self._journal.claim(run, self.environment.owner, self.environment.lease)
                if isinstance(claim, Claim):
                    return claim
                if claim.by != self.environment.owner:
                    gone = ClaimLost(f"{claim.by} drives the run {run} now")
                    raise why if isinstance(why, ClaimLost) else gone
            except (ClaimLost, Closed, *HOPELESS):
                raise
            except Exception as error:
                log.warning("the run %s cannot be claimed: %s", run, error)
            await self._sleep(pause(tries))
            tries += 1

    async def _end_with_words(self, running: Running, claim: Claim, error: Exception) -> Outcome:
        """It cannot go on; all who read it are told so by its end."""
        try:
            try:
                await running.log.load()
                asked = [call for call in running.turn.calls if call.started and call.outcome is None]
            except Exception as unread:
                log.error("the run %s cannot be read: %s", running.run, unread)
                asked = []
            known = error if isinstance(error, JournalError) else None
            why = f"the run cannot go on: {known}" if known else f"{MISTAKE} under {running.run}"
            outcome = Outcome("failed", why, drafts=tuple(running.turn.drafts))
            now = self._wall()
            finished = [ToolFinished(now, call.id, call.name, unknown(NOT_SEEN)) for call in asked]
            await running.log.append([*finished, RunEnded(now, outcome)], IndexUpdate(status=outcome.kind))
            return running.turn.outcome or outcome
        finally:
            await self._let_go(claim)

    async def _live_once(self, running: Running, claim: Claim, *, again: bool, kept: bool) -> Outcome:
        """One life, driven by this very task. Raises ClaimLost, and whatever came out of the driver."""
        driver, work = running.driver, asyncio.current_task()
        assert work is not None
        lost = over = False

        def stop_driving(_: object) -> None:
            nonlocal lost  # a call that is due already would come even if it were taken back
            lost = not over and work.cancel()

        holding = asyncio.create_task(hold(self._journal, claim, self._sleep, self.environment.lease))
        holding.add_done_callback(stop_driving)
        try:
            outcome = await (driver.resume(claim.epoch, kept=kept) if again else driver.go_on())
            self.conversations.remember(running.turn)
            return outcome
        except Fenced as error:
            raise ClaimLost(f"the run {claim.stream} was taken over: {error}") from error
        except asyncio.CancelledError:
            if not lost or work.cancelling() > 1:  # it is let go of, whatever became of the claim
                raise
            words = f"the run {claim.stream} was taken over; this process has stopped driving it"
            raise ClaimLost(words) from None
        finally:
            over = True
            if lost:
                work.uncancel()  # also if it ended by something else: this task goes on
            holding.cancel()
            await asyncio.wait({holding})
            if running.leaving:
                with contextlib.suppress(JournalError):  # without its mark it looks as if its process died
                    await driver.leave(running.leaving)
            await self._let_go(claim)


async def listed(journal: Reader, wanted: StreamQuery) -> list[StreamRow]:
    """All rows of the index that fit, page by page."""
    rows: list[StreamRow] = []
    while page := await journal.streams(wanted, rows[-1].place if rows else None, _PAGE):
        rows.extend(page)
    return rows
