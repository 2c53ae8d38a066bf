"""Failures that the provider, or something in front of it, puts into words."""

from collections.abc import Iterable

from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import (
    Call,
    Case,
    Error,
    Finish,
    Garbage,
    LabRequest,
    Raw,
    Say,
    Script,
    ScriptItem,
    Status,
    When,
    case_of,
)

_HALF = ANSWER[:44]
_WORKS: Script = (Say(ANSWER), Finish())
_FAILED = Error("server", "the engine failed", "server_error")
_DONE = When("openai_chat streaming", (Raw("data: [DONE]\n\n"),))
_DAMAGED = Raw('data: {"id":"lab","object":"chat.completion.chu\n\n')
_BAD_EVENT = Raw('event: lab\ndata: {"oops": \n\n')
_CALLS: Script = (Call("get_weather", {"city": "Oslo"}), Finish())
_UNPAIRED = Status(
    400, "messages.1: `tool_use` ids were found without `tool_result` blocks", "invalid_request_error"
)


def _strict_about_calls(request: LabRequest) -> Iterable[ScriptItem]:
    if results_brought(request):
        return (_UNPAIRED,)
    return _WORKS if request.number > 1 else _CALLS


def _never_content(request: LabRequest) -> Iterable[ScriptItem]:
    return (_UNPAIRED,) if request.number > 1 else _CALLS


ERRORS: tuple[Case, ...] = (
    Case(
        "rate-limited-once",
        "429 with Retry-After: 1, then works",
        ((Status(429, "slow down", "rate_limit_exceeded", {"retry-after": "1"}),), _WORKS),
        again=True,
        scenarios=("P21",),
    ),
    Case(
        "fails-twice-then-works", "500, 503, then works", ((Status(500),), (Status(503),), _WORKS), again=True
    ),
    Case(
        "restarts",
        "503 three times, then works",
        ((Status(503),), (Status(503),), (Status(503),), _WORKS),
        again=True,
    ),
    case_of(
        "come-back-at-once",
        "429 with Retry-After: 0 each time",
        Status(429, "slow down", "rate_limit_exceeded", {"retry-after": "0"}),
    ),
    case_of(
        "rate-limited",
        "429 each time",
        Status(429, "slow down", "rate_limit_exceeded", {"retry-after": "2"}),
        scenarios=("L12",),
    ),
    case_of(
        "quota-used-up", "429 that no wait will change", Status(429, "quota exceeded", "insufficient_quota")
    ),
    case_of(
        "out-of-money",
        "402 without a hint when to come back",
        Status(402, "your balance is empty"),
        scenarios=("P21",),
    ),
    Case(
        "payment-due-once",
        "402 with Retry-After: 5, then works",
        ((Status(402, "a payment is on its way", headers={"retry-after": "5"}),), _WORKS),
        again=True,
        scenarios=("P21",),
    ),
    case_of(
        "rate-limited-for-an-hour",
        "429 with Retry-After: 3600",
        Status(429, "come back later", "rate_limit_exceeded", {"retry-after": "3600"}),
        scenarios=("P21",),
    ),
    case_of(
        "pairing-refused",
        "calls once; then 400 while the history has calls",
        _strict_about_calls,
        scenarios=("L4",),
    ),
    case_of(
        "pairing-always-refused", "calls once; then 400 whatever comes", _never_content, scenarios=("L4",)
    ),
    case_of("server-error", "500 each time", Status(500), scenarios=("P29", "P34", "L7", "L15")),
    case_of("overloaded", "529 each time", Status(529, "overloaded", "overloaded_error")),
    case_of("unauthorized", "401", Status(401, "this key is not known", "invalid_api_key")),
    case_of("unknown-model", "404", Status(404, "there is no such model", "model_not_found")),
    case_of(
        "prompt-too-long",
        "400: the prompt does not fit",
        Status(400, "prompt is too long: 210000 tokens > 200000 maximum", "context_length_exceeded"),
        scenarios=("L11",),
    ),
    case_of(
        "no-streaming",
        "refuses to stream; a plain request works",
        When("streaming", (Status(400, "streaming is not supported by this model"),), _WORKS),
        scenarios=("L13",),
    ),
    case_of(
        "error-in-stream",
        "half an answer, then an error inside the 200",
        Say(_HALF),
        _FAILED,
        scenarios=("P15",),
    ),
    case_of(
        "error-at-once",
        "an error as the first event of a 200",
        Error("overloaded", "overloaded", "overloaded_error"),
        scenarios=("P15",),
    ),
    case_of(
        "error-in-stream-flat",
        "the same; in Responses as a flat event",
        Say(_HALF),
        Error("server", "the engine failed", "server_error", "flat"),
        scenarios=("P15",),
    ),
    case_of(
        "error-in-stream-nested",
        "the same; in Responses as a nested event",
        Say(_HALF),
        Error("server", "the engine failed", "server_error", "nested"),
        scenarios=("P15",),
    ),
    case_of(
        "error-then-done",
        "an error inside the stream, then [DONE]",
        Say(_HALF),
        _FAILED,
        _DONE,
        scenarios=("P15",),
    ),
    case_of("html-page", "a proxy's page under status 200", Garbage("html")),
    case_of("html-page-502", "a proxy's page under status 502", Garbage("html", 502)),
    case_of("foreign-json", "JSON that is not an answer", Garbage("json")),
    case_of(
        "random-bytes",
        "random bytes, declared as a stream",
        Garbage("bytes", 200, "text/event-stream"),
    ),
    case_of(
        "plain-text",
        "a load balancer's text, declared as a stream",
        Garbage("text", 200, "text/event-stream"),
    ),
    case_of("empty-body", "200 and not a byte", Garbage("empty")),
    Case(
        "hole-in-text",
        "an event in mid-text that cannot be read",
        (
            (Say(_HALF), When("streaming", (_DAMAGED,)), Say(ANSWER[60:]), Finish()),
            (Say(ANSWER[44:]), Finish()),
        ),
    ),
    case_of(
        "bad-event-among-good",
        "one event that is not JSON among good ones",
        Say(_HALF),
        When("streaming", (_BAD_EVENT,)),
        Say(ANSWER[44:]),
        Finish(),
        scenarios=("P22",),
    ),
)
