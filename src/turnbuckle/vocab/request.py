"""What is asked of a model, in no protocol's words."""

from typing import Any, Literal

from msgspec import Struct, field

from turnbuckle.vocab.ids import ProtocolName, RouteName
from turnbuckle.vocab.messages import Message, ProviderState
from turnbuckle.vocab.quirks import CapField


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it. `parameters` is a JSON schema of an object. `free_text`: its input is text
    of any kind, where its protocol knows such tools. `state` is what else its client wrote of it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None
    free_text: bool = False
    state: ProviderState | None = None


class HostedTool(Struct, frozen=True):
    """A tool that the provider runs by itself, as the client wrote it. `place` is where in the list it
    stood."""

    place: int
    state: ProviderState


class NamedTool(Struct, frozen=True):
    """A tool choice that names the one tool to call. `state` is what else its client wrote of it."""

    name: str
    state: ProviderState | None = None


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
    prefill: bool = False
    """The last message is the beginning of the answer, and the model goes on behind it."""
    extra: dict[str, Any] = {}
    cap_field: CapField | None = None
    """How the output cap must be called, whatever its host likes best. Only Chat Completions has two names
    for it."""
    cache_key: str = ""
    """What requests that begin alike have in common, for providers that keep prompts by it. Empty: the caller
    sees to caches itself."""
    hosted: tuple[HostedTool, ...] = ()
    headers: dict[str, str] = {}
    """What the client said in headers, for a provider of its own protocol."""
    conversation: str = ""
    """Requests of the same one begin alike, so what was encoded for one serves the next."""
    choices: int = 1
    """So many answers are asked for, in a field of `extra`."""
    thinking_budget: int | None = None
    """Tokens that the client gives the model to think, 0 for none, in a protocol that counts them. Its own
    words for that are in `extra`."""


class RunLimits(Struct, frozen=True, omit_defaults=True):
    """What one run may use at most, where that is less than the settings allow. None: no limit of its own."""

    model_calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None


class RunOptions(Struct, frozen=True, omit_defaults=True):
    """What whoever asked for a run wants of its model calls. Kept with the run, so that it goes on in the
    same way after a crash. `route` is the one to begin with. `own_tools`: ours are offered too, beside
    `tools`, which the caller brought and runs itself. `extra` are fields of the request that only the
    protocol they were written in knows."""

    route: RouteName = RouteName("")
    own_tools: bool = True
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    effort: str | None = None
    response_format: dict[str, Any] | None = None
    parallel_calls: bool | None = None
    max_tool_calls: int | None = None
    limits: RunLimits = RunLimits()
    extra: dict[ProtocolName, dict[str, Any]] = {}
    cap_field: CapField | None = None
    """How the caller called its output cap."""
    hosted: tuple[HostedTool, ...] = ()
    headers: dict[ProtocolName, dict[str, str]] = {}
    """Headers of the request that go to providers of the protocol that it was written in."""
    compact: str | None = None
    """The run makes the history smaller and does nothing else; the words say what is to be kept."""
    thinking_budget: int | None = None
    """Tokens for thinking, as the caller counts them; 0 for none."""
    choices: int = 1
    """So many answers are asked for by `extra`. Only the first is healed and kept as the run's own."""
    ask_first: bool = False
    """Somebody sits there: commands, the network, and changes outside a git work tree are asked about, unless
    a rule speaks of them."""
    prefilled: ProtocolName | None = None
    """The caller of a relay began the answer itself, in this protocol. A provider of it goes on from
    there."""
    open_tools: bool = False
    """The caller has tools whose names are not listed: a set of them, or some that its messages define. A
    call of a name that nobody knows is for the caller."""
