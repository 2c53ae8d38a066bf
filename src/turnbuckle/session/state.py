"""Where a session stands: a fold over its facts."""

from collections.abc import Iterable
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.session.facts import (
    BegunAnew,
    CompactionUndone,
    FreshWhy,
    MessageAccepted,
    MessageDeferred,
    MessageInjected,
    MessageRefused,
    RunDeleted,
    SessionFact,
    SessionMade,
    Suspended,
    TakenUp,
    Undone,
)
from turnbuckle.vocab.ids import RunId

MessageState = Literal["accepted", "injected", "deferred", "refused"]
KEPT = 200
"""Messages whose fate is kept at hand. All of them are in the journal."""


class MessageStatus(Struct, frozen=True):
    """What became of a message so far. `run` is where its answer is; `own` the run that it would begin
    itself."""

    id: str
    state: MessageState
    run: RunId
    at: float
    why: str = ""
    own: RunId = RunId("")


class SessionState(Struct, frozen=True):
    """One session. `runs` are those that count, since the conversation last started fresh; `waiting` is the
    queue."""

    spoken_at: float = 0.0
    inherits: bool = False
    """It began with what was said elsewhere, and that still counts."""
    runs: tuple[RunId, ...] = ()
    waiting: tuple[MessageAccepted, ...] = ()
    steering: tuple[MessageAccepted, ...] = ()
    """Handed to the run that is under way, which has not yet taken them in."""
    suspended: Suspended | None = None
    anew: BegunAnew | None = None
    """The conversation starts fresh with the next run, whose model and user have not been told yet."""
    undone: frozenset[RunId] = frozenset()
    undone_for: dict[RunId, RunId] = {}
    """What each request took back; an empty id if there was nothing."""
    deleted: frozenset[RunId] = frozenset()
    untold: frozenset[RunId] = frozenset()
    """Runs whose compactions count no more: they were taken back, or stand for something that was deleted."""
    given_up: dict[RunId, FreshWhy] = {}
    """Runs that did not come to their own end, and why. Whoever finds one of them without an end does not go
    on with it by himself."""
    statuses: dict[str, MessageStatus] = {}

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
            return replace(state, spoken_at=fact.at, inherits=not fact.is_empty)
        case MessageAccepted():
            told = _fated(
                state, MessageStatus(fact.id, "accepted", fact.into or fact.run, fact.at, own=fact.run)
            )
            if fact.into:
                return replace(told, steering=(*state.steering, fact), spoken_at=fact.at)
            return replace(told, waiting=_queued(state.waiting, fact), spoken_at=fact.at)
        case MessageInjected():
            return _injected(state, fact)
        case MessageDeferred():
            late = tuple(one for one in state.steering if one.id == fact.id)
            return replace(_without(_told(state, fact, "deferred"), fact.id), waiting=_in_turn(state, late))
        case MessageRefused():
            return _without(_told(state, fact, "refused"), fact.id)
        case Suspended():
            given_up = {**state.given_up, fact.run: fact.why} if fact.run else state.given_up
            return replace(state, suspended=fact, given_up=given_up)
        case TakenUp():
            waits = state.suspended if state.suspended is None or state.suspended.run != fact.run else None
            left = {run: why for run, why in state.given_up.items() if run != fact.run}
            return replace(state, suspended=waits, given_up=left)
        case BegunAnew():
            return replace(state, runs=(), inherits=False, suspended=None, anew=fact)
        case Undone():
            runs = tuple(run for run in state.runs if run != fact.run)
            undone = state.undone | {fact.run} if fact.run else state.undone
            done = {**state.undone_for, fact.request: fact.run} if fact.request else state.undone_for
            return replace(state, runs=runs, undone=undone, undone_for=done)
        case RunDeleted():
            return _without_run(state, fact.run)
        case CompactionUndone():
            done = {**state.undone_for, fact.request: fact.run} if fact.request else state.undone_for
            untold = state.untold | {fact.run} if fact.run else state.untold
            return replace(state, untold=untold, undone_for=done)
    assert_never(fact)


def fold(facts: tuple[SessionFact, ...]) -> SessionState:
    state = SessionState()
    for fact in facts:
        state = apply(state, fact)
    return state


def status_of(
    facts: Iterable[SessionFact], own: RunId, so_far: MessageStatus | None = None
) -> MessageStatus | None:
    """What became of the message that would begin the run `own`, however long ago that was; None if none was
    said."""
    for fact in facts:
        match fact:
            case MessageAccepted() if fact.run == own:
                so_far = MessageStatus(fact.id, "accepted", fact.into or fact.run, fact.at, own=own)
            case MessageInjected() if so_far is not None and fact.id == so_far.id:
                so_far = replace(so_far, state="injected", run=fact.run)
            case MessageDeferred() if so_far is not None and fact.id == so_far.id:
                so_far = replace(so_far, state="deferred", run=own)
            case MessageRefused() if so_far is not None and fact.id == so_far.id:
                so_far = replace(so_far, state="refused", why=fact.why)
    return so_far


def _without_run(state: SessionState, run: RunId) -> SessionState:
    runs = tuple(other for other in state.runs if other != run)
    place = state.runs.index(run) if run in state.runs else 0
    # What later runs have summarised may hold words of it.
    untold = state.untold | {*state.runs[place:]}
    return replace(state, runs=runs, deleted=state.deleted | {run}, untold=untold)


def _queued(waiting: tuple[MessageAccepted, ...], new: MessageAccepted) -> tuple[MessageAccepted, ...]:
    """A message that interrupts is next, behind those that wanted the same before it."""
    if new.busy != "interrupt":
        return (*waiting, new)
    urgent = sum(one.busy == "interrupt" for one in waiting)
    return (*waiting[:urgent], new, *waiting[urgent:])


def _in_turn(state: SessionState, late: tuple[MessageAccepted, ...]) -> tuple[MessageAccepted, ...]:
    """Those that were to enter a turn stand where they would stand if they had waited from the start."""
    order = {message: place for place, message in enumerate(state.statuses)}
    urgent = [one for one in state.waiting if one.busy == "interrupt"]
    others = [*late, *(one for one in state.waiting if one.busy != "interrupt")]
    return (*urgent, *sorted(others, key=lambda one: order.get(one.id, -1)))


def _told(state: SessionState, fact: MessageDeferred | MessageRefused, what: MessageState) -> SessionState:
    before = state.statuses.get(fact.id, MessageStatus(fact.id, "accepted", RunId(""), fact.at))
    run = before.own if what == "deferred" else before.run
    return _fated(state, MessageStatus(fact.id, what, run, fact.at, fact.why, before.own))


def _injected(state: SessionState, fact: MessageInjected) -> SessionState:
    own = state.statuses[fact.id].own if fact.id in state.statuses else fact.run
    state = _without(_fated(state, MessageStatus(fact.id, "injected", fact.run, fact.at, own=own)), fact.id)
    if fact.how == "steered":
        return state
    return replace(state, runs=(*state.runs, fact.run), anew=None)


def _without(state: SessionState, message: str) -> SessionState:
    return replace(
        state,
        waiting=tuple(one for one in state.waiting if one.id != message),
        steering=tuple(one for one in state.steering if one.id != message),
    )


def _fated(state: SessionState, fate: MessageStatus) -> SessionState:
    statuses = {**state.statuses, fate.id: fate}
    while len(statuses) > KEPT:
        del statuses[next(iter(statuses))]
    return replace(state, statuses=statuses)
