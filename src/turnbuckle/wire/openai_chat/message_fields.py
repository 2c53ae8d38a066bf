"""The messages of a Chat Completions request, field by field: what is read of them and what is told of them.

Parts of a type that is not here are kept whole and go to hosts of this protocol; so do fields that are not
here.
"""

from typing import Any

from turnbuckle.wire.field_table import OBJECTS, Field, FieldTable, Kind, some_text, text, word_kind
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.schemas import ADDRESS, MAYBE_TEXT, SOME_TEXT, TEXT, Shape, kind_of, listed, thing

MOST_MESSAGES = 10_000
"""Some ten times the longest histories that agents keep; the limit of the body is met first."""
MOST_CALLS = 1_024
MOST_DETAILS = 1_024

LONGEST_ID = 8_192  # some hosts put a signature into the id of a call
LONGEST_NAME = 256


def _there(schema: dict[str, Any]) -> Kind:
    """What the reader of the messages walks itself."""
    return Kind(Fields.raw, schema)


# Parts

TEXT_PART = FieldTable(Field("type", word_kind("text"), required=True), Field("text", text(), required=True))
IMAGE = FieldTable(
    Field("url", _there({"type": "string", "pattern": ADDRESS}), required=True),
    Field("detail", text(LONGEST_NAME)),
)
IMAGE_PART = FieldTable(
    Field("type", word_kind("image_url"), required=True),
    Field(
        "image_url",
        _there({"anyOf": [{"type": "string", "pattern": ADDRESS}, IMAGE.schema()]}),
        required=True,
    ),
)
FILE_PART = FieldTable(
    Field("type", word_kind("file"), required=True),
    Field(
        "file",
        _there(
            {
                "type": "object",
                "properties": {"file_id": SOME_TEXT, "file_data": SOME_TEXT, "filename": MAYBE_TEXT},
                "oneOf": [{"required": ["file_id"]}, {"required": ["file_data"]}],
            }
        ),
        required=True,
    ),
)
REFUSAL_PART = FieldTable(
    Field("type", word_kind("refusal"), required=True), Field("refusal", text(), required=True)
)
PARTS = frozenset({"text", "image_url", "file", "refusal"})
TEXT_ALONE = ("text",)
SHOWN = ("text", "image_url", "file")
SPOKEN = ("text", "refusal")

_TEXT_SHAPE = Shape("ChatText", TEXT_PART.schema())
_IMAGE_SHAPE = Shape(
    "ChatImage", IMAGE_PART.schema("A picture by its address, or inside the request as a `data:` address.")
)
_FILE_SHAPE = Shape("ChatFile", FILE_PART.schema("A file: exactly one of `file_id` and `file_data`."))
_REFUSAL_SHAPE = Shape("ChatRefusal", REFUSAL_PART.schema())
_OTHER_SHAPE = Shape(
    "ChatOtherPart",
    thing(
        "type",
        "A part of any other type goes as it is to a provider of this protocol, and to no other.",
        type={**SOME_TEXT, "not": {"enum": sorted(PARTS)}},
    ),
)
_SHOWN_PARTS = (_TEXT_SHAPE, _IMAGE_SHAPE, _FILE_SHAPE, _OTHER_SHAPE)

# Messages

_NAME = Field("name", text(LONGEST_NAME), "Who speaks.")


def _content(*parts: Shape, least: int = 0) -> Kind:
    return _there({"anyOf": [TEXT, listed({"anyOf": [part.ref for part in parts]}, least=least)]})


SYSTEM = FieldTable(
    Field("role", word_kind("system", "developer"), required=True),
    Field("content", _content(_TEXT_SHAPE, _OTHER_SHAPE, least=1), required=True),
    _NAME,
)
USER = FieldTable(
    Field("role", word_kind("user"), required=True),
    Field("content", _content(*_SHOWN_PARTS, least=1), required=True),
    _NAME,
)
CALL = FieldTable(
    Field("id", some_text(LONGEST_ID), required=True),
    Field("type", _there({"enum": ["function", "custom", ""]})),
    Field(
        "function",
        _there(
            thing(
                "name",
                name={**SOME_TEXT, "maxLength": LONGEST_NAME},
                arguments={"type": ["string", "object", "null"]},
            )
        ),
    ),
    Field(
        "custom",
        _there(thing("name", name={**SOME_TEXT, "maxLength": LONGEST_NAME}, input=MAYBE_TEXT)),
        "A call whose input is text of any kind.",
    ),
    Field("index", _there({})),
)
_CALL_SHAPE = Shape(
    "ChatToolCall",
    {
        **CALL.schema("A call that the model made. What else stands beside it goes back to that provider."),
        "oneOf": [
            thing("function", type={"enum": ["function", "", None]}, function={"type": "object"}),
            thing("type custom", type=kind_of("custom"), custom={"type": "object"}),
        ],
    },
)
ASSISTANT = FieldTable(
    Field("role", word_kind("assistant"), required=True),
    Field("content", _content(_TEXT_SHAPE, _REFUSAL_SHAPE, _OTHER_SHAPE)),
    Field("refusal", text()),
    Field("reasoning_content", text()),
    Field("reasoning", text()),
    Field("thinking", text()),
    Field("reasoning_details", Kind(OBJECTS.read, listed({"type": "object"}, MOST_DETAILS))),
    Field("tool_calls", _there(listed(_CALL_SHAPE.ref, MOST_CALLS))),
    Field("function_call", _there(thing("name", name=SOME_TEXT)), "The older form of one call."),
    _NAME,
)
TOOL = FieldTable(
    Field("role", word_kind("tool"), required=True),
    Field("tool_call_id", some_text(LONGEST_ID), required=True),
    Field("content", _content(*_SHOWN_PARTS)),
)

_SYSTEM_SHAPE = Shape("SystemMessage", SYSTEM.schema(), (_TEXT_SHAPE, _OTHER_SHAPE))
_USER_SHAPE = Shape("UserMessage", USER.schema(), _SHOWN_PARTS)
_ASSISTANT_SHAPE = Shape(
    "AssistantMessage",
    ASSISTANT.schema(
        "What the model said. Reasoning under any of its names goes back to a provider of this protocol."
    ),
    (_TEXT_SHAPE, _REFUSAL_SHAPE, _OTHER_SHAPE, _CALL_SHAPE),
)
_TOOL_SHAPE = Shape("ToolMessage", TOOL.schema("What a call gave."), _SHOWN_PARTS)
MESSAGE = Shape(
    "ChatMessage",
    {
        "description": (
            "One message. The older role `function` is taken, too, behind the `function_call` it answers. "
            "Unknown fields go to a provider of this protocol as they came."
        ),
        "oneOf": [_SYSTEM_SHAPE.ref, _USER_SHAPE.ref, _ASSISTANT_SHAPE.ref, _TOOL_SHAPE.ref],
    },
    (_SYSTEM_SHAPE, _USER_SHAPE, _ASSISTANT_SHAPE, _TOOL_SHAPE),
)
MESSAGES = Field(
    "messages",
    _there(listed(MESSAGE.ref, MOST_MESSAGES, least=1)),
    "What was said, oldest first.",
    "translated",
    required=True,
)
