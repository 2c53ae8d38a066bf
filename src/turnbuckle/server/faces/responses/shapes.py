"""What a Responses request may hold and what its answers look like, for the document.

The request is described once, by the tables of `wire/openai_responses`, from which its reader is made, too.
"""

from typing import Any

from turnbuckle.server.faces.chat.shapes import ASKED, OUTCOME, usage_shape
from turnbuckle.server.http.openapi import event
from turnbuckle.wire.openai_responses.request_fields import RESPONSE_FIELDS, SHAPES
from turnbuckle.wire.schemas import (
    MAYBE_OBJECT,
    MAYBE_TEXT,
    TEXT,
    WHOLE,
    Shape,
    kind_of,
    listed,
    maybe,
    thing,
)

RESPONSE_BODY = Shape(
    "ResponseBody",
    RESPONSE_FIELDS.schema("Fields that are not listed here go to a provider of this protocol as they came."),
    SHAPES,
)

COMPACT_BODY = Shape(
    "CompactBody",
    thing(
        "model",
        "A conversation, as a request for a response has it.",
        model=TEXT,
        input={"anyOf": [TEXT, {"type": "array", "items": {"type": "object"}}, {"type": "null"}]},
        instructions=MAYBE_TEXT,
        previous_response_id=MAYBE_TEXT,
        prompt_cache_key=MAYBE_TEXT,
    ),
)

# What is given

_USAGE = usage_shape("ResponseUsage", "input_tokens", "output_tokens")
_STATUS = kind_of("in_progress", "completed", "incomplete", "failed")
_OUTPUT_TEXT = thing("type text annotations", type=kind_of("output_text"), text=TEXT, annotations=listed({}))
_OUTPUT_ITEM = Shape(
    "OutputItem",
    {
        "description": "`mcp_call` is a call of a tool of the server, with its output: clients show it "
        "and do not run "
        "it. `function_call` is for the client, and always whole.",
        "anyOf": [
            thing(
                "type id status role content",
                type=kind_of("message"),
                id=TEXT,
                status=_STATUS,
                role=kind_of("assistant"),
                content=listed(
                    {"anyOf": [_OUTPUT_TEXT, thing("type refusal", type=kind_of("refusal"), refusal=TEXT)]}
                ),
            ),
            thing(
                "type id status summary",
                type=kind_of("reasoning"),
                id=TEXT,
                status=_STATUS,
                summary=listed(thing("type text", type=TEXT, text=TEXT)),
            ),
            thing(
                "type id status call_id name arguments",
                type=kind_of("function_call"),
                id=TEXT,
                status=_STATUS,
                call_id=TEXT,
                name=TEXT,
                namespace=TEXT,
                arguments=TEXT,
            ),
            thing(
                "type id status server_label name arguments output error",
                type=kind_of("mcp_call"),
                id=TEXT,
                status=_STATUS,
                server_label=TEXT,
                name=TEXT,
                arguments=TEXT,
                output=MAYBE_TEXT,
                error=MAYBE_OBJECT,
            ),
        ],
    },
)
_TROUBLE = maybe(thing("code message", code=MAYBE_TEXT, message=TEXT))
RESPONSE = Shape(
    "Response",
    thing(
        "id object created_at status model output error incomplete_details usage",
        "A response as it stands. It repeats what the request wished for.",
        id={**TEXT, "pattern": "^resp_"},
        object=kind_of("response"),
        created_at=WHOLE,
        completed_at={"type": ["integer", "null"]},
        status=kind_of("queued", "in_progress", "completed", "incomplete", "cancelled", "failed"),
        model=TEXT,
        output=listed(_OUTPUT_ITEM.ref),
        error=_TROUBLE,
        incomplete_details=maybe(
            thing("reason", reason=kind_of("max_output_tokens", "content_filter", "cancelled"))
        ),
        usage=maybe(_USAGE.ref),
        instructions=MAYBE_TEXT,
        previous_response_id=MAYBE_TEXT,
        conversation=maybe(thing("id", id=TEXT)),
        metadata={"type": "object"},
        tools=listed({"type": "object"}),
        tool_choice={"type": ["string", "object"]},
        parallel_tool_calls={"type": "boolean"},
        temperature={"type": ["number", "null"]},
        top_p={"type": ["number", "null"]},
        background={"type": "boolean"},
        store={"type": "boolean"},
        turnbuckle=thing(
            "",
            (
                "What happened beside the answer: notices, and what people were asked. Once it has ended, "
                "the outcome."
            ),
            **OUTCOME.schema["properties"],
            approvals=listed(ASKED),
        ),
    ),
    (_OUTPUT_ITEM, _USAGE),
)
_EVENTS: dict[str, Any] = thing(
    "type sequence_number",
    "Every event has the next number, by which a client that comes back says what it has (`starting_after`).",
    type={"type": "string", "pattern": "^(response\\.[a-z_.]+|error)$"},
    sequence_number={"type": "integer", "minimum": -1},
    response=RESPONSE.ref,
    output_index=WHOLE,
    content_index=WHOLE,
    summary_index=WHOLE,
    item_id=TEXT,
    item=_OUTPUT_ITEM.ref,
    delta=TEXT,
    turnbuckle=thing(
        "",
        (
            "On a `response.in_progress` that changes nothing: a quiet notice, or what a person is asked or "
            "has answered."
        ),
        notice=TEXT,
        approval=ASKED,
    ),
)
RESPONSE_STREAM = Shape(
    "ResponseEvent",
    event(
        _EVENTS,
        "One event, named as its `type` is. The last one is response.completed, .incomplete or .failed.",
        name=TEXT,
    ),
    (RESPONSE, _OUTPUT_ITEM),
)
ITEMS = Shape(
    "ItemList",
    thing(
        "object data first_id last_id has_more",
        object=kind_of("list"),
        data=listed(thing("type id", type=TEXT, id=TEXT)),
        first_id=MAYBE_TEXT,
        last_id=MAYBE_TEXT,
        has_more={"type": "boolean"},
    ),
)

COMPACTION = Shape(
    "CompactedConversation",
    thing(
        "id object created_at output usage",
        "Messages that stay as they were, and one item that stands for the rest.",
        id=TEXT,
        object=kind_of("response.compaction"),
        created_at=WHOLE,
        output=listed({"type": "object"}),
        usage=_USAGE.ref,
        turnbuckle=thing("", "Why nothing was made smaller, if so.", notices=listed(TEXT)),
    ),
    (_USAGE,),
)
