"""A JSON array that arrives in pieces: each of its objects is a frame as soon as it is whole."""

import re

from turnbuckle.wire.sse import MAX_EVENT, Frame, Overflow

_TOKEN = re.compile(rb'\\.|["\\{}\[\]]', re.DOTALL)


class ArrayDecoder:
    """`feed` bytes, get frames. Never raises; after an overflow it stays silent and `overflow` says why.

    It only finds where objects begin and end. Whether they are JSON is seen by whoever reads them."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self.overflow: Overflow | None = None
        self._max_event = max_event
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last byte was a backslash
        self._kept: list[bytes] = []  # of the object that is open
        self._kept_size = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        frames: list[Frame] = []
        start = 0  # of the open object in this chunk
        skip = 1 if self._escaped and chunk else 0
        self._escaped = self._escaped and not chunk
        for token in _TOKEN.finditer(chunk, skip):
            byte = token[0][:1]
            if byte == b"\\":
                self._escaped = len(token[0]) == 1
            elif byte == b'"':
                self._in_string = not self._in_string
            elif self._in_string:
                continue
            elif byte in b"{[":
                if self._depth == 1 and byte == b"{":
                    start = token.start()
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 1 and byte == b"}":
                    frames.append((b"", b"".join((*self._kept, chunk[start : token.end()]))))
                    self._kept, self._kept_size = [], 0
        if self._depth > 1:
            self._keep(chunk[start:])
        return frames if self.overflow is None else []

    def rest(self) -> bytes:
        """What is open."""
        return b"".join(self._kept)

    def _keep(self, piece: bytes) -> None:
        self._kept.append(piece)
        self._kept_size += len(piece)
        if self._kept_size > self._max_event:
            self.overflow = Overflow("event", self._max_event)
            self._kept = []
