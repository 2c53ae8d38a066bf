"""What a Chat Completions request may hold and what its answers look like, for the document.

The request is described once, by the tables of `wire/openai_chat`, from which its reader is made, too. Where
a rule cannot be said by a schema, as that some message must say something, the schema is the wider one and
the reader refuses with the name of the field.
"""

from turnbuckle.server.http.openapi import ERROR, event
from turnbuckle.wire.openai_chat.request_fields import CHAT_FIELDS, SHAPES
from turnbuckle.wire.schemas import MAYBE_TEXT, TEXT, WHOLE, Shape, kind_of, listed, maybe, thing

CHAT_BODY = Shape(
    "ChatBody",
    CHAT_FIELDS.schema(
        "Fields that are not listed here go to a provider of this protocol as they came. `functions` and "
        "`function_call` are refused: `tools` and `tool_choice` took their place."
    ),
    SHAPES,
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
        left_out={
            **listed(TEXT),
            "description": "What the provider said for which this protocol has no place, by its type.",
        },
    ),
)


def usage_shape(name: str, given: str, written: str) -> Shape:
    """What was used, in a protocol that has these names for it."""
    fields = {
        given: WHOLE,
        written: WHOLE,
        "total_tokens": WHOLE,
        f"{given}_details": thing("cached_tokens", cached_tokens=WHOLE),
        f"{written}_details": thing("reasoning_tokens", reasoning_tokens=WHOLE),
    }
    about = "Tokens of all attempts together: what was really spent."
    return Shape(name, thing(f"{given} {written} total_tokens", about, **fields))


_USAGE = usage_shape("ChatUsage", "prompt_tokens", "completion_tokens")
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
    "A chunk; or an error, after which nothing follows; or tool progress, if named events were asked for.",
    name=kind_of("message", "turnbuckle.tool.progress", "hermes.tool.progress"),
)
CHAT_STREAM = Shape(
    "ChatEvent",
    {
        "anyOf": [
            _EVENT,
            thing("data", "The last one of a run that did not fail.", data={"const": "[DONE]"}),
        ],
        "description": "One event. Lines that begin with a colon are keep-alive comments.",
    },
    (_CHUNK, ERROR, PROGRESS),
)
