"""What a client asks by a Responses body.

Three kinds of fields are taken. Those that we understand become messages and wishes. Those that only a
provider knows, and that change what it answers, are checked and ride in `wishes.extra` to providers of this
protocol. Those that change nothing in the answer end here. What would give another answer than the client
asked for, because we cannot do it, is refused by its name. Fields that nobody knows are ignored, as clients
expect.

The response repeats much of the request. `echo` is that part, with what the API puts where the client said
nothing; sampling stays null then, because each provider has a default of its own.
"""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.client_tools import MOST_TOOLS, all_different, function_tool, tool_choice
from turnbuckle.wire.fields import Fields, Refused, open_body
from turnbuckle.wire.openai_responses.input_items import Stored, read_input

_LONGEST_WORD = 512
_MOST_LABELS, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512  # what the API itself allows
_MOST_INCLUDED = 64
_UNSUPPORTED = {
    "prompt": "no prompts are kept here; send instructions and input",
    "moderation": "nothing is moderated here",
    "context_management": "nothing is compacted here",
}


class ResponsesAsked(Struct, frozen=True):
    """One request. `messages` have the instructions in front; `behind` puts earlier turns between the two.
    `max_tool_calls` bounds the calls of our own tools. `left_out` are types of tools that were not taken
    over."""

    model: str
    messages: tuple[Message, ...]
    instructions: str
    wishes: RunOptions
    stream: bool
    store: bool
    background: bool
    previous_response_id: str
    conversation: str
    metadata: dict[str, str]
    echo: dict[str, Any]
    input_items: list[dict[str, Any]]
    max_tool_calls: int | None = None
    left_out: tuple[str, ...] = ()

    @property
    def fresh(self) -> tuple[Message, ...]:
        """What is new in this request: the input without the instructions."""
        return self.messages[bool(self.instructions) :]

    def behind(self, earlier: tuple[Message, ...]) -> tuple[Message, ...]:
        """The whole history of a request that goes on with an earlier one, whose instructions are not
        inherited."""
        return (*self.messages[: bool(self.instructions)], *earlier, *self.fresh)


def read_response(
    body: bytes, *, stem: str = "", stored: Stored | None = None, without: Collection[str] = ()
) -> ResponsesAsked | Failure:
    """The request, or why it is none. Never raises, whatever the bytes.

    `stem` makes the ids of items that have none. `stored` are the items that the input only names
    (`references` says which). `without` are types of tools that may be left out instead of refused: an offer
    is no order."""
    try:
        return _read(open_body(body), stem, stored or {}, without)
    except Refused as refused:
        return refused.failure


def _read(body: Fields, stem: str, stored: Stored, without: Collection[str]) -> ResponsesAsked:
    model = body.need_text("model", most=_LONGEST_WORD)
    for name, instead in _UNSUPPORTED.items():
        if body.has(name) and body.raw(name) != []:
            raise body.refused(name, f"is not supported: {instead}.", "unsupported_parameter")
    _look_at_harmless(body)
    instructions = body.text("instructions") or ""
    previous, conversation = _goes_on_with(body)
    given, items = read_input(body, stem, stored)
    if not given and not previous and not conversation:
        if not body.has("input"):
            raise body.missing("input")
        raise body.refused("input", "is empty; at least one item is needed.", "array_below_min_length")
    tools, left_out = _tools(body, without)
    wishes = _wishes(body, tools)
    store, background = body.flag("store") is not False, bool(body.flag("background"))
    if background and not store:
        raise body.refused(
            "background", "needs store to be true: a response that is not kept cannot be fetched later."
        )
    told = (Message("system", (TextPart(instructions),)),) if instructions else ()
    metadata = _metadata(body)
    return ResponsesAsked(
        model,
        (*told, *given),
        instructions,
        wishes,
        bool(body.flag("stream")),
        store,
        background,
        previous,
        conversation,
        metadata,
        _echo(body, wishes, metadata, conversation),
        items,
        body.count("max_tool_calls", 1),
        left_out,
    )


def _look_at_harmless(body: Fields) -> None:
    """These change nothing in the answer; they are looked at so that a mistake in them is told."""
    body.texts("include", _MOST_INCLUDED)
    body.inner("stream_options")
    caching = body.inner("prompt_cache_options")
    if caching and caching.flag("prewarm"):
        raise caching.refused(
            "prewarm", "is not supported: every request is answered.", "unsupported_parameter"
        )


def _goes_on_with(body: Fields) -> tuple[str, str]:
    previous = body.text("previous_response_id", most=_LONGEST_WORD) or ""
    if isinstance(body.raw("conversation"), dict):
        conversation = body.need_inner("conversation").need_text("id", most=_LONGEST_WORD)
    else:
        conversation = body.text("conversation", most=_LONGEST_WORD) or ""
    if previous and conversation:
        what = "cannot be used together with conversation: each names what the request goes on with."
        raise body.refused("previous_response_id", what, "mutually_exclusive_parameters")
    return previous, conversation


def _metadata(body: Fields) -> dict[str, str]:
    given = body.inner("metadata")
    if given is None:
        return {}
    if len(given.names()) > _MOST_LABELS:
        raise body.refused("metadata", f"has more than {_MOST_LABELS} keys.", "object_above_max_properties")
    made: dict[str, str] = {}
    for key in given.names():
        if len(key) > _LONGEST_KEY:
            raise body.refused("metadata", f"has a key of more than {_LONGEST_KEY} characters.")
        value = given.text(key, most=_LONGEST_VALUE)
        if value is not None:
            made[key] = value
    return made


# Wishes


def _wishes(body: Fields, tools: tuple[ToolSpec, ...]) -> RunOptions:
    reasoning = body.inner("reasoning")
    extra = _extra(body)
    return RunOptions(
        tools=tools,
        tool_choice=tool_choice(body, tools),
        max_output_tokens=body.count("max_output_tokens", 1),
        temperature=body.number("temperature", 0, 2),
        top_p=body.number("top_p", 0, 1),
        effort=(reasoning and reasoning.text("effort", most=_LONGEST_WORD)) or None,
        response_format=_response_format(body),
        parallel_calls=body.flag("parallel_tool_calls"),
        extra={"openai_responses": extra} if extra else {},
    )


def _tools(body: Fields, without: Collection[str]) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """All functions. Those of a namespace are offered under its name and theirs, since other protocols know
    none."""
    made: list[tuple[Fields, ToolSpec]] = []
    left_out: list[str] = []
    for tool in body.objects("tools", MOST_TOOLS):
        kind = tool.need_text("type")
        if kind == "function":
            made.append((tool, _function(tool)))
        elif kind == "namespace":
            group = tool.need_text("name", most=_LONGEST_WORD)
            for inner in tool.objects("tools", MOST_TOOLS - len(made)):
                if (inner_kind := inner.need_text("type")) != "function":
                    raise _no_function(inner, inner_kind)
                made.append((inner, _function(inner, _grouped_name(group, ""))))
        elif kind in without:
            left_out.append(kind)
        else:
            raise _no_function(tool, kind)
    return all_different(made), tuple(dict.fromkeys(left_out))


def _function(tool: Fields, prefix: str = "") -> ToolSpec:
    callers = tool.texts("allowed_callers", MOST_TOOLS)
    if callers and "direct" not in callers:
        raise tool.refused("allowed_callers", "must hold direct: nothing else calls tools here.")
    return function_tool(tool, prefix)


def _no_function(tool: Fields, kind: str) -> Refused:
    what = f"is {kind[:64]!r}; only functions can be offered, which the client runs itself."
    return tool.refused("type", what, "unsupported_value")


def _grouped_name(group: str, name: str) -> str:
    """What a function of a namespace is called where there are no namespaces."""
    return f"{group}__{name}"


def grouped(tools: Any) -> dict[str, tuple[str, str]]:
    """The functions of namespaces among a request's tools, which were read before, by the names under which
    they are offered: the namespace, and what they are called in it."""
    groups = [tool for tool in tools or () if tool["type"] == "namespace"]
    homes = [(group["name"], inner["name"]) for group in groups for inner in group.get("tools") or ()]
    return {_grouped_name(*home): home for home in homes}


def _response_format(body: Fields) -> dict[str, Any] | None:
    """In the spelling of Chat Completions, from which requests are built for every protocol; plain text is no
    wish."""
    text = body.inner("text")
    wanted = text.inner("format") if text else None
    if wanted is None:
        return None
    kind = wanted.need_text("type")
    match kind:
        case "text":
            return None
        case "json_object":
            return wanted.whole()
        case "json_schema":
            wanted.need_text("name", most=_LONGEST_WORD)
            wanted.need_inner("schema")
            wanted.flag("strict")
            return {"type": kind, "json_schema": wanted.whole("type")}
    what = f"is {kind[:64]!r}; supported are text, json_object and json_schema."
    raise wanted.refused("type", what, "unsupported_value")


def _extra(body: Fields) -> dict[str, Any]:
    found = {name: read(body, name) for name, read in _PASSED_ON.items()}
    return {name: value for name, value in found.items() if value}


def _word(body: Fields, name: str) -> str | None:
    return body.text(name, most=_LONGEST_WORD)


def _reasoning(body: Fields, name: str) -> dict[str, Any] | None:
    """All but the effort, which is a wish of its own: it may be lowered if thinking uses up the room."""
    reasoning = body.inner(name)
    return reasoning.whole("effort") if reasoning else None


def _verbosity(body: Fields, name: str) -> dict[str, Any] | None:
    text = body.inner(name)
    verbosity = text.text("verbosity", most=_LONGEST_WORD) if text else None
    return {"verbosity": verbosity} if verbosity else None


def _truncation(body: Fields, name: str) -> str | None:
    """What a provider does where nothing is said needs no saying."""
    wanted = _word(body, name)
    if wanted not in (None, "auto", "disabled"):
        raise body.refused(name, "must be auto or disabled.")
    return wanted if wanted == "auto" else None


_PASSED_ON: dict[str, Callable[[Fields, str], Any]] = {
    "reasoning": _reasoning,
    "text": _verbosity,
    "truncation": _truncation,
    "service_tier": _word,
    "prompt_cache_key": _word,
    "prompt_cache_retention": _word,
    "safety_identifier": _word,
    "image": Fields.kept,
    "access_programs": Fields.kept,
}


# What the response repeats


def _echo(body: Fields, wishes: RunOptions, metadata: dict[str, str], conversation: str) -> dict[str, Any]:
    text, reasoning = body.kept("text") or {}, body.kept("reasoning") or {}
    return {
        "instructions": body.raw("instructions"),
        "metadata": metadata,
        "tools": _told_tools(wishes.tools, grouped(body.raw("tools"))),
        "tool_choice": _told_choice(wishes),
        "parallel_tool_calls": wishes.parallel_calls is not False,
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "max_output_tokens": wishes.max_output_tokens,
        "max_tool_calls": body.raw("max_tool_calls"),
        "previous_response_id": body.raw("previous_response_id") or None,
        "conversation": {"id": conversation} if conversation else None,
        "reasoning": {"effort": None, "summary": None, **reasoning},
        "text": {"format": {"type": "text"}, "verbosity": "medium", **text},
        "truncation": body.raw("truncation") or "disabled",
        "service_tier": body.raw("service_tier") or "auto",
        "store": body.raw("store") is not False,
        "background": bool(body.raw("background")),
        "top_logprobs": body.count("top_logprobs", 0, 20) or 0,
        "user": body.text("user", most=_LONGEST_WORD),
        "prompt_cache_key": body.raw("prompt_cache_key"),
        "safety_identifier": body.raw("safety_identifier"),
    }


def _told_tools(tools: tuple[ToolSpec, ...], homes: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    groups: dict[str, dict[str, Any]] = {}
    for tool in tools:
        if (home := homes.get(tool.name)) is None:
            told.append(_told_tool(tool, tool.name))
            continue
        if home[0] not in groups:
            groups[home[0]] = {"type": "namespace", "name": home[0], "tools": []}
            told.append(groups[home[0]])
        groups[home[0]]["tools"].append(_told_tool(tool, home[1]))
    return told


def _told_tool(tool: ToolSpec, name: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": tool.description or None,
        "parameters": tool.parameters,
        "strict": bool(tool.strict),
    }


def _told_choice(wishes: RunOptions) -> str | dict[str, str]:
    choice = wishes.tool_choice
    return {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice
