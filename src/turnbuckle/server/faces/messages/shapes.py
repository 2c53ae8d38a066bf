"""What a Messages request may hold and what its answers look like, for the document.

The request is described once, by the tables of `wire/anthropic`, from which its reader is made, too. Where a
rule cannot be said by a schema, the schema is the wider one and the reader refuses with the name of the
field.
"""

from typing import Any

from turnbuckle.server.faces.chat.shapes import ASKED, OUTCOME
from turnbuckle.server.http.openapi import MESSAGES_ERROR, Parameter, event
from turnbuckle.wire.anthropic.request_fields import COUNT_FIELDS, MESSAGES_FIELDS, SHAPES
from turnbuckle.wire.schemas import MAYBE_TEXT, TEXT, WHOLE, Shape, kind_of, listed, maybe, thing

VERSIONS = (
    Parameter("anthropic-version", "Any version of Anthropic's API.", "header"),
    Parameter("anthropic-beta", "Any betas of it.", "header"),
)
_PASSED = "Fields that are not listed here go to a provider of this protocol as they came."
MESSAGE_BODY = Shape("MessageBody", MESSAGES_FIELDS.schema(_PASSED), SHAPES)
COUNT_BODY = Shape("MessageCountBody", COUNT_FIELDS.schema(_PASSED), SHAPES)
COUNTED = Shape("MessageTokens", thing("input_tokens", input_tokens=WHOLE))

_STOPS = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
)
_USAGE = Shape(
    "MessageUsage",
    thing(
        "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens",
        "`input_tokens` is what this request weighed, `output_tokens` all that was generated for it. "
        "`iterations` has each attempt, where there was more than one: together they are what was spent.",
        input_tokens=WHOLE,
        output_tokens=WHOLE,
        cache_read_input_tokens=WHOLE,
        cache_creation_input_tokens=WHOLE,
        output_tokens_details=thing("thinking_tokens", thinking_tokens=WHOLE),
        iterations=listed({"type": "object"}),
    ),
)
_BLOCK = Shape(
    "MessageBlock",
    thing(
        "type",
        "A block of the answer: text, thinking, redacted_thinking, or tool_use, which is a call for the "
        "client and whole. Tools of the server are told as `mcp_tool_use` and `mcp_tool_result`; blocks of a "
        "provider's own tools are as they came.",
        type=TEXT,
    ),
)


def _message(stop: dict[str, Any], **more: Any) -> dict[str, Any]:
    return thing(
        "id type role model content stop_reason stop_sequence usage",
        id={**TEXT, "pattern": "^msg_"},
        type=kind_of("message"),
        role=kind_of("assistant"),
        model=TEXT,
        content=listed(_BLOCK.ref),
        stop_reason=stop,
        stop_sequence=MAYBE_TEXT,
        stop_details={"type": ["object", "null"]},
        usage=_USAGE.ref,
        **more,
    )


_ABOUT = (
    "`max_tokens`: not finished, and the text says why. `tool_use`: calls for the client, each of them whole."
)
MESSAGE = Shape(
    "MessagesAnswer",
    _message({**kind_of(*_STOPS), "description": _ABOUT}, turnbuckle=OUTCOME.ref),
    (_USAGE, _BLOCK, OUTCOME),
)


def _event(kind: str, about: str, required: str, **fields: Any) -> dict[str, Any]:
    data = thing(f"type {required}".strip(), type=kind_of(kind), **fields)
    return event(data, about, name=kind_of(kind))


_NUMBER = {"index": WHOLE}
_ASIDE = thing("", notice=TEXT, waiting=TEXT, approval=ASKED)
MESSAGE_STREAM = Shape(
    "MessageEvent",
    {
        "anyOf": [
            _event("message_start", "The message begins.", "message", message=_message({"type": "null"})),
            _event(
                "content_block_start",
                "A block begins; blocks come one after the other.",
                "index content_block",
                content_block=_BLOCK.ref,
                **_NUMBER,
            ),
            _event(
                "content_block_delta",
                "More of it.",
                "index delta",
                delta=thing("type", type=TEXT),
                **_NUMBER,
            ),
            _event("content_block_stop", "The block is whole.", "index", **_NUMBER),
            _event(
                "message_delta",
                "Why it stops, and what it cost.",
                "delta usage",
                delta=thing(
                    "stop_reason stop_sequence", stop_reason=kind_of(*_STOPS), stop_sequence=MAYBE_TEXT
                ),
                usage=_USAGE.ref,
                turnbuckle=OUTCOME.ref,
            ),
            _event("message_stop", "The last one of a run that did not fail.", ""),
            _event(
                "ping",
                "A keep-alive ping. It may carry other fields.",
                "",
                turnbuckle=maybe(_ASIDE),
            ),
            event(MESSAGES_ERROR.ref, "An error; nothing follows it.", name=kind_of("error")),
        ],
        "description": "One event. Lines that begin with a colon are keep-alive comments.",
    },
    (_USAGE, _BLOCK, MESSAGES_ERROR, OUTCOME),
)
