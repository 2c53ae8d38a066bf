"""What a provider does on the wire, once a script has been translated. Few verbs, no protocol."""

from msgspec import Struct

from turnbuckle.lab.script import Ending


class SendHead(Struct, frozen=True):
    """Status line and headers. `length` None: the body is of unknown length and needs a terminator."""

    status: int
    headers: dict[str, str]
    length: int | None = None


class Write(Struct, frozen=True):
    """Bytes of the body, in one write."""

    data: bytes


class Wait(Struct, frozen=True):
    """Nothing for so many seconds; infinity means until the client leaves."""

    seconds: float


class End(Struct, frozen=True):
    """The last action."""

    how: Ending


Action = SendHead | Write | Wait | End
