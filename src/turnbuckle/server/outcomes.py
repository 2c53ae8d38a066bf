"""How a run's end is told: one table, so that every surface tells the same one.

A run has one of four outcomes. Clients of OpenAI's shapes know other words, and fewer of them, so each
outcome has one row here that says what it is called where. A fifth row is for a model that declined or was
stopped by a filter: that is not a failure of ours, and clients have a word for it. What is not finished also
says so in the text itself, because many clients look at nothing else.

| | chat: finish | plain: HTTP | response: status | its last event | message: stop reason |
|---|---|---|---|---|---|
| completed | `stop`, or `tool_calls` with calls for the client | 200 | `completed` | `response.completed` |
`end_turn`, `stop_sequence`, or `tool_use` with calls for the client |
| partial | `length`, behind a note | 200 | `incomplete`, `max_output_tokens` | `response.incomplete` |
`max_tokens`, or the provider's own word for why it stopped early |
| cancelled | `length`, behind a note | 200 | `cancelled`, `cancelled` | `response.incomplete` |
`max_tokens` |
| declined | `content_filter` | 200 | `incomplete`, `content_filter` | `response.incomplete` | `refusal` |
| failed | none: an error event, and nothing behind it | by the kind of failure | `failed` | `response.failed`
| none: an error event, and nothing behind it |
"""

import math
from typing import Any, Literal

from msgspec import Struct

from turnbuckle.narrate.told import ReplyOver, RunOver
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.failure import FailureKind
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome

Headers = tuple[tuple[str, str], ...]
ResponseStatus = Literal["completed", "incomplete", "cancelled", "failed"]


class OutcomeRow(Struct, frozen=True):
    """One line of the table. `finish` is empty where an error stands in its place. A response that is not
    complete has a `reason`, because some clients take one without it for complete."""

    finish: str
    response: ResponseStatus
    event: str
    reason: str = ""
    stop: str = ""


ROWS: dict[str, OutcomeRow] = {
    "completed": OutcomeRow("stop", "completed", "response.completed", stop="end_turn"),
    "partial": OutcomeRow("length", "incomplete", "response.incomplete", "max_output_tokens", "max_tokens"),
    "cancelled": OutcomeRow("length", "cancelled", "response.incomplete", "cancelled", "max_tokens"),
    "declined": OutcomeRow(
        "content_filter", "incomplete", "response.incomplete", "content_filter", "refusal"
    ),
    "failed": OutcomeRow("", "failed", "response.failed"),
}


class FailureRow(Struct, frozen=True):
    """What a kind of failure is to a client: an HTTP status, a type and a code. `before` goes in front of the
    words. `messages` is the status where clients of Anthropic's API know another one."""

    status: int
    type: str = "server_error"
    code: str = ""
    before: str = ""
    messages: int = 0


_REFUSED = "invalid_request_error"
_OURS = "The provider of the model did not accept this server: "
FAULTS: dict[FailureKind, FailureRow] = {
    # The way to the provider
    "connect": FailureRow(502),
    "reset": FailureRow(502),
    "incomplete": FailureRow(502),
    "no_reason": FailureRow(502),
    "stalled": FailureRow(504, code="timeout"),
    "garbage": FailureRow(502),
    "oversize": FailureRow(502),
    "cancelled": FailureRow(500),
    "repeated": FailureRow(502),
    # The limits of the turn: asking the same again would only reach them again.
    "budget": FailureRow(422, _REFUSED, "limit_reached"),
    "consent": FailureRow(422, _REFUSED, "consent_needed"),
    # What the provider said of itself
    "rate_limited": FailureRow(429, "rate_limit_error", "rate_limit_exceeded"),
    # Not `server_is_overloaded`: agents take that for the last word on the matter.
    "overloaded": FailureRow(503, code="overloaded", messages=529),
    "server": FailureRow(502),
    "timeout": FailureRow(504, code="timeout"),
    "unstreamable": FailureRow(502),
    "malformed_call": FailureRow(502),
    # What it said of us. The client's own key is good, so it must not read of a bad one.
    "auth": FailureRow(502, code="provider_auth", before=_OURS),
    "permission": FailureRow(502, code="provider_permission", before=_OURS),
    "billing": FailureRow(502, code="provider_billing", before=_OURS),
    "not_found": FailureRow(502, code="provider_not_found", before=_OURS),
    # What it said of the request, which is the client's
    "context": FailureRow(400, _REFUSED, "context_length_exceeded"),
    "too_large": FailureRow(413, _REFUSED, "request_too_large"),
    "pairing": FailureRow(400, _REFUSED),
    "filtered": FailureRow(400, _REFUSED, "content_filter"),
    "invalid": FailureRow(400, _REFUSED),
    "unsupported": FailureRow(400, _REFUSED),
}
NO_FAILURE = FailureRow(500)
"""A run that failed by itself: its models said nothing that could be used, or its process died again and
again."""

MESSAGES_TYPES = {
    400: _REFUSED,
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""What Anthropic's clients call an error of a status. Any other of the client's is `invalid_request_error`,
any other of ours `api_error`."""

_EARLY: dict[str, str] = {
    "window": "model_context_window_exceeded",
    "paused": "pause_turn",
    "compacted": "compaction",
}
_LONGEST = 400  # characters of a reason in a note; a provider's own words can be a page
_WAIT = 5.0  # seconds, where a client is told to come back and the provider did not say when
_KEEPS_CODE = ("invalid", "pairing", "unsupported")


class ErrorAnswer(Struct, frozen=True):
    """A failed run as an answer."""

    status: int
    message: str
    type: str
    code: str
    param: str | None = None
    retry_after: float | None = None
    repeatable: bool = False
    """Nothing was done that a second time would do again, and it may go better then."""
    messages_status: int = 0

    def messages_error(self) -> dict[str, Any]:
        """The error as Anthropic's clients read it."""
        kind = messages_type(self.messages_status or self.status)
        return {"type": kind, "message": self.message, "details": {"error_code": self.code}}

    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}

    def headers(self) -> Headers:
        """A run is not repeated by a client's own rules: it may have done something. A relay has not, and
        says so. When to come back is for those alone who may."""
        if not self.repeatable:
            return (("x-should-retry", "false"),)
        waits = () if self.retry_after is None else (("retry-after", str(math.ceil(self.retry_after))),)
        return (("x-should-retry", "true"), *waits)


class Ending(Struct, frozen=True):
    """A run's end, ready to be told. `note` is empty where nothing needs to be added to the text."""

    outcome: Outcome
    row: OutcomeRow
    finish: str
    note: str = ""
    trouble: ErrorAnswer | None = None

    @property
    def status(self) -> int:
        return 200 if self.trouble is None else self.trouble.status

    @property
    def messages_status(self) -> int:
        return self.status if self.trouble is None else self.trouble.messages_status or self.status

    @property
    def headers(self) -> Headers:
        own = (("x-turnbuckle-outcome", self.outcome.kind),)
        return own if self.trouble is None else (*own, *self.trouble.headers())


class PlainAnswer(Struct, frozen=True):
    """An answer in one piece."""

    status: int
    body: dict[str, Any]
    headers: Headers = ()


def ending(over: RunOver) -> Ending:
    """The row of an outcome, filled in."""
    outcome = over.end
    unfinished = outcome.kind in ("partial", "failed")
    row = ROWS["declined" if over.declined and unfinished else outcome.kind]
    trouble = trouble_of(outcome, repeatable=over.repeatable) if row is ROWS["failed"] else None
    finish = "tool_calls" if over.handed and row is ROWS["completed"] else row.finish
    return Ending(outcome, row, finish, "" if over.bare or trouble is not None else note_of(outcome), trouble)


def note_of(outcome: Outcome) -> str:
    """What is added to a text that is not all that was wanted."""
    if outcome.kind == "completed":
        return ""
    if outcome.kind == "cancelled":
        return f"[Stopped.{_drafts(outcome)}]"
    why = shortened(outcome.why, _LONGEST).rstrip(".") or "no reason is known"
    return f"[Not finished: {why}{'.' if outcome.drafts else ''}{_drafts(outcome)}]"


def _drafts(outcome: Outcome) -> str:
    return f" Kept as a draft: {', '.join(outcome.drafts)}." if outcome.drafts else ""


def trouble_of(outcome: Outcome, *, repeatable: bool = False) -> ErrorAnswer:
    """A failed outcome as an error in the known shape. Of what may be `repeatable` only that is which may go
    better."""
    failure = outcome.failure
    words = outcome.why or (failure.message if failure is not None else "") or "the run failed"
    if failure is None:
        return ErrorAnswer(NO_FAILURE.status, words, NO_FAILURE.type, "run_failed")
    fault = FAULTS[failure.kind]
    code = failure.code if failure.kind in _KEEPS_CODE and failure.code else fault.code or failure.kind
    waits = failure.retry_after or _WAIT if fault.status in (429, 503) else None
    again = repeatable and failure.retryable
    return ErrorAnswer(
        fault.status,
        f"{fault.before}{words}",
        fault.type,
        code,
        failure.param or None,
        waits,
        again,
        fault.messages,
    )


def messages_type(status: int) -> str:
    """What an error of this status is called in Anthropic's shape."""
    return MESSAGES_TYPES.get(status, _REFUSED if status < 500 else "api_error")


def stop_of(end: Ending, over: RunOver, reply: ReplyOver) -> dict[str, Any]:
    """Why a message stops, in the fields of Anthropic's API. `reply` is the last one."""
    fields: dict[str, Any] = {"stop_reason": end.row.stop, "stop_sequence": None}
    if end.row is ROWS["completed"]:
        if over.handed:
            fields["stop_reason"] = "tool_use"
        elif reply.said == "stop_sequence":
            fields |= {"stop_reason": "stop_sequence", "stop_sequence": reply.detail or None}
    elif end.row is ROWS["partial"]:
        fields["stop_reason"] = _EARLY.get(reply.finish, end.row.stop)
    elif end.row is ROWS["declined"]:
        explanation = reply.detail or over.why or None
        fields["stop_details"] = {"type": "refusal", "category": None, "explanation": explanation}
    return fields


def outcome_fields(outcome: Outcome, run: RunId) -> dict[str, Any]:
    """The outcome in our own words, which stands beside whatever a surface calls it."""
    return {"outcome": outcome.kind, "why": outcome.why, "run": run, "drafts": list(outcome.drafts)}
