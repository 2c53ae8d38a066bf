"""The input items of a Responses request, field by field: what is read of them and what is told of them.

The protocol has many kinds of items, and more every year. Those that the server understands are here; all
others, like parts and fields that are not here, are kept whole and go back to providers of this protocol.
"""

from typing import Any

from turnbuckle.wire.field_table import OBJECTS, Field, FieldTable, Kind, some_text, text, word_kind
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.schemas import ADDRESS, MAYBE_TEXT, SOME_TEXT, TEXT, Shape, kind_of, listed, maybe, thing

MOST_ITEMS = 30_000
"""Some ten times the longest histories that agents keep; the limit of the body is met first."""
MOST_NOTES = 2_000
"""Annotations of one text, or parts of one reasoning."""
LONGEST_ID = 8_192  # some hosts put a signature into the id of a call
LONGEST_NAME = 256
TEXTS = ("input_text", "output_text", "text")
OUTPUTS = ("function_call_output", "custom_tool_call_output")
UNSUPPORTED = {
    "additional_tools": "offer all tools in the request's own tools",
    "configuration_update": "set it in the request itself",
    "compaction_trigger": "nothing is compacted here on request",
}
"""Items that would change what a call is checked against, behind our back."""


def _there(schema: dict[str, Any]) -> Kind:
    """What the reader of the items walks itself."""
    return Kind(Fields.raw, schema)


_ID = Field("id", text(LONGEST_ID))
_CALL_ID = Field("call_id", some_text(LONGEST_ID), required=True)
_STATUS = Field("status", _there({"type": "string"}))

# Parts

INPUT_TEXT = FieldTable(Field("type", word_kind(*TEXTS), required=True), Field("text", text(), required=True))
INPUT_IMAGE = FieldTable(
    Field("type", word_kind("input_image"), required=True),
    Field("image_url", _there({"type": "string", "pattern": ADDRESS}), required=True),
    Field("detail", text(LONGEST_NAME)),
)
INPUT_FILE = FieldTable(
    Field("type", word_kind("input_file"), required=True),
    Field("file_id", _there(SOME_TEXT)),
    Field("file_data", _there(SOME_TEXT)),
    Field(
        "file_url",
        _there({"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://", "maxLength": 16384}),
    ),
    Field("filename", _there(TEXT)),
)
REFUSAL = FieldTable(
    Field("type", word_kind("refusal"), required=True), Field("refusal", text(), required=True)
)
PARTS = frozenset({*TEXTS, "input_image", "input_file", "refusal"})

_TEXT_SHAPE = Shape("InputText", INPUT_TEXT.schema())
_SPOKEN_SHAPE = Shape(
    "SpokenText",
    {
        "description": "A text of the model, with what it cites.",
        "allOf": [
            _TEXT_SHAPE.ref,
            thing("", annotations=maybe(listed({"type": "object"}, MOST_NOTES))),
        ],
    },
    (_TEXT_SHAPE,),
)
_IMAGE_SHAPE = Shape(
    "InputImage", INPUT_IMAGE.schema("A picture by its address, or inside the request as a `data:` address.")
)
_FILE_SHAPE = Shape(
    "InputFile",
    {
        **INPUT_FILE.schema("A file: exactly one of `file_id`, `file_data` and `file_url`."),
        "oneOf": [thing(way, **{way: TEXT}) for way in ("file_id", "file_data", "file_url")],
    },
)
_OTHER_PART = Shape(
    "InputOtherPart",
    thing(
        "type",
        "A part of any other type goes as it is to a provider of this protocol, and to no other.",
        type={**SOME_TEXT, "not": {"enum": sorted(PARTS)}},
    ),
)
_SHOWN = (_TEXT_SHAPE, _IMAGE_SHAPE, _FILE_SHAPE, _OTHER_PART)

# Items


def _content(*parts: Any, least: int = 0) -> Kind:
    return _there({"anyOf": [TEXT, listed({"anyOf": list(parts)}, least=least)]})


_MESSAGE = Field("type", _there({"enum": ["message", ""]}))
_SAID_BY = {
    "user": _content(*(part.ref for part in _SHOWN), least=1),
    "system developer": _content(_TEXT_SHAPE.ref, _OTHER_PART.ref, least=1),
    "assistant": _content(_SPOKEN_SHAPE.ref, REFUSAL.schema(), _OTHER_PART.ref),
}
MESSAGE = FieldTable(
    _MESSAGE, Field("role", _there({})), Field("content", _there({})), Field("id", text(LONGEST_ID)), _STATUS
)
_MESSAGES = [
    FieldTable(
        _MESSAGE,
        Field("role", word_kind(*roles.split()), required=True),
        Field("content", content, required=True),
        _ID,
    ).schema()
    for roles, content in _SAID_BY.items()
]
OUTPUT = FieldTable(
    Field("type", word_kind(*OUTPUTS), required=True),
    _CALL_ID,
    Field("output", _content(*(part.ref for part in _SHOWN)), required=True),
    _ID,
    _STATUS,
)
_TEXTS_INSIDE = Kind(OBJECTS.read, listed(thing("", text=MAYBE_TEXT), MOST_NOTES))
_SAID_SHAPE = Shape(
    "InputMessage",
    {"description": "A message.", "oneOf": _MESSAGES},
    (*_SHOWN, _SPOKEN_SHAPE),
)
_CALLED_SHAPE = Shape(
    "InputCall",
    {
        "description": "A call that the model made, of a function or of a tool that takes text of any kind.",
        "anyOf": [
            FieldTable(
                Field("type", word_kind(kind), required=True),
                _CALL_ID,
                Field("name", some_text(LONGEST_NAME), required=True),
                Field(arguments, text(), required=True),
                Field("namespace", text(LONGEST_NAME)),
                _ID,
            ).schema()
            for kind, arguments in CALLS.items()
        ],
    },
)
_RESULT_SHAPE = Shape("InputCallOutput", OUTPUT.schema("What a call gave."), _SHOWN)
_THOUGHT_SHAPE = Shape(
    "InputReasoning",
    FieldTable(
        Field("type", word_kind("reasoning"), required=True),
        Field("summary", _TEXTS_INSIDE),
        Field("content", _TEXTS_INSIDE),
        Field("encrypted_content", text()),
        _ID,
    ).schema("What the model thought, as its provider gave it."),
)
_OTHER_SHAPE = Shape(
    "OtherItem",
    thing(
        "type",
        "What only a provider understands. It is kept whole, for the one that made it.",
        type={
            **SOME_TEXT,
            "not": {"enum": ["message", "reasoning", "item_reference", *CALLS, *OUTPUTS, *UNSUPPORTED]},
        },
        id={"type": ["string", "null"], "maxLength": LONGEST_ID},
    ),
)
_NAMED_SHAPE = Shape(
    "ItemReference",
    {
        **thing(
            "id",
            "An item of an earlier response, by its id. It may leave out its type.",
            id={**SOME_TEXT, "maxLength": LONGEST_ID},
        ),
        "anyOf": [
            thing("type", type=kind_of("item_reference")),
            thing("", type={"enum": ["", None]}, role={"type": "null"}),
        ],
    },
)
_ITEMS = (_SAID_SHAPE, _CALLED_SHAPE, _RESULT_SHAPE, _THOUGHT_SHAPE, _NAMED_SHAPE, _OTHER_SHAPE)
ITEM = Shape(
    "InputItem",
    {
        "description": "One item.",
        "anyOf": [item.ref for item in _ITEMS],
    },
    _ITEMS,
)
