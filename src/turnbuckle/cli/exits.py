"""Exit codes: one table for every command that reports an outcome."""

from turnbuckle.errors import ConfigError, InvalidValue, RunUnknown, SessionUnknown
from turnbuckle.vocab.outcome import Outcome, OutcomeKind

OK = 0
FAILED = 1
USAGE_ERROR = 2
PARTIAL = 3
UNFINISHED = 4
NOT_ASKED = 5
CANCELLED = 130

USAGE_ERRORS = (ConfigError, InvalidValue, RunUnknown, SessionUnknown)
"""What somebody asked wrongly; every other error is a failure."""

EXIT_CODES: dict[OutcomeKind, int] = {
    "completed": OK,
    "failed": FAILED,
    "partial": PARTIAL,
    "cancelled": CANCELLED,
}


def exit_code(outcome: Outcome) -> int:
    """The exit code of a run. One that did without something because nobody could be asked has its own."""
    if outcome.failure is not None and outcome.failure.kind == "consent":
        return NOT_ASKED
    return EXIT_CODES[outcome.kind]
