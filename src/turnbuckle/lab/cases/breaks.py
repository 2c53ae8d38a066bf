"""Streams that stop: silently, rudely, or tidily but too early."""

from collections.abc import Iterable

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.received import last_role
from turnbuckle.lab.script import (
    Case,
    Comments,
    CutOff,
    Dribble,
    Finish,
    LabRequest,
    Open,
    Reason,
    Say,
    Script,
    ScriptItem,
    Stall,
    Status,
    case_of,
)

_HALF = ANSWER[:44]
DOCUMENT = '{"city": "Kiel", "wind": "fresh from the north", "degrees": 7}'
_DOCUMENT_AT = 32
REFUSES = "I'm sorry, but I can't assist with that."
_LOG = "".join(f"Day {day}: the wind pulled at the line, and the line held. " for day in range(1, 11))
_FIRST, _SECOND = _LOG[:400], _LOG[200:]
_WORKS: Script = (Say(ANSWER), Finish())


def _goes_on_with_its_document(request: LabRequest) -> Iterable[ScriptItem]:
    """Forced into a form it begins another document, as providers do; else it goes on where it was cut."""
    body = request.body
    forced = any(name in body for name in ("response_format", "output_format", "output_config"))
    text = body.get("text")
    forced = forced or (isinstance(text, dict) and "format" in text)
    return (Say(DOCUMENT if forced else DOCUMENT[_DOCUMENT_AT:]), Finish())


def _takes_no_prefill(request: LabRequest) -> Iterable[ScriptItem]:
    """Refuses a history that ends with its own words, as newer models do; else it goes on behind them."""
    if last_role(request) == "assistant":
        return (Status(400, "This model does not support assistant message prefill."),)
    return (Say(ANSWER[44:]), Finish())


BREAKS: tuple[Case, ...] = (
    case_of(
        "silent", "accepts the request and never sends a byte", Stall("forever"), scenarios=("P1", "P33")
    ),
    case_of(
        "opens-then-silent",
        "headers and the opening frame, then nothing",
        Open(),
        Stall("forever"),
        scenarios=("P2",),
    ),
    case_of(
        "stalls-in-text",
        "half an answer, then nothing, as if half open",
        Say(_HALF),
        Stall("forever"),
        scenarios=("P7", "P8", "L14"),
    ),
    case_of(
        "stalls-in-reasoning",
        "a thought, then nothing",
        Reason("Let me think about"),
        Stall("forever"),
        scenarios=("P2",),
    ),
    case_of(
        "comments-only",
        "half an answer, then only comments",
        Say(_HALF),
        Comments("forever", 1.0),
        scenarios=("P5",),
    ),
    case_of(
        "pings-only",
        "opens, then only the protocol's pings",
        Open(),
        Comments("forever", 1.0, "ping"),
        scenarios=("P5",),
    ),
    case_of("closed-before-headers", "closes the connection instead of answering", CutOff("fin")),
    case_of("reset-before-headers", "resets the connection instead of answering", CutOff("reset")),
    case_of("fin-in-text", "closes in mid-text without the body's terminator", Say(_HALF), CutOff("fin")),
    case_of(
        "reset-in-text", "resets the connection in mid-text", Say(_HALF), CutOff("reset"), scenarios=("P30",)
    ),
    case_of(
        "tidy-end-in-text",
        "ends in mid-text, properly but for the last event",
        Say(_HALF),
        CutOff("tidy"),
        scenarios=("P9",),
    ),
    case_of(
        "no-terminal-event",
        "says why it stopped but not that it did",
        Say(ANSWER),
        Finish(terminal=False),
        scenarios=("P9",),
    ),
    case_of("cut-inside-a-frame", "closes in the middle of an event", Say(_HALF), CutOff("fin", "frame")),
    case_of(
        "cut-inside-a-character",
        "closes in the middle of a character",
        Say(_HALF),
        CutOff("fin", "character"),
        scenarios=("P23",),
    ),
    case_of(
        "drips-then-reset",
        "a byte at a time, then a reset",
        Dribble(1),
        Say(_HALF),
        CutOff("reset"),
        scenarios=("P23",),
    ),
    Case(
        "reset-once-then-works",
        "reset in mid-text; the second try starts over",
        ((Say(_HALF), CutOff("reset")), _WORKS),
        again=True,
        scenarios=("L13",),
    ),
    Case(
        "silent-once-then-works",
        "never answers the first try; the second works",
        ((Stall("forever"),), _WORKS),
        again=True,
        scenarios=("P1",),
    ),
    Case(
        "continues-with-overlap",
        "reset in mid-text; the next repeats some, goes on",
        ((Say(_HALF), CutOff("reset")), (Say(ANSWER[20:]), Finish())),
        again=True,
        scenarios=("P31",),
    ),
    Case(
        "continues-with-long-overlap",
        "the same with 200 repeated characters",
        ((Say(_FIRST), CutOff("reset")), (Say(_SECOND), Finish())),
        again=True,
        scenarios=("P31",),
    ),
    Case(
        "answers-something-else",
        "reset in mid-text; the next one refuses instead",
        ((Say(_HALF), CutOff("reset")), (Say(REFUSES), Finish())),
        again=True,
        scenarios=("P31",),
    ),
    Case(
        "cut-in-a-document",
        "reset in a JSON document; goes on unless forced",
        ((Say(DOCUMENT[:_DOCUMENT_AT]), CutOff("reset")), (_goes_on_with_its_document,)),
        again=True,
        scenarios=("P31",),
    ),
    case_of(
        "takes-no-prefill", "goes on, but only if a user asks for it", _takes_no_prefill, scenarios=("P30",)
    ),
)
