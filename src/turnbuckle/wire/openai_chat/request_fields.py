"""Every field of a Chat Completions request: how it is read, what becomes of it, and what is told of it."""

from typing import Any

from turnbuckle.wire.client_tools import CUSTOM, CUSTOM_TOOL, FUNCTION, MOST_TOOLS, choice_schema
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
    some_text,
    texts,
)
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.openai_chat.message_fields import MESSAGE, MESSAGES
from turnbuckle.wire.schemas import MAYBE_FLAG, SOME_TEXT, TEXT, Shape, kind_of, listed, maybe, thing

MOST_STOPS = 16
"""Hosts take 4 to 16."""
MOST_CHOICES = 128
"""As many as OpenAI gives."""
_INT64 = 2**63
_TYPES = ("text", "json_object", "json_schema")


def _stop(body: Fields, name: str) -> tuple[str, ...]:
    given = body.raw(name)
    stops = (given,) if isinstance(given, str) else body.texts(name, MOST_STOPS)
    if not all(stops):
        raise body.refused(name, "holds an empty string, which would stop every answer at once.")
    return stops


def _bias(body: Fields, name: str) -> dict[str, Any]:
    bias = body.need_inner(name)
    for token in bias.names():
        bias.number(token, -100, 100)
    return bias.whole()


def _response_format(body: Fields, name: str) -> dict[str, Any] | None:
    """As the client wrote it, since requests are built from this spelling for every protocol; plain text is
    no wish, and of a kind that we do not know nobody else knows."""
    wanted = body.need_inner(name)
    kind = wanted.need_text("type")
    if kind == "json_schema":
        named = wanted.need_inner("json_schema")
        named.need_text("name", most=LONGEST_WORD)
        named.inner("schema")
        named.flag("strict")
    return wanted.whole() if kind in ("json_schema", "json_object") else None


def _own_format(given: Any) -> Any:
    return given if given.get("type") not in _TYPES else None


_FORMAT = {
    "anyOf": [
        thing("type", type=kind_of("text", "json_object")),
        thing(
            "type json_schema",
            type=kind_of("json_schema"),
            json_schema=thing(
                "name",
                name={**SOME_TEXT, "maxLength": LONGEST_WORD},
                schema={"type": ["object", "null"]},
                strict=MAYBE_FLAG,
                description=TEXT,
            ),
        ),
        thing("type", type={**SOME_TEXT, "not": {"enum": list(_TYPES)}}),
    ]
}
TOOL = Shape(
    "ChatTool",
    {
        "description": "A tool of the client, which runs it itself, or one of the provider's own.",
        "anyOf": [
            thing("type function", type=kind_of("function"), function=FUNCTION.schema()),
            thing("type custom", type=kind_of(CUSTOM), custom=CUSTOM_TOOL.schema()),
            thing("type", type={**SOME_TEXT, "not": {"enum": ["function", CUSTOM]}}),
        ],
    },
)
MODEL = Field(
    "model",
    some_text(LONGEST_WORD),
    "`agent`, which has the server's tools, or a route, which is a pure relay.",
    "ours",
    required=True,
)
_STREAM_OPTIONS = FieldTable(Field("include_usage", FLAG, "Count tokens in a last chunk.", "ours"))


def _but_usage(given: Any) -> Any:
    return {name: value for name, value in given.items() if name != "include_usage"}


WISHES = FieldTable(
    Field("tools", Kind(OBJECTS.read, listed(TOOL.ref, MOST_TOOLS)), fate="translated"),
    Field("tool_choice", Kind(Fields.raw, choice_schema(nested=True)), fate="translated"),
    Field("parallel_tool_calls", FLAG, fate="translated", becomes="parallel_calls"),
    Field("max_tokens", count(1), "The older name of the next one.", "translated", "max_output_tokens"),
    Field(
        "max_completion_tokens",
        count(1),
        "The most that the model may say.",
        "translated",
        "max_output_tokens",
    ),
    Field("temperature", number(0, 2), fate="translated", becomes="temperature"),
    Field("top_p", number(0, 1), fate="translated", becomes="top_p"),
    Field(
        "stop",
        Kind(
            _stop,
            {"anyOf": [{**TEXT, "minLength": 1}, listed({**TEXT, "minLength": 1}, MOST_STOPS)]},
        ),
        fate="translated",
        becomes="stop",
    ),
    Field("reasoning_effort", WORD, "A word that the model's provider knows.", "translated", "effort"),
    Field(
        "response_format",
        Kind(_response_format, _FORMAT),
        fate="translated",
        becomes="response_format",
        rides=_own_format,
    ),
    Field("seed", count(-_INT64, _INT64 - 1)),
    Field("presence_penalty", number(-2, 2)),
    Field("frequency_penalty", number(-2, 2)),
    Field(
        "logit_bias", Kind(_bias, {"type": "object", "additionalProperties": maybe(number(-100, 100).schema)})
    ),
    Field("top_k", count(-1)),
    Field("min_p", number(0, 1)),
    Field("repetition_penalty", number(0, 10)),
    Field("chat_template_kwargs", OBJECT),
    Field("service_tier", WORD),
    Field("prompt_cache_key", WORD),
    Field("prompt_cache_retention", WORD),
    Field("prompt_cache_options", OBJECT),
    Field("safety_identifier", WORD),
    Field("verbosity", WORD),
    Field(
        "n",
        count(1, MOST_CHOICES),
        "How many answers. Several come from a relay of this protocol only, and are not repaired.",
    ),
    Field("modalities", texts(MOST_STOPS)),
    Field("audio", OBJECT, "Audio output options; requested by `modalities`."),
    Field("user", WORD),
    Field("metadata", OBJECT),
    Field("store", FLAG, "Whether the provider keeps it. Runs are kept here all the same."),
    Field("logprobs", FLAG),
    Field("top_logprobs", count(0, 20)),
    Field("prediction", OBJECT),
    Field("web_search_options", OBJECT),
    Field("moderation", OBJECT),
    Field("functions", OBJECTS, "it was replaced by tools", "refused"),
    Field("function_call", Kind(Fields.raw, {}), "it was replaced by tool_choice", "refused"),
)
"""What is wanted of the model. `POST /v1/runs` takes the same."""
CHAT_FIELDS = FieldTable(
    MODEL,
    MESSAGES,
    Field("stream", FLAG, "The answer as it comes.", "ours"),
    Field("stream_options", inner(_STREAM_OPTIONS), fate="ours", rides=_but_usage),
    *WISHES,
)
SHAPES = (MESSAGE, TOOL)
