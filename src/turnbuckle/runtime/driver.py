"""The driver: the only loop. It asks the turn what is due, performs it, and writes down what happened.

Streaming or not, live or come back after a crash, one tool or ten: it is this loop. It decides nothing. What
it appends is stored before it is folded, and folded before anything is done about it. A tool starts only when
its intent is on disk and the claim is still ours; its result is on disk before the model is asked again.
"""

import asyncio
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from turnbuckle.journal.port import Conflict, Fenced, IndexUpdate, StorageFull
from turnbuckle.reply.free_text import FreeTextCalls
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.foreign_tools import ForeignTools
from turnbuckle.runtime.halt import Halt, Stop
from turnbuckle.runtime.hearing import Hearing
from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.models import close
from turnbuckle.runtime.plain_rest import WayBook, shaped, speech_for
from turnbuckle.runtime.ports import Model, Tools
from turnbuckle.runtime.prices import PriceBook
from turnbuckle.runtime.request_tools import free_text_names
from turnbuckle.runtime.room import RequestSize, RoomKeeper, summary_request
from turnbuckle.runtime.sending import Sending
from turnbuckle.runtime.tool_work import (
    BEFORE_IT,
    Either,
    Teller,
    outcome_of,
    settled,
    store_left,
)
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.turn import approvals as asking
from turnbuckle.turn import budget, compacting, ladder, machine
from turnbuckle.turn.commands import AskPerson, AwaitAnswer, CallModel, Command, Record, RunTool, SettleTool
from turnbuckle.turn.compact import NothingToShrink
from turnbuckle.turn.compaction import Folding
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    Compacted,
    DraftKept,
    Fact,
    GiveUp,
    ModelAsked,
    Noticed,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Ask, Turn
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Price
from turnbuckle.vocab.tooling import ToolOutcome, not_started

PersonsAnswer = Literal["allowed", "denied", "answered"]

_STORE_AGAIN = 0.5
_STORE_TRIES = 20


class Driver:
    """Drives one run to its end."""

    def __init__(
        self,
        log: RunLog,
        model: Model,
        tools: Tools,
        environment: Environment,
        ways: WayBook | None = None,
        windows: WindowBook | None = None,
        histories: HistoryBook | None = None,
        prices: PriceBook | None = None,
    ) -> None:
        self.stop = Stop()
        histories = histories if histories is not None else HistoryBook(environment.wall)
        self._room = RoomKeeper(windows if windows is not None else WindowBook(), histories)
        self._ways = ways if ways is not None else WayBook()
        self._prices = prices if prices is not None else PriceBook()
        self.leaving = asyncio.Event()
        """The process lets go of the run in good order: whatever runs is to end and to say how."""
        self._log = log
        self._model = model
        self._tools = tools
        self._foreign = ForeignTools(tools, log.fold, self.stop, log.given)
        self._wall = environment.wall
        self._sleep = environment.sleep
        self._sending = Sending(histories)
        self._stopping: asyncio.Task[None] | None = None
        self._answers: dict[str, asyncio.Event] = {}
        self._begun: set[str] = set()
        """Calls that were handed to their tools here; of any other it is known that nothing happened."""

    @property
    def turn(self) -> Turn:
        return self._log.fold.turn

    @property
    def _policy(self) -> Policy:
        """The rules, with the caller's options in them."""
        return self._log.fold.policy

    async def start(self, started: RunStarted, note: IndexUpdate | None = None) -> Outcome:
        """Begin a run and drive it to its end."""
        await self.begin(started, note)
        return await self.go_on()

    async def begin(
        self, started: RunStarted, note: IndexUpdate | None = None, left: tuple[DraftKept, ...] = ()
    ) -> None:
        """Store the beginning of a run, with the drafts that the run before it left."""
        await self._log.append([started, *left], note)

    async def go_on(self) -> Outcome:
        """Drive a run that has begun to its end."""
        unheed = self.stop.on_stop(self._stop_asked)
        if self.stop.is_set():
            self._stop_asked()
        try:
            while self.turn.phase != "ended":
                await self._foreign.before_judging()
                due = self._log.fold.due()
                if not due:
                    raise RuntimeError(f"nothing is due in the phase {self.turn.phase}")
                await self._perform_all(due)
        finally:
            unheed()
            if self._stopping is not None:
                self._stopping.cancel()
                await asyncio.gather(self._stopping, return_exceptions=True)
            await self._log.let_go()
        outcome = self.turn.outcome
        assert outcome is not None
        return outcome

    async def resume(self, epoch: int, *, kept: bool = False) -> Outcome:
        """Take up a run and drive it to its end."""
        await self.take_up(epoch, kept=kept)
        return await self.go_on()

    async def take_up(self, epoch: int, *, kept: bool = False) -> None:
        """Fold what is stored, to go on from there. A run that has ended stays as it is. `kept`: this process
        had it, and let go of it because the store failed."""
        await self._log.load()
        await self._log.append([RunClaimed(self._wall(), epoch, kept or UNSET)])
        if self.turn.stopping:
            self.stop.ask()

    async def _perform_all(self, due: tuple[Command, ...]) -> None:
        if len(due) == 1:
            await self._perform(due[0])
            return
        try:
            async with asyncio.TaskGroup() as group:
                for command in due:
                    group.create_task(self._perform(command))
        except BaseExceptionGroup as problems:
            # The first problem is the story; the others are the tasks that it took down.
            raise problems.exceptions[0] from problems

    async def _perform(self, command: Command) -> None:
        match command:
            case Record(facts):
                await self._record(await self._prices.paid(facts, self.turn, self._policy))
            case CallModel():
                await self._call_model(command)
            case RunTool():
                await self._run_tool(command)
            case SettleTool():
                await self._settle_tool(command)
            case AskPerson(asked):
                await self._ask_person(asked)
            case AwaitAnswer():
                await self._await_answer(command)

    async def _record(self, facts: tuple[Fact, ...]) -> None:
        ended = [fact for fact in facts if isinstance(fact, RunEnded)]
        # A run is found by what it answered, too.
        note = IndexUpdate(status=ended[0].outcome.kind, words=self.turn.shown) if ended else None
        settled = {fact.approval for fact in facts if isinstance(fact, ApprovalAnswered)}
        stopping = self.turn.stopping

        def still_due(turn: Turn) -> bool:
            """A person may have answered in the meantime, or want the run to stop. Then something else is
            due."""
            waiting = {call.consent.id for call in asking.open_in(turn) if call.consent is not None}
            return settled <= waiting and turn.stopping == stopping

        stored = await self._log.append(facts, note, only_if=still_due)
        for fact in facts:
            if stored and isinstance(fact, StopAsked):
                self.stop.ask(fact.by, keeps=fact.keeps)

    def _stop_asked(self) -> None:
        self._stopping = asyncio.create_task(self._note_stop())

    async def _note_stop(self) -> None:
        if not self.turn.stopping:
            await self._log.append([StopAsked(self._wall(), self.stop.by, keeps=self.stop.keeps)])

    async def _stop_is_noted(self) -> bool:
        """Whether the run is to stop. If so, that is stored by now, and the turn wants nothing else."""
        if not self.stop.is_set():
            return False
        assert self._stopping is not None
        await asyncio.shield(self._stopping)
        return True

    async def leave(self, why: str) -> None:
        """Write down that the run is let go of in good order, when nothing of it is under way any more."""
        self._log.sleep = None  # whoever lets go waits for nothing
        while True:
            await self._log.load()  # an append that was broken off may have been stored
            never_begun = [
                ToolFinished(self._wall(), call.id, call.name, not_started(BEFORE_IT))
                for call in self.turn.calls
                if call.started and not call.orphan and call.outcome is None and call.id not in self._begun
                if self._policy.tool(call.name).effect == "write"
            ]
            try:
                await self._log.append([*never_begun, RunLeft(self._wall(), why)])
                return
            except Conflict:  # or is being stored at this moment
                await self._log.wait()

    # People

    @property
    def waits_for_person(self) -> bool:
        """Whether nothing is under way but the wait for somebody's answer."""
        due = self._log.fold.due()
        return bool(due) and all(isinstance(command, AwaitAnswer) for command in due)

    async def steer(self, message: str, messages: tuple[Message, ...], origin: Origin) -> bool:
        """Store what somebody says into the turn. False if it has ended: then it takes nothing in."""
        spoken = UserSpoke(self._wall(), message, messages, origin=origin)
        return await self._log.append([spoken], waits=False)

    async def answer(
        self, approval: str, verdict: PersonsAnswer, by: str, text: str = "", always: bool = False
    ) -> bool:
        """Store a person's answer. False if nobody waits for this one: it is unknown, has its answer, or
        comes too late. Raises ValueError for an answer to what was not asked: only a question can be answered
        in words, and only a call be allowed. If whoever brought it goes away meanwhile, it is stored all the
        same."""
        return await asyncio.shield(asyncio.ensure_future(self._answer(approval, verdict, by, text, always)))

    async def _answer(self, approval: str, verdict: PersonsAnswer, by: str, text: str, always: bool) -> bool:
        await self._log.settled()  # whoever reads the journal may know of a question before the turn does
        asked = asking.question(self.turn, approval)
        if asked is None:
            return False
        if verdict == ("allowed" if asked.question else "answered"):
            raise ValueError(f"{approval} is {'a question' if asked.question else 'no question'}")
        always = always and bool(asked.always)
        return await self._store_answer(
            ApprovalAnswered(self._wall(), approval, verdict, by, text, always=always)
        )

    async def _store_answer(self, answered: ApprovalAnswered) -> bool:
        """Of several answers at once the first is stored. That includes the one that time gives."""

        def counts(turn: Turn) -> bool:
            asked = asking.question(turn, answered.approval)
            late = asked is not None and asked.expires is not None and answered.at >= asked.expires
            return asked is not None and (answered.verdict == "expired" or not late)

        if not await self._log.append([answered], only_if=counts, waits=answered.verdict == "expired"):
            return False
        self._told(answered.approval).set()
        return True

    def _told(self, approval: str) -> asyncio.Event:
        return self._answers.setdefault(approval, asyncio.Event())

    async def _ask_person(self, asked: ApprovalAsked) -> None:
        refused = await self._tools.refuse(_call_of(asked))
        if refused is not None:
            await self._finish(asked.call_id, asked.name, refused)
            return
        changes = await self._tools.preview(_call_of(asked))
        if not await self._stop_is_noted():
            await self._log.append([replace(asked, changes=changes)])

    async def _await_answer(self, command: AwaitAnswer) -> None:
        """Until the turn has the answer, the time for it is over, or the run is to stop."""
        answered = self._told(command.approval)
        waits = [asyncio.ensure_future(answered.wait()), asyncio.ensure_future(self.stop.wait())]
        if command.until is not None:
            waits.append(asyncio.ensure_future(self._sleep(max(command.until - self._wall(), 0.0))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not await self._stop_is_noted() and not answered.is_set():
            await self._store_answer(ApprovalAnswered(self._wall(), command.approval, "expired"))

    # The model

    async def _call_model(self, command: CallModel) -> None:
        ask = command.ask
        if ask.after > 0:
            await self._wait_unless_stopped(ask.after)
        if await self._stop_is_noted():
            return
        await self._foreign.ready()
        own = self._tools.specs()
        route, size = await self._room.fitting(self.turn, self._policy, self._usable, ask, own)
        if isinstance(size.first, Folding):
            ask = compacting.ask_for(self.turn, size.first, self._policy)
            route = self._policy.route(self._usable(ask.route))
            size = await self._room.size(self.turn, self._policy, route, ask, ())
        elif size.first is not None:
            await self._make_room(size.first)
            return
        if await self._stop_is_noted():
            return
        await self._ask_model(command.attempt, ask, route, size)

    async def _make_room(self, first: Compacted | GiveUp | NothingToShrink) -> None:
        """What is due before the model can be asked, without asking one."""
        match first:
            case Compacted():
                await self._record((first,))
            case GiveUp():
                await self._record(machine.given_up(self.turn, first, self._policy).facts)
            case NothingToShrink(why):
                await self._record(machine.nothing_left_out(self.turn, why).facts)

    async def _ask_model(self, attempt: int, ask: Ask, route: RouteFacts, size: RequestSize) -> None:
        turn, policy = self.turn, self._policy
        wanted = ask if route.name == ask.route else route
        way = ladder.way_for(turn, ask, route, policy, self._ways.best(route.name, route.model))
        asked = ModelAsked(
            self._wall(),
            attempt,
            route.name,
            route.protocol,
            route.model,
            ask.why,
            ladder.notes_for(turn, ask, way, policy),
            ask.stream and self._model.streams(route.name),
            wanted.cap if size.folding is None else size.folding.longest,
            wanted.effort,
            ask.cap_field if wanted is ask else None,
            way=way,
            expected=size.expected,
            guessed=size.guessed,
            window=size.window,
            folding=size.folding,
            max_money=policy.limits.money or UNSET,
            max_tokens=policy.limits.tokens or UNSET,
        )
        shown = turn.shown if ask.folding is None else ""
        self._prices.look(route)
        if not self._log.append_to_beginning([asked]):
            await self._log.append([asked])
        turn = self.turn
        speech = speech_for(turn, shown, way, asked.notes)
        halt = Halt(self.stop, budget.seconds_left(turn, policy), policy.limits.seconds)
        given = budget.input_guess(turn)
        if ask.folding is not None:
            request = summary_request(turn, asked)
        else:
            sent = ladder.as_sent(turn, way)
            request = await self._sending.prepared(sent, asked, policy, self._tools.specs())
            request = shaped(request, self.turn, way)
        free_text = FreeTextCalls(free_text_names(request.tools, asked.protocol))
        hearing = Hearing(self._log, attempt, speech, free_text, halt, self._wall, given)
        await self._log.beginning_stored()
        bursts = self._model.attempt(route.name, request, halt)
        try:
            hearing.join(bursts)
            async for events in bursts:
                if (told := hearing.told(events)) is not None:
                    await self._tell(route, attempt, *told)
                if speech.over:
                    break
        finally:
            await close(bursts)
        heard = hearing.last
        if not speech.over:
            heard = [Cut(failure("incomplete", "the attempt ended without a last word"))]
            await self._tell(route, attempt, speech.take(heard), speech.take_notice())
        self._model.note(route.name, heard)
        await self._room.learn(route, heard, size)
        self._ways.note(self.turn, route.name, way)

    async def _tell(self, route: RouteFacts, attempt: int, said: tuple[Event, ...], notice: str) -> None:
        price = await self._prices.of(route) if isinstance(said[-1], (Ended, Cut)) else None
        noticed = [Noticed(self._wall(), attempt, notice)] if notice else []
        await self._log.append([*noticed, self._streamed(attempt, said, price)])

    def _usable(self, wanted: RouteName) -> RouteName:
        """`wanted`, or who stands in while it rests. Never a route that this turn has given up on: two dead
        ones would stand in for each other until all calls are spent."""
        failed = self.turn.failed_routes
        if (first := self._model.choose(wanted)) not in failed:
            return first
        others = [self._model.choose(route.name) for route in self._policy.routes if route.name not in failed]
        return next((name for name in others if name not in failed), wanted)

    def _streamed(self, attempt: int, said: tuple[Event, ...], price: Price | None) -> Streamed:
        """With a last word that decides nothing yet goes what the decision must know of the routes."""
        resting: tuple[RouteName, ...] = ()
        if isinstance(said[-1], Cut):
            names = [route.name for route in self._policy.routes]
            resting = tuple(name for name in names if len(names) > 1 and self._model.choose(name) != name)
        return Streamed(self._wall(), attempt, said, resting=resting, price=price)

    async def _wait_unless_stopped(self, seconds: float) -> None:
        waiting = asyncio.ensure_future(self._sleep(seconds))
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            stopping.cancel()

    # Tools

    async def _run_tool(self, command: RunTool) -> None:
        refused = await self._tools.refuse(_call_of(command))
        if refused is not None:
            await self._finish(command.call_id, command.name, refused)
            return
        if await self._stop_is_noted():
            return
        started = ToolStarted(self._wall(), command.call_id, command.name, command.arguments, command.key)
        await self._log.append([*command.closing, started])
        await self._run_started(command)

    async def _settle_tool(self, command: SettleTool) -> None:
        answer = await self._tools.probe(_call_of(command), command.key)
        if command.again and answer in ("again", "not_done") and not await self._stop_is_noted():
            again = ToolStarted(self._wall(), command.call_id, command.name, command.arguments, command.key)
            await self._log.append([again])
            await self._run_started(command)
            return
        changes = await self._tools.changes(command.key) if answer == "done" else ()
        outcome = settled(answer, changes, is_suspect=not command.again)
        await self._finish(command.call_id, command.name, outcome)

    async def _run_started(self, command: RunTool | SettleTool) -> None:
        teller = Teller(self._log, self._wall, command.call_id)

        async def left(outcome: ToolOutcome) -> None:
            await teller.done()
            effect = self._policy.tool(command.name).effect
            await store_left(self._log, self._wall, command.call_id, command.name, effect, outcome)

        async def run() -> ToolOutcome:
            if not await self._log.is_held():  # asked right before it starts
                raise Fenced(self._log.stream, -1, -1)
            self._begun.add(command.call_id)
            stop = Either(self.stop, self.leaving)
            call = _call_of(command)
            return await self._tools.run(call, command.key, teller.say, stop, command.seen)

        try:
            outcome = await outcome_of(asyncio.create_task(run()), self.leaving, self._sleep, left)
        finally:
            await teller.done()
        await self._finish(command.call_id, command.name, outcome)

    async def _finish(self, call_id: str, name: str, outcome: ToolOutcome) -> None:
        """A result that cannot be stored is not given up at once: the tool has run."""
        for left in range(_STORE_TRIES, -1, -1):
            try:
                await self._log.append([ToolFinished(self._wall(), call_id, name, outcome)])
                return
            except StorageFull:
                if not left:
                    raise
                await self._sleep(_STORE_AGAIN)


def _call_of(work: ApprovalAsked | RunTool | SettleTool) -> SoundCall:
    return SoundCall(work.call_id, work.name, work.arguments)
