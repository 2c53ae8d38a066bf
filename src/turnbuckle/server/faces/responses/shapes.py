"""What a Responses request may hold and what its answers look like, for the document.

The reader of such requests is `wire/openai_responses/parse_request.py`; these schemas say the same for people
and programs. The protocol has many kinds of items, and more every year: those that the server understands are
told in full, and all others are kept whole and go back to the provider that made them.
"""

from typing import Any

from turnbuckle.server.faces.chat.shapes import (
    ADDRESS,
    ASKED,
    CHOICES,
    LABEL,
    MAYBE_FLAG,
    MAYBE_OBJECT,
    MAYBE_TEXT,
    MODEL,
    OUTCOME,
    PARAMETERS,
    SOME_TEXT,
    TEXT,
    TOOL_NAME,
    WHOLE,
    count,
    kind_of,
    listed,
    maybe,
    number,
    thing,
)
from turnbuckle.server.http.openapi import Shape, event
from turnbuckle.wire.client_tools import MOST_TOOLS
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.openai_responses.input_items import MOST_ITEMS, OUTPUTS, UNSUPPORTED

# What is sent

_INPUT_TEXT = Shape(
    "InputText", thing("type text", type=kind_of("input_text", "output_text", "text"), text=TEXT)
)
_INPUT_IMAGE = Shape(
    "InputImage",
    thing(
        "type image_url",
        "A picture by its address, or inside the request as a `data:` address.",
        type=kind_of("input_image"),
        image_url={"type": "string", "pattern": ADDRESS},
        detail={"type": ["string", "null"], "maxLength": 256},
    ),
)
_INPUT_FILE = Shape(
    "InputFile",
    {
        **thing(
            "type",
            "A file: exactly one of `file_id`, `file_data` and `file_url`.",
            type=kind_of("input_file"),
            file_id=SOME_TEXT,
            file_data=SOME_TEXT,
            file_url={"type": "string", "pattern": "^[hH][tT][tT][pP][sS]?://", "maxLength": 16384},
            filename=MAYBE_TEXT,
        ),
        "oneOf": [{"required": ["file_id"]}, {"required": ["file_data"]}, {"required": ["file_url"]}],
    },
)
_SHOWN = {"anyOf": [_INPUT_TEXT.ref, _INPUT_IMAGE.ref, _INPUT_FILE.ref]}
_ID = {"type": ["string", "null"], "maxLength": 8192}
_CALL_ID = {**SOME_TEXT, "maxLength": 8192}
_MESSAGE = {"enum": ["message", None]}
_SAID = Shape(
    "InputMessage",
    {
        "description": "A message. An assistant's may also have parts of type `refusal`.",
        "oneOf": [
            thing(
                "role content",
                type=_MESSAGE,
                role=kind_of("user"),
                content={"anyOf": [TEXT, listed(_SHOWN, least=1)]},
                id=_ID,
            ),
            thing(
                "role content",
                type=_MESSAGE,
                role=kind_of("system", "developer"),
                content={"anyOf": [TEXT, listed(_INPUT_TEXT.ref, least=1)]},
                id=_ID,
            ),
            thing(
                "role content",
                type=_MESSAGE,
                role=kind_of("assistant"),
                content={
                    "anyOf": [
                        TEXT,
                        listed(
                            {
                                "anyOf": [
                                    _INPUT_TEXT.ref,
                                    thing("type refusal", type=kind_of("refusal"), refusal=TEXT),
                                ]
                            }
                        ),
                    ]
                },
                id=_ID,
            ),
        ],
    },
    (_INPUT_TEXT, _INPUT_IMAGE, _INPUT_FILE),
)
_CALLED = Shape(
    "InputCall",
    thing(
        "type call_id name arguments",
        "A call that the model made.",
        type=kind_of("function_call"),
        call_id=_CALL_ID,
        name={**SOME_TEXT, "maxLength": 256},
        arguments=TEXT,
        id=_ID,
    ),
)
_RESULT = Shape(
    "InputCallOutput",
    thing(
        "type call_id output",
        "What a call gave.",
        type=kind_of("function_call_output"),
        call_id=_CALL_ID,
        output={"anyOf": [TEXT, listed(_SHOWN)]},
        id=_ID,
    ),
    (_INPUT_TEXT, _INPUT_IMAGE, _INPUT_FILE),
)
_THOUGHT = Shape(
    "InputReasoning",
    thing(
        "type",
        "What the model thought, as its provider gave it.",
        type=kind_of("reasoning"),
        summary=maybe(listed(thing("", text=MAYBE_TEXT), 2000)),
        content=maybe(listed(thing("", text=MAYBE_TEXT), 2000)),
        encrypted_content=MAYBE_TEXT,
        id=_ID,
    ),
)
_KNOWN_ITEMS = ["message", "reasoning", "item_reference", *CALLS, *OUTPUTS, *UNSUPPORTED]
_OTHER = Shape(
    "OtherItem",
    thing(
        "type",
        "What only a provider understands. It is kept whole, for the one that made it.",
        type={**SOME_TEXT, "not": {"enum": _KNOWN_ITEMS}},
        id=_ID,
    ),
)
_NAMED = Shape(
    "ItemReference",
    thing(
        "type id",
        "An item of an earlier response, by its id.",
        type=kind_of("item_reference"),
        id={**SOME_TEXT, "maxLength": 8192},
    ),
)
ITEM = Shape(
    "InputItem",
    {
        "description": "One item. `custom_tool_call` and its output are taken, too.",
        "anyOf": [_SAID.ref, _CALLED.ref, _RESULT.ref, _THOUGHT.ref, _NAMED.ref, _OTHER.ref],
    },
    (_SAID, _CALLED, _RESULT, _THOUGHT, _NAMED, _OTHER),
)
_TOOL = Shape(
    "ResponseTool",
    thing(
        "type name",
        "A tool of the client, which runs it itself. `web_search` and `web_search_preview` are left out "
        "of the offer, "
        "and the header `X-Turnbuckle-Left-Out` says so.",
        type=kind_of("function"),
        name=TOOL_NAME,
        description=MAYBE_TEXT,
        parameters=PARAMETERS,
        strict=MAYBE_FLAG,
    ),
)
_GROUP = Shape(
    "ResponseToolGroup",
    thing(
        "type name",
        "Tools of the client under one name. The model sees each as `name__tool`; a call of one is "
        "handed over with "
        "both names, as `namespace` and `name`.",
        type=kind_of("namespace"),
        name=TOOL_NAME,
        description=MAYBE_TEXT,
        tools=maybe(listed(_TOOL.ref, MOST_TOOLS)),
    ),
    (_TOOL,),
)
_FORMAT = {
    "anyOf": [
        thing("type", type=kind_of("text", "json_object")),
        thing(
            "type name schema",
            type=kind_of("json_schema"),
            name={**SOME_TEXT, "maxLength": 512},
            schema={"type": "object"},
            strict=MAYBE_FLAG,
        ),
        {"type": "null"},
    ]
}
_METADATA = {
    "type": ["object", "null"],
    "maxProperties": 16,
    "propertyNames": {"maxLength": 64},
    "additionalProperties": {"type": ["string", "null"], "maxLength": 512},
}
_PREVIOUS = {**LABEL, "description": "Go on behind this response. Instructions are not inherited."}
_CONVERSATION = {
    "description": (
        "Go on in this conversation, whose id may stand in an object. It is made if there is none."
    ),
    "anyOf": [LABEL, thing("id", id={**SOME_TEXT, "maxLength": 512})],
}
RESPONSE_BODY = Shape(
    "ResponseBody",
    {
        **thing(
            "model",
            "Sampling and other parameters go on to the model's provider. `prompt`, `moderation` and "
            "`context_management` are refused, because they would change the answer.",
            model=MODEL,
            input={
                "anyOf": [SOME_TEXT, listed(ITEM.ref, MOST_ITEMS), {"type": "null"}],
                "description": "May be left out only behind an earlier response, or in a conversation.",
            },
            instructions={**MAYBE_TEXT, "description": "What the model is told in front of everything."},
            previous_response_id=_PREVIOUS,
            conversation=_CONVERSATION,
            stream={**MAYBE_FLAG, "description": "Its events as they come."},
            background={
                **MAYBE_FLAG,
                "description": "Answer at once; fetch the response later. Needs `store`.",
            },
            store={**MAYBE_FLAG, "description": "false: it cannot be fetched once it has ended."},
            tools=maybe(listed({"anyOf": [_TOOL.ref, _GROUP.ref]}, MOST_TOOLS)),
            tool_choice={"anyOf": [CHOICES, thing("type name", type=kind_of("function"), name=SOME_TEXT)]},
            parallel_tool_calls=MAYBE_FLAG,
            max_output_tokens=count(1),
            max_tool_calls=count(1, "The most calls of the server's own tools."),
            temperature=number(0, 2),
            top_p=number(0, 1),
            top_logprobs=count(0, high=20),
            reasoning=maybe(thing("", effort=LABEL)),
            text=maybe(thing("", format=_FORMAT, verbosity=LABEL)),
            truncation={"enum": ["auto", "disabled", None]},
            metadata=_METADATA,
            service_tier=LABEL,
            prompt_cache_key=LABEL,
            prompt_cache_retention=LABEL,
            safety_identifier=LABEL,
            user=LABEL,
            include=maybe(listed(TEXT, 64)),
            stream_options=MAYBE_OBJECT,
        ),
    },
    (ITEM, _TOOL, _GROUP),
)

# What is given

_USAGE = Shape(
    "ResponseUsage",
    thing(
        "input_tokens output_tokens total_tokens",
        "Tokens of all attempts together: what was really spent.",
        input_tokens=WHOLE,
        output_tokens=WHOLE,
        total_tokens=WHOLE,
        input_tokens_details=thing("cached_tokens", cached_tokens=WHOLE),
        output_tokens_details=thing("reasoning_tokens", reasoning_tokens=WHOLE),
    ),
)
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
