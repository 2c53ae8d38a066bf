"""Where a session stands: a fold over its facts."""

from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.session.facts import (
    BegunAnew,
    FreshWhy,
    MessageAccepted,
    MessageDeferred,
    MessageInjected,
    MessageRefused,
    SessionFact,
    SessionMade,
    Suspended,
    Undone,
)
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import Message

MessageState = Literal["accepted", "injected", "deferred", "refused"]
KEPT = 200
"""Messages whose fate is kept at hand. All of them are in the journal."""


class Fate(Struct, frozen=True):
    """What became of a message so far. `run` is where its answer is."""

    id: str
    state: MessageState
    run: RunId
    at: float
    why: str = ""


class SessionState(Struct, frozen=True):
    """One session. `runs` are those that count, since the conversation last began anew; `waiting` is the queue."""

    made_at: float = 0.0
    spoken_at: float = 0.0
    history: tuple[Message, ...] = ()
    runs: tuple[RunId, ...] = ()
    waiting: tuple[MessageAccepted, ...] = ()
    steering: tuple[MessageAccepted, ...] = ()
    """Handed to the run that is under way, which has not yet taken them in."""
    suspended: Suspended | None = None
    anew: BegunAnew | None = None
    """The conversation begins anew with the next run, whose model and user have not been told yet."""
    undone: frozenset[RunId] = frozenset()
    fates: dict[str, Fate] = {}

    @property
    def last_run(self) -> RunId | None:
        return self.runs[-1] if self.runs else None

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be answered."""
        return not (self.waiting or self.steering)


def apply(state: SessionState, fact: SessionFact) -> SessionState:
    """The state behind this fact."""
    match fact:
        case SessionMade():
            return replace(state, made_at=fact.at, spoken_at=fact.at, history=fact.history)
        case MessageAccepted():
            told = _fated(state, Fate(fact.id, "accepted", fact.run, fact.at))
            if fact.busy == "steer":
                return replace(told, steering=(*state.steering, fact), spoken_at=fact.at)
            return replace(told, waiting=(*state.waiting, fact), spoken_at=fact.at)
        case MessageInjected():
            return _injected(state, fact)
        case MessageDeferred():
            late = tuple(one for one in state.steering if one.id == fact.id)
            told = _fated(state, Fate(fact.id, "deferred", late[0].run if late else RunId(""), fact.at, fact.why))
            return replace(_without(told, fact.id), waiting=(*state.waiting, *late))
        case MessageRefused():
            run = state.fates[fact.id].run if fact.id in state.fates else RunId("")
            return _without(_fated(state, Fate(fact.id, "refused", run, fact.at, fact.why)), fact.id)
        case Suspended():
            return replace(state, suspended=fact)
        case BegunAnew():
            return replace(state, runs=(), history=(), suspended=None, anew=fact)
        case Undone():
            runs = tuple(run for run in state.runs if run != fact.run)
            return replace(state, runs=runs, undone=state.undone | {fact.run})
    assert_never(fact)


def fold(facts: tuple[SessionFact, ...]) -> SessionState:
    state = SessionState()
    for fact in facts:
        state = apply(state, fact)
    return state


def why_anew(state: SessionState) -> FreshWhy | None:
    """Why the next message would begin the conversation anew."""
    return state.suspended.why if state.suspended is not None else None


def _injected(state: SessionState, fact: MessageInjected) -> SessionState:
    state = _without(_fated(state, Fate(fact.id, "injected", fact.run, fact.at)), fact.id)
    if fact.how == "steered":
        return state
    return replace(state, runs=(*state.runs, fact.run), anew=None)


def _without(state: SessionState, message: str) -> SessionState:
    return replace(
        state,
        waiting=tuple(one for one in state.waiting if one.id != message),
        steering=tuple(one for one in state.steering if one.id != message),
    )


def _fated(state: SessionState, fate: Fate) -> SessionState:
    fates = {**state.fates, fate.id: fate}
    while len(fates) > KEPT:
        del fates[next(iter(fates))]
    return replace(state, fates=fates)
