"""What happened in a run. These are the items of its journal, and the only input of the turn.

A fact is written before anybody acts on it or sees it. Choices are facts too, so that readers, replays and
tests see one story. `at` is wall time in seconds, given by whoever wrote the fact. `worked` is for how many
seconds the run was worked on since the fact before, by a clock that no step of the wall clock and no sleep of
the machine moves; facts of older runs do not have it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turnbuckle.reply.draft import DoubtfulRest, Draft
from turnbuckle.turn.compaction import Compaction, Folding, Measure, Step
from turnbuckle.turn.consent import ConsentRule
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.ids import DraftId, ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Price, Spent
from turnbuckle.vocab.quirks import CapField
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.route_use import RouteUse
from turnbuckle.vocab.tooling import ToolOutcome

ApprovalKind = Literal["approval", "question"]
AskWhy = Literal[
    "first", "after_tools", "steered", "retry", "continue", "finish_draft", "fallback", "reask", "compact"
]
Continuation = Literal["length", "text", "call", "unreadable", "paused"]
"""What a continuation asks for: go on behind the output cap, go on behind a lost connection, do the cut call
in smaller pieces, make a call that can be read, or nothing at all since the provider wants its own words
back."""
Change = Literal[
    "nothing",  # the same again
    "plain",  # without streaming
    "more_room",  # a larger output cap
    "less_effort",  # less reasoning
    "say_something",  # a note: nothing arrived
    "valid_calls",  # a note: the call could not be read; smaller, valid calls
    "retold",  # the history in plain words, since the provider refused it as it was
    "words_only",  # without parts of answers that only their provider knows, and may have refused
    "less_room",  # a smaller output cap, since the provider allows no more
    "cap_field",  # the output cap under its other name
    "smaller",  # with a history that was made smaller, since it did not fit
    "unsummarised",  # without the summary that no model could make
]


class Retry(Struct, frozen=True, tag="retry"):
    """Ask the same route again, in silence: nothing was shown."""

    after: float


class Continue(Struct, frozen=True, tag="continue"):
    """Keep what was shown and ask for the rest. `escalation` counts the cuts in a row on the same tool."""

    kind: Continuation
    tool: str = ""
    escalation: int = 0


class FinishDraft(Struct, frozen=True, tag="finish_draft"):
    """Keep the cut arguments as a draft and ask only for the rest of them."""

    draft: DraftId
    escalation: int = 0


class Fallback(Struct, frozen=True, tag="fallback"):
    """Go to another route. What was shown is kept, and `then` says how it is asked to go on. A route that was
    left before, for a failure that may have passed, is come back to `after` a while."""

    route: RouteName
    then: Continue | FinishDraft | None = None
    after: float = 0.0


class Reask(Struct, frozen=True, tag="reask"):
    """Ask again with something changed that can change the outcome. The reply leaves no trace in the
    history."""

    change: Change
    after: float = 0.0
    cap: int | None = None
    """The smaller output cap."""
    cap_field: CapField | None = None
    """The other name of the output cap."""


class GiveUp(Struct, frozen=True, tag="give_up"):
    """End the turn. `kind` is the outcome; `why` is a sentence for the user."""

    kind: Literal["partial", "failed", "cancelled"]
    why: str


SESSION = RunId("@")
"""The base of a run that stands on what its session was made with."""

Decision = Retry | Continue | FinishDraft | Fallback | Reask | GiveUp


class RunStarted(Struct, frozen=True, tag="run_started", omit_defaults=True):
    """The task, with what the model is told before it and nobody had stored yet.

    `base` names what the run stands on: the run whose end comes before `messages`, or `SESSION`, what its
    session was made with. Without a base the messages are all there is. The first `opening` of them stand in
    front of everything, in place of the instructions that the base begins with; unset, those stay. The
    last `fresh` messages came with this task. `told` is the length of the base in characters, and
    `drafted` says whether a draft was finished in it: what a reader must know of a base that it does not
    read."""

    at: float
    run: RunId
    session: SessionId
    messages: tuple[Message, ...]
    fresh: int = 1
    options: RunOptions = RunOptions()
    origin: Origin = Origin()
    base: RunId = RunId("")
    opening: int | None = None
    told: int = 0
    drafted: bool = False
    compacted: RunId = RunId("")
    """The run whose compaction says how the base is told; empty: all of it is told as it was said."""

    @property
    def notice(self) -> str:
        """What the user is told before the answer, once: that the conversation starts fresh, and why."""
        return self.origin.notice


class RunClaimed(Struct, frozen=True, tag="run_claimed"):
    """Another process took the run over. What the one before it had under way is an orphan now. `kept`: it is
    the same process, which had to let go because the store failed."""

    at: float
    epoch: int
    kept: bool | UnsetType = UNSET


class ModelAsked(Struct, frozen=True, tag="model_asked"):
    """A request goes out. `notes` are the runtime's own words to the model, appended to the history."""

    at: float
    attempt: int
    route: RouteName
    protocol: ProtocolName
    model: str
    why: AskWhy
    notes: tuple[Message, ...] = ()
    stream: bool = True
    cap: int | None = None
    effort: str | None = None
    cap_field: CapField | None = None
    """How the output cap must be called, where the host has refused its usual name."""
    worked: float | UnsetType = UNSET
    way: str = ""
    """How the rest of something is asked for, where it is not by the notes: see `ladder`."""
    expected: int = 0
    """The tokens that the request should take, and of how many the model's window is, if that is known.
    `guessed` is what they are by length alone."""
    guessed: int = 0
    window: int | None = None
    folding: Folding | None = None
    """The summary that is asked for, if this is not part of the conversation."""
    max_money: float | UnsetType = UNSET
    """The limits of the run in US dollars and in tokens, if it has any."""
    max_tokens: int | UnsetType = UNSET


class Streamed(Struct, frozen=True, tag="streamed", omit_defaults=True):
    """Several pieces of model output, as they are shown: repeated text has been taken out at the seam. Long
    after the run has ended such events may be merged: `merged` is for how many numbers this one stands, up to
    its own. With the last word it is known which routes rest at that moment, and what the call cost."""

    at: float
    attempt: int
    events: tuple[Event, ...]
    merged: int = 0
    worked: float | UnsetType = UNSET
    resting: tuple[RouteName, ...] = ()
    price: Price | None = None
    """The price that held for the call; None if nobody knows it."""


class Noticed(Struct, frozen=True, tag="noticed"):
    """One quiet line for the user about what the model says next: where a seam could not be proved, say."""

    at: float
    attempt: int
    notice: str


class Waited(Struct, frozen=True, tag="waited"):
    """Nothing had happened for a while, and somebody who counts numbered events was told that the run is
    still there. It changes nothing and means nothing else: it is a fact so that the number it was told under
    is its own forever."""

    at: float
    worked: float | UnsetType = UNSET


class Decided(Struct, frozen=True, tag="decided"):
    """What became of an attempt that did not simply end: the verdict, why, and what is done about it.

    `notice` is one quiet line for the user, empty where nothing needs to be said. `tool` is the tool whose
    call was cut, if any. `gained` counts the characters that are kept, `lost` those that cannot be
    used."""

    at: float
    attempt: int
    verdict: str
    evidence: tuple[str, ...]
    decision: Decision
    failure: Failure | None = None
    notice: str = ""
    tool: str = ""
    gained: int = 0
    lost: int = 0
    worked: float | UnsetType = UNSET


class Compacted(Struct, frozen=True, tag="compacted", omit_defaults=True):
    """From here on a shorter form replaces older messages in requests; the stored conversation stays.
    `before` and `after` are the tokens that the next request would take; `given` the characters of the
    history before what the run added behind the compaction. `why` says why there is no summary where
    there should be one."""

    at: float
    step: Step
    compaction: Compaction
    before: int
    after: int
    given: int
    summarised: int = 0
    why: str = ""
    worked: float | UnsetType = UNSET


class SummaryDropped(Struct, frozen=True, tag="summary_dropped"):
    """A summary came and is not used, since requests would not be smaller with it: they would take `after`
    tokens instead of `before`. The history stays as it was."""

    at: float
    before: int
    after: int
    worked: float | UnsetType = UNSET


class DraftKept(Struct, frozen=True, tag="draft_kept", omit_defaults=True):
    """A cut call's arguments are kept. `left_by` names the earlier run of the conversation that was left with
    it."""

    at: float
    draft: Draft
    left_by: str = ""


class DraftGrown(Struct, frozen=True, tag="draft_grown", omit_defaults=True):
    """The draft's first `kept` characters stay and `added` comes behind them. A rest that could belong to it
    in several ways is kept beside it as `doubtful` instead, until the model has said which."""

    at: float
    draft: DraftId
    kept: int
    added: str
    doubtful: DoubtfulRest | None = None


class DraftClosed(Struct, frozen=True, tag="draft_closed"):
    """The draft became a call, or the model made another call in its place."""

    at: float
    draft: DraftId
    how: Literal["finished", "superseded"]


class HeldCall(Struct, frozen=True, omit_defaults=True):
    """A call of a reply that was cut: whole in `arguments`, or begun in `draft`, or with neither, to be made
    again."""

    id: str
    name: str
    arguments: str = ""
    draft: DraftId = DraftId("")

    @property
    def is_whole(self) -> bool:
        return bool(self.arguments)


class CallsHeld(Struct, frozen=True, tag="calls_held"):
    """The calls of a reply that was cut, in their order, in place of what was held before. None of them
    starts before all are whole; then they start together."""

    at: float
    calls: tuple[HeldCall, ...]


class UserSpoke(Struct, frozen=True, tag="user_spoke", omit_defaults=True):
    """Somebody said something while the turn was under way. The model is told with the next call that
    continues nothing. `origin.after` is the number behind which the answer to them is read."""

    at: float
    id: str
    messages: tuple[Message, ...]
    worked: float | UnsetType = UNSET
    origin: Origin = Origin()


class ToolStarted(Struct, frozen=True, tag="tool_started"):
    """The intent. It is on disk before the tool does anything. `key` is the same if the tool is run again."""

    at: float
    call_id: str
    name: str
    arguments: dict[str, Any]
    key: str
    worked: float | UnsetType = UNSET


class ToolSaid(Struct, frozen=True, tag="tool_said"):
    """A piece of what a running tool prints."""

    at: float
    call_id: str
    text: str
    worked: float | UnsetType = UNSET


class ToolFinished(Struct, frozen=True, tag="tool_finished"):
    """How a call went. Exactly one per call; a call that never started has only this."""

    at: float
    call_id: str
    name: str
    outcome: ToolOutcome
    worked: float | UnsetType = UNSET


class ApprovalAsked(Struct, frozen=True, tag="approval_asked", omit_defaults=True):
    """A person must say yes before this very call may start, or must answer the question that it is. The
    arguments are frozen here: any other call needs a consent of its own. After `expires`, if set, nobody's
    answer counts. `why` says which rule asks. `changes` is what the call would do to files as they are now.
    `always` are the rules that the answer *always* would write."""

    at: float
    approval: str
    call_id: str
    name: str
    arguments: dict[str, Any]
    kind: ApprovalKind = "approval"
    question: str = ""
    expires: float | None = None
    worked: float | UnsetType = UNSET
    why: str = ""
    changes: tuple[FileChange, ...] = ()
    always: tuple[ConsentRule, ...] = ()


class ApprovalAnswered(Struct, frozen=True, tag="approval_answered", omit_defaults=True):
    """The one answer. `withdrawn`: the run was stopped before anybody answered. `text` answers a question, or
    is a message to the model. `always`: the rules that were shown with the question hold from here on."""

    at: float
    approval: str
    verdict: Literal["allowed", "denied", "answered", "expired", "withdrawn"]
    by: str = ""
    text: str = ""
    worked: float | UnsetType = UNSET
    always: bool = False


class HandedCall(Struct, frozen=True, omit_defaults=True):
    """A whole call of a tool that the caller runs. `id` is what the caller knows it by, `inner` what the
    model does. `state` is what its provider noted of it, for callers who speak the same protocol."""

    id: str
    name: str
    arguments: str
    inner: str
    free_text: bool = False
    """The caller wants its input as plain text, and `arguments` holds that alone."""
    state: dict[str, Any] = {}


class CallsHandedOver(Struct, frozen=True, tag="calls_handed_over"):
    """These calls go to whoever asked for the run, and the run ends. Their results come with the next one."""

    at: float
    calls: tuple[HandedCall, ...]


class RunLeft(Struct, frozen=True, tag="run_left"):
    """The process released the run cleanly, without an end; it continues when a process resumes it."""

    at: float
    why: str
    worked: float | UnsetType = UNSET


class StopAsked(Struct, frozen=True, tag="stop_asked"):
    """Somebody wants the run to end. `keeps`: it is an interrupt, and the conversation goes on from what
    there is."""

    at: float
    by: str = "user"
    worked: float | UnsetType = UNSET
    keeps: bool = False


class RunEnded(Struct, frozen=True, tag="run_ended", omit_defaults=True):
    """The last item of a run, exactly one. `added` is what the run added to its conversation behind what it
    began with, so that the next one need not fold it; unset where that would be too much for one item."""

    at: float
    outcome: Outcome
    added: tuple[Message, ...] | None = None
    compaction: Compaction | None = None
    """The last compaction of this run, for whoever goes on from it."""
    words_only: tuple[tuple[RouteName, str], ...] = ()
    """Routes and models that refused parts of their own answers, and are told the words alone."""
    measure: Measure | None = None
    """What its history takes, as far as that is known."""
    spent: Spent | None = None
    """What its model calls have used. None in runs of versions that did not count it."""
    drafted: bool = False
    """Whether there was a draft in its conversation so far."""
    routes: tuple[RouteUse, ...] = ()
    """The routes that it has asked, the last one last, and what broke there."""


Fact = (
    RunStarted
    | RunClaimed
    | ModelAsked
    | Streamed
    | Noticed
    | Waited
    | Decided
    | Compacted
    | SummaryDropped
    | DraftKept
    | DraftGrown
    | DraftClosed
    | CallsHeld
    | UserSpoke
    | ToolStarted
    | ToolSaid
    | ToolFinished
    | ApprovalAsked
    | ApprovalAnswered
    | CallsHandedOver
    | RunLeft
    | StopAsked
    | RunEnded
)

_decoder: "msgspec.json.Decoder[Fact]" = msgspec.json.Decoder(Fact)
_list_decoder: "msgspec.json.Decoder[list[Fact]]" = msgspec.json.Decoder(list[Fact])
_encoder = msgspec.json.Encoder()

encode: Callable[[Fact], bytes] = _encoder.encode
"""A fact as the journal keeps it."""
decode: Callable[[bytes], Fact] = _decoder.decode
"""A fact from the journal."""


def decode_all(stored: Iterable[bytes]) -> list[Fact]:
    """Facts from the journal, read in one go: a long run is read several times as fast."""
    return _list_decoder.decode(b"[%b]" % b",".join(stored))
