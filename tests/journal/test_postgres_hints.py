"""What a node tells the others of its streams, as a table: many hints in few notifications, none too long."""

import msgspec
import pytest

from turnbuckle.journal.address import read_address
from turnbuckle.journal.port import Item
from turnbuckle.journal.postgres.hints import (
    GONE,
    Hint,
    hint_of,
    hint_texts,
    joined,
    read_hint,
    read_page,
)
from turnbuckle.journal.postgres.links import channel_of
from turnbuckle.journal.postgres.listener import CALLS

SECOND = 1 << 32


def rows(seq, *data):
    return [(7, seq + at, one) for at, one in enumerate(data)]


def told(hints):
    """What the others read."""
    pages = [read_page(text) for text in hint_texts(hints)]
    return {stream: read_hint(raw) for page in pages for stream, raw in page.items()}


@pytest.mark.parametrize(
    "first, second, found",
    [
        (hint_of(0, rows(1, b"a")), hint_of(1, rows(2, b"b")), (2, 0, [Item(1, b"a"), Item(2, b"b")])),
        (hint_of(0, rows(1, b"a")), hint_of(2, rows(3, b"c")), (3, 0, [])),
        (hint_of(0, rows(1, b"a")), hint_of(1, rows(SECOND + 1, b"b")), (SECOND + 1, 0, [])),
        (hint_of(0, rows(1, b"a")), Hint(2), (2, 0, [])),
        (Hint(2), hint_of(2, rows(3, b"c")), (3, 0, [])),
        (hint_of(0, rows(1, b"a" * 1500)), hint_of(1, rows(2, b"b" * 1500)), (2, 0, [])),
        (hint_of(0, rows(1, b"a")), Hint(GONE), (GONE, 0, [])),
        (Hint(GONE), hint_of(0, rows(1, b"a")), (GONE, 0, [])),
    ],
    ids=[
        "next",
        "a gap",
        "another epoch",
        "a number",
        "after a number",
        "too much",
        "dropped",
        "stays dropped",
    ],
)
def test_two_hints_of_a_stream_become_one(first, second, found):
    assert told({"run": joined(first, second)}) == {"run": found}


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe", b"x" * 2001, b"\0" * 2000],
    ids=["no text", "too long", "too long in a notification"],
)
def test_what_a_notification_cannot_carry_is_only_announced(data):
    assert told({"run": hint_of(4, rows(5, data))}) == {"run": (5, 0, [])}


def test_many_hints_are_few_notifications_and_none_is_too_long():
    hints = {f"run-ä{at}": hint_of(at, rows(at + 1, b'{"a": "\\n\xc3\xa4"}' * 20)) for at in range(60)}
    texts = hint_texts({**hints, "x" * 9000: Hint(1)})
    assert all(len(text.encode()) < 8000 for text in texts)
    assert 1 < len(texts) < 20
    read = told(hints)
    assert {name: read[name][2][0].data for name in hints} == {name: hints[name].data[0] for name in hints}


def test_a_stream_whose_name_has_many_bytes_is_announced_all_the_same():
    name = "ä" * 600
    assert told({name: hint_of(4, rows(5, b"\0" * 1000))}) == {name: (5, 0, [])}


def test_the_channels_of_the_longest_schema_are_no_longer_than_a_name_may_be():
    channels = {
        channel_of(read_address(f"postgresql://host/db?schema={schema}")) + CALLS
        for schema in ("s", "x" * 46, "x" * 47, "x" * 48, "x" * 47 + "y")
    }
    assert len(channels) == 5
    assert max(map(len, channels)) <= 63


def test_a_hint_that_nobody_can_read_is_told_as_that():
    with pytest.raises(msgspec.DecodeError):
        read_page("work")
    with pytest.raises(msgspec.DecodeError):
        read_hint(msgspec.Raw(b'"words"'))
