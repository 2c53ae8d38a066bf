"""Framing of server-sent events: the standard's rules, however the bytes are split, and never more than the caps."""

import json
import re
from itertools import product

import msgspec
import pytest

from turnbuckle.wire.sse import COMMENT, DONE, EMPTY, Overflow, SseDecoder, comment, frame

MESSAGES = [
    pytest.param("data: a\n\n", [(b"", b"a")], id="one line of data"),
    pytest.param("data: a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")], id="two events"),
    pytest.param("data:a\n\n", [(b"", b"a")], id="no space behind the colon"),
    pytest.param("data:  a \n\n", [(b"", b" a ")], id="only one space is dropped"),
    pytest.param("event: x\ndata: a\n\n", [(b"x", b"a")], id="a name"),
    pytest.param("event:x\ndata:a\n\n", [(b"x", b"a")], id="a name without spaces"),
    pytest.param("data: a\nevent: x\n\n", [(b"x", b"a")], id="a name behind the data"),
    pytest.param("event: x\nevent: y\ndata: a\n\n", [(b"y", b"a")], id="the last name wins"),
    pytest.param(
        "event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")], id="a name holds for one event"
    ),
    pytest.param("event: x\n\ndata: b\n\n", [EMPTY, (b"", b"b")], id="a name without data is forgotten"),
    pytest.param("data: a\ndata: b\n\n", [(b"", b"a\nb")], id="several data lines"),
    pytest.param("data: a\ndata:\ndata: b\n\n", [(b"", b"a\n\nb")], id="an empty line among the data"),
    pytest.param("event: x\ndata: a\ndata: b\n\n", [(b"x", b"a\nb")], id="a name and several data lines"),
    pytest.param("data\n\n", [EMPTY], id="a field without a colon is empty"),
    pytest.param("data: \n\n", [EMPTY], id="empty data is not dispatched"),
    pytest.param("data: a\ndata\n\n", [(b"", b"a\n")], id="a data line without a colon adds an empty line"),
    pytest.param(": hi\n\n", [COMMENT], id="a comment"),
    pytest.param(":\n\n", [COMMENT], id="a bare colon"),
    pytest.param(": a\n: b\n\n", [COMMENT, COMMENT], id="two comments in one event"),
    pytest.param(": hi\ndata: a\n\n", [COMMENT, (b"", b"a")], id="a comment before data"),
    pytest.param("data: a\n: hi\ndata: b\n\n", [COMMENT, (b"", b"a\nb")], id="a comment among the data"),
    pytest.param("id: 7\n\n", [EMPTY], id="an id alone"),
    pytest.param("retry: 3000\n\n", [EMPTY], id="retry alone"),
    pytest.param("id: 7\nretry: 1\ndata: a\n\n", [(b"", b"a")], id="id and retry are ignored"),
    pytest.param("Data: a\n\n", [EMPTY], id="names of fields are case-sensitive"),
    pytest.param("foo: a\ndata: b\n\n", [(b"", b"b")], id="an unknown field is ignored"),
    pytest.param("data: a:b: c\n\n", [(b"", b"a:b: c")], id="only the first colon splits"),
    pytest.param(
        "\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [(b"", b"a"), (b"", b"b")], id="more blank lines than needed"
    ),
    pytest.param("data: ü😀\n\n", [(b"", "ü😀".encode())], id="characters of several bytes"),
    pytest.param(
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n",
        [(b"", "a\u2028b\u2029c\u0085d\x0be\x0cf".encode())],
        id="other line separators are text",
    ),
    pytest.param(
        "event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", [(b"a", b"1"), (b"b", b"2")], id="two named events"
    ),
    pytest.param(
        "event: a\ndata: 1\n\n: hi\n\nevent: b\ndata: 2\n\ndata: 3\n\n",
        [(b"a", b"1"), COMMENT, (b"b", b"2"), (b"", b"3")],
        id="everything mixed",
    ),
    pytest.param(
        "event: a\nid: 1\ndata: 1\n\nevent: b\n\nevent: c\ndata: 3\n\n",
        [(b"a", b"1"), EMPTY, (b"c", b"3")],
        id="named events of different sizes",
    ),
    pytest.param("data: a\n\ndata: open", [(b"", b"a")], id="an open event at the end is not dispatched"),
    pytest.param("data: a\n\ndata: open\n", [(b"", b"a")], id="nor one that lacks only its blank line"),
]
LINE_ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r"}


def _decode(chunks, **limits):
    decoder = SseDecoder(**limits)
    return [got for chunk in chunks for got in decoder.feed(chunk)], decoder


def _splits(data):
    """Whole, byte by byte, and in two at every place."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(len(data) + 1):
        yield [data[:at], data[at:]]


@pytest.mark.parametrize("line_end", LINE_ENDS.values(), ids=LINE_ENDS)
@pytest.mark.parametrize("text, frames", MESSAGES)
def test_a_stream_gives_the_same_frames_with_any_line_end_and_any_split(text, frames, line_end):
    data = text.replace("\n", line_end).encode()
    for chunks in _splits(data):
        assert _decode(chunks)[0] == frames, chunks


@pytest.mark.parametrize("text, frames", MESSAGES)
def test_a_byte_order_mark_is_dropped_wherever_it_is_split(text, frames):
    for chunks in _splits(b"\xef\xbb\xbf" + text.encode()):
        assert _decode(chunks)[0] == frames, chunks


def test_only_the_first_byte_order_mark_is_dropped():
    for chunks in _splits(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n"):
        assert _decode(chunks)[0] == [EMPTY, (b"", b"b")], chunks


def test_bytes_that_only_begin_like_a_byte_order_mark_are_kept():
    for chunks in _splits(b"\xef\xbbx: a\n\ndata: b\n\n"):
        assert _decode(chunks)[0] == [EMPTY, (b"", b"b")], chunks


def test_mixed_line_ends_are_one_stream():
    data = b"data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\rdata: e\n\n"
    for chunks in _splits(data):
        assert _decode(chunks)[0] == [(b"", b"a\nb\nc"), (b"", b"d"), (b"", b"e")], chunks


def test_invalid_utf8_passes_through_as_bytes():
    for chunks in _splits(b"data: \xff\xc3\n\ndata: b\n\n"):
        assert _decode(chunks)[0] == [(b"", b"\xff\xc3"), (b"", b"b")]


def test_what_was_never_closed_is_kept_for_diagnosis_only():
    for chunks in _splits(b"data: a\n\nevent: x\ndata: op"):
        frames, decoder = _decode(chunks)
        assert frames == [(b"", b"a")]
        assert decoder.rest() == b"event: x\ndata: op"


def test_a_comment_shows_before_the_event_that_it_stands_in_is_whole_or_not_at_all():
    decoder = SseDecoder()
    assert decoder.feed(b": one\n") == []
    assert decoder.feed(b"\n") == [COMMENT]


def _by_the_book(data):
    """The standard's algorithm, line by line, over a body that is all there."""
    frames, name, seen = [], b"", False
    lines: list[bytes] = []
    waiting: list[bytes] = []
    *whole_lines, _ = re.split(rb"\r\n|\r|\n", data)
    for line in whole_lines:
        field, colon, value = line.partition(b":")
        if not line:
            content = b"\n".join(lines)
            frames += [*waiting, *([(name, content)] if content else [EMPTY] * seen)]
            name, lines, seen, waiting = b"", [], False, []
        elif colon and not field:
            waiting.append(COMMENT)
        else:
            seen = True
            value = value.removeprefix(b" ")
            if field == b"data":
                lines.append(value)
            elif field == b"event":
                name = value
    return frames


def test_every_short_stream_is_read_as_the_standard_says():
    tokens = [b"data: a", b"data:", b"event: b", b": c", b"x", b"\n", b"\r"]
    tried = 0
    for length in range(6):
        for chosen in product(tokens, repeat=length):
            data = b"".join(chosen)
            tried += 1
            expected = _by_the_book(data)
            assert _decode([data])[0] == expected, data
            assert _decode(chosen)[0] == expected, chosen
    assert tried == sum(len(tokens) ** length for length in range(6))


# Caps

GOOD = b"data: 12\n\n"  # a line and an event of 8 bytes
TOO_MUCH = [
    pytest.param(b"data: 12345\n\n", 10, 30, Overflow("line", 10), id="a line"),
    pytest.param(b": 123456789\n\n", 10, 30, Overflow("line", 10), id="a comment"),
    pytest.param(b"data: 1\ndata: 12345\n\n", 10, 30, Overflow("line", 10), id="a second line"),
    pytest.param(b"data: 12345\ndata: 1\n\n", 10, 30, Overflow("line", 10), id="a first line"),
    pytest.param(
        b"data: 1\ndata: 2\ndata: 3\n\n", 10, 20, Overflow("event", 20), id="an event of short lines"
    ),
    pytest.param(b"data: 123456789\n\n", 20, 10, Overflow("event", 10), id="an event of one line"),
    pytest.param(b"x" * 40, 10, 30, Overflow("line", 10), id="a line that never ends"),
    pytest.param(b"data: 1\n" * 5, 10, 30, Overflow("event", 30), id="an event that never ends"),
    pytest.param(
        b"data: " + b"1" * 40 + b"\n\n", 10, 30, Overflow("line", 10), id="a line larger than an event"
    ),
    pytest.param(
        b"data: 1\ndata: 2\ndata: 1234567\n\n",
        10,
        20,
        Overflow("event", 20),
        id="an event full in its last line",
    ),
]


@pytest.mark.parametrize("line_end", LINE_ENDS.values(), ids=LINE_ENDS)
@pytest.mark.parametrize("data, line, event, expected", TOO_MUCH)
def test_what_is_over_a_cap_is_named_and_nothing_follows_it(data, line, event, expected, line_end):
    whole = (GOOD + data + GOOD).replace(b"\n", line_end.encode())
    for chunks in _splits(whole):
        frames, decoder = _decode(chunks, max_line=line, max_event=event)
        assert decoder.overflow == expected, chunks
        assert frames == [(b"", b"12")], chunks
        assert decoder.rest() == b""


@pytest.mark.parametrize("line_end", LINE_ENDS.values(), ids=LINE_ENDS)
@pytest.mark.parametrize(
    "data, line, event",
    [
        (b"data: 1234\n\n", 10, 10),
        (b"data: 1234\n\n\n\ndata: 5678\n\n", 10, 10),
        (b"data: 1\ndata: 2\n\n", 10, 15),
        (b"event: abc\ndata: 1234\n\n", 10, 21),
        (b": 12345678\n\n", 10, 10),
    ],
)
def test_what_just_fits_a_cap_passes(data, line, event, line_end):
    expected = _decode([data])[0]
    assert expected
    for chunks in _splits(data.replace(b"\n", line_end.encode())):
        frames, decoder = _decode(chunks, max_line=line, max_event=event)
        assert decoder.overflow is None, chunks
        assert frames == expected, chunks


# Writing


def test_what_is_written_is_read_back_the_same():
    data = msgspec.json.encode({"text": "a\n\r\u2028\u0085\x00 ü😀", "more": [1, None]})
    written = frame(data) + frame(data, "response.created") + comment() + comment("two\r\nlines") + DONE
    for chunks in _splits(written):
        assert _decode(chunks)[0] == [
            (b"", data),
            (b"response.created", data),
            COMMENT,
            COMMENT,
            (b"", b"[DONE]"),
        ]


def test_only_the_subset_that_every_client_reads_is_written():
    assert frame(b"{}") == b"data: {}\n\n"
    assert frame(b"{}", "x") == b"event: x\ndata: {}\n\n"
    assert comment() == b": keepalive\n\n"
    assert comment("a\nb") == b": a b\n\n"
    assert DONE == b"data: [DONE]\n\n"


def test_json_is_written_as_one_line():
    written = frame(msgspec.json.encode({"text": "a\nb\rc"}))
    assert written.count(b"\n") == 2
    assert b"\r" not in written
    assert json.loads(written[6:]) == {"text": "a\nb\rc"}


def test_an_event_of_many_short_lines_is_not_measured_again_at_each_of_them():
    data = b"data: x\n" * 100_000
    frames, decoder = _decode([data[at : at + 8] for at in range(0, len(data), 8)] + [b"\n"], max_line=64)
    assert decoder.overflow is None
    assert frames == [(b"", b"\n".join([b"x"] * 100_000))]
