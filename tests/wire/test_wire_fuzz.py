"""Bytes that nobody should send: decoders never raise, always end, and hold no more than their caps."""

import random
import tracemalloc
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire.transcript_files import ALL, transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.testing.cut_points import decode_all
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.decoder import DecoderLimits

_PIECES = st.sampled_from(
    [b"data: ", b"data:", b"event: ", b"\n\n", b"\n", b"\r", b"\r\n", b": x", b"{", b"}", b"[DONE]", b'"type":', b'"choices":[',
     b'"delta":', b'"error":', b"null", b'"\\ud83d"', b"\xff", b"\xef\xbb\xbf", b"<html>", b"[", b"]", b",", b"1e999", b'"index":0']
)  # fmt: skip


def _mutants(data, dice, count):
    """The transcript with bytes changed, dropped, doubled, or whole frames moved."""
    for _ in range(count):
        body = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(body))
            match dice.randrange(5):
                case 0:
                    body[at] = dice.randrange(256)
                case 1:
                    del body[at : at + dice.randint(1, 40)]
                case 2:
                    body[at:at] = bytes(
                        dice.choices(b'{}[]":,\\0123456789nulltruefalse\n\r', k=dice.randint(1, 8))
                    )
                case 3:
                    body[at:at] = body[at : at + dice.randint(1, 200)]
                case 4:
                    frames = bytes(body).split(b"\n\n")
                    dice.shuffle(frames)
                    body = bytearray(b"\n\n".join(frames))
            body = body or bytearray(b"\n")
        yield bytes(body)


def _check(protocol, data, chunks):
    events = decode_all(partial(open_answer, protocol), chunks)
    assert check_stream(events) == (), data
    reply = fold(events)
    found = verdict(reply)
    assert not (isinstance(reply.last, Cut) and found.calls), data


@pytest.mark.parametrize("protocol, path", ALL, ids=[f"{protocol}-{path.name}" for protocol, path in ALL])
@pytest.mark.requirement("B1")
def test_a_mutated_transcript_never_raises_and_never_breaks_an_invariant(protocol, path, record_property):
    data = path.read_bytes()
    dice = random.Random(path.name)
    tried = 0
    for mutant in _mutants(data, dice, 150):
        tried += 1
        _check(protocol, mutant, [mutant])
    record_property("mutants tried", tried)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@given(pieces=st.lists(st.one_of(st.binary(max_size=20), _PIECES), max_size=40))
@settings(max_examples=150)
def test_random_bytes_never_raise_and_have_one_last_word(protocol, pieces):
    _check(protocol, pieces, pieces)


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_deeply_nested_frame_is_survived(protocol):
    for depth in (100, 900, 100_000):
        body = b"data: " + b'{"error":' * depth + b"1" + b"}" * depth + b"\n\n"
        _check(protocol, body, [body])
        body = b'{"a":' + b"[" * depth
        _check(protocol, body, [body])


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"data: " + b"x" * 1000, id="one line without end"),
        pytest.param(b"data: x\n", id="one event without end"),
        pytest.param(b'{"choices":"' + b"x" * 1000, id="one JSON answer without end"),
        pytest.param(b"<html>" + b"x" * 1000, id="one page without end"),
        pytest.param(b": keepalive\n\n", id="comments forever"),
        pytest.param(b"\n", id="blank lines forever"),
    ],
)
def test_memory_stays_below_the_caps_whatever_arrives(protocol, endless):
    limits = DecoderLimits(line=100_000, event=100_000, payload=200_000, error=10_000)
    decoder = open_answer(protocol, limits=limits)
    decoder.feed(endless)
    tracemalloc.start()
    for _ in range(3_000_000 // len(endless) if len(endless) > 20 else 40_000):
        decoder.feed(endless)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 400_000


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_reply_without_end_is_cut_at_its_cap(protocol):
    for path in transcripts(protocol):
        if path.suffix != ".sse":
            continue
        body = path.read_bytes().lstrip(b" \t\r\n\xef\xbb\xbf")  # what precedes a body is not held
        lines = _lines_before_the_last_word(open_answer(protocol), body)
        size, _ = _read_by_bytes(open_answer(protocol), body, at_once=lines)
        for cap in (1, size // 2, size - 2):
            limited = open_answer(protocol, limits=DecoderLimits(payload=cap))
            read, last = _read_by_bytes(limited, body, at_once=cap - 1)
            assert isinstance(last, Cut), path.name
            assert (read, last.failure.kind) == (cap + 1, "oversize"), path.name


def _lines_before_the_last_word(decoder, body):
    """How many bytes the lines have in front of the one that brings the last word."""
    read = 0
    for line in body.splitlines(keepends=True):
        decoder.feed(line)
        if decoder.last is not None:
            break
        read += len(line)
    return read


def _read_by_bytes(decoder, body, at_once):
    """How many bytes were read up to the last word, and that word. The first of them may come together."""
    decoder.feed(body[:at_once])
    if decoder.last is not None:
        return at_once, decoder.last
    for count in range(at_once + 1, len(body) + 1):
        decoder.feed(body[count - 1 : count])
        if decoder.last is not None:
            return count, decoder.last
    decoder.close()
    return len(body), decoder.last
