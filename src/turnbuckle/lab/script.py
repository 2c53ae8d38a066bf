"""The language in which a provider's behaviour is written down.

A script is a row of steps: what is said, in which pieces, how long nothing comes, how it ends. Steps know
nothing of protocols; `lab.dialogue` plays them in each dialect. Nothing happens that no step asks for:
without `Finish` no terminal event is sent, and behind the last step the body ends tidily. Before the first
step that sends anything not even the headers are sent, so a script that begins with `Stall` is a silent
server.

`Pace`, `Dribble` and `KillAfter` send nothing; they hold from where they stand to the end of the script.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from turnbuckle.vocab.events import Finish as FinishWord
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.failure import FailureKind
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

Count = Annotated[int, Meta(ge=0)]
Duration = Annotated[float, Meta(ge=0)]
Seconds = Duration | Literal["forever"]
Ending = Literal["tidy", "fin", "reset"]
"""How a body ends: properly, by closing without the terminator, or by a reset of the connection."""


class Open(Struct, frozen=True):
    """Headers and the protocol's opening frames, and nothing else."""


class Say(Struct, frozen=True):
    """Text in deltas of `pieces` characters (0: all in one), `times` over."""

    text: str
    pieces: Count = 12
    times: Count = 1


class Reason(Struct, frozen=True):
    """Reasoning in deltas."""

    text: str
    pieces: Count = 12


class Refuse(Struct, frozen=True):
    """The model declines, in the protocol's own form."""

    text: str
    pieces: Count = 12


class Call(Struct, frozen=True):
    """A tool call. Arguments given as text are sent as they are, sound or not. `closed=False` leaves it
    open."""

    name: str
    arguments: dict[str, Any] | str = {}
    pieces: Count = 12
    id: str = ""
    closed: bool = True


class More(Struct, frozen=True):
    """More arguments for a call that was left open."""

    arguments: str
    pieces: Count = 12
    closed: bool = True


class Finish(Struct, frozen=True):
    """The end of the reply. `said` lies: one of our words in the protocol's spelling, or any word as it is.

    `reason` "auto": calls if there were any, else stop; "none": no reason is given.
    `terminal` False: the reason comes, the terminal event does not.
    `usage` None: counted from what was sent; "none": not sent.
    """

    reason: FinishWord | Literal["auto", "none"] = "auto"
    said: str = ""
    usage: Usage | Literal["none"] | None = None
    terminal: bool = True


class Raw(Struct, frozen=True):
    """Bytes of the body as they are."""

    data: bytes | str


class Frame(Struct, frozen=True):
    """One event of the stream with this JSON. `name` is its event name, where the protocol has them."""

    data: dict[str, Any]
    name: str = ""


class Stall(Struct, frozen=True):
    """Nothing comes for so long."""

    seconds: Seconds


class Comments(Struct, frozen=True):
    """Keep-alives without content every so often: comments, or the protocol's ping."""

    seconds: Seconds
    every: Annotated[float, Meta(gt=0)] = 10.0
    kind: Literal["comment", "ping"] = "comment"


class CutOff(Struct, frozen=True):
    """The body ends here. `inside` sends the first half of one more thing before that."""

    how: Ending = "fin"
    inside: Literal["", "frame", "character"] = ""


class Error(Struct, frozen=True):
    """An error inside the stream, in the protocol's shape. `shape` picks one of the three of Responses."""

    kind: FailureKind = "server"
    message: str = "the lab was told to fail"
    code: str = ""
    shape: Literal["failed", "flat", "nested"] = "failed"


class Status(Struct, frozen=True):
    """An HTTP error instead of a reply. Without `body` it is the protocol's error body."""

    code: Annotated[int, Meta(ge=200, le=599)]
    message: str = "the lab was told to refuse"
    error_code: str = ""
    headers: dict[str, str] = {}
    body: str | None = None


class Garbage(Struct, frozen=True):
    """A body that is not a reply, under the status and type of one."""

    what: Literal["html", "json", "bytes", "text", "empty"] = "html"
    status: int = 200
    content_type: str = ""


class Plain(Struct, frozen=True):
    """From here on answer with one JSON document, though a stream was asked for."""

    content_type: str = "application/json"


class Headers(Struct, frozen=True):
    """Headers of the answer, whichever it will be; of no use once it has begun."""

    headers: dict[str, str]


class Pace(Struct, frozen=True):
    """From here on: deltas of so many characters, one every so many seconds."""

    pieces: Count
    every: Duration = 0.0


class Dribble(Struct, frozen=True):
    """From here on: so many bytes per write, one write every so many seconds. 0 ends it."""

    bytes: Count
    every: Duration = 0.0


class KillAfter(Struct, frozen=True):
    """From here on: cut the stream as soon as so many characters of arguments, or of text, were sent."""

    arguments: Count | None = None
    text: Count | None = None
    how: Ending = "reset"


class When(Struct, frozen=True):
    """Steps for some requests only: all words of `condition` must fit. Words: the protocols, streaming,
    plain."""

    condition: str
    steps: tuple["ScriptItem", ...]
    otherwise: tuple["ScriptItem", ...] = ()


Step = (
    Open
    | Say
    | Reason
    | Refuse
    | Call
    | More
    | Finish
    | Raw
    | Frame
    | Stall
    | Comments
    | CutOff
    | Error
    | Status
    | Garbage
    | Plain
    | Headers
    | Pace
    | Dribble
    | KillAfter
    | When
)


class LabRequest(Struct, frozen=True):
    """What a client asked for. `number` counts the requests of this case from 1."""

    protocol: ProtocolName
    path: str = ""
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = True
    model: str = "lab"
    number: int = 1

    def fits(self, condition: str) -> bool:
        """Whether all words of a `When` condition are true of this request."""
        words = {self.protocol, "streaming" if self.stream else "plain"}
        return set(condition.split()) <= words


StepFunction = Callable[[LabRequest], Iterable["ScriptItem"]]
ScriptItem: TypeAlias = Step | StepFunction
Script: TypeAlias = tuple[ScriptItem, ...]

CONDITION_WORDS = (*PROTOCOL_NAMES, "streaming", "plain")


class Case(Struct, frozen=True):
    """A named behaviour. The nth request gets the nth script, then the last one repeats, or all begin
    `again`.

    A request that brings tool results gets `after_tools`, if there is one, and is not counted.
    """

    name: str
    summary: str
    requests: tuple[Script, ...]
    after_tools: Script | None = None
    again: bool = False
    scenarios: tuple[str, ...] = ()

    def script_for(self, number: int) -> Script:
        """The script of the nth request, counted from 1."""
        place = (number - 1) % len(self.requests) if self.again else min(number, len(self.requests)) - 1
        return self.requests[place]


def case_of(name: str, summary: str, *steps: ScriptItem, scenarios: tuple[str, ...] = ()) -> Case:
    """A case whose every request gets the same script."""
    return Case(name, summary, (steps,), scenarios=scenarios)


def chat_chunk(delta: dict[str, Any], finish: str | None = None) -> Frame:
    """A frame as Chat Completions has it."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return Frame(
        {"id": "lab", "object": "chat.completion.chunk", "created": 0, "model": "lab", "choices": [choice]}
    )
