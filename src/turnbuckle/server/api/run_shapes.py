"""What `/v1/runs` takes and what its events look like, for the document."""

from typing import Any, get_args

from turnbuckle.narrate.told import ForClients, RunBegun, Told, UserSaid
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.http.openapi import Parameter, event
from turnbuckle.server.streaming.disconnect import SECONDS
from turnbuckle.service.run_view import RunLine, RunView
from turnbuckle.turn.facts import Fact, RunEnded, RunStarted, Streamed, UserSpoke, Waited
from turnbuckle.vocab.origin import CANCEL, DETACH
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Spent
from turnbuckle.wire.field_table import FLAG, LONGEST_WORD, Field, FieldTable, Kind, one_of, some_text, text
from turnbuckle.wire.fields import Fields
from turnbuckle.wire.openai_chat.message_fields import MESSAGE, MOST_MESSAGES
from turnbuckle.wire.openai_chat.request_fields import MODEL, SHAPES, WISHES
from turnbuckle.wire.schemas import (
    SOME_TEXT,
    TEXT,
    WHOLE,
    Shape,
    kind_of,
    listed,
    maybe,
    reference,
    thing,
)

SESSION_ID = "^[A-Za-z0-9._:-]{1,128}$"
ON_DISCONNECT = f"^({CANCEL}|{DETACH}|{SECONDS})$"


def _task(body: Fields, name: str) -> list[Any]:
    """Messages, which are looked at as those of a chat request are."""
    given = body.raw(name)
    if isinstance(given, str):
        return [{"role": "user", "content": body.need_text(name)}]
    return body.listed(name, MOST_MESSAGES)


_INPUT_FIELD = Field(
    "input",
    Kind(_task, {"anyOf": [SOME_TEXT, listed(MESSAGE.ref, MOST_MESSAGES, least=1)]}),
    "The task in plain words, or messages.",
    "ours",
    required=True,
)
_SESSION_FIELD = Field(
    "session",
    Kind(Fields.text, {"type": "string", "pattern": SESSION_ID}),
    "The session to continue; it is made if there is none. Without it the run has its own.",
    "ours",
)
_OWN_FIELDS = (
    _INPUT_FIELD,
    Field(
        "model",
        Kind(some_text(LONGEST_WORD).read, {**MODEL.kind.schema, "default": "agent"}),
        MODEL.about,
        "ours",
    ),
    Field("instructions", text(), "Instructions for the model, before everything else.", "ours"),
    Field(
        "on_disconnect",
        Kind(Fields.text, {"type": "string", "pattern": ON_DISCONNECT}),
        "What becomes of the run when its readers leave: cancel, detach, or seconds to come back.",
        "ours",
    ),
    Field(
        "busy",
        one_of("queue", "steer", "interrupt", "refuse"),
        "What happens to this message if a run is active in the session.",
        "ours",
    ),
    Field(
        "ask_first",
        FLAG,
        "Somebody is there to answer: commands, the network, and changes outside a git work tree wait for a "
        "yes, unless a rule of the settings covers them.",
        "ours",
    ),
)
RUN_FIELDS = FieldTable(_SESSION_FIELD, *_OWN_FIELDS)
"""What a run takes beside the parameters of a chat request."""
_ABOUT = "The task, or messages as in chat completions, whose other parameters are also accepted."
RUN_BODY = Shape("RunBody", FieldTable(_SESSION_FIELD, *_OWN_FIELDS, *WISHES).schema(_ABOUT), SHAPES)
SESSION_MESSAGE_BODY = Shape("SessionMessageBody", FieldTable(*_OWN_FIELDS, *WISHES).schema(_ABOUT), SHAPES)

_OWN = (RunStarted, UserSpoke, RunEnded)
_SENT = tuple(kind for kind in get_args(Fact) if kind is not Waited)  # that one is left out of the events
_FACTS = tuple(kind for kind in _SENT if kind not in _OWN)
_TAGS = [kind.__struct_config__.tag for kind in _SENT]
_INPUT = listed(thing("role parts", role=TEXT, parts=listed(thing("kind", kind=TEXT))))
_BEGAN_FIELDS: dict[str, Any] = {
    "at": {"type": "number"},
    "run": TEXT,
    "session": TEXT,
    "input": _INPUT,
    "surface": TEXT,
    "model": TEXT,
    "left_out": WHOLE,
}
_BEGAN = Shape(
    "RunStartedEvent",
    thing(
        "type at run session input",
        "The run begins. `input` is what came with the task; of what is too large, `left_out` says how much.",
        type=kind_of("run_started"),
        **_BEGAN_FIELDS,
    ),
)
_SPOKE = Shape(
    "UserSpokeEvent",
    thing(
        "type at id input",
        "Somebody said something while the run was under way.",
        type=kind_of("user_spoke"),
        at={"type": "number"},
        id=TEXT,
        input=_INPUT,
        left_out=WHOLE,
    ),
)
_END = Shape(
    "RunEndedEvent",
    thing(
        "type at outcome",
        "The last event of a run, exactly one.",
        type=kind_of("run_ended"),
        at={"type": "number"},
        outcome=reference(Outcome.__name__),
        spent=reference(Spent.__name__),
    ),
)
_FACT = Shape(
    "RunEvent",
    {
        **thing(
            "seq type at",
            "Something that happened in the run. `seq` is its number, and the event's id is the same.",
            seq={"type": "integer", "minimum": 1},
            type={"enum": _TAGS},
            at={"type": "number", "description": "Seconds since 1970."},
        ),
        "oneOf": [_BEGAN.ref, _SPOKE.ref, _END.ref, *(reference(kind.__name__) for kind in _FACTS)],
    },
    (_BEGAN, _SPOKE, _END),
    (*_FACTS, Outcome, Spent),
)
_SHOWN = tuple(kind for kind in get_args(Told) if kind not in (RunBegun, UserSaid, *get_args(ForClients)))
_RUN_BEGUN = thing("type run session input", "The run has begun.", type=kind_of("run_begun"), **_BEGAN_FIELDS)
_USER_SAID = thing(
    "type input",
    "The user said more while the run was under way.",
    type=kind_of("user_said"),
    input=_INPUT,
    left_out=WHOLE,
)
_TOLD_EVENT = Shape(
    "ToldEvent",
    thing(
        "seq type at told",
        "With `told=true`: what a reader is told of something that happened, in its order. `type` and `seq` "
        "are those of the event that it stands for. All `text` in a row is the text of the run.",
        seq={"type": "integer", "minimum": 1},
        type={"enum": _TAGS},
        at={"type": "number", "description": "Seconds since 1970."},
        merged=WHOLE,
        **{"from": {"type": "number", "description": "When the first came, of pieces that are one event."}},
        told=listed({"anyOf": [_RUN_BEGUN, _USER_SAID, *(reference(kind.__name__) for kind in _SHOWN)]}),
    ),
    (),
    _SHOWN,
)
_BEAT: dict[str, Any] = thing(
    "type at waiting_on",
    "A keep-alive that says what is being waited for, and since when.",
    type=kind_of("heartbeat"),
    at={"type": "number"},
    waiting_on=maybe(reference(WaitingOn.__name__)),
)
_INTERRUPTED: dict[str, Any] = thing(
    "type run resumable after",
    "The server is stopping; the run is kept. Ask again for what comes after `after`.",
    type=kind_of("interrupted"),
    run=TEXT,
    resumable={"const": True},
    after=WHOLE,
)
_RESET: dict[str, Any] = thing(
    "type seq at after snapshot",
    (
        "Events after `after` were merged, or lost by a failed database, since this client saw some of "
        "them: discard those, and use the snapshot."
    ),
    type=kind_of("reset"),
    seq={"type": "integer", "minimum": 1},
    at={"type": "number"},
    after=WHOLE,
    snapshot=reference(Streamed.__name__),
)
RUN_STREAM = Shape(
    "RunStreamEvent",
    event(
        {"anyOf": [_FACT.ref, _TOLD_EVENT.ref, _RESET, _BEAT, _INTERRUPTED]},
        "One event, named as its `type` is. The last one of a run is `run_ended`.",
        name={"enum": [*_TAGS, "reset", "heartbeat", "interrupted"]},
        number="The cursor: to reconnect, send the last one you received. Heartbeats have none.",
    ),
    (_FACT, _TOLD_EVENT),
    (WaitingOn,),
)
BRIEF = Parameter(
    "brief", "As in a list: costs the same for every length of run.", schema={"type": "boolean"}
)
RUN_ANSWER = Shape(
    "RunAnswer",
    {"anyOf": [reference(RunView.__name__), reference(RunLine.__name__)]},
    (),
    (RunView, RunLine),
)
"""One run, whole or `brief`."""
