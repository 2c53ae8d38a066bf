"""A tool, and what it is given when it runs.

    @tool(effect="read", timeout=10)
    def word_count(text: Annotated[str, "What to count."]) -> str:
        "Count the words of a text."
        return str(len(text.split()))

The function's types are the schema, its docstring's first paragraph is the description. A parameter of the
type `ToolContext`, or `RunContext[…]`, is filled in by the dispatcher: not an argument. Plain functions run
in a thread of their own, `async` ones on the event loop. What it returns is the result: a text, a value that
JSON can hold, or a `ToolOutcome`. It raises `ToolError` to say in its own words that it did not work.
"""

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from turnbuckle.tools.kept_objects import KeptObjects
from turnbuckle.tools.sandbox.port import NoSandbox, Sandbox
from turnbuckle.tools.schema import ArgumentSchema, ForeignShape, TypedShape
from turnbuckle.turn.consent import ConsentRule, rule_for
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.redaction import Redactor, redactor_of, secrets_in, without_secrets
from turnbuckle.vocab.request import ToolSpec
from turnbuckle.vocab.tooling import Effect

OUTPUT_CAP = 30_000
"""Characters of one result that the model is shown."""
DEFAULT_TIMEOUT = 60.0

ProbeAnswer = Literal["done", "not_done", "unknown"]
Limit = float | Callable[[Mapping[str, Any]], float]


class ToolError(Exception):
    """The tool did not work. The text is for the model."""


class RunnableCall(Protocol):
    """A call that may run: from a complete reply, with arguments that were read strictly."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Denied:
    """The answer of a rule or a person that does not want the call to run."""

    why: str = ""


async def _allow(call: RunnableCall) -> Denied | None:
    return None


async def _no_session() -> str:
    return ""


def _unheard(text: str) -> None:
    return None


def _nothing_given() -> Any:
    return None


def _untold(change: FileChange) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may know and use.

    `session` tells the session of the run. `key` is the same when the same call runs again after a crash.
    `publish` takes pieces of live output, from any thread. `stop` ends the call from outside: the tool is
    killed and the outcome says so. `stopping` is set when a tool in a thread should come to an end.
    `environment` is what child processes get, without its secrets: `child_environment`. What may be cut
    before it is the result goes through `redact` first. `threads` is off where time is simulated: then plain
    functions hold up the loop, and no time passes meanwhile.
    """

    workspace: Path
    data: Path
    clock: Clock
    run: str = ""
    session: Callable[[], Awaitable[str]] = _no_session
    key: str = ""
    publish: Callable[[str], None] = _unheard
    changed: Callable[[FileChange], None] = _untold
    """Is told of every file that the call has changed."""
    seen: tuple[str, ...] | None = None
    """The marks that a file may have, since a person has seen it so; None if nobody was asked."""
    made: set[str] = field(default_factory=set)
    """The marks of what calls of this run have written."""
    ask: Callable[[str], Awaitable[str]] | None = None
    recall: Callable[[str], Awaitable[str]] | None = None
    """Searches what was said and done before in the conversation of this run."""
    decide: Callable[[RunnableCall], Awaitable[Denied | None]] = _allow
    stop: asyncio.Event | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    tool: str = ""
    """The tool that runs, if rules of consent look at its path."""
    consent: tuple[ConsentRule, ...] = ()
    protected: frozenset[str] = frozenset()
    """Real paths that may not be changed, beside those that are protected by their names."""
    secrets: frozenset[str] = frozenset()
    secret_variables: frozenset[str] = frozenset()
    sandbox: Sandbox = field(default_factory=NoSandbox)
    """Where commands run."""
    objects: KeptObjects | None = None
    """Where whole outputs and changed contents go so that other nodes can read them, too."""
    owns: Callable[[str], Awaitable[bool]] | None = None
    """Whether a run belongs to whoever this one belongs to; None: there is nobody else."""
    readable: frozenset[str] = frozenset()
    """The other runs whose whole outputs this call may read: those that it names, and that have its owner."""
    network: tuple[str, ...] = ()
    """The families of commands that have the network."""
    deps: Callable[[], Any] = _nothing_given
    """What the program hands to the tools of this run."""
    output_cap: int = OUTPUT_CAP
    allow_private_addresses: bool = False
    threads: bool = True

    @property
    def redactor(self) -> Redactor:
        """Knows the secrets of the settings, and those of the environment by their names."""
        return redactor_of(self.secrets | secrets_in(self.environment))

    def redact(self, text: str) -> str:
        """A text without secrets, before any of it is cut off."""
        return self.redactor.text(text)

    def may_read(self, path: str) -> bool:
        """Whether the rules let `read_file` have this path of the workspace without a question."""
        return rule_for(self.consent, "read_file", {"path": path}, "path") != "deny"

    @property
    def child_environment(self) -> dict[str, str]:
        """What a child process may know."""
        return without_secrets(self.environment, self.secret_variables, self.secrets)

    @property
    def kept(self) -> Path:
        """The folder of whole outputs, with a folder for each run, so that they go when the run does. A model
        may read those of all runs of its owner: a later run of a session is told of what earlier ones
        kept."""
        return self.data / "kept"

    def may_read_kept(self, run: str) -> bool:
        """Whether the whole outputs of a run may be read."""
        return self.owns is None or run == self.run or run in self.readable


Deps = TypeVar("Deps")


@dataclass(frozen=True, slots=True)
class RunContext(Generic[Deps]):
    """What a tool is given that asks for what its program hands over: `context: RunContext[Shop]`. `deps` is
    that value, and `tool` what every tool may know and use."""

    deps: Deps
    tool: ToolContext


def _handed(hint: Any, context: ToolContext) -> Any:
    """The context as the tool's parameter wants it."""
    if get_origin(hint) is not RunContext:
        return context
    given, (wanted,) = context.deps(), get_args(hint)
    if isinstance(wanted, type) and not isinstance(given, wanted):
        got = "there is none" if given is None else f"it hands over a {type(given).__name__}"
        raise ToolError(
            f"this tool needs a {wanted.__name__} from the program that runs it (deps=…), and {got}"
        )
    return RunContext(given, context)


Invoke = Callable[[dict[str, Any], ToolContext], Any]
Probe = Callable[[Mapping[str, Any], ToolContext], ProbeAnswer]
Preview = Callable[[Mapping[str, Any], ToolContext], FileChange]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `draftable` names the long text argument that survives a cut; `guarded` names the arguments
    whose defaults must not be assumed after one. `subject` names the argument that consent rules look at, a
    whole shell command if it `is_command`. `preview` says what a call would do to a file. `widens` names an
    argument that asks for more than the tool gives by itself: if it is true, rules of that name must allow
    it, too. A tool that `asks` is a question to a person."""

    name: str
    description: str
    shape: ArgumentSchema
    invoke: Invoke
    blocking: bool
    effect: Effect
    timeout: Limit = DEFAULT_TIMEOUT
    draftable: str | None = None
    guarded: frozenset[str] = frozenset()
    probe: Probe | None = None
    subject: str = ""
    is_command: bool = False
    widens: str = ""
    asks: bool = False
    preview: Preview | None = None
    function: Callable[..., Any] | None = None
    """What it was made of."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function itself, for a test or another function: nothing is checked, limited or written
        down."""
        if self.function is None:
            raise TypeError(f"{self.name} was not made of a function that can be called by itself")
        return self.function(*arguments, **named)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.shape.parameters)

    def seconds(self, values: Mapping[str, Any]) -> float:
        """How long this call may take."""
        return self.timeout(values) if callable(self.timeout) else self.timeout


class Declared(TypedDict, total=False):
    """What a tool may say of itself. `name` is the function's if left out; the others are those of `Tool`."""

    effect: Effect
    draftable: str | None
    timeout: Limit
    probe: Probe | None
    guarded: tuple[str, ...]
    name: str
    subject: str
    is_command: bool
    widens: str
    asks: bool
    preview: Preview | None


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(**declared: Unpack[Declared]) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None, /, **declared: Unpack[Declared]
) -> Callable[[Callable[..., Any]], Tool] | Tool:
    """Make a tool of a typed function. Without anything else (`@tool`) its effect is `write`: after a crash
    it is never repeated. Faults of the declaration are raised at once, as TypeError."""
    traits: Declared = {"effect": "write", **declared}
    if strange := traits.keys() - Declared.__annotations__.keys():
        raise TypeError(f"a tool has no {', '.join(sorted(strange))}")
    if traits["effect"] not in (effects := get_args(Effect)):
        raise TypeError(f"effect={traits['effect']!r} is not one of {', '.join(effects)}")
    return _tool_of(function, traits) if function is not None else lambda function: _tool_of(function, traits)


def _tool_of(function: Callable[..., Any], traits: Declared) -> Tool:
    description = _first_paragraph(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__name__} is a generator, and a tool returns its result; "
            "what it has to show meanwhile goes to ToolContext.publish"
        )
    shape = TypedShape(function, (ToolContext, RunContext))
    known = shape.parameters.get("properties", {})
    guarded, draftable = traits.get("guarded", ()), traits.get("draftable")
    named = (draftable, traits.get("subject"), traits.get("widens"))
    for argument in (*guarded, *filter(None, named)):
        if argument not in known:
            raise TypeError(f"{function.__name__} has no argument {argument}")
    if draftable and known[draftable].get("type") != "string":
        raise TypeError(f"{function.__name__}: only a text can be draftable, and {draftable} is not")

    def invoke(values: dict[str, Any], context: ToolContext) -> Any:
        name = shape.context_name
        return function(**values if name is None else {**values, name: _handed(shape.context_hint, context)})

    given: dict[str, Any] = {
        **traits,
        "name": traits.get("name") or function.__name__,
        "guarded": frozenset(guarded),
    }
    return Tool(
        description=description,
        shape=shape,
        invoke=invoke,
        blocking=not inspect.iscoroutinefunction(function),
        function=function,
        **given,
    )


def foreign_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    call: Callable[[dict[str, Any], ToolContext], Awaitable[Any]],
    *,
    effect: Effect = "write",
    timeout: Limit = DEFAULT_TIMEOUT,
) -> Tool:
    """A tool that brings its own JSON schema. Raises ValueError if that is none."""
    return Tool(
        name, description, ForeignShape(parameters), call, blocking=False, effect=effect, timeout=timeout
    )


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function)
    if not text:
        raise TypeError(f"{function.__name__} needs a docstring: it tells the model what the tool does")
    return " ".join(text.split("\n\n")[0].split())
