"""The bodies of long conversations, encoded but for what is new. Bounded, and dropped when nobody uses it."""

import asyncio
from collections import OrderedDict

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.messages import begins_with
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS
from turnbuckle.wire.request_body import NO_PREFIX, EncodedPrefix, encode_body, longer_prefix

MOST_BYTES = 32 << 20
IDLE = 300.0


_NOT_SHARED = EncodedPrefix((), None)


class _Key(Struct, frozen=True):
    """Whose conversation, and for whom it was encoded."""

    conversation: str
    protocol: ProtocolName
    model: str
    quirks: Quirks


class _Entry(Struct, frozen=True):
    """What is kept of one conversation. A prefix that cannot be shared is kept without its messages: it is no
    use, and costs nothing."""

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
        prefix = NO_PREFIX if entry is None else _fitting(request, entry)
        if request.conversation:
            prefix = longer_prefix(request, protocol, quirks, prefix)
            self._keep(key, prefix, request.tools)
        return encode_body(request, protocol, quirks, prefix)

    def forget(self, conversation: str) -> None:
        """Something of this conversation was deleted."""
        for key in [key for key in self._entries if key.conversation == conversation]:
            self.size -= self._entries.pop(key).size

    def close(self) -> None:
        """Let go of everything."""
        self._entries.clear()
        self.size = 0
        if self._sweep is not None:
            self._sweep.cancel()

    def _keep(self, key: _Key, prefix: EncodedPrefix, tools: tuple[ToolSpec, ...]) -> None:
        if (old := self._entries.pop(key, None)) is not None:
            self.size -= old.size
        if prefix.raw is None:
            prefix = _NOT_SHARED
        if prefix != NO_PREFIX:
            entry = _Entry(prefix, tools, self._clock.now())
            if entry.size <= MOST_BYTES:
                self._entries[key] = entry
                self.size += entry.size
        self._let_go()

    def _let_go(self) -> None:
        """Drop the oldest, while there is too much or nobody uses it; and look again when nobody asks."""
        if not self._entries:
            return
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


def _fitting(request: ModelRequest, entry: _Entry) -> EncodedPrefix:
    """What is kept, if the request begins with it. It has the messages of the request then, so that the next
    one is quickly known to begin with the same."""
    prefix = entry.prefix
    if request.tools != entry.tools or not begins_with(request.messages, prefix.messages):
        return NO_PREFIX
    return replace(prefix, messages=request.messages[: len(prefix.messages)])
