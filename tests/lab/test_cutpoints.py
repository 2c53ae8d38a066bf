"""The enumerator tries every byte with every end, and tells what it found."""

from collections.abc import Sequence

import pytest

from turnbuckle.testing.cut_points import (
    ENDS,
    CutPoint,
    DecoderRaisedError,
    broken_by,
    decode_all,
    every_cut,
    splits,
    try_every_cut,
    try_every_split,
)
from turnbuckle.vocab.events import Cut, Ended, Event, TextDelta
from turnbuckle.vocab.failure import Failure, failure

DATA = "Grüße\nan\nalle\n.\n".encode()


class LineDecoder:
    """A tiny honest protocol: each line is text, a lone full stop ends the stream."""

    def __init__(self) -> None:
        self._kept = b""
        self._over = False

    def feed(self, chunk: bytes) -> list[Event]:
        *lines, self._kept = (self._kept + chunk).split(b"\n")
        events: list[Event] = []
        for line in lines:
            if not self._over:
                self._over = line == b"."
                events.append(Ended(".") if self._over else TextDelta(0, line.decode("utf-8", "replace")))
        return events

    def close(self, broken: Failure | None = None) -> list[Event]:
        return [] if self._over else [Cut(broken or failure("incomplete", "no full stop"))]


class HopefulDecoder(LineDecoder):
    """Takes a tidy end for a finish, as many clients do."""

    def close(self, broken: Failure | None = None) -> list[Event]:
        return [Ended("end of body")] if not self._over and broken is None else super().close(broken)


class HastyDecoder(LineDecoder):
    """Shows each read at once, so that half a character becomes a wrong one."""

    def feed(self, chunk: bytes) -> list[Event]:
        return [TextDelta(0, chunk.decode("utf-8", "replace"))] if chunk else []


class FragileDecoder(LineDecoder):
    def feed(self, chunk: bytes) -> list[Event]:
        chunk.decode()
        return super().feed(chunk)


def test_every_byte_is_cut_by_every_end() -> None:
    cuts = list(every_cut(b"abc"))
    assert len(cuts) == 4 * len(ENDS)
    assert cuts[0] == CutPoint(0, "tidy")
    assert cuts[-1] == CutPoint(3, "cancelled")
    assert len(set(cuts)) == len(cuts)


def test_every_end_but_the_tidy_one_is_a_failure_of_its_own_kind() -> None:
    told = {end: broken_by(end) for end in ENDS}
    assert told.pop("tidy") is None
    assert {end: said.kind for end, said in told.items() if said} == {end: end for end in told}


def test_splits_give_the_same_bytes_and_the_same_splits_each_time() -> None:
    made = list(splits(DATA, seed=7, n=20))
    assert made == list(splits(DATA, seed=7, n=20))
    assert made[0] == [DATA]
    assert made[1] == [bytes([byte]) for byte in DATA]
    assert all(b"".join(chunks) == DATA for chunks in made)
    assert len(made) == 22


def test_an_honest_decoder_passes_every_cut_and_every_split() -> None:
    report = try_every_cut(LineDecoder, DATA)
    assert report.problems == ()
    assert report.tried == (len(DATA) + 1) * len(ENDS)
    assert try_every_split(LineDecoder, DATA).problems == ()


def test_a_decoder_that_takes_silence_for_success_is_found() -> None:
    report = try_every_cut(HopefulDecoder, DATA, ends=("tidy",))
    assert any("less than the whole" in problem for problem in report.problems)


def test_a_decoder_that_depends_on_the_reads_is_found() -> None:
    assert try_every_split(HastyDecoder, DATA).problems
    assert any(
        "not how the whole text begins" in problem for problem in try_every_cut(HastyDecoder, DATA).problems
    )


def test_a_decoder_that_raises_is_named_with_the_cut() -> None:
    with pytest.raises(DecoderRaisedError, match=r"CutPoint\(at=3, end='tidy'\)"):
        try_every_cut(FragileDecoder, DATA)


def test_any_further_check_can_be_given() -> None:
    def no_umlauts(cut: CutPoint, whole: Sequence[Event], events: Sequence[Event]) -> list[str]:
        return ["an umlaut" for event in events if isinstance(event, TextDelta) and "ü" in event.text]

    assert any(
        "an umlaut" in problem for problem in try_every_cut(LineDecoder, DATA, check=no_umlauts).problems
    )


def test_decoding_gives_all_events_and_the_end() -> None:
    events = decode_all(LineDecoder, [DATA[:9]], "stalled")
    assert events[0] == TextDelta(0, "Grüße")
    assert isinstance(events[-1], Cut)
    assert events[-1].failure.clock == "gap"
