"""The events of one model stream, the same for every protocol.

Every stream has exactly one last word, `Ended` or `Cut`, and nothing follows it. `block` numbers the parts
of a reply in the order in which they began. Deltas are appended, in order, to their block.
"""

from typing import Any, Literal

from msgspec import Struct

from turnbuckle.vocab.failure import Failure

Finish = Literal[
    "stop",
    "length",  # the output cap
    "calls",  # it wants tools run
    "filtered",  # a content filter
    "refused",  # the model declined
    "window",  # the context window is full
    "malformed",  # the provider could not read its own model's call
    "failed",  # the provider says that it failed
    "paused",  # to be sent back as it is, to go on
    "compacted",  # the provider folded the history
    "other",  # a word that we do not know
]

WORST_FIRST: tuple[Finish, ...] = (
    "failed",
    "filtered",
    "refused",
    "window",
    "length",
    "malformed",
    "paused",
    "compacted",
    "calls",
    "other",
    "stop",
)
"""Of several reasons to stop the worse one counts: whoever says "stop" behind "length" knows less."""
_BADNESS = {finish: place for place, finish in enumerate(reversed(WORST_FIRST))}


class Usage(Struct, frozen=True):
    """Tokens as counted by the provider, cumulative. `input` includes what came from or went to a cache."""

    input: int | None = None
    output: int | None = None
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    cost: float | None = None


class Started(Struct, frozen=True, tag="started", gc=False):
    """The provider named the reply. May come late, or more than once as facts arrive."""

    reply_id: str
    model: str


class HeadNoted(Struct, frozen=True, tag="head"):
    """What the provider said in the headers of its answer that a client may want to know: its id of the
    request, and how much of its limits is left."""

    headers: dict[str, str]


class Alive(Struct, frozen=True, tag="alive", gc=False):
    """A sign of life without content: a comment, a ping, an empty event, one of a kind that we do not
    know."""

    what: Literal["comment", "ping", "empty", "unknown", "lifecycle"]


class BlockStarted(Struct, frozen=True, tag="block_started", gc=False):
    """A block began, in protocols that say so. Elsewhere its first delta begins it."""

    block: int
    kind: Literal["text", "reasoning", "refusal"]


class TextDelta(Struct, frozen=True, tag="text", gc=False):
    block: int
    text: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning", gc=False):
    block: int
    text: str


class RefusalDelta(Struct, frozen=True, tag="refusal", gc=False):
    block: int
    text: str


class CallStarted(Struct, frozen=True, tag="call_started", gc=False):
    """A call began. The name is empty while the provider has not sent it."""

    block: int
    call_id: str
    name: str


class CallNamed(Struct, frozen=True, tag="call_named", gc=False):
    """The id or the name of a call that began without it, or whose name came in pieces."""

    block: int
    call_id: str
    name: str


class CallArgs(Struct, frozen=True, tag="call_args", gc=False):
    """More argument text of a call."""

    block: int
    text: str


class CallRewritten(Struct, frozen=True, tag="call_rewritten", gc=False):
    """The provider's own final arguments, which differ from the pieces that it sent."""

    block: int
    arguments: str


class CallClosed(Struct, frozen=True, tag="call_closed", gc=False):
    """The protocol says that this call has no more arguments. Not yet that the call is sound."""

    block: int


class BlockClosed(Struct, frozen=True, tag="block_closed", gc=False):
    """A block of text, reasoning or refusal is over."""

    block: int


class StateNoted(Struct, frozen=True, tag="state"):
    """Provider state of a block, merged over what was noted before."""

    block: int
    data: dict[str, Any]


class OpaqueBlock(Struct, frozen=True, tag="opaque"):
    """A block that only its provider understands; the last one of a number wins."""

    block: int
    data: dict[str, Any]


FieldsPlace = Literal["reply", "choice", "message", "usage", "piece"]


class FieldsNoted(Struct, frozen=True, tag="fields"):
    """Fields of the provider's answer that mean nothing here, as they came: beside the whole reply, beside
    its one choice, inside its message, beside the usage, or beside the next piece of text."""

    where: FieldsPlace
    data: dict[str, Any]


class StageNoted(Struct, frozen=True, tag="stage"):
    """An event of the provider that means nothing here, as it came: how far one of its own items has got (its
    id) or a block (its number), or, without either, anything else."""

    item: str
    data: dict[str, Any]


class ChoiceNoted(Struct, frozen=True, tag="choice"):
    """More of another answer to the same request, where several were asked for, as it came. The first of them
    is the reply."""

    index: int
    data: dict[str, Any]


class UsageNoted(Struct, frozen=True, tag="usage"):
    """Usage so far; replaces what was noted before."""

    usage: Usage


class FinishNoted(Struct, frozen=True, tag="finish"):
    """What the provider gave as the reason to stop: our word, its own word, and its details if any."""

    finish: Finish
    said: str
    detail: str = ""


class Skipped(Struct, frozen=True, tag="skipped"):
    """A frame, or a field of one, that could not be read. Unless it is `harmless` it may have held content:
    then there is a hole, nothing behind it is shown, and the reply is cut."""

    why: str
    sample: str
    harmless: bool = False


class Ended(Struct, frozen=True, tag="ended"):
    """Last word: the protocol's own terminal event arrived. `by` names it."""

    by: str


class Cut(Struct, frozen=True, tag="cut"):
    """Last word: the stream ended in any other way."""

    failure: Failure


def worse(one: FinishNoted | None, other: FinishNoted) -> FinishNoted:
    """The reason that counts of two; the later one, if they are the same."""
    return other if one is None or _BADNESS[other.finish] >= _BADNESS[one.finish] else one


LastWord = Ended | Cut
Event = (
    Started
    | HeadNoted
    | Alive
    | BlockStarted
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | CallStarted
    | CallNamed
    | CallArgs
    | CallRewritten
    | CallClosed
    | BlockClosed
    | StateNoted
    | OpaqueBlock
    | FieldsNoted
    | StageNoted
    | ChoiceNoted
    | UsageNoted
    | FinishNoted
    | Skipped
    | Ended
    | Cut
)
