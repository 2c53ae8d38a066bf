"""The bodies of long conversations, encoded but for what is new. Bounded, and dropped when nobody uses it."""

import asyncio
from collections import OrderedDict

from msgspec import Struct

from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS
from turnbuckle.wire.request_body import NO_PREFIX, EncodedPrefix, encode_body, longer_prefix

MOST_BYTES = 32 << 20
IDLE = 300.0


class _Key(Struct, frozen=True):
    """Whose conversation, and for whom it was encoded."""

    conversation: str
    protocol: ProtocolName
    model: str
    quirks: Quirks


class _Entry(Struct, frozen=True):
    prefix: EncodedPrefix
    tools: tuple[ToolSpec, ...]
    used: float

    @property
    def size(self) -> int:
        return len(self.prefix.raw or b"")


class BodyCache:
    """Encodes requests. What a conversation's last request had in common with the one before it is kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self.size = 0
        """Bytes that are kept."""
        self._sweep: asyncio.TimerHandle | None = None

    def encode(self, request: ModelRequest, name: ProtocolName, quirks: Quirks) -> bytes:
        """The body of a request. Raises TypeError or ValueError for what cannot be written as JSON."""
        protocol, key = PROTOCOLS[name], _Key(request.conversation, name, request.model, quirks)
        entry = self._entries.get(key)
        prefix = NO_PREFIX if entry is None else entry.prefix
        if entry is not None and not _fits(request, entry):
            prefix = NO_PREFIX
        if request.conversation:
            prefix = longer_prefix(request, protocol, quirks, prefix)
            self._keep(key, prefix, request.tools)
        return encode_body(request, protocol, quirks, prefix)

    def close(self) -> None:
        """Let go of everything."""
        self._entries.clear()
        self.size = 0
        if self._sweep is not None:
            self._sweep.cancel()

    def _keep(self, key: _Key, prefix: EncodedPrefix, tools: tuple[ToolSpec, ...]) -> None:
        if (old := self._entries.pop(key, None)) is not None:
            self.size -= old.size
        if prefix.messages:
            entry = self._entries[key] = _Entry(prefix, tools, self._clock.now())
            self.size += entry.size
        self._let_go()

    def _let_go(self) -> None:
        """Drop the oldest, while there is too much or nobody uses it; and look again when nobody asks."""
        now = self._clock.now()
        while self._entries:
            oldest, entry = next(iter(self._entries.items()))
            if self.size <= MOST_BYTES and now - entry.used < IDLE:
                break
            self.size -= entry.size
            del self._entries[oldest]
        if self._entries and self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE, self._swept)

    def _swept(self) -> None:
        self._sweep = None
        self._let_go()


def _fits(request: ModelRequest, entry: _Entry) -> bool:
    begins = request.messages[: len(entry.prefix.messages)]
    return begins == entry.prefix.messages and request.tools == entry.tools
