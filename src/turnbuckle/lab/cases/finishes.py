"""What providers say about why they stopped: honest, wrong, or nothing."""

from collections.abc import Iterable

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.script import (
    Call,
    Case,
    CutOff,
    Error,
    Finish,
    Frame,
    LabRequest,
    Raw,
    Reason,
    Say,
    ScriptItem,
    When,
    case_of,
)
from turnbuckle.vocab.events import Usage

_HALF = ANSWER[:44]
_CUT_ARGUMENTS = '{"path":"notes.md","content":"# Notes\\nThe first li'
_NATIVE = {
    "id": "lab",
    "object": "chat.completion.chunk",
    "created": 0,
    "model": "lab",
    "choices": [
        {
            "index": 0,
            "delta": {"content": ""},
            "finish_reason": "stop",
            "native_finish_reason": "network_error",
        }
    ],
}
_CAPS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


def _finished(reason: str) -> Frame:
    choice = {"index": 0, "delta": {}, "finish_reason": reason}
    return Frame(
        {"id": "lab", "object": "chat.completion.chunk", "created": 0, "model": "lab", "choices": [choice]}
    )


def _used_up(request: LabRequest) -> Usage:
    cap = next((request.body[name] for name in _CAPS if isinstance(request.body.get(name), int)), 4096)
    return Usage(input=100, output=cap)


def _length(request: LabRequest) -> Iterable[ScriptItem]:
    return (Say(_HALF), Finish("length", usage=_used_up(request)))


def _length_in_call(request: LabRequest) -> Iterable[ScriptItem]:
    return (Call("write_file", _CUT_ARGUMENTS), Finish("length", usage=_used_up(request)))


def _length_called_calls(request: LabRequest) -> Iterable[ScriptItem]:
    return (Call("write_file", _CUT_ARGUMENTS), Finish("calls", "calls", _used_up(request)))


def _only_thought(request: LabRequest) -> Iterable[ScriptItem]:
    return (Reason(THOUGHT), Finish("length", usage=_used_up(request)))


FINISHES: tuple[Case, ...] = (
    case_of("length", "cut by the output cap, and says so", _length),
    case_of(
        "length-in-arguments",
        "the cap cuts a call, and the reply says so",
        _length_in_call,
        scenarios=("T1",),
    ),
    case_of(
        "length-called-tool-calls",
        "the cap cuts a call; the reply says: run tools",
        _length_called_calls,
        scenarios=("P11",),
    ),
    case_of("thinking-used-it-up", "only reasoning, then the cap", _only_thought, scenarios=("P17", "L9")),
    Case(
        "stop-with-calls",
        "whole calls, but the reply says stop",
        ((Call("get_weather", {"city": "Oslo"}), Finish("calls", "stop")),),
        after_tools=(Say(ANSWER), Finish()),
        scenarios=("P12",),
    ),
    case_of(
        "no-reason",
        "a whole answer that gives no reason to stop",
        Say(ANSWER),
        Finish("none"),
        scenarios=("P10",),
    ),
    Case(
        "bare-done-in-text",
        "lost upstream: [DONE] in mid-text, no reason",
        (
            (Say(_HALF), When("openai_chat streaming", (Raw("data: [DONE]\n\n"),)), CutOff("tidy")),
            (Say(ANSWER[44:]), Finish()),
        ),
    ),
    case_of(
        "two-reasons",
        "cut by the cap; says length, then stop",
        Say(_HALF),
        When(
            "openai_chat streaming",
            (_finished("length"), _finished("stop"), Raw("data: [DONE]\n\n"), CutOff("tidy")),
        ),
        Finish("length"),
    ),
    case_of("unknown-reason", "a reason that nobody knows", Say(ANSWER), Finish("stop", "banana")),
    case_of(
        "network-error-reason",
        "nothing but the reason network_error",
        Finish("stop", "network_error"),
        scenarios=("P16",),
    ),
    case_of(
        "native-network-error",
        "an empty stop that the host calls network_error",
        When(
            "openai_chat streaming",
            (Frame(_NATIVE), Raw("data: [DONE]\n\n")),
            (Error("server", "network_error"),),
        ),
        scenarios=("P16",),
    ),
    case_of(
        "malformed-function-call",
        "the provider could not read its own model's call",
        Finish("stop", "MALFORMED_FUNCTION_CALL"),
        scenarios=("P18",),
    ),
    case_of(
        "filtered",
        "a filter stopped it before the first word",
        Finish("filtered", "filtered"),
        scenarios=("P19",),
    ),
    case_of(
        "filtered-in-text", "a filter stopped it in mid-text", Say(_HALF), Finish("filtered", "filtered")
    ),
    case_of(
        "context-full",
        "the context window is full",
        Say(_HALF),
        Finish("window", "model_context_window_exceeded"),
        scenarios=("L9", "L11"),
    ),
    case_of("no-usage", "a whole answer without counts", Say(ANSWER), Finish(usage="none")),
    case_of(
        "wrong-usage",
        "a whole answer that is said to have cost nothing",
        Say(ANSWER),
        Finish(usage=Usage(input=0, output=0)),
    ),
)
