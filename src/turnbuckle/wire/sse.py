"""Server-sent events, by bytes, as they come.

Theory of operation. Line ends are made LF first (a CR is an end at once; an LF that follows it in the next
chunk is dropped), so there is one path for all spellings. Bytes are kept until a blank line closes an event;
only complete events are looked into, so nothing is scanned twice and any split of the input gives the same
frames. What is left at the end of the body was never dispatched and is only good for diagnosis.

A frame is `(name, data)`. `data` is None for signs of life: comments, and events without data, which the
standard does not dispatch but which prove that the peer is there.
"""

from itertools import repeat
from operator import itemgetter

from msgspec import Struct

Frame = tuple[bytes, bytes | None]

COMMENT: Frame = (b"comment", None)
EMPTY: Frame = (b"empty", None)

# One whole tool call can be a single event (Gemini, Ollama), and so can a picture; real ones stay far below.
MAX_LINE = 16 * 1024 * 1024
MAX_EVENT = 16 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_data_of = itemgetter(1)


class Overflow(Struct, frozen=True):
    """A line or an event over its cap. Nothing is read after it."""

    what: str
    limit: int


class SseDecoder:
    """`feed` bytes, get frames. Never raises; after an overflow it stays silent and `overflow` says why."""

    def __init__(self, max_line: int = MAX_LINE, max_event: int = MAX_EVENT) -> None:
        self.overflow: Overflow | None = None
        self._max_line = max_line
        self._max_event = max_event
        self._kept: list[bytes] = []  # pieces of the event that is still open
        self._kept_size = 0
        self._line_size = 0  # of its last, open line
        self._ends_in_newline = False
        self._after_cr = False
        self._short = min(max_line, max_event)  # what is no longer than this needs no closer look
        self._settled = False  # nothing is kept and nothing is pending
        self._bom: bytes | None = b""  # None: the start of the stream is behind us

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._settled and chunk[-2:] == b"\n\n" and b"\r" not in chunk and len(chunk) <= self._short:
            # The usual read of a paced stream: one whole event.
            if chunk[:6] == b"data: ":
                if chunk.count(b"\n") == 2 and len(chunk) > 8:
                    return [(b"", chunk[6:-2])]
            elif chunk[:7] == b"event: " and chunk.count(b"\n") == 3:
                name, _, data = chunk[7:-2].partition(b"\ndata: ")
                if data:
                    return [(name, data)]
        frames = self._feed(chunk)
        self._settled = not (self._kept or self._after_cr or self.overflow or self._bom is not None)
        return frames

    def _feed(self, chunk: bytes) -> list[Frame]:
        if self._bom is not None:
            chunk = self._strip_bom(chunk)
        if self._after_cr or b"\r" in chunk:
            chunk = self._unify_line_ends(chunk)
        if not self._kept and chunk[:1] == b"\n":
            chunk = chunk.lstrip(b"\n")  # blank lines between events mean nothing
        if not chunk or self.overflow is not None:
            return []
        kept = self._kept
        if b"\n\n" not in chunk and not (self._ends_in_newline and chunk[:1] == b"\n"):
            self._keep(chunk)
            return []
        if kept:
            kept.append(chunk)
            chunk = b"".join(kept)
            self._kept = []
            self._kept_size = self._line_size = 0
            self._ends_in_newline = False
        end = chunk.rfind(b"\n\n")
        frames = self._frames(chunk[:end])
        rest = chunk[end + 2 :]
        if rest and self.overflow is None:
            self._keep(rest)
        return frames

    def rest(self) -> bytes:
        """The bytes of an event that was never closed."""
        return b"".join(self._kept)

    def _frames(self, text: bytes) -> list[Frame]:
        limit = self._short
        if len(text) <= limit and text[:6] == b"data: ":
            # The usual burst: nothing but one-line data events. Two looks at all of it prove that.
            pieces = text[6:].split(b"\n\ndata: ")
            if text.count(b"\n") == 2 * len(pieces) - 2 and all(pieces):
                return list(zip(repeat(b""), pieces))
        elif len(text) <= limit and text[:7] == b"event: ":
            # The same with names: n events have n - 1 blank lines and n line ends inside. Mostly all have the
            # same name.
            first, _, rest = text[7:].partition(b"\ndata: ")
            pieces = rest.split(b"\n\nevent: %b\ndata: " % first)
            if text.count(b"\n") == 3 * len(pieces) - 2 and all(pieces):
                return list(zip(repeat(first), pieces))
            pieces = text[7:].split(b"\n\nevent: ")
            if text.count(b"\n") == 3 * len(pieces) - 2:
                named = [(name, data) for name, _, data in [piece.partition(b"\ndata: ") for piece in pieces]]
                if all(map(_data_of, named)):
                    return named  # type: ignore[return-value]
        frames: list[Frame] = []
        for block in text.split(b"\n\n"):
            if len(block) > limit and self._is_too_large(block):
                break
            if block[:6] == b"data: ":
                if b"\n" not in block and len(block) > 6:
                    frames.append((b"", block[6:]))
                    continue
            elif block[:7] == b"event: ":
                line_end = block.find(b"\n", 7)
                data_at = line_end + 7
                if (
                    block[line_end + 1 : data_at] == b"data: "
                    and block.find(b"\n", data_at) < 0 < len(block) - data_at
                ):
                    frames.append((block[7:line_end], block[data_at:]))
                    continue
            _read_lines(block, frames)
        return frames

    def _keep(self, piece: bytes) -> None:
        self._kept.append(piece)
        self._kept_size += len(piece)
        newline = piece.rfind(b"\n")
        longest = self._line_size + (len(piece) if newline < 0 else piece.find(b"\n"))
        self._line_size = longest if newline < 0 else len(piece) - newline - 1
        self._ends_in_newline = newline == len(piece) - 1
        if newline >= 0 and len(piece) > self._max_line:
            longest = max(longest, *map(len, piece.split(b"\n")))
        if longest > self._max_line or self._line_size > self._max_line or self._kept_size > self._max_event:
            self._is_too_large(b"".join(self._kept))

    def _is_too_large(self, event: bytes) -> bool:
        """Note which cap the event runs over first, byte by byte, so that the split does not matter. Line
        ends at its end do not count: the next byte may turn out to close it."""
        event = event.strip(b"\n")
        start = 0
        for line in event.split(b"\n"):
            if len(line) > self._max_line and start + self._max_line < self._max_event:
                self._note_overflow("line", self._max_line)
                return True
            start += len(line) + 1
        if len(event) > self._max_event:
            self._note_overflow("event", self._max_event)
        return self.overflow is not None

    def _note_overflow(self, what: str, limit: int) -> None:
        self.overflow = Overflow(what, limit)
        self._kept = []
        self._kept_size = 0

    def _unify_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _strip_bom(self, chunk: bytes) -> bytes:
        head = (self._bom or b"") + chunk
        if len(head) < 3 and _BOM.startswith(head):
            self._bom = head
            return b""
        self._bom = None
        return head[3:] if head[:3] == _BOM else head


def _read_lines(block: bytes, frames: list[Frame]) -> None:
    """One event by the book: any field, any order, several data lines."""
    name = b""
    data: list[bytes] = []
    fields = False
    for line in block.split(b"\n"):
        if not line:
            continue
        field, colon, value = line.partition(b":")
        if colon and not field:
            frames.append(COMMENT)
            continue
        if value[:1] == b" ":
            value = value[1:]
        fields = True
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    text = b"\n".join(data)
    if text:
        frames.append((name, text))
    elif fields:
        frames.append(EMPTY)


def frame(data: bytes, name: str = "") -> bytes:
    """One event in the subset that every known client reads: LF, one data line, no id, no retry.

    `data` must be one line; JSON as msgspec writes it always is.
    """
    if name:
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data)
    return b"data: %b\n\n" % data


def comment(text: str = "keepalive") -> bytes:
    """A sign of life that no client takes for content."""
    return b": %b\n\n" % text.replace("\r", " ").replace("\n", " ").encode()


DONE = b"data: [DONE]\n\n"


def drained(frames: list[bytes]) -> bytes:
    """All frames that wait to be sent, of which none waits any more."""
    written = frames[0] if len(frames) == 1 else b"".join(frames)
    frames.clear()
    return written
