"""What is asked of a model, in no protocol's words."""

from typing import Any, Literal

from msgspec import Struct, field

from turnbuckle.vocab.messages import Message


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `parameters` is a JSON schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None


class NamedTool(Struct, frozen=True):
    """A tool choice that names the one tool to call."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class ModelRequest(Struct, frozen=True):
    """One request. `None` means "say nothing about it"; `extra` is merged into the body last."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    response_format: dict[str, Any] | None = None
    parallel_calls: bool | None = None
    stream: bool = True
    extra: dict[str, Any] = {}
