"""What a Chat Completions request may hold and what its answers look like, for the document.

The reader of such requests is `wire/openai_chat/parse_request.py`; these schemas say the same for people and
for programs that make clients from the document. Where a rule cannot be said by a schema, as that some
message must say something, the schema is the wider one and the reader refuses with the name of the field.
"""

from typing import Any

from turnbuckle.server.http.openapi import ERROR, Shape, event
from turnbuckle.wire.client_tools import MOST_TOOLS
from turnbuckle.wire.openai_chat.input_messages import MOST_CALLS, MOST_MESSAGES
from turnbuckle.wire.openai_chat.parse_request import MOST_STOPS

TEXT: dict[str, Any] = {"type": "string"}
SOME_TEXT: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "\\S"}
WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0}
MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
MAYBE_FLAG: dict[str, Any] = {"type": ["boolean", "null"]}
MAYBE_OBJECT: dict[str, Any] = {"type": ["object", "null"]}
LABEL: dict[str, Any] = {"type": ["string", "null"], "maxLength": 512}
ADDRESS = "^[hH][tT][tT][pP][sS]?://|^[dD][aA][tT][aA]:[^,]*,[\\s\\S]"


def thing(required: str, about: str = "", /, **properties: Any) -> dict[str, Any]:
    """The schema of an object; `required` are names with spaces between them."""
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        made["required"] = required.split()
    return {**made, "description": about} if about else made


def maybe(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(items: dict[str, Any], most: int | None = None, *, least: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "array", "items": items}
    if least:
        made["minItems"] = least
    return made if most is None else {**made, "maxItems": most}


def number(low: float, high: float, about: str = "") -> dict[str, Any]:
    made = {"type": ["number", "null"], "minimum": low, "maximum": high}
    return {**made, "description": about} if about else made


def count(low: int, about: str = "", high: int | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": ["integer", "null"],
        "minimum": low,
        "maximum": 2**31 - 1 if high is None else high,
    }
    return {**made, "description": about} if about else made


def kind_of(*words: str) -> dict[str, Any]:
    return {"const": words[0]} if len(words) == 1 else {"enum": list(words)}


# What is sent

_TEXT_PART = Shape("ChatText", thing("type text", type=kind_of("text"), text=TEXT))
_IMAGE_PART = Shape(
    "ChatImage",
    thing(
        "type image_url",
        "A picture by its address, or inside the request as a `data:` address.",
        type=kind_of("image_url"),
        image_url={
            "anyOf": [
                {"type": "string", "pattern": ADDRESS},
                thing(
                    "url",
                    url={"type": "string", "pattern": ADDRESS},
                    detail={"type": ["string", "null"], "maxLength": 256},
                ),
            ]
        },
    ),
)
_FILE_PART = Shape(
    "ChatFile",
    thing(
        "type file",
        "A file: exactly one of `file_id` and `file_data`.",
        type=kind_of("file"),
        file={
            "type": "object",
            "properties": {"file_id": SOME_TEXT, "file_data": SOME_TEXT, "filename": MAYBE_TEXT},
            "oneOf": [{"required": ["file_id"]}, {"required": ["file_data"]}],
        },
    ),
)
_REFUSAL_PART = Shape("ChatRefusal", thing("type refusal", type=kind_of("refusal"), refusal=TEXT))
_SAID = {"anyOf": [TEXT, listed({"anyOf": [_TEXT_PART.ref, _IMAGE_PART.ref, _FILE_PART.ref]}, least=1)]}
_NAME = {"type": ["string", "null"], "maxLength": 256, "description": "Who speaks."}
_CALL = Shape(
    "ChatToolCall",
    thing(
        "id function",
        "A call that the model made. What else a provider put beside it goes back to that provider.",
        id={**SOME_TEXT, "maxLength": 8192},
        type={"enum": ["function", None]},
        function=thing(
            "name", name={**SOME_TEXT, "maxLength": 256}, arguments={"type": ["string", "object", "null"]}
        ),
    ),
)
_SYSTEM = Shape(
    "SystemMessage",
    thing(
        "role content",
        role=kind_of("system", "developer"),
        content={"anyOf": [TEXT, listed(_TEXT_PART.ref, least=1)]},
        name=_NAME,
    ),
    (_TEXT_PART,),
)
_USER = Shape(
    "UserMessage",
    thing("role content", role=kind_of("user"), content=_SAID, name=_NAME),
    (_TEXT_PART, _IMAGE_PART, _FILE_PART),
)
_ASSISTANT = Shape(
    "AssistantMessage",
    thing(
        "role",
        "What the model said. Reasoning under any of its three names goes back to providers that want it.",
        role=kind_of("assistant"),
        content={"anyOf": [TEXT, listed({"anyOf": [_TEXT_PART.ref, _REFUSAL_PART.ref]}), {"type": "null"}]},
        refusal=MAYBE_TEXT,
        reasoning_content=MAYBE_TEXT,
        reasoning=MAYBE_TEXT,
        thinking=MAYBE_TEXT,
        reasoning_details=maybe(listed({"type": "object"}, 1024)),
        tool_calls=maybe(listed(_CALL.ref, MOST_CALLS)),
        name=_NAME,
    ),
    (_TEXT_PART, _REFUSAL_PART, _CALL),
)
_TOOL = Shape(
    "ToolMessage",
    thing(
        "role tool_call_id",
        "What a call gave.",
        role=kind_of("tool"),
        tool_call_id={**SOME_TEXT, "maxLength": 8192},
        content={
            "anyOf": [
                TEXT,
                listed({"anyOf": [_TEXT_PART.ref, _IMAGE_PART.ref, _FILE_PART.ref]}),
                {"type": "null"},
            ]
        },
    ),
    (_TEXT_PART, _IMAGE_PART, _FILE_PART),
)
MESSAGE = Shape(
    "ChatMessage",
    {
        "description": (
            "One message. The older role `function` is taken, too, behind the `function_call` it answers."
        ),
        "oneOf": [_SYSTEM.ref, _USER.ref, _ASSISTANT.ref, _TOOL.ref],
    },
    (_SYSTEM, _USER, _ASSISTANT, _TOOL),
)
TOOL_NAME = {"type": "string", "pattern": "^(?!finish_call$)[A-Za-z0-9_.:-]{1,128}$"}
PARAMETERS = {
    "type": ["object", "null"],
    "description": "A JSON schema of type object.",
    "properties": {"type": {"enum": ["object", None]}},
}
_FUNCTION = thing("name", name=TOOL_NAME, description=MAYBE_TEXT, parameters=PARAMETERS, strict=MAYBE_FLAG)
TOOL = Shape(
    "ChatTool",
    thing(
        "type function",
        "A tool of the client, which runs it itself.",
        type=kind_of("function"),
        function=_FUNCTION,
    ),
)
CHOICES = {"enum": ["auto", "none", "required", None]}
_CHOICE = {
    "anyOf": [
        CHOICES,
        thing("type function", type=kind_of("function"), function=thing("name", name=SOME_TEXT)),
    ]
}
_FORMAT = {
    "anyOf": [
        thing("type", type=kind_of("text", "json_object")),
        thing(
            "type json_schema",
            type=kind_of("json_schema"),
            json_schema=thing(
                "name",
                name={**SOME_TEXT, "maxLength": 512},
                schema=MAYBE_OBJECT,
                strict=MAYBE_FLAG,
                description=TEXT,
            ),
        ),
        {"type": "null"},
    ]
}
MODEL = {
    **SOME_TEXT,
    "maxLength": 512,
    "description": "`agent`, which has the server's tools, or a route, which is a pure relay.",
}
_INT64 = 2**63
WISHES: dict[str, Any] = {
    "tools": maybe(listed(TOOL.ref, MOST_TOOLS)),
    "tool_choice": _CHOICE,
    "parallel_tool_calls": MAYBE_FLAG,
    "max_completion_tokens": count(1, "The most that the model may say."),
    "max_tokens": count(1, "The older name of the same."),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "stop": {
        "anyOf": [{**TEXT, "minLength": 1}, listed({**TEXT, "minLength": 1}, MOST_STOPS), {"type": "null"}]
    },
    "reasoning_effort": {**LABEL, "description": "A word that the model's provider knows."},
    "response_format": _FORMAT,
    "seed": count(-_INT64, high=_INT64 - 1),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "logit_bias": {"type": ["object", "null"], "additionalProperties": number(-100, 100)},
    "top_k": count(-1),
    "min_p": number(0, 1),
    "repetition_penalty": number(0, 10),
    "chat_template_kwargs": MAYBE_OBJECT,
    "service_tier": LABEL,
    "prompt_cache_key": LABEL,
    "prompt_cache_retention": LABEL,
    "safety_identifier": LABEL,
    "verbosity": LABEL,
    "n": {"enum": [1, None], "description": "One answer is given."},
    "modalities": maybe(listed({"const": "text"}, MOST_STOPS)),
    "user": LABEL,
    "metadata": MAYBE_OBJECT,
    "store": {**MAYBE_FLAG, "description": "Changes nothing here: runs are kept."},
    "logprobs": {**MAYBE_FLAG, "description": "Accepted, and not given."},
    "top_logprobs": count(0, high=20),
    "prediction": MAYBE_OBJECT,
}
CHAT_BODY = Shape(
    "ChatBody",
    thing(
        "model messages",
        "Sampling and other parameters go on to the model's provider. `audio`, `functions`, `function_call`, "
        "`web_search_options` and `moderation` are refused, because they would change the answer.",
        model=MODEL,
        messages={
            **listed(MESSAGE.ref, MOST_MESSAGES, least=1),
            "description": "What was said, oldest first.",
        },
        stream={**MAYBE_FLAG, "description": "The answer as it comes."},
        stream_options=maybe(
            thing("", include_usage={**MAYBE_FLAG, "description": "Count tokens in a last chunk."})
        ),
        **WISHES,
    ),
    (MESSAGE, TOOL),
)

# What is given

OUTCOME = Shape(
    "RunOutcome",
    thing(
        "outcome why run drafts",
        "The outcome of the run in our own words, beside whatever a protocol calls it.",
        outcome=kind_of("completed", "partial", "cancelled", "failed"),
        why={**TEXT, "description": "One sentence for people; empty if all went well."},
        run=TEXT,
        drafts=listed(TEXT),
        notice={
            **TEXT,
            "description": "What the user is told before the answer, such as that it is a fresh start.",
        },
        notices={
            **listed(TEXT),
            "description": "All quiet lines: what broke, what was kept, what was done about it.",
        },
    ),
)
_USAGE = Shape(
    "ChatUsage",
    thing(
        "prompt_tokens completion_tokens total_tokens",
        "Tokens of all attempts together: what was really spent.",
        prompt_tokens=WHOLE,
        completion_tokens=WHOLE,
        total_tokens=WHOLE,
        prompt_tokens_details=thing("cached_tokens", cached_tokens=WHOLE),
        completion_tokens_details=thing("reasoning_tokens", reasoning_tokens=WHOLE),
    ),
)
_FINISH = kind_of("stop", "length", "tool_calls", "content_filter")
_FINISH_ABOUT = (
    "`length`: not finished, and the text says why. `tool_calls`: calls for the client, each whole."
)
_WHOLE_CALL = Shape(
    "WholeCall",
    thing(
        "id type function",
        "A call for the client, with all its arguments.",
        id=TEXT,
        type=kind_of("function"),
        function=thing("name arguments", name=TEXT, arguments=TEXT),
    ),
)
COMPLETION = Shape(
    "ChatCompletion",
    thing(
        "id object created model choices usage",
        id={**TEXT, "pattern": "^chatcmpl-"},
        object=kind_of("chat.completion"),
        created=WHOLE,
        model=TEXT,
        choices={
            **listed(
                thing(
                    "index message finish_reason",
                    index={"const": 0},
                    message=thing(
                        "role content",
                        role=kind_of("assistant"),
                        content=MAYBE_TEXT,
                        refusal=MAYBE_TEXT,
                        reasoning_content=TEXT,
                        tool_calls=listed(_WHOLE_CALL.ref, least=1),
                    ),
                    logprobs={"type": "null"},
                    finish_reason={**_FINISH, "description": _FINISH_ABOUT},
                ),
                1,
                least=1,
            )
        },
        usage=_USAGE.ref,
        turnbuckle=OUTCOME.ref,
    ),
    (_USAGE, _WHOLE_CALL, OUTCOME),
)
PROGRESS = Shape(
    "ToolProgress",
    thing(
        "toolCallId tool label emoji status",
        "Where a tool of the server is: one `running` and one end for each call, with the same `toolCallId`.",
        toolCallId=TEXT,
        tool=TEXT,
        label={**TEXT, "description": "What it is about, in a few words."},
        emoji=TEXT,
        status=kind_of("running", "completed", "failed", "killed", "timed_out", "unknown"),
        seconds={"type": "number", "minimum": 0},
    ),
)
ASKED = thing("id status", id=TEXT, status=TEXT, answer={**TEXT, "description": "Where to answer."})
_ASIDE = thing(
    "",
    "Progress, notices and questions, on chunks that change nothing; on the last chunk, the outcome.",
    tool=PROGRESS.ref,
    notice=TEXT,
    approval=ASKED,
    outcome=kind_of("completed", "partial", "cancelled", "failed"),
    why=TEXT,
    run=TEXT,
    drafts=listed(TEXT),
)
_CHUNK = Shape(
    "ChatChunk",
    thing(
        "id object created model choices",
        id={**TEXT, "pattern": "^chatcmpl-"},
        object=kind_of("chat.completion.chunk"),
        created=WHOLE,
        model=TEXT,
        choices=listed(
            thing(
                "index delta finish_reason",
                index={"const": 0},
                delta=thing(
                    "",
                    role=kind_of("assistant"),
                    content=TEXT,
                    reasoning_content=TEXT,
                    refusal=TEXT,
                    tool_calls=listed(
                        thing("index function", index=WHOLE, id=TEXT, function={"type": "object"})
                    ),
                ),
                logprobs={"type": "null"},
                finish_reason=maybe(_FINISH),
            ),
            1,
        ),
        usage=maybe(_USAGE.ref),
        turnbuckle=_ASIDE,
    ),
    (_USAGE, PROGRESS),
)
_EVENT = event(
    {"anyOf": [_CHUNK.ref, ERROR.ref, PROGRESS.ref]},
    "A chunk; or an error, behind which nothing comes; or tool progress, if named events were asked for.",
    name=kind_of("message", "turnbuckle.tool.progress", "hermes.tool.progress"),
)
CHAT_STREAM = Shape(
    "ChatEvent",
    {
        "anyOf": [
            _EVENT,
            thing("data", "The last one of a run that did not fail.", data={"const": "[DONE]"}),
        ],
        "description": "One event. Lines that begin with a colon are signs of life.",
    },
    (_CHUNK, ERROR, PROGRESS),
)
