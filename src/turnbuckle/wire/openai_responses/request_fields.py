"""Every field of a Responses request: how it is read, what becomes of it, and what is told of it."""

from typing import Any

from turnbuckle.wire.client_tools import CUSTOM, CUSTOM_TOOL, FUNCTION, MOST_TOOLS, NAME, choice_schema
from turnbuckle.wire.field_table import (
    FLAG,
    LONGEST_WORD,
    OBJECT,
    OBJECTS,
    WORD,
    Field,
    FieldTable,
    Kind,
    count,
    inner,
    number,
    one_of,
    some_text,
    text,
    texts,
)
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.openai_responses.item_fields import ITEM, MOST_ITEMS
from turnbuckle.wire.schemas import MAYBE_FLAG, SOME_TEXT, Shape, kind_of, listed, maybe, thing

_MOST_LABELS, _LONGEST_KEY, _LONGEST_VALUE = 16, 64, 512  # what the API itself allows
_MOST_INCLUDED = 64
_FORMATS = ("text", "json_object", "json_schema")


def _labels(body: Fields, name: str) -> dict[str, str]:
    given = body.need_inner(name)
    if len(given.names()) > _MOST_LABELS:
        raise body.refused(name, f"has more than {_MOST_LABELS} keys.", "object_above_max_properties")
    made: dict[str, str] = {}
    for key in given.names():
        if len(key) > _LONGEST_KEY:
            raise body.refused(name, f"has a key of more than {_LONGEST_KEY} characters.")
        value = given.text(key, most=_LONGEST_VALUE)
        if value is not None:
            made[key] = value
    return made


def _conversation(body: Fields, name: str) -> str:
    if isinstance(body.raw(name), dict):
        return body.need_inner(name).need_text("id", most=LONGEST_WORD)
    return body.text(name, most=LONGEST_WORD) or ""


def _caching(body: Fields, name: str) -> None:
    if body.need_inner(name).flag("prewarm"):
        raise body.need_inner(name).refused(
            "prewarm", "is not supported: every request is answered.", "unsupported_parameter"
        )


def _format(body: Fields, name: str) -> dict[str, Any] | None:
    """In the spelling of Chat Completions, from which requests are built for every protocol; plain text is no
    wish."""
    wanted = body.need_inner(name)
    kind = wanted.need_text("type")
    match kind:
        case "text":
            return None
        case "json_object":
            return wanted.whole()
        case "json_schema":
            wanted.need_text("name", most=LONGEST_WORD)
            wanted.need_inner("schema")
            wanted.flag("strict")
            return {"type": kind, "json_schema": wanted.whole("type")}
    what = f"is {kind[:64]!r}; supported are {', '.join(_FORMATS[:-1])} and {_FORMATS[-1]}."
    raise wanted.refused("type", what, "unsupported_value")


_FORMAT = Kind(
    _format,
    {
        "anyOf": [
            thing("type", type=kind_of("text", "json_object")),
            thing(
                "type name schema",
                type=kind_of("json_schema"),
                name={**SOME_TEXT, "maxLength": LONGEST_WORD},
                schema={"type": "object"},
                strict=MAYBE_FLAG,
            ),
        ]
    },
)
_REASONING = FieldTable(Field("effort", WORD))
_TEXT = FieldTable(Field("format", _FORMAT), Field("verbosity", WORD))


def _but(*names: str) -> Any:
    """What rides along of an object of which we understand a part."""
    return lambda given: {name: value for name, value in given.items() if name not in names}


_FUNCTION_SHAPE = Shape(
    "ResponseTool",
    {
        **thing(
            "type name",
            "A tool of the client, which runs it itself.",
            type=kind_of("function"),
            **FUNCTION.schema()["properties"],
        )
    },
)
_CUSTOM_SHAPE = Shape(
    "ResponseCustomTool",
    thing(
        "type name",
        "A tool of the client whose input is text of any kind.",
        type=kind_of(CUSTOM),
        **CUSTOM_TOOL.schema()["properties"],
    ),
)
_GROUP_SHAPE = Shape(
    "ResponseToolGroup",
    thing(
        "type name",
        "Tools of the client under one name; `name__tool` behind other protocols. A call of one is handed "
        "over with both names, as `namespace` and `name`.",
        type=kind_of("namespace"),
        name=NAME.schema,
        description={"type": ["string", "null"]},
        tools=maybe(listed({"anyOf": [_FUNCTION_SHAPE.ref, _CUSTOM_SHAPE.ref]}, MOST_TOOLS)),
    ),
    (_FUNCTION_SHAPE, _CUSTOM_SHAPE),
)
_HOSTED_SHAPE = Shape(
    "ResponseHostedTool",
    thing(
        "type",
        "A tool of the provider's own, which it runs by itself. To a provider of another protocol it is not "
        "offered, and the header `X-Turnbuckle-Left-Out` says so.",
        type={**SOME_TEXT, "not": {"enum": ["function", CUSTOM, "namespace"]}},
    ),
)
_TOOLS = (_FUNCTION_SHAPE, _CUSTOM_SHAPE, _GROUP_SHAPE, _HOSTED_SHAPE)
_METADATA = {
    "type": "object",
    "maxProperties": _MOST_LABELS,
    "propertyNames": {"maxLength": _LONGEST_KEY},
    "additionalProperties": {"type": ["string", "null"], "maxLength": _LONGEST_VALUE},
}
RESPONSE_FIELDS = FieldTable(
    Field(
        "model",
        some_text(LONGEST_WORD),
        "`agent`, which has the server's tools, or a route, which is a pure relay.",
        "ours",
        required=True,
    ),
    Field(
        "input",
        Kind(Fields.raw, {"anyOf": [SOME_TEXT, listed(ITEM.ref, MOST_ITEMS)]}),
        "Optional only after an earlier response or in a conversation.",
        "translated",
    ),
    Field("instructions", text(), "Instructions for the model, before everything else.", "translated"),
    Field(
        "previous_response_id",
        WORD,
        "Continue after this response. Instructions are not inherited.",
        "ours",
    ),
    Field(
        "conversation",
        Kind(
            _conversation,
            {
                "anyOf": [
                    {"type": "string", "maxLength": LONGEST_WORD},
                    thing("id", id={**SOME_TEXT, "maxLength": LONGEST_WORD}),
                ]
            },
        ),
        "Go on in this conversation, whose id may stand in an object. It is made if there is none.",
        "ours",
    ),
    Field("stream", FLAG, "Its events as they come.", "ours"),
    Field("background", FLAG, "Answer at once; fetch the response later. Needs `store`.", "ours"),
    Field("store", FLAG, "false: it cannot be fetched once it has ended. The provider is told the same."),
    Field(
        "tools",
        Kind(OBJECTS.read, listed({"anyOf": [tool.ref for tool in _TOOLS]}, MOST_TOOLS)),
        fate="translated",
    ),
    Field("tool_choice", Kind(Fields.raw, choice_schema()), fate="translated"),
    Field("parallel_tool_calls", FLAG, fate="translated", becomes="parallel_calls"),
    Field("max_output_tokens", count(1), fate="translated", becomes="max_output_tokens"),
    Field("max_tool_calls", count(1), "The most calls of the server's tools, and of the provider's own."),
    Field("temperature", number(0, 2), fate="translated", becomes="temperature"),
    Field("top_p", number(0, 1), fate="translated", becomes="top_p"),
    Field("top_logprobs", count(0, 20)),
    Field("reasoning", inner(_REASONING), fate="translated", rides=_but("effort")),
    Field("text", inner(_TEXT), fate="translated", rides=_but("format")),
    Field("truncation", one_of("auto", "disabled")),
    Field("metadata", Kind(_labels, _METADATA)),
    Field("service_tier", WORD),
    Field("prompt_cache_key", WORD),
    Field("prompt_cache_retention", WORD),
    Field("prompt_cache_options", Kind(_caching, {"type": "object"})),
    Field("safety_identifier", WORD),
    Field("user", WORD),
    Field("include", texts(_MOST_INCLUDED)),
    Field("stream_options", OBJECT),
    Field("prompt", OBJECT, "A prompt that the provider keeps."),
    Field("moderation", OBJECT),
    Field("image", OBJECT),
    Field("access_programs", OBJECT),
    Field("context_management", OBJECTS),
)
SHAPES = (ITEM, *_TOOLS)
