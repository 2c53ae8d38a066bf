"""Every field of a Messages request: how it is read, what becomes of it, and what is told of it.

Blocks of a type that is not here are kept whole and go to providers of this protocol; so do fields that are
not here.
"""

from typing import Any

from turnbuckle.wire.client_tools import MOST_TOOLS
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
    number,
    some_text,
)
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.schemas import MAYBE_FLAG, MAYBE_TEXT, SOME_TEXT, TEXT, Shape, kind_of, listed, thing

MOST_MESSAGES = 100_000
"""What the API itself takes; the limit of the body is met first."""
MOST_STOPS = 256
LONGEST_ID = 8_192
LONGEST_NAME = 256
ROLES = ("user", "assistant", "system")
CHOICES = ("auto", "any", "tool", "none")
TOOL_NAME = "[a-zA-Z0-9_.:-]{1,128}"
"""As the most tolerant of all hosts have it: the call may go to any of them."""
RUN_THERE = (
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "tool_search_tool_",
    "advisor_",
    "mcp_toolset",
)
"""How types of tools begin that the provider runs by itself. All other tools are the client's to run."""
ADDED = "tool_addition"
"""A block of a message that brings a tool along."""


def _there(schema: dict[str, Any]) -> Kind:
    """What the reader of the messages walks itself."""
    return Kind(Fields.raw, schema)


def _stops(body: Fields, name: str) -> tuple[str, ...]:
    stops = body.texts(name, MOST_STOPS)
    if not all(stops):
        raise body.refused(name, "holds an empty string, which would stop every answer at once.")
    return stops


def _thread(body: Fields, name: str) -> str:
    """The message that it wants to go on behind; empty if it begins."""
    thread = body.need_inner(name)
    goes_on = thread.need_text("type") == "continue"
    return thread.need_text("previous_message_id", most=LONGEST_ID) if goes_on else ""


# Blocks


def _by_type(schemas: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What holds for objects of each of these types; others may be as they like."""
    return [{"if": thing("type", type=kind_of(kind)), "then": schema} for kind, schema in schemas.items()]


_CACHED = {"cache_control": {"type": ["object", "null"]}}
_SOURCE = thing("type", type=SOME_TEXT, media_type=MAYBE_TEXT)
_WAYS = {"base64": thing("data", data=SOME_TEXT), "url": thing("url", url=SOME_TEXT)}
_DOCUMENT_WAYS = {
    **_WAYS,
    "text": thing("", data=MAYBE_TEXT),
    "file": thing("file_id", file_id=SOME_TEXT),
}
_SHOWN: dict[str, dict[str, Any]] = {
    "text": thing("text", text=TEXT),
    "image": thing("source", source={**_SOURCE, "allOf": _by_type(_WAYS)}),
    "document": thing("source", source={**_SOURCE, "allOf": _by_type(_DOCUMENT_WAYS)}, title=MAYBE_TEXT),
}
_PIECE = {**thing("type", type=SOME_TEXT, **_CACHED), "allOf": _by_type(_SHOWN)}
_ANY_BLOCK = Shape(
    "MessagesBlock",
    {
        **thing("type", type=SOME_TEXT, **_CACHED),
        "description": (
            "A content block. Known are text, image, document, search_result, tool_use, tool_result, "
            "thinking and redacted_thinking. Any other goes as it is to a provider of this protocol."
        ),
        "allOf": _by_type(
            {
                **_SHOWN,
                "thinking": thing("", thinking=MAYBE_TEXT, signature=MAYBE_TEXT),
                "tool_use": thing(
                    "id name",
                    id={**SOME_TEXT, "maxLength": LONGEST_ID},
                    name={**SOME_TEXT, "maxLength": LONGEST_NAME},
                    input={"type": ["object", "null"]},
                ),
                "tool_result": thing(
                    "tool_use_id",
                    tool_use_id={**SOME_TEXT, "maxLength": LONGEST_ID},
                    is_error=MAYBE_FLAG,
                    content={"anyOf": [TEXT, listed(_PIECE), {"type": "null"}]},
                ),
            }
        ),
    },
)
_CONTENT = {"anyOf": [TEXT, listed(_ANY_BLOCK.ref)]}
MESSAGE = Shape(
    "MessagesMessage",
    thing(
        "role content",
        "What somebody said. The last message may be an assistant's; then the model is asked to go on.",
        role=kind_of(*ROLES),
        content=_CONTENT,
    ),
    (_ANY_BLOCK,),
)
TOOL = Shape(
    "MessagesTool",
    {
        "description": (
            "A tool that the client runs, or one of the provider's own: its type begins as those of tools do "
            "that the provider runs, or it has a type and no name. Of those nothing else is read here."
        ),
        "anyOf": [
            thing(
                "name",
                type=MAYBE_TEXT,
                name={"type": "string", "pattern": f"^{TOOL_NAME}$"},
                description=MAYBE_TEXT,
                input_schema={
                    "type": ["object", "null"],
                    "properties": {"type": {"enum": ["object", None]}},
                },
                strict=MAYBE_FLAG,
            ),
            thing("type", type={**TEXT, "pattern": f"^({'|'.join(RUN_THERE)})"}),
            thing("type", type=SOME_TEXT, name={"type": "null"}),
        ],
    },
)
_CHOICE = {
    **thing(
        "type",
        type=kind_of(*CHOICES),
        name={**MAYBE_TEXT, "maxLength": LONGEST_NAME},
        disable_parallel_tool_use=MAYBE_FLAG,
    ),
    "allOf": _by_type({"tool": thing("name", name={**TEXT, "minLength": 1})}),
}
_THREAD = {
    "anyOf": [
        thing(
            "type previous_message_id",
            type=kind_of("continue"),
            previous_message_id={**SOME_TEXT, "maxLength": LONGEST_ID},
        ),
        thing("type", type={**SOME_TEXT, "not": {"const": "continue"}}),
    ]
}
_OUTPUT = thing("", effort=MAYBE_TEXT, format={"type": ["object", "null"]})

# The request

_COUNTED = (
    Field(
        "model",
        some_text(LONGEST_WORD),
        "`agent`, which has the server's tools, or a route, which is a pure relay.",
        "ours",
        required=True,
    ),
    Field(
        "messages",
        _there(listed(MESSAGE.ref, MOST_MESSAGES, least=1)),
        "What was said, oldest first.",
        "translated",
        required=True,
    ),
    Field(
        "system",
        _there(_CONTENT),
        "Instructions for the model, before everything else, as a text or as blocks.",
        "translated",
    ),
    Field("tools", Kind(OBJECTS.read, listed(TOOL.ref, MOST_TOOLS)), fate="translated"),
    Field("tool_choice", _there(_CHOICE), fate="translated"),
    Field("thinking", OBJECT, "As the provider knows it: enabled with a budget, adaptive, or disabled."),
    Field("output_config", Kind(Fields.kept, _OUTPUT), "Effort, and the form of the answer.", "translated"),
    Field("context_management", OBJECT),
    Field("mcp_servers", OBJECTS, "MCP servers that the provider asks by itself."),
    Field("cache_control", OBJECT),
)
COUNT_FIELDS = FieldTable(*_COUNTED)
MESSAGES_FIELDS = FieldTable(
    *_COUNTED,
    Field(
        "max_tokens",
        count(1),
        "The most that the model may say.",
        "translated",
        "max_output_tokens",
        required=True,
    ),
    Field("stream", FLAG, "The answer as it comes.", "ours"),
    Field(
        "stop_sequences",
        Kind(_stops, listed({**TEXT, "minLength": 1}, MOST_STOPS)),
        fate="translated",
        becomes="stop",
    ),
    Field("temperature", number(0, 2), fate="translated", becomes="temperature"),
    Field("top_p", number(0, 1), fate="translated", becomes="top_p"),
    Field("top_k", count(0)),
    Field("metadata", OBJECT),
    Field("service_tier", WORD),
    Field("thread", Kind(_thread, _THREAD), "Every request brings its history; none is kept here.", "ours"),
    Field("container", _there({"type": ["string", "object"]})),
)
AS_IT_CAME = ("temperature", "top_p")
"""What becomes an option for every protocol, and goes to providers of this one even where their newest
version would not take it from us: the client knows its version."""
NEED_BETAS = ("context_management", "mcp_servers", "container")
"""What providers take only beside a header of the client's. Our own agent sends no such header."""
SHAPES = (MESSAGE, TOOL)
