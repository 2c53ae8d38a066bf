"""Exit codes: one table for every command that reports an outcome."""

from turnbuckle.vocab.outcome import OutcomeKind

OK = 0
FAILED = 1
USAGE_ERROR = 2
PARTIAL = 3
UNFINISHED = 4
CANCELLED = 130

EXIT_CODES: dict[OutcomeKind, int] = {
    "completed": OK,
    "failed": FAILED,
    "partial": PARTIAL,
    "cancelled": CANCELLED,
}
