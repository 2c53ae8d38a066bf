"""What happened in a session. These are the items of its journal, and the only input of its state.

A session's stream says who spoke and what became of it; what a model and its tools did is in the streams of
the runs. Nothing in here says that something is running: that follows from the claims of the runs.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.turn.compaction import Compaction
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.request import RunOptions

Busy = Literal["queue", "steer", "interrupt", "refuse"]
"""What becomes of a message that comes while a run is under way: it waits; it enters the running turn with
the next model call; it ends that turn and is next; or it is not taken."""

FreshWhy = Literal["new", "reset", "idle", "daily", "stopped", "crashed", "stale"]
"""Why the conversation starts fresh: somebody wanted it, a rule of the settings, or the last run did not end
well."""


class SessionMade(Struct, frozen=True, tag="session_made", omit_defaults=True):
    """How a session began. `history` is what its first run is told before the task, if that is not the
    usual. A fork stands on a run of another session, which `base` names; `opening` means what it means for a
    run."""

    at: float
    history: tuple[Message, ...] = ()
    forked_from: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    """Labels of whoever made it, who alone looks at them."""
    base: RunId = RunId("")
    opening: int | None = None

    @property
    def is_empty(self) -> bool:
        """Nothing was said in it before its first run."""
        return not (self.history or self.base)


class MessageAccepted(Struct, frozen=True, tag="message_accepted", omit_defaults=True):
    """Somebody said something, and is told so only when this is stored. `run` is the id of the run that it
    will begin, known in advance, so that it can be followed before it has begun. `into` is the run under way
    that it is to enter instead, if it can. `first` stands in front of the conversation where that starts
    fresh, and with `anew` in front of every run."""

    at: float
    id: str
    run: RunId
    messages: tuple[Message, ...]
    busy: Busy = "queue"
    options: RunOptions = RunOptions()
    origin: Origin = Origin()
    first: tuple[Message, ...] = ()
    anew: bool = False
    into: RunId = RunId("")


class MessageInjected(Struct, frozen=True, tag="message_injected"):
    """It entered a run: as its task, or as a word into a turn that was under way."""

    at: float
    id: str
    run: RunId
    how: Literal["task", "steered"]


class MessageDeferred(Struct, frozen=True, tag="message_deferred"):
    """It was to enter a turn that ended before it could. It waits for a run of its own."""

    at: float
    id: str
    why: str


class MessageRefused(Struct, frozen=True, tag="message_refused"):
    """It will not be answered."""

    at: float
    id: str
    why: str


class Suspended(Struct, frozen=True, tag="suspended", omit_defaults=True):
    """A run did not come to its own end. The next message starts the conversation fresh, and is told why."""

    at: float
    why: FreshWhy
    run: RunId = RunId("")
    detail: str = ""


class TakenUp(Struct, frozen=True, tag="taken_up"):
    """Somebody wants a run that was left alone to go on after all."""

    at: float
    run: RunId


class BegunAnew(Struct, frozen=True, tag="begun_anew", omit_defaults=True):
    """From here on earlier runs are history that people can read and no model is told."""

    at: float
    why: FreshWhy
    detail: str = ""


class Undone(Struct, frozen=True, tag="undone", omit_defaults=True):
    """This run, and what was said to begin it, count no more. `request` is the id that the request for it
    has, so that the same request takes back nothing more when it is sent again; then `run` is empty if there
    was nothing."""

    at: float
    run: RunId
    request: RunId = RunId("")


class RunDeleted(Struct, frozen=True, tag="run_deleted"):
    """This run is gone forever, and with it what it said. It is never begun again."""

    at: float
    run: RunId


class CompactionUndone(Struct, frozen=True, tag="compaction_undone", omit_defaults=True):
    """The compaction of this run counts no more: the next run is told all that it stood for. `request`
    means what it means for `Undone`."""

    at: float
    run: RunId
    request: RunId = RunId("")


class ConversationKept(Struct, frozen=True, tag="conversation_kept", omit_defaults=True):
    """What others stand on, in a stream of its own that takes the place of something that is gone: the
    instructions of a deleted run, or all that a fork shared with a session that was deleted. The fields mean
    what they mean where a run begins; more of `messages` may follow in further items. `compaction` is the one
    that counted for the fork, made by the run `compacted`: so its model is told the same as before."""

    at: float
    session: SessionId
    messages: tuple[Message, ...] = ()
    base: RunId = RunId("")
    opening: int | None = None
    compaction: Compaction | None = None
    compacted: RunId = RunId("")


SessionFact = (
    SessionMade
    | MessageAccepted
    | MessageInjected
    | MessageDeferred
    | MessageRefused
    | Suspended
    | TakenUp
    | BegunAnew
    | Undone
    | RunDeleted
    | CompactionUndone
)

_decoder: "msgspec.json.Decoder[SessionFact]" = msgspec.json.Decoder(SessionFact)
_encoder = msgspec.json.Encoder()


def encode(fact: SessionFact) -> bytes:
    return _encoder.encode(fact)


def decode(data: bytes) -> SessionFact:
    return _decoder.decode(data)
