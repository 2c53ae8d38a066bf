"""One body, whatever it turns out to be, becomes events with exactly one last word.

The body itself decides how it is read, the headers only hint: an error status is collected and classified; a
body that begins like JSON or a page is read whole at its end, also where a stream was expected; anything else
is an event stream. What a frame means is the business of the protocol's decoder.
"""

from collections.abc import Mapping
from typing import Literal
from typing import Protocol as Interface

from msgspec import Struct

from turnbuckle.vocab.events import Alive, Cut, Ended, Event, LastWord
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.wire import failures
from turnbuckle.wire.json_array import ArrayDecoder
from turnbuckle.wire.payload import Mender, Unreadable, read_any, sample
from turnbuckle.wire.sse import COMMENT, EMPTY, MAX_EVENT, MAX_LINE, Frame, SseDecoder

_BLANK = b" \t\r\n\xef\xbb\xbf"
ALIVE: dict[bytes, Event] = {COMMENT[0]: Alive("comment"), EMPTY[0]: Alive("empty")}
"""What a frame without data says, by its name."""


HOLE = failure("garbage", "an event could not be read, and what it held is missing behind what was shown")
"""Why a stream with a hole in it is cut."""

EndKind = Literal["", "reason", "bare", "blank"]
"""How a stream said that it is over: with a reason; by its end mark alone, behind a text that ends like one
or behind nothing; or in no way that tells hosts apart."""


class DecoderLimits(Struct, frozen=True):
    """Caps on what one reply may make us hold. The numbers leave room for the largest real replies:
    128,000 tokens are about half a megabyte of text and two of it as JSON frames."""

    line: int = MAX_LINE
    event: int = MAX_EVENT
    payload: int = 64 * 1024 * 1024
    """All bytes of one reply together."""
    error: int = 256 * 1024
    """An error body; the rest of it is not read."""


_USUAL = DecoderLimits()


class ProtocolDecoder(Interface):
    """What one protocol adds: how to read a frame, a whole answer, and the end of the body."""

    loose: bool
    """A frame had to be read by the slow path, so texts may hold surrogate halves from now on."""

    end_kind: EndKind
    """Known with the last word."""

    reads_arrays: bool
    """A body that is a JSON array is a stream too: each of its objects is a frame."""

    def frames(self, batch: list[Frame], out: list[Event]) -> LastWord | None:
        """Read frames into `out`, up to the one that ends the stream: its last word. Never raises.

        It takes a burst, because a call per frame would cost as much as reading it."""

    def answer(self, document: object, out: list[Event]) -> LastWord:
        """Read a plain JSON answer into `out`. Never raises."""

    def end(self, out: list[Event]) -> LastWord:
        """The body ended tidily without a last word: what that means here."""

    def cut(self, out: list[Event]) -> None:
        """The stream is cut: emit what is safely known and nothing that is held back."""


class ReplyDecoder:
    """`feed` bytes and `close` once. No exception, one last word, nothing after it."""

    def __init__(
        self,
        protocol: ProtocolDecoder,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        limits: DecoderLimits | None = None,
    ) -> None:
        self.last: LastWord | None = None
        self._protocol = protocol
        self._status = status
        self._headers = headers or {}
        self._limits = limits or _USUAL
        self._framer: SseDecoder | ArrayDecoder = SseDecoder(self._limits.line, self._limits.event)
        self._mode = "error" if status >= 400 else ""  # then "stream" or "document"
        self._body: list[bytes] = []
        self._size = 0
        self._framed = False
        self._mender = Mender()

    @property
    def end_kind(self) -> EndKind:
        """How the stream said that it is over."""
        return self._protocol.end_kind

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete."""
        if self.last is not None:
            return []
        if self._mode != "stream":
            return self._feed_unsure(chunk)
        out: list[Event] = []
        protocol = self._protocol
        frames = self._framer.feed(chunk)
        if frames:
            self._framed = True
        last = protocol.frames(frames, out)
        if protocol.loose:
            self._mender.mend(out, 0)
        if last is not None:
            return self._end_with(last, out)
        self._size += len(chunk)
        if self._size > self._limits.payload:
            return self._oversize("reply", self._limits.payload, out)
        overflow = self._framer.overflow
        if overflow is not None:
            return self._oversize(overflow.what, overflow.limit, out)
        return out

    def close(self, broken: Failure | None = None) -> list[Event]:
        """The body is over: tidily, or broken by a failure of the transport (or of our own clocks)."""
        if self.last is not None:
            return []
        out: list[Event] = []
        if self._mode == "error":
            said = failures.from_response(self._status, self._lower_headers(), b"".join(self._body))
            return self._end_with(Cut(said), out)
        if self._mode == "document":
            return self._close_document(broken, out)
        if broken is not None:
            return self._end_with(Cut(broken), out)
        if self._mode == "":
            return self._end_with(Cut(failure("incomplete", "the body was empty")), out)
        if not self._framed and (rest := self._framer.rest()):
            said = failure("garbage", "the body is not an event stream", said=sample(rest))
            return self._end_with(Cut(said), out)
        last = self._protocol.end(out)
        if self._protocol.loose:
            self._mender.mend(out, 0)
        return self._end_with(last, out)

    def _feed_unsure(self, chunk: bytes) -> list[Event]:
        if self._mode == "":
            begun = chunk.lstrip(_BLANK)
            if not begun:
                return []  # blank lines before a JSON answer are some servers' keepalive
            is_array = begun[:1] == b"[" and self._protocol.reads_arrays
            if is_array:
                self._framer = ArrayDecoder(self._limits.event)
            if is_array or begun[:1] not in b'{[<"':
                self._mode = "stream"
                return self.feed(begun)
            self._mode = "document"
            chunk = begun
        if self._mode == "error":
            room = self._limits.error - self._size
            chunk = chunk[: max(room, 0)]
        elif self._size + len(chunk) > self._limits.payload:
            return self._oversize("answer", self._limits.payload, [])
        self._body.append(chunk)
        self._size += len(chunk)
        return []

    def _close_document(self, broken: Failure | None, out: list[Event]) -> list[Event]:
        body = b"".join(self._body)
        if body[:1] == b"<":
            page = failure("garbage", "a page arrived where an answer was expected", said=sample(body))
            return self._end_with(Cut(broken or page), out)
        try:
            document = read_any(body)
        except Unreadable as error:
            text = f"the body began like JSON but is not whole: {error}"
            return self._end_with(Cut(broken or failure("incomplete", text, said=sample(body))), out)
        return self._end_with(self._protocol.answer(document, out), out)

    def _lower_headers(self) -> dict[str, str]:
        """Only a reply that is cut needs them."""
        return {name.lower(): value for name, value in self._headers.items()}

    def _oversize(self, what: str, limit: int, out: list[Event]) -> list[Event]:
        return self._end_with(Cut(failure("oversize", f"{what} of more than {limit} bytes")), out)

    def _end_with(self, last: LastWord, out: list[Event]) -> list[Event]:
        if not isinstance(last, Ended):
            self._protocol.cut(out)
            last = Cut(failures.with_request_id(last.failure, self._lower_headers()))
        self.last = last
        self._body = []
        out.append(last)
        return out
