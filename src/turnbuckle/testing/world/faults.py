"""What can go wrong in a world, and when. One fault for each run, so that a report names its cause."""

from typing import Literal

from msgspec import Struct

from turnbuckle.vocab.failure import Clock, Failure, FailureKind, failure

EndKind = Literal["tidy", "reset", "stall", "error"]

_ENDS: dict[EndKind, tuple[FailureKind, str, Clock | None]] = {
    "tidy": ("incomplete", "the stream ended without its last event", None),
    "reset": ("reset", "the connection was reset", None),
    "stall": ("stalled", "stream stalled 30 s", "gap"),
    "error": ("server", "the provider lost its connection", None),
}


def end_by(kind: EndKind) -> Failure:
    """The failure that this kind of end gives."""
    name, message, clock = _ENDS[kind]
    return failure(name, message, clock=clock)


class Nothing(Struct, frozen=True):
    """All goes well."""


NOTHING = Nothing()


class CutReply(Struct, frozen=True):
    """The model's reply number `reply` (from 0, over all processes) breaks after so many events."""

    reply: int
    after: int
    end: EndKind


class Kill(Struct, frozen=True):
    """The process dies right before append number `append` is stored, or right behind it. With `power`, the
    machine goes dark as well, and only what is sure survives."""

    append: int
    side: Literal["before", "after"]
    power: bool = False


class KillInTool(Struct, frozen=True):
    """The process dies inside tool run number `run`, before its effect or behind it."""

    run: int
    side: Literal["before", "after"]


class Steal(Struct, frozen=True):
    """Another process takes the run over, while this one goes on and does not know."""

    append: int
    side: Literal["before", "after"]


class StealInTool(Struct, frozen=True):
    run: int
    side: Literal["before", "after"]


class StopInReply(Struct, frozen=True):
    """Somebody asks for the end while the model's reply number `reply` comes, after so many events."""

    reply: int
    after: int


class StopInTool(Struct, frozen=True):
    run: int


class StopInQuestion(Struct, frozen=True):
    """Somebody asks for the end at the very moment at which a person answers question number `question`."""

    question: int


class Leave(Struct, frozen=True):
    """The process lets go of the run in good order behind append number `append`."""

    append: int


class Pair(Struct, frozen=True):
    """Two faults in one run."""

    first: "Fault"
    second: "Fault"


Fault = (
    Nothing
    | CutReply
    | Kill
    | KillInTool
    | Steal
    | StealInTool
    | StopInReply
    | StopInTool
    | StopInQuestion
    | Leave
    | Pair
)


def singles(fault: Fault) -> tuple[Fault, ...]:
    """The faults of a run, one by one."""
    return (*singles(fault.first), *singles(fault.second)) if isinstance(fault, Pair) else (fault,)
