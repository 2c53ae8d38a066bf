"""Damaged JSON is read as far as it can be, and no reader meets half a character."""

import msgspec
import pytest

from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallClosed,
    CallNamed,
    Ended,
    ReasoningDelta,
    StateNoted,
    TextDelta,
)
from turnbuckle.wire.payload import Mender, Unreadable, mend_all, read_any, reread, sample, whole_text

HIGH, LOW = "\ud83d", "\ude00"


class Named(msgspec.Struct):
    name: str = ""


DECODER = msgspec.json.Decoder(Named)


def _reread(data):
    try:
        return DECODER.decode(data)
    except Unreadable:
        return reread(DECODER, data).value


@pytest.mark.parametrize(
    "data, name",
    [
        (b'{"name":"a"}', "a"),
        (b'{"name":"a\xffb"}', "a\ufffdb"),
        (b'{"name":"\\ud83d"}', HIGH),
        (b'{"name":"\\ud83d\\ude00"}', "😀"),
        (b'{"other":"\\ud83d"}', ""),
    ],
)
def test_two_kinds_of_damage_do_not_make_a_frame_unreadable(data, name):
    assert _reread(data).name == name


def test_a_field_of_another_type_costs_that_field_and_what_is_no_object_is_nothing():
    found = reread(DECODER, b'{"name":7}')
    assert (found.value.name or "", found.left_out) == ("", (("name", 7),))
    assert reread(DECODER, b"[]").value is None


@pytest.mark.parametrize("data", [b"", b"{", b'{"name":NaN}', b'{"name":"a', b"[" * 100_000])
def test_anything_else_is_unreadable_and_raises_only_what_is_declared(data):
    with pytest.raises(Unreadable):
        _reread(data)


def test_a_document_of_any_shape_is_read_without_halves():
    assert read_any(b'[1,"\\ud83d",{"\\ude00":"a\xff"}]') == [1, "\ufffd", {"\ufffd": "a\ufffd"}]
    assert read_any(b'{"a":["\\ud83d\\ude00"]}') == {"a": ["😀"]}


def test_mending_joins_pairs_and_replaces_lone_halves():
    assert whole_text("plain ü 😀") == "plain ü 😀"
    assert whole_text(HIGH + LOW) == "😀"
    assert whole_text(f"a{LOW}{HIGH}b") == "a\ufffd\ufffdb"
    assert mend_all({"a": [HIGH + LOW, 1, None]}) == {"a": ["😀", 1, None]}


def test_a_half_waits_for_its_other_half_in_the_same_block():
    mender = Mender()
    events = [TextDelta(0, f"a{HIGH}"), ReasoningDelta(1, "b"), TextDelta(0, f"{LOW}c")]
    mender.mend(events, 0)
    assert events == [TextDelta(0, "a"), ReasoningDelta(1, "b"), TextDelta(0, "😀c")]


def test_a_half_waits_over_several_calls():
    mender = Mender()
    first, second = [CallArgs(2, HIGH)], [CallArgs(2, LOW)]
    mender.mend(first, 0)
    mender.mend(second, 0)
    assert (first, second) == ([], [CallArgs(2, "😀")])


@pytest.mark.parametrize("delta, close", [(TextDelta, BlockClosed), (CallArgs, CallClosed)])
def test_a_half_that_is_still_waiting_when_its_block_closes_is_replaced(delta, close):
    events = [delta(0, f"a{HIGH}"), close(1), close(0), Ended("x")]
    Mender().mend(events, 0)
    assert events == [delta(0, "a"), close(1), delta(0, "\ufffd"), close(0), Ended("x")]


def test_only_the_events_from_the_given_place_on_are_touched():
    events = [TextDelta(0, HIGH), TextDelta(0, f"{LOW}a")]
    Mender().mend(events, 1)
    assert events == [TextDelta(0, HIGH), TextDelta(0, "\ufffda")]


def test_names_and_state_are_mended_too():
    events = [CallNamed(0, "c", HIGH), StateNoted(0, {"a": [HIGH + LOW]})]
    Mender().mend(events, 0)
    assert events == [CallNamed(0, "c", "\ufffd"), StateNoted(0, {"a": ["😀"]})]


def test_a_sample_is_short_and_readable():
    assert sample(b"\xff" + b"x" * 1000) == "\ufffd" + "x" * 299
