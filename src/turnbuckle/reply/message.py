"""A reply becomes a message of the history.

Two ways, and the caller chooses. `message_of` takes a reply that ended and keeps all of it. `salvage` takes a
cut one and keeps what was shown: its text, and such reasoning as its provider would take back, but never a
call.
"""

from typing import Any

from turnbuckle.reply.thoughts import can_return, is_thought
from turnbuckle.vocab.history_rules import HistoryRules
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


def message_of(reply: Reply, rules: HistoryRules, model: str) -> Message | None:
    """An ended reply as an assistant message, all of it and in order. None if it is cut, or holds nothing."""
    if not reply.ended:
        return None
    parts = [_part_of(block, rules, model) for block in reply.blocks]
    kept = tuple(part for part in parts if not _is_hollow(part))
    return Message("assistant", kept) if kept else None


def salvage(reply: Reply, rules: HistoryRules, model: str) -> Message | None:
    """What may stay of a cut reply, calls left out. None if nothing that was shown is in it."""
    kept = _kept_of_cut(reply, rules, model)
    return Message("assistant", kept, partial=True) if kept else None


def _kept_of_cut(reply: Reply, rules: HistoryRules, model: str) -> tuple[Part, ...]:
    kept: list[Part] = []
    whole: list[bool] = []
    for block in reply.blocks:
        if isinstance(block, ReplyCall):
            continue
        part = _part_of(block, rules, model) if block.closed else _unclosed(block)
        if part is not None and not _is_hollow(part) and _may_stay(part, rules, model):
            kept.append(part)
            whole.append(block.closed)
    return _without_loose_thoughts(_without_open_searches(kept, whole), rules)


def _may_stay(part: Part, rules: HistoryRules, model: str) -> bool:
    """In a cut reply plain reasoning text is not worth keeping: nothing vouches for it."""
    if isinstance(part, ReasoningPart) and part.state is None:
        return False
    return can_return(part, rules, model, _STORED)


def _unclosed(block: ReplyBlock) -> Part | None:
    """An unfinished block: shown text without the state that would have made it an item, and nothing else."""
    if isinstance(block, (ReplyReasoning, ReplyOpaque, ReplyCall)):
        return None
    return RefusalPart(block.text) if isinstance(block, ReplyRefusal) else TextPart(block.text)


def _without_open_searches(parts: list[Part], whole: list[bool]) -> list[tuple[Part, bool]]:
    """A provider's own tool call whose result did not arrive cannot be repeated without it."""
    results: set[object] = {
        part.state.data.get("tool_use_id") for part in parts if isinstance(part, OpaquePart)
    }
    return [
        (part, closed)
        for part, closed in zip(parts, whole, strict=True)
        if not isinstance(part, OpaquePart) or not _is_unanswered(part.state.data, results)
    ]


def _is_unanswered(data: dict[str, Any], results: set[object]) -> bool:
    return str(data.get("type")).endswith("_tool_use") and data.get("id") not in results


def _without_loose_thoughts(parts: list[tuple[Part, bool]], rules: HistoryRules) -> tuple[Part, ...]:
    """Drop reasoning that nothing follows, or that led to an item which was not finished."""
    kept: list[Part] = []
    followed = False
    for part, closed in reversed(parts):
        if is_thought(part):
            if not followed:
                continue
        else:
            followed = closed or not rules.reasoning_leads_to_whole
        kept.append(part)
    return tuple(reversed(kept))


def _part_of(block: ReplyBlock, rules: HistoryRules, model: str) -> Part:
    match block:
        case ReplyCall():
            return CallPart(block.id, block.name, block.arguments, _state_of(block.state, rules, model))
        case ReplyReasoning():
            return ReasoningPart(block.text, _state_of(block.state, rules, model))
        case ReplyRefusal():
            return RefusalPart(block.text)
        case ReplyOpaque():
            return OpaquePart(ProviderState(rules.protocol, model, block.data))
        case _:
            return TextPart(block.text, _state_of(block.state, rules, model))


def _state_of(data: dict[str, Any] | None, rules: HistoryRules, model: str) -> ProviderState | None:
    return ProviderState(rules.protocol, model, data) if data else None


def _is_hollow(part: Part) -> bool:
    """Nothing to read and nothing to give back."""
    if isinstance(part, RefusalPart):
        return not part.text
    return isinstance(part, (TextPart, ReasoningPart)) and not part.text and part.state is None
