"""Why something did not work, as a value with the facts that recovery needs.

Nobody above this line reads an error's text to decide anything: kind, retryable and retry_after say it.
"""

from typing import Literal

from msgspec import Struct

FailureKind = Literal[
    # The way to the provider
    "connect",  # no connection: refused, no such host, TLS
    "reset",  # the connection broke
    "incomplete",  # the body ended without the protocol's terminal event
    "no_reason",  # the end mark came, and no finish reason with it
    "stalled",  # a clock fired; `clock` names it
    "garbage",  # a body that is neither a stream nor an answer
    "oversize",  # a line, an event or a reply over its cap
    "cancelled",  # we closed it ourselves
    "repeated",  # we closed it because the model went round in circles
    "budget",  # we closed it, or asked no more, because a limit of the turn was reached
    "consent",  # a call needed a person's consent, and there was nobody to ask
    # What the provider said
    "rate_limited",
    "overloaded",
    "server",  # 5xx and its relatives
    "timeout",  # the provider's own time-out
    "auth",
    "permission",
    "billing",
    "not_found",  # no such model or endpoint
    "context",  # the prompt does not fit
    "too_large",  # the request body is too large
    "pairing",  # the history breaks a rule of the protocol
    "filtered",  # a policy stopped it
    "unstreamable",  # this route does not stream
    "unsupported",  # a field of the request that can be said otherwise; `param` names it
    "malformed_call",  # the provider could not read what its own model wrote
    "invalid",  # any other 4xx
]
Clock = Literal["connect", "first_event", "gap", "silence"]

RETRYABLE: frozenset[FailureKind] = frozenset(
    {
        "connect",
        "reset",
        "incomplete",
        "no_reason",
        "stalled",
        "garbage",
        "rate_limited",
        "overloaded",
        "server",
        "timeout",
    }
)


class Failure(Struct, frozen=True):
    """One failure. `retryable`: the same request may work later. `said` is a sample of the provider's
    words. `room`: so many output tokens the provider would allow, where it refused to give more. `window`
    and `taken`: how many tokens the model takes in all, and how many the request had, where a refusal
    names them."""

    kind: FailureKind
    message: str
    retryable: bool
    retry_after: float | None = None
    status: int | None = None
    code: str = ""
    type: str = ""
    param: str = ""
    request_id: str = ""
    said: str = ""
    clock: Clock | None = None
    room: int | None = None
    window: int | None = None
    taken: int | None = None


def failure(kind: FailureKind, message: str, *, said: str = "", clock: Clock | None = None) -> Failure:
    """A failure whose retryability follows from its kind."""
    return Failure(kind, message, kind in RETRYABLE, said=said, clock=clock)
