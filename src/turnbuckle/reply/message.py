"""A reply becomes a message of the history.

Three ways, and the caller chooses. `message_of` takes a reply that ended and keeps all of it. `salvage` takes a cut
one and keeps what was shown: its text, and such reasoning as its provider would take back, but never a call.
`answer_cut_calls` keeps the calls too, in a legal form, each with a result that says that it did not run.
"""

from typing import Any

from turnbuckle.reply.stand_in import CUT_CALL, legal_arguments, stand_in
from turnbuckle.reply.thoughts import can_return, is_thought
from turnbuckle.vocab.ids import Protocol
from turnbuckle.vocab.messages import (
    CallPart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyRefusal

_STORED = Quirks(stored=True)


def message_of(reply: Reply, protocol: Protocol, model: str) -> Message | None:
    """An ended reply as an assistant message, all of it and in order. None if it is cut, or holds nothing."""
    if not reply.ended:
        return None
    parts = [_part_of(block, protocol, model) for block in reply.blocks]
    kept = tuple(part for part in parts if not _is_hollow(part))
    return Message("assistant", kept) if kept else None


def salvage(reply: Reply, protocol: Protocol, model: str) -> Message | None:
    """What may stay of a cut reply, calls left out. None if nothing that was shown is in it."""
    kept = _kept_of_cut(reply, protocol, model, with_calls=False)
    return Message("assistant", kept, partial=True) if kept else None


def answer_cut_calls(reply: Reply, protocol: Protocol, model: str) -> tuple[Message, ...]:
    """What may stay of a cut reply with its calls made legal, and the results that say that none of them ran.

    A call without a name cannot be repeated to a model and is left out. A call without an id gets one from its
    place; if that is taken in the history, repair renames both halves.
    """
    kept = _kept_of_cut(reply, protocol, model, with_calls=True)
    if not kept:
        return ()
    said = Message("assistant", kept, partial=True)
    answers = tuple(stand_in(part.id, CUT_CALL) for part in kept if isinstance(part, CallPart))
    return (said, Message("tool", answers)) if answers else (said,)


def _kept_of_cut(reply: Reply, protocol: Protocol, model: str, *, with_calls: bool) -> tuple[Part, ...]:
    kept: list[Part] = []
    whole: list[bool] = []
    for place, block in enumerate(reply.blocks):
        if isinstance(block, ReplyCall):
            if not with_calls or not block.name.strip():
                continue
            kept.append(_cut_call(block, place, protocol, model))
        else:
            part = _part_of(block, protocol, model) if block.closed else _unclosed(block)
            if part is None or _is_hollow(part) or not _may_stay(part, protocol, model):
                continue
            kept.append(part)
        whole.append(block.closed)
    return _without_loose_thoughts(_without_open_searches(kept, whole), protocol)


def _may_stay(part: Part, protocol: Protocol, model: str) -> bool:
    """In a cut reply plain reasoning text is not worth keeping: nothing vouches for it."""
    if isinstance(part, ReasoningPart) and part.state is None:
        return False
    return can_return(part, protocol, model, _STORED)


def _unclosed(block: ReplyBlock) -> Part | None:
    """An unfinished block: shown text without the state that would have made it an item, and nothing else."""
    if isinstance(block, ReplyReasoning | ReplyOpaque | ReplyCall):
        return None
    return RefusalPart(block.text) if isinstance(block, ReplyRefusal) else TextPart(block.text)


def _cut_call(block: ReplyCall, place: int, protocol: Protocol, model: str) -> CallPart:
    arguments = legal_arguments(block.arguments)
    untouched = block.closed and arguments == block.arguments
    state = _state_of(block.state, protocol, model) if untouched else None
    return CallPart(block.id or f"cut_{place}", block.name, arguments, state)


def _without_open_searches(parts: list[Part], whole: list[bool]) -> list[tuple[Part, bool]]:
    """A provider's own tool call whose result did not arrive cannot be repeated without it."""
    results = {part.state.data.get("tool_use_id") for part in parts if isinstance(part, OpaquePart)}
    return [
        (part, closed)
        for part, closed in zip(parts, whole, strict=True)
        if not isinstance(part, OpaquePart) or not _is_unanswered(part.state.data, results)
    ]


def _is_unanswered(data: dict[str, Any], results: set[Any]) -> bool:
    return str(data.get("type")).endswith("_tool_use") and data.get("id") not in results


def _without_loose_thoughts(parts: list[tuple[Part, bool]], protocol: Protocol) -> tuple[Part, ...]:
    """Drop reasoning that nothing follows. For Responses what follows must be the finished item that it led to."""
    kept: list[Part] = []
    followed = False
    for part, closed in reversed(parts):
        if is_thought(part):
            if not followed:
                continue
        else:
            followed = closed or protocol != "openai_responses"
        kept.append(part)
    return tuple(reversed(kept))


def _part_of(block: ReplyBlock, protocol: Protocol, model: str) -> Part:
    match block:
        case ReplyCall():
            return CallPart(block.id, block.name, block.arguments, _state_of(block.state, protocol, model))
        case ReplyReasoning():
            return ReasoningPart(block.text, _state_of(block.state, protocol, model))
        case ReplyRefusal():
            return RefusalPart(block.text)
        case ReplyOpaque():
            return OpaquePart(ProviderState(protocol, model, block.data))
        case _:
            return TextPart(block.text, _state_of(block.state, protocol, model))


def _state_of(data: dict[str, Any] | None, protocol: Protocol, model: str) -> ProviderState | None:
    return ProviderState(protocol, model, data) if data else None


def _is_hollow(part: Part) -> bool:
    """Nothing to read and nothing to give back."""
    if isinstance(part, RefusalPart):
        return not part.text
    return isinstance(part, TextPart | ReasoningPart) and not part.text and part.state is None
