"""Every way in which a transcript can be cut, and a runner that tries them all.

Theory of operation. A transcript is the bytes of one body. It is decoded whole once. Then one decoder gets it
byte by byte. At each byte it is closed by each kind of end and put back to what it was, so that the cost
grows with the length and not with its square. Nearly always the events are the first events of the whole plus
a last word, which one comparison of lists proves to be right; only the others are examined in full. An end
that gives what it gave a byte before is not examined again. Some cuts are also given to a fresh decoder, in
one read, which must say the same.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from turnbuckle.testing.rewind import Snapshot
from turnbuckle.testing.stream_invariants import check_cut, check_stream
from turnbuckle.vocab.events import Cut, Event
from turnbuckle.vocab.failure import Failure, failure

EndKind = Literal["tidy", "reset", "incomplete", "stalled", "cancelled"]
ENDS: tuple[EndKind, ...] = ("tidy", "reset", "incomplete", "stalled", "cancelled")

_BROKEN: dict[EndKind, Failure | None] = {
    "tidy": None,
    "reset": failure("reset", "the connection was reset"),
    "incomplete": failure("incomplete", "the body ended without its terminator"),
    "stalled": failure("stalled", "nothing arrived in time", clock="gap"),
    "cancelled": failure("cancelled", "we closed the stream"),
}
_MAX_PROBLEMS = 20
_AFRESH = 97
"""One cut of so many is decoded by a new decoder too. A prime, so that each kind of end has its turn."""


class Decoder(Protocol):
    """What is cut: anything that takes bytes and gives events, such as `ReplyDecoder`."""

    def feed(self, chunk: bytes) -> list[Event]: ...

    def close(self, broken: Failure | None = None) -> list[Event]: ...


MakeDecoder = Callable[[], Decoder]
Check = Callable[["CutPoint", Sequence[Event], Sequence[Event]], Iterable[str]]
"""A check of one's own: the cut, the events of the whole, the events of the cut; gives sentences that are
problems."""


class CutPoint(Struct, frozen=True):
    """The first `at` bytes arrive, then this end."""

    at: int
    end: EndKind


class CutReport(Struct, frozen=True):
    """What trying all cuts of one transcript found. No problems: it held each time."""

    tried: int
    problems: tuple[str, ...] = ()


class DecoderRaisedError(Exception):
    """A decoder raised, which none may do whatever the bytes. The message says at which cut."""


def broken_by(end: EndKind) -> Failure | None:
    """What a decoder is told at such an end; None for a tidy one."""
    return _BROKEN[end]


def every_cut(data: bytes, ends: Sequence[EndKind] = ENDS) -> Iterator[CutPoint]:
    """Each byte with each end, from nothing at all to everything but with this end."""
    for at in range(len(data) + 1):
        for end in ends:
            yield CutPoint(at, end)


def splits(data: bytes, seed: int = 0, n: int = 8) -> Iterator[list[bytes]]:
    """The same bytes in different reads: whole, byte by byte, and `n` times cut at random."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    dice = random.Random(seed)
    for _ in range(n):
        count = dice.randint(0, min(len(data), 40))
        places = sorted(dice.randint(0, len(data)) for _ in range(count))
        yield [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]


def decode_all(make_decoder: MakeDecoder, chunks: Iterable[bytes], end: EndKind = "tidy") -> list[Event]:
    """All events of one body that arrives in these chunks and ends so."""
    decoder = make_decoder()
    events: list[Event] = []
    for chunk in chunks:
        events += decoder.feed(chunk)
    events += decoder.close(_BROKEN[end])
    return events


def try_every_split(make_decoder: MakeDecoder, data: bytes, *, seed: int = 0, n: int = 8) -> CutReport:
    """However the bytes are split, the events are the same."""
    whole = decode_all(make_decoder, [data])
    problems: list[str] = []
    tried = 0
    for chunks in splits(data, seed, n):
        tried += 1
        if decode_all(make_decoder, chunks) != whole:
            sizes = [len(chunk) for chunk in chunks]
            problems.append(f"other events when split into {len(sizes)} reads of {sizes[:40]} bytes")
    return CutReport(tried, tuple(problems[:_MAX_PROBLEMS]))


def try_every_cut(
    make_decoder: MakeDecoder,
    data: bytes,
    *,
    ends: Sequence[EndKind] = ENDS,
    end_is_terminal: bool = False,
    check: Check | None = None,
) -> CutReport:
    """Cut the transcript everywhere and hold each result against the invariants, and against `check` if
    given.

    `end_is_terminal`: a tidy end is this transcript's own terminal event, so an early one cannot be told
    from it.
    """
    whole = decode_all(make_decoder, [data])
    problems = [f"the whole: {problem}" for problem in check_stream(whole)]
    sound: dict[EndKind, list[Event]] = {}
    tried = 0
    for cut, events in _each_cut(make_decoder, data, ends):
        tried += 1
        if tried % _AFRESH == 0 and decode_all(make_decoder, [data[: cut.at]], cut.end) != events:
            problems.append(f"{cut}: other events in one read than byte by byte")
        if sound.get(cut.end) is not events:
            found = _examine(whole, events, end_is_terminal=end_is_terminal)
            problems += [f"{cut}: {problem}" for problem in found]
            if not found:
                sound[cut.end] = events
        if check is not None:
            problems += [f"{cut}: {problem}" for problem in check(cut, whole, events)]
    return CutReport(tried, tuple(problems[:_MAX_PROBLEMS]))


def _each_cut(
    make_decoder: MakeDecoder, data: bytes, ends: Sequence[EndKind]
) -> Iterator[tuple[CutPoint, list[Event]]]:
    """Every cut with its events. One decoder reads the whole; what an end changed in it is put back. Where an
    end gives what it gave a byte before, the events are the very same list."""
    decoder = make_decoder()
    before = Snapshot(decoder)
    shown: list[Event] = []
    last_words: dict[EndKind, tuple[list[Event], list[Event]]] = {}
    for at in range(len(data) + 1):
        cut = CutPoint(at, ends[0])
        try:
            if at:
                if new := decoder.feed(data[at - 1 : at]):
                    shown += new
                    last_words.clear()
                before.renew()
            for end in ends:
                cut = CutPoint(at, end)
                closing = decoder.close(_BROKEN[end])
                before.restore()
                known, events = last_words.get(end, (None, shown))
                if closing != known:
                    events = shown + closing
                    last_words[end] = closing, events
                yield cut, events
        except Exception as error:
            raise DecoderRaisedError(f"{cut} raised {error!r}") from error


def _examine(whole: list[Event], events: list[Event], *, end_is_terminal: bool) -> list[str]:
    """What is wrong with the events of a cut."""
    if _is_plain_prefix(whole, events):
        return []
    return [*check_stream(events), *check_cut(whole, events, end_is_terminal=end_is_terminal)]


def _is_plain_prefix(whole: list[Event], events: list[Event]) -> bool:
    """The first events of the whole and then `Cut`: sound if the whole is."""
    count = len(events) - 1
    return (
        count >= 0
        and count < len(whole)
        and isinstance(events[count], Cut)
        and events[:count] == whole[:count]
    )
