"""JSON-RPC as MCP has it: what is sent, and what a stranger sends back. Pure.

What comes is read by types that hold only what is looked at. Everything else is skipped or kept as bytes, so
a message costs what is used of it, however it was made.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from turnbuckle.vocab.visible import visible_line

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions that begin with `initialize`, the newest first."""
STATELESS = "2026-07-28"
"""The revision in which every request says who asks, and nothing is agreed on before."""
LINE_CAP = 4 << 20
"""Bytes of one message."""
METHOD_UNKNOWN, VERSION_UNKNOWN = -32601, -32022
_META = "io.modelcontextprotocol/"


class Unreadable(Exception):
    """What a server sent is not what it should be. The text says why."""


class RpcFault(Struct, frozen=True, gc=False):
    """An error that a server answers with."""

    code: int = 0
    message: str = ""


class Incoming(Struct, frozen=True, gc=False):
    """One message: an answer (`result` or `error`), a request (`method` and `id`) or a notification."""

    id: int | str | UnsetType | None = UNSET
    method: str = ""
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: RpcFault | None = None


class CallProgress(Struct, frozen=True, gc=False):
    """How far a call is."""

    progressToken: int | str
    progress: float = 0.0
    total: float | None = None
    message: str = ""


class _Answered(Struct, frozen=True, gc=False):
    protocolVersion: str = ""


_decode = msgspec.json.Decoder(Incoming).decode


def read_message(line: bytes) -> Incoming:
    """Raises Unreadable."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"not a message of JSON-RPC: {error}") from None


def read_progress(params: Raw) -> CallProgress | None:
    """None if it cannot be read: nobody depends on it."""
    try:
        return msgspec.json.decode(params, type=CallProgress)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def agreed_version(result: bytes) -> str:
    """The revision that a server wants to speak. Raises Unreadable if we do not."""
    try:
        wanted = msgspec.json.decode(result, type=_Answered).protocolVersion
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"its answer to initialize cannot be read: {error}") from None
    if wanted not in HANDSHAKE:
        raise Unreadable(f"it speaks the revision {visible_line(wanted[:40])!r}, which is not known here")
    return wanted


def initialize(version: str) -> dict[str, Any]:
    """What we tell a server of ourselves. We offer it nothing: no roots, no sampling, no questions."""
    return {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": _client(version)}


def stateless_meta(version: str) -> dict[str, Any]:
    """The same for the revision in which every request says it."""
    return {
        f"{_META}protocolVersion": STATELESS,
        f"{_META}clientInfo": _client(version),
        f"{_META}clientCapabilities": {},
    }


def _client(version: str) -> dict[str, str]:
    return {"name": "turnbuckle", "version": version}


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return _line({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})


def answer(asked: int | str, method: str) -> bytes:
    """Our answer to a request of the server. There is one that we understand."""
    if method == "ping":
        return _line({"jsonrpc": "2.0", "id": asked, "result": {}})
    fault = {"code": METHOD_UNKNOWN, "message": "this client does not offer it"}
    return _line({"jsonrpc": "2.0", "id": asked, "error": fault})


def _line(message: dict[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"


class LineSplitter:
    """Bytes to lines, wherever they were split on their way."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        self._open: list[bytes] = []
        self._length = 0

    def add(self, data: bytes) -> list[bytes]:
        """The lines that are whole now. Raises Unreadable if one is too long."""
        *whole, rest = data.split(b"\n")
        lines: list[bytes] = []
        if whole:
            lines = [b"".join((*self._open, whole[0])), *whole[1:]]
            self._open, self._length = [], 0
        if rest:
            self._open.append(rest)
            self._length += len(rest)
        if self._length > self._cap or any(len(line) > self._cap for line in lines):
            raise Unreadable(f"it sent a message of more than {self._cap >> 20} MB")
        return [stripped for line in lines if (stripped := line.strip())]


Flood = Literal["", "bytes", "messages"]


class UnaskedBudget:
    """How much a server may say that nobody asked for. It refills with time, so one that notes something now
    and then may do so for years."""

    BYTES, BYTES_A_SECOND = 8 << 20, 256 << 10
    MESSAGES, MESSAGES_A_SECOND = 20_000, 500

    def __init__(self, now: float) -> None:
        self._then = now
        self._bytes: float = self.BYTES
        self._messages: float = self.MESSAGES

    def spend(self, size: int, now: float) -> Flood:
        """What it has too much of; empty if it may go on."""
        passed, self._then = max(now - self._then, 0.0), now
        self._bytes = min(self._bytes + passed * self.BYTES_A_SECOND, self.BYTES) - size
        self._messages = min(self._messages + passed * self.MESSAGES_A_SECOND, self.MESSAGES) - 1
        return "bytes" if self._bytes < 0 else "messages" if self._messages < 0 else ""
