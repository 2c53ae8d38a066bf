"""What is told of a run: a closed union, the same for every surface. A surface draws what it has a place for.

Nothing is told that is not stored, and the same facts always give the same values. `cursor` and `at` are
filled in by surfaces that number what they give away.
"""

from typing import Any, Literal

from msgspec import Struct

from turnbuckle.turn.facts import AskWhy, Decision, HandedCall
from turnbuckle.vocab.events import FieldsPlace, Usage
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.ids import DraftId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome, OutcomeKind
from turnbuckle.vocab.prices import Spent
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus

WaitingKind = Literal[
    "provider_first_token", "provider", "tool", "approval", "rate_limit", "retry", "storage", "turn"
]
Verdict = Literal["allowed", "denied", "answered", "expired", "withdrawn"]
About = Literal[
    "conversation", "seam", "break", "given_up", "left", "restarted", "crashed", "stop", "compaction"
]
"""What a notice is about: how the conversation begins, a join that could not be proved, a break and what was
done about it, that it was given up, that the process let go of the run, that it was taken up again (in good
order, or after its process died), that somebody wants it to end, or that the history was made smaller."""
CallState = Literal["arriving", "ready", "dropped", "draft", "superseded", "handed"]
"""Of a call that does not run: its arguments come in, its reply is whole, its reply was cut, what arrived is
kept, another call stands in its place, or the client runs it."""


class _Told(Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """`cursor` is where this stands in its run, `at` is wall time in seconds."""

    cursor: str = ""
    at: float = 0.0


class RunBegun(_Told, frozen=True, tag="run_begun"):
    """The run has begun. It is stored, and can be followed, stopped and resumed by this id. `messages` came
    with it."""

    run: str
    session: str
    messages: tuple[Message, ...] = ()


class UserSaid(_Told, frozen=True, tag="user_said"):
    """The user said more while the run was under way."""

    messages: tuple[Message, ...]


class ModelCalled(_Told, frozen=True, tag="model_called"):
    """A request goes out. `stands_in` is the model of a route that answers in place of the wanted one. It
    should take `expected` tokens of a `window`, if that is known. The run may cost `max_money` US dollars
    and use `max_tokens` in all, if it has such limits."""

    attempt: int
    route: str
    model: str
    why: AskWhy
    stream: bool = True
    stands_in: str = ""
    expected: int = 0
    window: int | None = None
    protocol: str = ""
    max_money: float | None = None
    max_tokens: int | None = None


class ModelNamed(_Told, frozen=True, tag="model_named"):
    """The provider says which model answers, in its own word."""

    attempt: int
    model: str


class HeadTold(_Told, frozen=True, tag="head"):
    """What the provider said in the headers of its answer: its id of the request, what is left of its
    limits."""

    attempt: int
    headers: dict[str, str]


class Text(_Told, frozen=True, tag="text"):
    """Words of the model. All of them in a row are the text of the run's result, with its paragraphs; nothing
    is repeated and nothing is withdrawn. The first `gap` characters only part paragraphs."""

    text: str
    gap: int = 0
    refusal: bool = False
    attempt: int = 0
    block: int = 0


class Paragraph(_Told, frozen=True, tag="paragraph"):
    """The text before this is a paragraph of its own: words that follow belong to the next one."""


class Reasoning(_Told, frozen=True, tag="reasoning"):
    """What the model writes for itself."""

    text: str
    attempt: int = 0
    block: int = 0


class PartOver(_Told, frozen=True, tag="part_over"):
    """A thought or a refusal is over; what comes under its number again is another one."""

    block: int


class PartState(_Told, frozen=True, tag="part_state"):
    """What the provider notes of a part of its reply, for clients that hand it back to it."""

    attempt: int
    block: int
    data: dict[str, Any]


class ProviderItem(_Told, frozen=True, tag="provider_item"):
    """A block that only providers and clients of this protocol understand, whole: a search that the provider
    made, say."""

    protocol: str
    data: dict[str, Any]
    stages: tuple[dict[str, Any], ...] = ()
    """Events about it that nobody here knows, where it is told only when it is whole."""


class ProviderStage(_Told, frozen=True, tag="provider_stage"):
    """An event that only providers and clients of this protocol understand: how far the item of this id, or
    the block of this number, has got, or anything else, if there is none."""

    protocol: str
    item: str
    data: dict[str, Any]
    attempt: int = 0


class AnswerFields(_Told, frozen=True, tag="answer_fields"):
    """Fields of the provider's answer that mean nothing here, for clients of the same protocol."""

    protocol: str
    where: FieldsPlace
    data: dict[str, Any]


class OtherChoice(_Told, frozen=True, tag="other_choice"):
    """More of another answer to the same request, as it came, for clients that asked for several."""

    index: int
    data: dict[str, Any]


class ReplyOver(_Told, frozen=True, tag="reply_over"):
    """The reply has its last word. `failure` says how it was cut, if it was. `said` is the reason to stop in
    the provider's own word, with its `detail`."""

    attempt: int
    finish: str = ""
    failure: Failure | None = None
    said: str = ""
    detail: str = ""
    cost: float | None = None
    """US dollars for this call; None if nobody knows."""


class UsageCounted(_Told, frozen=True, tag="usage"):
    """What the provider has counted so far in this attempt."""

    attempt: int
    usage: Usage


class CallArriving(_Told, frozen=True, tag="call_arriving"):
    """A call begins to arrive. One piece of work is one `card`, however often its call was cut: `rest` is the
    rest of what arrived before."""

    card: int
    name: str
    attempt: int = 0
    rest: bool = False


class CallGrown(_Told, frozen=True, tag="call_grown"):
    """More arguments of a call; in place of all that this attempt brought, if it is `rewritten`."""

    card: int
    text: str
    rewritten: bool = False


class CallMoved(_Told, frozen=True, tag="call_moved"):
    """What became of a call that is not running, or how it is really called."""

    card: int
    name: str
    state: CallState


class DraftMoved(_Told, frozen=True, tag="draft"):
    """What is kept of a cut call. Of what was known before, the first `kept` characters stay, and `added`
    comes behind them. `how` says that it is closed, and by what."""

    draft: str
    card: int
    kept: int = 0
    added: str = ""
    how: str = ""
    tool: str = ""
    argument: str = ""
    settled: dict[str, Any] = {}


class ToolBegun(_Told, frozen=True, tag="tool_begun"):
    """A tool starts. `call` is the same in everything that is told of this call, and no other call has it.
    `again`: it had begun before its process died."""

    call: str
    tool: str
    arguments: dict[str, Any]
    label: str = ""
    again: bool = False
    card: int = 0


class ToolPrinted(_Told, frozen=True, tag="tool_printed"):
    """A piece of what a running tool prints."""

    call: str
    text: str
    card: int = 0


class ToolEnded(_Told, frozen=True, tag="tool_ended"):
    """How a call went, once for each. A call that never began has only this. `joins`: it was the rest of a
    call that had been cut, and was joined to that, or not; `tool` is the tool of the cut call."""

    call: str
    tool: str
    outcome: ToolOutcome
    began: bool = True
    card: int = 0
    joins: bool = False

    @property
    def status(self) -> ToolStatus:
        return self.outcome.status

    @property
    def text(self) -> str:
        """What it gave, or what it had printed when it was stopped."""
        return self.outcome.text or self.outcome.partial_output

    @property
    def seconds(self) -> float:
        return self.outcome.seconds


class Notice(_Told, frozen=True, tag="notice"):
    """One quiet line for the user: what broke, what was kept, what is done about it. `detail` is why the run
    was let go of, who wants it to end, or the summary that models are told from here on."""

    text: str
    about: About = "break"
    detail: str = ""


class Waiting(_Told, frozen=True, tag="waiting"):
    """What the run waits for from here on: nothing, if `kind` is None. `pause` is for how many seconds, where
    that is known."""

    kind: WaitingKind | None = None
    detail: str = ""
    since: float = 0.0
    pause: float = 0.0


class Broke(_Told, frozen=True, tag="broke"):
    """An attempt did not simply end: what it was, and what is done about it."""

    attempt: int
    verdict: str
    evidence: tuple[str, ...]
    decision: Decision
    failure: Failure | None = None
    notice: str = ""
    tool: str = ""
    gained: int = 0
    lost: int = 0


class QuestionAsked(_Told, frozen=True, tag="question_asked"):
    """A person must allow this very call, or answer the question that it is. Hand it to `Agent.answer`.

    This is all that any surface draws of it. `title` is that of the task. `why` says which rule asks.
    `command` is what would run, if it is a command, and `changes` what would be done to files as they are
    now. `always` are the rules that the answer *always* would write, as they stand in settings."""

    run: str
    approval: str
    kind: Literal["approval", "question"]
    tool: str
    arguments: dict[str, Any]
    question: str = ""
    expires: float | None = None
    card: int = 0
    title: str = ""
    why: str = ""
    command: str = ""
    changes: tuple[FileChange, ...] = ()
    always: tuple[str, ...] = ()


class QuestionAnswered(_Told, frozen=True, tag="question_answered"):
    """The one answer that counted, also one that another client gave. `withdrawn`: the run was stopped
    first."""

    approval: str
    verdict: Verdict
    by: str = ""
    text: str = ""
    always: bool = False


class HandedOver(_Told, frozen=True, tag="handed_over"):
    """Whole calls that whoever asked for the run is to make. `cards` are theirs, in the same order."""

    calls: tuple[HandedCall, ...]
    cards: tuple[int, ...] = ()


class RunOver(_Told, frozen=True, tag="run_over"):
    """The last that is told of a run, exactly once. `usage` is that of all attempts together. `declined`: the
    model did, or a filter. `bare`: nothing may be added to the text, since its form or its end is the
    caller's own wish; what is added stands behind `gap` line ends. `repeatable`: what was asked may be asked
    again, since nothing was done."""

    run: str
    end: Outcome
    usage: Usage = Usage()
    handed: bool = False
    declined: bool = False
    bare: bool = False
    repeatable: bool = False
    seconds: float = 0.0
    gap: int = 0
    spent: Spent | None = None
    """What its model calls have used, and what that cost. None in runs of versions that did not count it."""

    @property
    def outcome(self) -> OutcomeKind:
        return self.end.kind

    @property
    def why(self) -> str:
        return self.end.why

    @property
    def drafts(self) -> tuple[DraftId, ...]:
        return self.end.drafts


ForClients = ModelNamed | HeadTold | PartState | ProviderItem | ProviderStage | AnswerFields | OtherChoice
"""What is only for clients that speak as the provider does."""

Told = (
    RunBegun
    | UserSaid
    | ModelCalled
    | ModelNamed
    | HeadTold
    | Text
    | Paragraph
    | Reasoning
    | PartOver
    | PartState
    | ProviderItem
    | ProviderStage
    | AnswerFields
    | OtherChoice
    | ReplyOver
    | UsageCounted
    | CallArriving
    | CallGrown
    | CallMoved
    | DraftMoved
    | ToolBegun
    | ToolPrinted
    | ToolEnded
    | Notice
    | Waiting
    | Broke
    | QuestionAsked
    | QuestionAnswered
    | HandedOver
    | RunOver
)
