"""What a client asks by a Responses body.

`request_fields.py` has every field with what becomes of it. Those that we understand become messages and
wishes. All others ride in `wishes.extra` to providers of this protocol, as they came: those that only a
provider knows, and those that nobody here has heard of. What would give another answer than the client asked
for, because we cannot do it, is refused by its name.

The response repeats much of the request. `echo` is that part, with what the API puts where the client said
nothing; sampling stays null then, because each provider has a default of its own.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import HostedTool, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.client_tools import (
    CUSTOM,
    MOST_TOOLS,
    all_different,
    custom_tool,
    function_tool,
    prefixed,
    tool_choice,
)
from turnbuckle.wire.field_table import LONGEST_WORD, FieldValues
from turnbuckle.wire.fields import Fields, Refused, open_body
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.openai_responses.input_items import Stored, read_input
from turnbuckle.wire.openai_responses.namespaces import NAMESPACE, grouped_name
from turnbuckle.wire.openai_responses.request_fields import RESPONSE_FIELDS

PROTOCOL: ProtocolName = "openai_responses"


class ResponsesAsked(Struct, frozen=True):
    """One request. `messages` have the instructions in front; `behind` puts earlier turns between the two.
    `max_tool_calls` bounds the calls of our own tools. `only_here` names what only providers of this protocol
    take, and `unknown` the fields among it that nobody here knows."""

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
    only_here: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def fresh(self) -> tuple[Message, ...]:
        """What is new in this request: the input without the instructions."""
        return self.messages[bool(self.instructions) :]

    def behind(self, earlier: tuple[Message, ...]) -> tuple[Message, ...]:
        """The whole history of a request that goes on with an earlier one, whose instructions are not
        inherited."""
        return (*self.messages[: bool(self.instructions)], *earlier, *self.fresh)


def read_response(body: bytes, *, stem: str = "", stored: Stored | None = None) -> ResponsesAsked | Failure:
    """The request, or why it is none. Never raises, whatever the bytes.

    `stem` makes the ids of items that have none. `stored` are the items that the input only names
    (`references` says which)."""
    try:
        return _read(open_body(body), stem, stored or {})
    except Refused as refused:
        return refused.failure


def _read(body: Fields, stem: str, stored: Stored) -> ResponsesAsked:
    given = RESPONSE_FIELDS.read(body)
    kept = KeptFields(PROTOCOL)
    instructions = given.get("instructions", "")
    previous, conversation = _goes_on_with(body, given)
    messages, items = read_input(body, stem, stored, kept)
    if not messages and not previous and not conversation and not body.has("prompt"):
        if not body.has("input"):
            raise body.missing("input")
        raise body.refused("input", "is empty; at least one item is needed.", "array_below_min_length")
    wishes = _wishes(body, given, kept)
    store, background = given.get("store") is not False, bool(given.get("background"))
    if background and not store:
        raise body.refused(
            "background", "needs store to be true: a response that is not kept cannot be fetched later."
        )
    told = (Message("system", (TextPart(instructions),)),) if instructions else ()
    metadata = given.get("metadata", {})
    return ResponsesAsked(
        given.values["model"],
        (*told, *messages),
        instructions,
        wishes,
        bool(given.get("stream")),
        store,
        background,
        previous,
        conversation,
        metadata,
        _echo(body, wishes, metadata, conversation),
        items,
        given.get("max_tool_calls"),
        kept.names,
        tuple(given.rest),
    )


def _goes_on_with(body: Fields, given: FieldValues) -> tuple[str, str]:
    previous, conversation = given.get("previous_response_id", ""), given.get("conversation", "")
    if previous and conversation:
        what = "cannot be used together with conversation: each names what the request goes on with."
        raise body.refused("previous_response_id", what, "mutually_exclusive_parameters")
    return previous, conversation


# Wishes


def _wishes(body: Fields, given: FieldValues, kept: KeptFields) -> RunOptions:
    tools, hosted = _tools(body, kept)
    choice, own_choice = tool_choice(body, tools, kept, hosted=bool(hosted))
    extra = RESPONSE_FIELDS.passed(body, given)
    for name, value in extra.items():
        if value is not None:
            kept.name(body, name)
    if own_choice is not None:
        extra["tool_choice"] = own_choice
    reasoning, text = given.get("reasoning"), given.get("text")
    return RunOptions(
        **RESPONSE_FIELDS.options(given),
        tools=tools,
        tool_choice=choice,
        effort=(reasoning and reasoning.get("effort")) or None,
        response_format=text.get("format") if text else None,
        extra={PROTOCOL: extra} if extra else {},
        hosted=hosted,
    )


def _tools(body: Fields, kept: KeptFields) -> tuple[tuple[ToolSpec, ...], tuple[HostedTool, ...]]:
    """All functions. Those of a namespace are offered under its name and theirs, since other protocols know
    none."""
    made: list[tuple[Fields, ToolSpec]] = []
    hosted: list[HostedTool] = []
    place = 0
    for tool in body.objects("tools", MOST_TOOLS):
        kind = tool.need_text("type")
        if kind in ("function", CUSTOM):
            made.append((tool, _own_tool(tool, kind, kept)))
        elif kind == "namespace":
            group = tool.need_text("name", most=LONGEST_WORD)
            tool.text("description")
            inside = tool.objects("tools", MOST_TOOLS - len(made))
            about = tool.whole("tools", "type")
            for name in about.keys() - {"name", "description"}:
                kept.name(tool, name)
            for inner in inside:
                inner_kind = inner.need_text("type")
                if inner_kind not in ("function", CUSTOM):
                    what = f"is {inner_kind[:64]!r}; in a namespace only functions can be offered."
                    raise inner.refused("type", what, "unsupported_value")
                spec = _own_tool(inner, inner_kind, kept, grouped_name(group, ""))
                data = spec.state.data if spec.state is not None else {}
                made.append((inner, replace(spec, state=kept.sure({**data, NAMESPACE: about}))))
            place += len(inside) - 1
        else:
            kept.name(body, f"tools.{kind[:64]}")
            hosted.append(HostedTool(place, kept.sure(tool.whole())))
        place += 1
    return all_different(made), tuple(hosted)


def _own_tool(tool: Fields, kind: str, kept: KeptFields, prefix: str = "") -> ToolSpec:
    """A tool that the client runs. What else is said of it stays with it."""
    callers = tool.texts("allowed_callers", MOST_TOOLS)
    if callers and "direct" not in callers:
        raise tool.refused("allowed_callers", "must hold direct: nothing else calls tools here.")
    spec, rest = function_tool(tool, prefix) if kind == "function" else custom_tool(tool)
    if kind == CUSTOM:
        name = prefixed(tool, prefix, spec.name)
        known = {field: value for field, value in rest.items() if field != "type"}  # which stays in it
        return replace(spec, name=name, state=kept.state(rest, tool, known))
    return replace(spec, state=kept.state({name: rest[name] for name in rest if name != "type"}, tool))


def grouped(tools: Any) -> dict[str, tuple[str, str]]:
    """The functions of namespaces among a request's tools, which were read before, by the names under which
    they are offered: the namespace, and what they are called in it."""
    groups = [tool for tool in tools or () if tool["type"] == "namespace"]
    homes = [(group["name"], inner["name"]) for group in groups for inner in group.get("tools") or ()]
    return {grouped_name(*home): home for home in homes}


# What the response repeats


def _echo(body: Fields, wishes: RunOptions, metadata: dict[str, str], conversation: str) -> dict[str, Any]:
    text, reasoning = body.kept("text") or {}, body.kept("reasoning") or {}
    return {
        "instructions": body.raw("instructions"),
        "metadata": metadata,
        "tools": _told_tools(wishes.tools, grouped(body.raw("tools"))),
        "tool_choice": _told_choice(wishes),
        "parallel_tool_calls": wishes.parallel_calls is not False,
        # The protocol wants numbers; where none was asked for, these are its defaults.
        "temperature": 1.0 if wishes.temperature is None else wishes.temperature,
        "top_p": 1.0 if wishes.top_p is None else wishes.top_p,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
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
        "user": body.text("user", most=LONGEST_WORD),
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
