"""A session in its world: people who speak and stop at any moment, processes that die at any moment.

Moments are counted by what is stored: a deed is done, or the process dies, when so many items were appended.
Storing takes a turn of the event loop on both sides, as it does in a real store, so whatever can come between
comes between. Whoever was not told that a message was taken says it again to the next process, as a client
with a key of its own does.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

from msgspec import Struct

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Changes, Claim, Grade, Held, IndexUpdate, Landed
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.runtime.conversation import KIND as KEPT
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.runs import RunRules, Runs
from turnbuckle.runtime.session_messages import Accepted, IncomingMessage, SessionRules, Stopped
from turnbuckle.runtime.session_worker import SessionWorker
from turnbuckle.service.limits import Slots
from turnbuckle.service.services import make_services
from turnbuckle.session.facts import Busy, SessionFact
from turnbuckle.session.facts import decode as decode_session
from turnbuckle.session.state import SessionState, fold
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.faults import NOTHING
from turnbuckle.testing.world.model import Asked, Step, WorldModel
from turnbuckle.testing.world.process import Killed, Luck, WorldProcess
from turnbuckle.testing.world.tools import FACTS, Disk, Done, WorldTools
from turnbuckle.turn.facts import Fact, decode
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Cut, Ended, Event, TextDelta
from turnbuckle.vocab.ids import ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.request import ModelRequest

T = TypeVar("T")

SESSION = SessionId("s")
USER = "local"
LAST = "the last word"
QUIET = 60.0
"""Seconds in which all that was begun comes to its end."""
ROUTE = RouteName("route")
Kind = Literal["say", "stop", "interrupt", "new", "undo", "retry"]
Answer = Accepted | Stopped | RunId | str | None


class Deed(Struct, frozen=True):
    """What somebody does when so many items were stored, or when nothing moves any more."""

    kind: Kind
    at: int = 0
    text: str = ""
    busy: Busy | None = None


class Plot(Struct, frozen=True):
    """What happens in a world. The process dies right `after` or `before` an append, once for each number."""

    deeds: tuple[Deed, ...]
    deaths: tuple[int, ...] = ()
    side: Literal["before", "after"] = "after"
    busy: Busy = "queue"
    resume: bool = True
    protocol: ProtocolName = "openai_chat"
    max_recoveries: int = 2


class Stored(Struct, frozen=True):
    """One fact, in the order of the world. `append` is the number of the append that it came with."""

    append: int
    life: int
    stream: str
    fact: Fact | SessionFact


class Chronicle(Struct, frozen=True):
    """All that can be known of a session when everything in it has come to rest."""

    plot: Plot
    stored: tuple[Stored, ...]
    state: SessionState
    answers: dict[int, Answer]
    """What each deed was told, by its place; a text where it was refused."""
    runs: dict[int, RunId]
    """The run that each message was said to begin."""
    asked: tuple[Asked, ...]
    done: tuple[Done, ...]
    unfinished: tuple[str, ...]
    slots: int
    appends: int
    last: Accepted

    def facts(self, stream: str = SESSION) -> list[Fact | SessionFact]:
        return [one.fact for one in self.stored if one.stream == stream]

    @property
    def streams(self) -> list[str]:
        """All runs in the order in which they began."""
        return list(dict.fromkeys(one.stream for one in self.stored if one.stream != SESSION))


def talkative(request: ModelRequest, number: int) -> list[Step]:
    """A model that answers what was said last, by name; of tasks that begin with `tool` it first runs a
    command."""
    messages = request.messages
    last = max(place for place, one in enumerate(messages) if one.role == "user" and not one.note)
    task = text_of(messages[last].parts[-1:])
    behind = messages[last + 1 :]
    said = "".join(text_of(message.parts) for message in behind if message.role == "assistant")
    results = [part for message in behind for part in message.parts if isinstance(part, ResultPart)]
    if task.startswith("tool") and not results:
        return [Call("shell", {"command": f"make {task}"}), Finish()]
    whole = f"To {task}: yes."
    left = whole[len(said) :] if whole.startswith(said) else whole
    return [*([Say(left, 0 if task == LAST else 6)] if left else []), Finish()]


class Brief(WorldModel):
    """Says in one burst what comes before the next piece of text, so that a turn has few moments."""

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        held: list[Event] = []
        async for burst in super().attempt(route, request, stop):
            held += burst
            if isinstance(held[-1], TextDelta | Cut | Ended):
                yield held
                held = []


class Life(WorldProcess):
    """One process. It dies where the plot says, and nothing that it does afterwards is seen by anybody."""

    def __init__(self, world: "SessionWorld", number: int) -> None:
        super().__init__(world.journal, Luck(NOTHING), lambda: None)
        self._world = world
        self._number = number
        self._awake = asyncio.Event()
        self._awake.set()

    def pause(self) -> None:
        """What SIGSTOP does: it comes no further than to its next word with the journal."""
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    async def renew(self, claim: Claim, seconds: float) -> bool:
        await self._awake.wait()
        return await super().renew(claim, seconds)

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        await self._awake.wait()
        return await super().claim(stream, owner, seconds, begins=begins)

    async def release(self, claim: Claim) -> None:
        await self._awake.wait()
        await super().release(claim)

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        await self._step()
        number = self._world.next_append(self, "before")
        head = await self._journal.append(stream, items, after=after, epoch=epoch, grade=grade, note=note)
        self._luck.intents += [item for item in items if item.startswith(b'{"type":"tool_started"')]
        self._world.keep(number, self._number, stream, items)
        self._world.after_append(self, number)
        await self._step()
        return head

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        self._live()
        return self._journal.append_soon(stream, item, after=after, epoch=epoch, landed=landed)

    async def change_all(self, changes: Changes) -> bool:
        await self._step()
        number = self._world.next_append(self, "before")
        changed = await self._journal.change_all(changes)
        for one in changes.appends if changed else ():
            self._world.keep(number, self._number, one.stream, one.items)
        self._world.after_append(self, number)
        await self._step()
        return changed

    async def _step(self) -> None:
        self._live()
        await asyncio.sleep(0)
        if not self._awake.is_set():
            await self._awake.wait()
        self._live()

    def die(self) -> None:
        self._die()


class SessionWorld:
    """One world. `play` once, on the loop of its clock."""

    def __init__(self, plot: Plot, clock: VirtualClock, rules: SessionRules | None = None) -> None:
        self.journal = MemoryJournal(monotonic=clock.now, wall=self._wall)
        self.appends = 0
        self._plot = plot
        self._clock = clock
        self._rules = rules or SessionRules(busy=plot.busy)
        self._policy = Policy(
            (RouteFacts(ROUTE, plot.protocol, "model"),), FACTS, max_recoveries=plot.max_recoveries
        )
        self._disk = Disk()
        self._models: list[WorldModel] = []
        self._stored: list[Stored] = []
        self._deaths = list(plot.deaths)
        self._begun: set[int] = set()
        self._doing: set[asyncio.Future[None]] = set()
        self._answers: dict[int, Answer] = {}
        self._runs: dict[int, RunId] = {}
        self._names = itertools.count(1)
        self._moments = itertools.count(1)
        self._stale_after = 0.0
        self._died = asyncio.Event()
        self._heir: MemoryJournal | None = None

    # A world without a plot, for those who want to do one thing after the other

    async def start(self) -> None:
        await self._live()

    async def end(self) -> None:
        await self._bury()

    async def in_worker(self, act: Callable[[SessionWorker], Awaitable[T]]) -> T:
        return await self.manager.with_worker(SESSION, USER, act)

    async def pass_time(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def pause(self) -> Life:
        """Pause the process that is there, and give it, to be woken later."""
        self._life.pause()
        return self._life

    async def another(self) -> None:
        """One more process over the same journal; from here on it is the one that is spoken to."""
        await self._live()

    async def fall_and_rise(self, later: float = 0.0, stale_after: float = 0.0) -> None:
        """The process dies, and so much later the next one starts."""
        self._heir, self._stale_after = self.journal.after_kill(), stale_after
        await self._bury()
        await self.pass_time(later)
        await self._next_life()

    def done(self) -> int:
        """How often a tool did something."""
        return len(self._disk.done)

    def effects(self) -> tuple[Done, ...]:
        """All that tools did."""
        return tuple(self._disk.done)

    def chronicle(self) -> tuple[Stored, ...]:
        return tuple(self._stored)

    def asked_by(self, life: int) -> int:
        """How many model calls a process made."""
        return len(self._models[life].asked)

    # What a process tells

    def next_append(self, life: Life, side: str) -> int:
        number = self.appends
        self.appends += 1
        if self._plot.side == side and number in self._deaths:
            self._die(life, number)
        return number

    def after_append(self, life: Life, number: int) -> None:
        for place, deed in enumerate(self._plot.deeds):
            if deed.at == number and place not in self._begun:
                self._begin(place)
        if self._plot.side == "after" and number in self._deaths:
            self._die(life, number)

    def keep(self, number: int, life: int, stream: str, items: Sequence[bytes]) -> None:
        if stream != SESSION and items[0].startswith(b'{"type":"session_made"'):
            return  # a fork has a story of its own
        if stream.startswith(f"{KEPT}:"):
            return  # nothing that happened, but what others keep of what is deleted
        read = decode_session if stream == SESSION else decode
        self._stored += [Stored(number, life, stream, read(item)) for item in items]

    def _die(self, life: Life, number: int) -> None:
        self._deaths.remove(number)
        self._heir = self.journal.after_kill()
        self._died.set()
        life.die()

    # Playing

    async def play(self) -> Chronicle:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: None
        )  # the dead leave much unsaid
        await self._live()
        while True:
            waiting = [place for place in range(len(self._plot.deeds)) if place not in self._begun]
            await self._until_quiet()
            if self._died.is_set():
                await self._next_life()
            elif waiting and waiting[0] not in self._begun:
                self._begin(waiting[0])
            elif not waiting:
                break
        self._deaths.clear()
        self._heir = self.journal.after_kill()
        await self._next_life()  # whatever was left lying is found now
        await self._until_quiet()
        last = await self._say(IncomingMessage((message(LAST),), "queue", run=RunId("last")))
        await self._until_quiet()
        told = await self._told(last)
        await self._bury()
        return told

    async def _live(self) -> None:
        """A process starts as the server does."""
        life = self._life = Life(self, len(self._models))
        model = Brief({ROUTE: talkative}, life, protocols={ROUTE: self._plot.protocol})
        self._models.append(model)
        owner = f"process {len(self._models)}"
        environment = Environment(owner, self._wall, self._clock.sleep, self._name)
        rules = RunRules(self._policy)
        runs = Runs(life, rules, model, lambda run: WorldTools(self._disk, life), environment)
        self.slots = Slots(100, 100)
        services = make_services(life, runs, self._rules, slots=self.slots)
        self.service, self.lifecycle = services.runs, services.lifecycle
        self.runs, self.manager, self.sessions = runs, services.stores.manager, services.stores.sessions
        starting = asyncio.ensure_future(self._start())
        await asyncio.wait({starting})
        if (
            not starting.cancelled()
            and (error := starting.exception()) is not None
            and not isinstance(error, Killed)
        ):
            raise error

    async def _start(self) -> None:
        await self.sessions.create(SESSION, USER)
        await self.lifecycle.take_up(resume=self._plot.resume, stale_after=self._stale_after)
        for place in sorted(self._begun - self._answers.keys()):
            if self._plot.deeds[place].kind == "say":
                self._begin(place)  # nobody had told them that it was taken

    def _wall(self) -> float:
        """No two things happen at one moment."""
        return self._clock.now() + next(self._moments) * 1e-6

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self._names)}"

    def _begin(self, place: int) -> None:
        self._begun.add(place)
        doing = asyncio.ensure_future(self._do(place))
        self._doing.add(doing)
        doing.add_done_callback(self._doing.discard)

    async def _do(self, place: int) -> None:
        deed = self._plot.deeds[place]
        try:
            if deed.kind == "say":
                run = self._runs.setdefault(place, RunId(f"r-{deed.text}"))
                self._answers[place] = await self._say(
                    IncomingMessage((message(deed.text),), deed.busy, run=run)
                )
            else:
                self._answers[place] = await self._change(deed.kind)
        except SessionBusy as busy:
            self._answers[place] = str(busy)

    async def _say(self, said: IncomingMessage) -> Accepted:
        return await self.manager.with_worker(SESSION, USER, lambda worker: worker.say(said))

    async def _change(self, kind: Kind) -> Answer:
        with_worker = self.manager.with_worker
        match kind:
            case "stop":
                return await with_worker(SESSION, USER, lambda worker: worker.stop("somebody"))
            case "interrupt":
                return await with_worker(SESSION, USER, lambda worker: worker.interrupt("somebody"))
            case "undo":
                return await with_worker(SESSION, USER, lambda worker: worker.undo())
            case "retry":
                return await with_worker(SESSION, USER, lambda worker: worker.retry())
            case _:
                return await with_worker(SESSION, USER, lambda worker: worker.begin_anew("new", "somebody"))

    async def _until_quiet(self) -> None:
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._died.wait()),
            asyncio.ensure_future(self._clock.sleep(QUIET)),
        ]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _next_life(self) -> None:
        assert self._heir is not None
        await self._bury()
        self.journal, self._heir = self._heir, None
        self._died.clear()
        await self._live()

    async def _bury(self) -> None:
        """Nothing of this process is left."""
        self._life.dead = True
        while left := asyncio.all_tasks() - {asyncio.current_task()}:  # what ends may begin something else
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _told(self, last: Accepted) -> Chronicle:
        unfinished = await self.runs.unfinished()
        facts = [one.fact for one in self._stored if one.stream == SESSION]
        state = await self.sessions.state(SESSION)
        assert state == fold(tuple(facts)), "the journal has another story"  # type: ignore[arg-type]
        return Chronicle(
            plot=self._plot,
            stored=tuple(self._stored),
            state=state,
            answers=self._answers,
            runs=self._runs,
            asked=tuple(asked for model in self._models for asked in model.asked),
            done=tuple(self._disk.done),
            unfinished=tuple(row.name for row in unfinished),
            slots=len(self.slots),
            appends=self.appends,
            last=last,
        )


def message(text: str) -> Message:
    return Message("user", (TextPart(text),))


def play(plot: Plot, rules: SessionRules | None = None) -> Chronicle:
    """One world, on a loop of its own."""
    clock = VirtualClock()
    return clock.run(lambda: SessionWorld(plot, clock, rules).play(), quiet=0)
