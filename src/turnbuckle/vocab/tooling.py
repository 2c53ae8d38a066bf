"""How a tool call went, as a value that the journal keeps, and the words in which the model is told.

Four facts are never mixed up, since each asks for something else of the model: the call never started
(nothing happened, it may be made again), it started and its end is not known (look before doing it again), it
was stopped on its way (part of it may have happened), or it came to its own end (well or badly).
"""

from typing import Literal

from msgspec import Struct

from turnbuckle.vocab.file_change import FileChange
from turnbuckle.vocab.messages import ResultPart, TextPart

Effect = Literal["read", "idempotent", "write"]
"""What a tool does to the world: nothing, something that may be done twice, or something that may not."""

ToolStatus = Literal[
    "finished",
    "failed",  # it ran to its own end, and says that it did not work
    "killed",  # it was stopped on its way
    "timed_out",  # its time limit stopped it
    "unknown",  # it was started, and nobody saw how it ended
    "not_started",
    "denied",  # a rule or a person said no, so it was not started
]
ToolFact = Literal["never_started", "unknown", "stopped", "ended"]

FINISH_CALL = "finish_call"
REST_OF_A_CALL = "the rest of a call that was cut"
"""What people read in the place of that name."""
"""The name of the tool that finishes a draft. The turn itself answers it."""

_FACTS: dict[ToolStatus, ToolFact] = {
    "finished": "ended",
    "failed": "ended",
    "killed": "stopped",
    "timed_out": "stopped",
    "unknown": "unknown",
    "not_started": "never_started",
    "denied": "never_started",
}


class ToolOutcome(Struct, frozen=True):
    """The one outcome of one call.

    `text` is the result, or the reason where there is none. `partial_output` is what a stopped tool had
    printed. `killed` and `survivors` name processes. `kept_at` is a path for `read_file`, where the whole of
    a capped output is. `changes` are the files that it has changed, as far as we know; the model is not told
    of them.
    """

    status: ToolStatus
    text: str = ""
    partial_output: str = ""
    seconds: float = 0.0
    exit_code: int | None = None
    killed: tuple[str, ...] = ()
    survivors: tuple[str, ...] = ()
    kept_at: str | None = None
    changes: tuple[FileChange, ...] = ()

    @property
    def fact(self) -> ToolFact:
        return _FACTS[self.status]

    @property
    def ok(self) -> bool:
        return self.status == "finished"


def is_internal(name: str) -> bool:
    """Whether a tool is the runtime's own business, which nobody is told of."""
    return name.startswith("_")


def finished(text: str, *, seconds: float = 0.0) -> ToolOutcome:
    """The tool did what it was asked to do."""
    return ToolOutcome("finished", text, seconds=seconds)


def failed(text: str, *, seconds: float = 0.0) -> ToolOutcome:
    """The tool ran, and did not do what it was asked to do."""
    return ToolOutcome("failed", text, seconds=seconds)


def not_started(why: str) -> ToolOutcome:
    """The tool did not run at all."""
    return ToolOutcome("not_started", why)


def unknown(why: str) -> ToolOutcome:
    """The tool was started, and how it ended was never seen."""
    return ToolOutcome("unknown", why)


def result_part(call_id: str, outcome: ToolOutcome) -> ResultPart:
    """The outcome as the model reads it."""
    return ResultPart(call_id, (TextPart(_told(outcome)),), failed=not outcome.ok)


def _told(outcome: ToolOutcome) -> str:
    lines = [_headline(outcome)]
    if outcome.exit_code and outcome.fact == "ended":
        lines.append(f"[exit code {outcome.exit_code}]")
    if outcome.killed:
        lines.append(f"Processes killed: {', '.join(outcome.killed)}.")
    if outcome.survivors:
        lines.append(f"Could not be stopped and may still be running: {', '.join(outcome.survivors)}.")
    if outcome.fact == "stopped":
        lines.append(
            f"Output until then:\n{outcome.partial_output}"
            if outcome.partial_output
            else "It printed nothing."
        )
    if outcome.kept_at is not None:
        lines.append(f"[The whole output is kept. Read it with read_file, path {outcome.kept_at}]")
    return "\n".join([*(line.rstrip("\n") for line in lines[:-1]), lines[-1]])


def _headline(outcome: ToolOutcome) -> str:
    why = outcome.text
    after = f"after {outcome.seconds:.1f} s"
    match outcome.status:
        case "finished" | "failed":
            return why or "(no output)"
        case "killed":
            return f"Killed {after}, before it was done; part of its work may be done. {why}".rstrip()
        case "timed_out":
            return f"Ended by its time limit {after}; part of its work may be done. {why}".rstrip()
        case "unknown":
            return (
                f"Started, but how it ended is not known. Look at the state before doing it again. {why}"
            ).rstrip()
        case "not_started":
            return f"Not run: nothing happened. {why}".rstrip()
        case "denied":
            return f"Not allowed, and not run: nothing happened. {why}".rstrip()
