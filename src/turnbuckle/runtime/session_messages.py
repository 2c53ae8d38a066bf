"""What is said to a session, what comes of it, and the rules by which that goes."""

from collections.abc import Awaitable, Callable
from datetime import tzinfo

from msgspec import DecodeError, Struct
from msgspec.structs import replace

from turnbuckle.errors import BudgetSpent
from turnbuckle.journal.port import Damaged, FormatUnknown, JournalError, TooLarge
from turnbuckle.session.facts import BegunAnew, Busy, SessionFact
from turnbuckle.session.reset import ResetRule, Surface, reason
from turnbuckle.session.state import SessionState
from turnbuckle.turn.approvals import open_in
from turnbuckle.turn.facts import RunStarted
from turnbuckle.turn.labels import short_argument
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import RouteName, RunId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.redaction import without_credentials
from turnbuckle.vocab.request import RunOptions


class WorkerClosed(Exception):
    """The worker gave its claim back a moment ago; open it again."""


class IncomingMessage(Struct, frozen=True):
    """A message as it comes in. `again`: it was said under the same key before, or may have been."""

    messages: tuple[Message, ...]
    busy: Busy | None = None
    options: RunOptions = RunOptions()
    origin: Origin = Origin()
    first: tuple[Message, ...] = ()
    anew: bool = False
    run: RunId | None = None
    again: bool = False


class Accepted(Struct, frozen=True):
    """A message that was stored. `after` is where its answer begins in the run's stream: behind what is there
    already, if it entered a run that was under way. `queued` says what it waits for, if it does. `again`: it
    was stored before, and where its answer begins is to be read there."""

    id: str
    run: RunId
    at: float
    after: int = 0
    queued: str = ""
    again: bool = False


def said_again(
    started: RunStarted, first: tuple[Message, ...], run: RunId | None, route: str
) -> IncomingMessage:
    """What began a run, to begin another with; on this route, if one is named."""
    messages, options = started.messages[len(started.messages) - started.fresh :], started.options
    origin = replace(started.origin, notice="", notice_why="", queued="")  # once, and that was then
    if route:
        options = replace(options, route=RouteName(route))
        origin = replace(origin, model=f"agent/{route}" if options.own_tools else route)
    return IncomingMessage(messages, "refuse", options, origin, first, run=run)


def turn_awaited(before: Turn | None, waiting: int) -> str:
    """What a message waits for that does not begin at once: the turn that is under way, and so many
    messages."""
    others = f", and {waiting} {'message' if waiting == 1 else 'messages'} before this one" if waiting else ""
    if before is None:
        return f"Waiting for its turn in this session{others}"
    asked = [call for call in open_in(before) if call.consent is not None]
    if not asked:
        return f"Waiting for its turn: the run {before.run} is under way in this session{others}"
    call, consent = asked[0], asked[0].consent
    assert consent is not None
    label = without_credentials(short_argument(call.arguments))
    what = (
        f"an answer: {label}"
        if consent.question
        else f"consent to run {call.name}{f': {label}' if label else ''}"
    )
    where = f"POST /v1/runs/{before.run}/approvals/{consent.id}"
    return f"Waiting for its turn: the run {before.run} waits for {what} ({where}){others}"


class Stopped(Struct, frozen=True):
    """What a stop found: the run that it ended, and the messages that will not be answered."""

    run: RunId | None = None
    refused: tuple[str, ...] = ()


_ANEW = "/new begins a new conversation"


def refusal(error: Exception) -> str:
    """Why a message cannot be answered, for people."""
    match error:
        case TooLarge():
            return f"this conversation has become too large to be stored ({error.size / 1e6:.0f} MB); {_ANEW}"
        case Damaged() | FormatUnknown() | DecodeError():
            what = "what was said before in this conversation cannot be read"
            return f"{what}: {error}; {_ANEW}, and turnbuckle doctor tells what is damaged"
        case BudgetSpent():
            return str(error)
        case JournalError():
            return f"the journal does not take it: {error}"
        case _:
            return "something went wrong in the server, again and again; its log tells more"


class SessionRules(Struct, frozen=True):
    """The settings of every session."""

    busy: Busy = "queue"
    reset: ResetRule = ResetRule()
    zone: tzinfo | None = None
    opening: tuple[Message, ...] = ()
    quiet: tuple[Surface, ...] = ()
    """Where users are not told of a fresh start that somebody wanted. The model always is."""
    may_begin: Callable[[str, RunId], Awaitable[None]] | None = None
    """Raises BudgetSpent if this owner may not begin this run."""


def due_reset(rules: SessionRules, state: SessionState, now: float) -> list[SessionFact]:
    """What a message that finds the session at rest changes before it is taken."""
    if state.suspended is not None or not (state.runs or state.inherits):
        return []  # it starts fresh with its run, or has nothing to leave behind
    due = reason(rules.reset, state.spoken_at, now, rules.zone) if rules.zone is not None else None
    return [BegunAnew(now, due)] if due is not None else []
