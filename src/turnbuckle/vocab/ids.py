"""Names of things. Each is a plain string at run time; the type keeps them apart."""

from typing import Literal, NewType

RunId = NewType("RunId", str)
SessionId = NewType("SessionId", str)
CallId = NewType("CallId", str)
DraftId = NewType("DraftId", str)
RouteName = NewType("RouteName", str)

Protocol = Literal["openai_chat", "openai_responses", "anthropic"]
PROTOCOLS: tuple[Protocol, ...] = ("openai_chat", "openai_responses", "anthropic")
