"""Which reasoning may go back to which provider.

Reasoning is bound to whoever made it. Anthropic refuses a thinking block without its signature; Responses cannot
use an item that it neither stored nor can read; Chat Completions takes plain text where a host asks for it. State of
another protocol, or of another model where the model is known, never goes back.
"""

from turnbuckle.vocab.ids import Protocol
from turnbuckle.vocab.messages import OpaquePart, Part, ProviderState, ReasoningPart
from turnbuckle.vocab.quirks import Quirks

_THOUGHT_TYPES = ("thinking", "redacted_thinking", "reasoning")


def is_thought(part: Part) -> bool:
    """Reasoning in any form, also the kind that only its provider can read."""
    if isinstance(part, OpaquePart):
        return part.state.data.get("type") in _THOUGHT_TYPES
    return isinstance(part, ReasoningPart)


def is_foreign(state: ProviderState, protocol: Protocol, model: str) -> bool:
    """Whether this state was made elsewhere. An unnamed model on either side says nothing."""
    return state.protocol != protocol or bool(model and state.model and state.model != model)


def can_return(part: Part, protocol: Protocol, model: str, quirks: Quirks) -> bool:
    """Whether this part may be sent to that model as it is. Only reasoning and opaque parts can fail."""
    if isinstance(part, OpaquePart):
        return not is_foreign(part.state, protocol, model if is_thought(part) else "")
    if not isinstance(part, ReasoningPart):
        return True
    if part.state is None:
        return protocol == "openai_chat"
    return not is_foreign(part.state, protocol, model) and _is_vouched_for(part.state, quirks)


def _is_vouched_for(state: ProviderState, quirks: Quirks) -> bool:
    data = state.data
    if state.protocol == "anthropic":
        return bool(data.get("signature") or data.get("data"))
    if state.protocol == "openai_responses":
        return bool(quirks.stored or data.get("encrypted_content") or data.get("content"))
    return True
