"""Names of things. Each is a plain string at run time; the type keeps them apart."""

from typing import Literal, NewType, get_args

RunId = NewType("RunId", str)
SessionId = NewType("SessionId", str)
DraftId = NewType("DraftId", str)
RouteName = NewType("RouteName", str)

LOCAL = "local"
"""The owner of whatever was made without a key."""

ProtocolName = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]
"""What a provider speaks, by its name in settings and in the journal. `wire/registry.py` has the values."""
PROTOCOL_NAMES: tuple[ProtocolName, ...] = get_args(ProtocolName)
