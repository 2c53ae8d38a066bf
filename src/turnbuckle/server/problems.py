"""How a problem is written: one place, one shape, the one that clients of OpenAI's API read.

The message is for a person and says what to do; `code` is for programs. An answer that a client should simply try
again later says when. Nothing of an unexpected error is shown but the request's id, by which the log has the rest.
"""

import math
import secrets

import msgspec

from turnbuckle.server.http import JSON, Answer, Problem
from turnbuckle.vocab.failure import Failure


def written(problem: Problem) -> Answer:
    """A problem as an answer."""
    headers = list(problem.headers)
    if problem.retry_after is not None:
        headers.append(("retry-after", str(max(1, math.ceil(problem.retry_after)))))
    if problem.should_retry is not None:
        headers.append(("x-should-retry", "true" if problem.should_retry else "false"))
    return Answer(problem.status, error_body(problem), tuple(headers), JSON)


def new_request_id() -> str:
    """By this the log knows a request."""
    return f"req_{secrets.token_hex(12)}"


def error_body(problem: Problem) -> bytes:
    """The JSON of a problem."""
    error = {"message": problem.message, "type": problem.type, "param": problem.param, "code": problem.code}
    return msgspec.json.encode({"error": error})


def unknown(what: str, name: str) -> Problem:
    """There is no such thing, or it belongs to somebody else: the answer is the same to the letter."""
    return Problem(404, f"there is no {what} {name[:200]!r}", code=f"{what.replace(' ', '_')}_not_found")


def too_large(limit: int) -> Problem:
    """A body over the limit."""
    shown = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
    return Problem(413, f"the body is larger than {shown}; server.max_body sets the limit", code="body_too_large")


def unexpected(request_id: str) -> Problem:
    """Our own mistake. Whether anything was done is not known, so nothing may be done again by itself."""
    return Problem(
        500,
        f"something went wrong in the server; its log tells more under {request_id}",
        code="internal_error",
        should_retry=False,
    )


def refused(failure: Failure) -> Problem:
    """A request that can not be read, or asks for what there is not."""
    return Problem(
        400, failure.message, param=failure.param or None, code=failure.code or "invalid_request", should_retry=False
    )
