"""Which reasoning may go back to which provider.

Reasoning is bound to whoever made it. Some providers refuse it without their signature, some cannot use what
they neither stored nor can read, some take plain text; the rules of a protocol say which. State of another
protocol, or of another model where the model is known, never goes back.
"""

from turnbuckle.vocab.history_rules import HistoryRules
from turnbuckle.vocab.messages import OpaquePart, Part, ProviderState, ReasoningPart, TextPart
from turnbuckle.vocab.quirks import Quirks

_THOUGHT_TYPES = ("thinking", "redacted_thinking", "reasoning")


def is_thought(part: Part) -> bool:
    """Reasoning in any form, also the kind that only its provider can read."""
    if isinstance(part, OpaquePart):
        return part.state.data.get("type") in _THOUGHT_TYPES
    return isinstance(part, ReasoningPart)


def is_foreign(state: ProviderState, rules: HistoryRules, model: str) -> bool:
    """Whether this state was made elsewhere. An unnamed model on either side says nothing."""
    return state.protocol != rules.protocol or bool(model and state.model and state.model != model)


def can_return(part: Part, rules: HistoryRules, model: str, quirks: Quirks) -> bool:
    """Whether this part may be sent to that model as it is. Only reasoning and opaque parts can fail."""
    if isinstance(part, OpaquePart):
        bound = is_thought(part) or rules.parts_bound_to_model
        return not is_foreign(part.state, rules, model if bound else "")
    if not isinstance(part, ReasoningPart):
        return True
    if part.state is None:
        return rules.takes_plain_reasoning
    return not is_foreign(part.state, rules, model) and _is_vouched_for(part.state, rules, quirks)


def is_own_part(part: Part, rules: HistoryRules, model: str) -> bool:
    """Whether a part of an answer holds what only its host knows, beside reasoning and calls."""
    if isinstance(part, OpaquePart):
        bound = model if rules.parts_bound_to_model else ""
        return not is_thought(part) and not is_foreign(part.state, rules, bound)
    if not isinstance(part, TextPart) or part.state is None:
        return False
    return rules.parts_bound_to_model and not is_foreign(part.state, rules, model)


def _is_vouched_for(state: ProviderState, rules: HistoryRules, quirks: Quirks) -> bool:
    if not rules.vouched_by or (rules.vouched_by_store and quirks.stored):
        return True
    return any(state.data.get(field) for field in rules.vouched_by)
