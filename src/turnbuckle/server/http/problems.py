"""How a problem is written: one place, and the shape that whoever asks can read. Clients of Anthropic's API
know another one than all others; they are known by the path, or by the header that only they send.

The message is for a person and says what to do; `code` is for programs. An answer that a client should simply
try again later says when. Nothing of an unexpected error is shown but the request's id, by which the log has
the rest.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from turnbuckle import errors
from turnbuckle.journal.port import Closed, Gone, JournalError, StorageError, TooLarge
from turnbuckle.runtime.new_names import chance
from turnbuckle.server.http.exchange import JSON, Answer, Problem
from turnbuckle.server.outcomes import messages_type
from turnbuckle.service.store_words import TO_DO, code, words
from turnbuckle.vocab.failure import Failure

Row = tuple[int, str | None, bool | None]
STATUSES: dict[type[errors.TurnbuckleError], Row] = {
    errors.RunUnknown: (404, "run_not_found", None),
    errors.SessionUnknown: (404, "session_not_found", None),
    errors.ModelUnknown: (404, "model_not_found", None),
    errors.ApprovalUnknown: (404, "approval_not_found", None),
    errors.ChangeUnknown: (404, "change_not_found", None),
    errors.DraftUnknown: (404, "draft_not_found", None),
    errors.ProcessUnknown: (404, "process_not_found", None),
    errors.RuleUnknown: (404, "rule_not_found", None),
    errors.InvalidValue: (400, "invalid_value", None),
    errors.BadSessionName: (400, "invalid_session_id", None),
    errors.BadKey: (400, "invalid_idempotency_key", None),
    errors.ImportRefused: (400, "import_refused", False),
    errors.SessionBusy: (409, "session_busy", False),
    errors.SessionExists: (409, "session_exists", False),
    errors.RunActive: (409, "run_active", False),
    errors.RunHeld: (409, "run_active", None),
    errors.ChangingHands: (503, "changing_hands", True),
    errors.RunUnfinished: (409, "run_unfinished", False),
    errors.ApprovalSettled: (409, "approval_settled", False),
    errors.FileNotAsLeft: (409, "file_not_as_left", False),
    errors.KeyReused: (409, "idempotency_key_reused", False),
    errors.CursorGone: (400, "events_not_kept", None),
    errors.RateLimited: (429, "rate_limit_exceeded", True),
    errors.TooManyRuns: (429, "too_many_runs", True),
    errors.BudgetSpent: (429, "budget_spent", False),
    errors.Stopping: (503, "stopping", True),
}
"""Every error of the service: the status, the code for programs, and whether a client should simply try the
same again."""


_PARAMS: dict[type[errors.TurnbuckleError], str] = {errors.ModelUnknown: "model"}
MESSAGES_PATH = "/v1/messages"
MODELS_PATH = "/v1/models"
MESSAGES_VERSION = "anthropic-version"
"""The header that every client of Anthropic's API sends, and no other."""
_HELD = 1.0  # seconds until whoever holds a run has let go of it
_FULL = 507
_FAILED = 503
_WAIT = 5.0  # seconds until a client may try again: a disk gets room by somebody who makes it
_LONG = 60.0  # the same where somebody must come and mend it
_NEEDS_MENDING = ("damaged", "unknown_format", "gone")


def problem_of(error: errors.TurnbuckleError) -> Problem | None:
    """An error of the service as an answer; None for one that no client should meet."""
    row = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), None)
    if row is None:
        return None
    status, name, should_retry = row
    run = getattr(error, "run", "")
    retry_after = (
        _HELD
        if isinstance(error, (errors.RunHeld, errors.ChangingHands))
        else getattr(error, "retry_after", None)
    )
    return Problem(
        status,
        str(error),
        code=name,
        param=getattr(error, "param", "") or _PARAMS.get(type(error)),
        retry_after=retry_after,
        should_retry=should_retry,
        headers=(("x-turnbuckle-run", run),) if run else (),
    )


def fault_problem(fault: str, run: str = "") -> Problem:
    """What the store suffers from as an answer."""
    status = _FULL if fault == "full" else _FAILED
    wait = _LONG if fault in _NEEDS_MENDING else _WAIT
    message = (
        f"{words(fault)}, so this cannot be done now; {TO_DO.get(fault, TO_DO['failed'])}, then try again"
    )
    headers = (("x-turnbuckle-run", run),) if run else ()
    return Problem(status, message, code=code(fault), retry_after=wait, headers=headers)


def storage_problem(error: JournalError, run: str = "") -> Problem:
    """An error of the journal as an answer. `run` is the one that was read or begun."""
    headers = (("x-turnbuckle-run", run),) if run else ()
    match error:
        case StorageError(fault=fault):
            return fault_problem(fault, run)
        case TooLarge(size=size):
            message = (
                f"this conversation has become too large to be stored ({size / 1e6:.0f} MB); begin a new one"
            )
            return Problem(413, message, code="conversation_too_large", should_retry=False, headers=headers)
        case Gone():
            return Problem(404, "this was deleted", code="deleted", should_retry=False, headers=headers)
        case Closed():
            return Problem(
                _FAILED, "the server stops", code="interrupted", retry_after=_WAIT, headers=headers
            )
        case _:
            message = "somebody else changed this at the same moment; try again"
            return Problem(_FAILED, message, code="storage_conflict", retry_after=1.0, headers=headers)


def is_for_messages(path: str, headers: Mapping[str, str]) -> bool:
    """Whether a client of Anthropic's API asks: what is there, or whether anything is there."""
    if path == MESSAGES_PATH or path.startswith(f"{MESSAGES_PATH}/"):
        return True
    return bool(headers.get(MESSAGES_VERSION)) and (path == MODELS_PATH or path.startswith(f"{MODELS_PATH}/"))


def written(problem: Problem, messages_id: str = "") -> Answer:
    """A problem as an answer. `messages_id` is the request's, for a client of Anthropic's API."""
    headers = list(problem.headers)
    if problem.retry_after is not None:
        headers.append(("retry-after", str(max(1, math.ceil(problem.retry_after)))))
    if problem.should_retry is not None:
        headers.append(("x-should-retry", "true" if problem.should_retry else "false"))
    body = messages_error_body(problem, messages_id) if messages_id else error_body(problem)
    return Answer(problem.status, body, tuple(headers), JSON)


def new_request_id() -> str:
    """By this the log knows a request."""
    return f"req_{chance(12)}"


def error_body(problem: Problem) -> bytes:
    """The JSON of a problem."""
    error = {"message": problem.message, "type": problem.type, "param": problem.param, "code": problem.code}
    return msgspec.json.encode({"error": error})


def messages_error_body(problem: Problem, request_id: str) -> bytes:
    """The JSON of a problem for a client of Anthropic's API."""
    error: dict[str, Any] = {"type": messages_type(problem.status), "message": problem.message}
    if problem.code is not None:
        error["details"] = {"error_code": problem.code}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


def unknown(what: str, name: str) -> Problem:
    """There is no such thing, or it belongs to somebody else: the answer is the same to the letter."""
    return Problem(404, f"there is no {what} {name[:200]!r}", code=f"{what.replace(' ', '_')}_not_found")


def too_large(limit: int) -> Problem:
    """A body over the limit."""
    shown = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
    return Problem(
        413, f"the body is larger than {shown}; server.max_body sets the limit", code="body_too_large"
    )


def unexpected(request_id: str) -> Problem:
    """Our own mistake. Whether anything was done is not known, so nothing may be done again by itself."""
    return Problem(
        500,
        f"something went wrong in the server; its log tells more under {request_id}",
        code="internal_error",
        should_retry=False,
    )


def refused(failure: Failure) -> Problem:
    """A request that cannot be read, or asks for what there is not."""
    return Problem(
        400,
        failure.message,
        param=failure.param or None,
        code=failure.code or "invalid_request",
        should_retry=False,
    )
