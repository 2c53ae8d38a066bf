"""Messages streams and answers become events, one rule at a time."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Alive, Cut, Ended, Skipped, StageNoted, Started
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.reply import ReplyCall, ReplyOpaque, ReplyText
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.decoder import ReplyDecoder

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"


def text(shown, **more):
    return ReplyText(shown, **{"closed": True, **more})


def call(call_id, name, arguments, **more):
    return ReplyCall(call_id, name, arguments, **{"closed": True, **more})


def decode(body, **quirks):
    decoder = ReplyDecoder(AnthropicDecoder(Quirks(**quirks)))
    return decoder.feed(body) + decoder.close()


def stream(*frames):
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(frame) for frame in frames)


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


END = {"type": "message_stop"}


def test_the_reply_is_named_once():
    events = decode((FOLDER / "clean-text.sse").read_bytes())
    named = [event for event in events if isinstance(event, Started)]
    assert named == [Started("msg_01XFDUDYJgAACzvnptvVoYEL", "claude-sonnet-5-5")]


def test_every_frame_of_a_stream_is_a_sign_of_life():
    body = (FOLDER / "clean-server-search-with-citations.sse").read_bytes()
    for frame in body.split(b"\n\n")[:-1]:
        dialect = AnthropicDecoder()
        out: list[Any] = []
        name, data = frame.removeprefix(b"event: ").split(b"\ndata: ")
        last = dialect.frames([(name, data)], out)
        assert out or last, frame


def test_a_call_without_text_gives_no_text():
    events = decode((FOLDER / "clean-thinking-omitted-then-call.sse").read_bytes())
    assert not [event for event in events if type(event).__name__ == "TextDelta"]


def test_input_in_a_start_gives_way_to_deltas():
    reply = fold(
        decode(
            stream(
                start(0, type="tool_use", id="t", name="f", input={"old": 1}),
                delta(0, "input_json_delta", partial_json='{"new":'),
                delta(0, "input_json_delta", partial_json="2}"),
                stop(0),
                END,
            )
        )
    )
    assert reply.blocks == (call("t", "f", '{"new":2}'),)


@pytest.mark.requirement("B1")
def test_input_in_a_start_is_held_back_until_the_block_is_closed():
    reply = fold(decode(stream(start(0, type="tool_use", id="t", name="f", input={"a": 1}))))
    assert reply.blocks == (call("t", "f", "", closed=False),)


def test_a_call_without_an_id_gets_one_from_its_place():
    frames = stream(
        {"type": "message_start", "message": {"id": "msg_1"}}, start(0, type="tool_use", name="f"), stop(0)
    )
    assert fold(decode(frames)).calls[0].id == "call_msg_1_0"


def test_arguments_without_their_start_are_skipped():
    events = decode(stream(delta(3, "input_json_delta", partial_json='{"a":1}'), END))
    assert [event.sample for event in events if isinstance(event, Skipped)] == ['{"a":1}']
    assert fold(events).blocks == ()


@pytest.mark.parametrize(
    "first, second, expected",
    [
        ({"type": "text", "text": ""}, {"type": "text", "text": ""}, (text("ab"),)),
        ({"type": "text", "text": ""}, {"type": "text", "text": "x"}, (text("a", closed=False), text("xb"))),
    ],
)
def test_a_start_that_is_repeated_begins_a_block_only_if_it_brings_text(first, second, expected):
    frames = [start(0, **first), delta(0, "text_delta", text="a"), start(0, **second)]
    events = decode(stream(*frames, delta(0, "text_delta", text="b"), stop(0), END))
    assert check_stream(events) == ()
    assert fold(events).blocks == expected


def test_a_call_that_starts_twice_is_one_call_and_another_id_is_another_call():
    twice = [start(0, type="tool_use", id="a", name="f", input={})] * 2
    other = start(0, type="tool_use", id="b", name="f", input={})
    events = decode(
        stream(*twice, other, delta(0, "input_json_delta", partial_json="{}"), stop(0), stop(0), END)
    )
    assert check_stream(events) == ()
    assert fold(events).blocks == (call("a", "f", "", closed=False), call("b", "f", "{}"))


def test_a_delta_of_the_wrong_kind_is_skipped():
    events = decode(
        stream(start(0, type="tool_use", id="a", name="f"), delta(0, "text_delta", text="stray"), END)
    )
    assert check_stream(events) == ()
    assert fold(events).skipped == 1


def test_a_block_of_an_unknown_type_is_kept_whole():
    block = {"type": "hologram", "seed": [1, 2], "deep": {"x": None}}
    assert fold(decode(stream(start(0, **block), stop(0), END))).blocks == (ReplyOpaque(block, closed=True),)


@pytest.mark.parametrize(
    "frame, kind",
    [
        ({"type": "error", "error": {"type": kind, "message": "m"}}, expected)
        for kind, expected in {
            "invalid_request_error": "invalid",
            "authentication_error": "auth",
            "billing_error": "billing",
            "permission_error": "permission",
            "not_found_error": "not_found",
            "conflict_error": "server",
            "request_too_large": "too_large",
            "rate_limit_error": "rate_limited",
            "api_error": "server",
            "timeout_error": "timeout",
            "overloaded_error": "overloaded",
            "internalServerException": "server",
            "modelStreamErrorException": "server",
            "serviceUnavailableException": "server",
            "throttlingException": "rate_limited",
            "validationException": "invalid",
            "modelTimeoutException": "timeout",
        }.items()
    ]
    + [
        ({"error": {"message": "m", "type": "overloaded_error"}}, "overloaded"),
        ({"code": 500, "message": "m", "type": "server_error"}, "server"),
    ],
)
def test_an_error_inside_a_stream_is_a_cut_of_its_kind(frame, kind):
    events = decode(stream(start(0, type="text", text="a"), frame, END))
    assert isinstance(events[-1], Cut)
    assert events[-1].failure.kind == kind


def test_an_exception_known_only_by_the_name_of_its_event_is_a_cut():
    events = decode(b'event: throttlingException\ndata: {"message":"slow down"}\n\n')
    assert (events[-1].failure.kind, events[-1].failure.message) == ("rate_limited", "slow down")


@pytest.mark.parametrize(
    "body, what",
    [
        (b"event: ping\ndata: {}\n\n", "ping"),
        (b"event: ping\ndata: pong\n\n", "ping"),
        (b"data: [DONE]\n\n", "unknown"),
        (b": comment\n\n", "comment"),
    ],
)
def test_what_holds_nothing_is_a_sign_of_life_and_no_end(body, what):
    events = decode(body)
    assert events[0] == Alive(what)
    assert isinstance(events[-1], Cut)


def test_an_event_of_tomorrow_goes_through_and_ends_nothing():
    events = decode(b'event: later_version\ndata: {"a":1}\n\n')
    assert events[0] == StageNoted("", {"a": 1, "type": "later_version"})
    assert isinstance(events[-1], Cut)


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(
    "data, last",
    [
        (b"{", Cut),
        (b"not json", Cut),
        (b'{"type":"content_block_start","index":0,"content_block":{"text":"no type"}}', Cut),
        (b'{"type":"content_block_start","content_block":{"text":"\\ud800"}}', Cut),
        (b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}', Cut),
        (b'{"type":"content_block_start","index":0}', Ended),
        (b"keepalive", Ended),
        (b"null", Ended),
    ],
)
def test_a_frame_that_can_not_be_read_is_skipped_and_cuts_if_it_may_have_held_content(data, last):
    events = decode(b"data: %b\n\ndata: %b\n\n" % (data, msgspec.json.encode(END)))
    assert [type(event) for event in events if not isinstance(event, Alive)] == [Skipped, last]


def test_input_in_a_start_with_half_a_character_is_mended():
    body = stream(start(0, type="tool_use", id="a", name="f", input={"x": "HALF"})).replace(
        b"HALF", rb"\ud800"
    )
    assert fold(decode(body + stream(stop(0), END))).calls[0].arguments == '{"x":"\ufffd"}'


@pytest.mark.requirement("A11")
@pytest.mark.parametrize(
    "body", [b'{"hello":"world"}', b'{"content":"text"}', b"[]", b'"words"', b"<html>busy</html>"]
)
def test_a_body_that_is_no_message_is_garbage(body):
    events = decode(body)
    assert [type(event) for event in events] == [Cut]
    assert events[-1].failure.kind == "garbage"


@pytest.mark.requirement("B1")
def test_a_tidy_end_counts_only_for_hosts_that_never_say_more():
    body = stream(start(0, type="text", text="a"), stop(0))
    assert decode(body)[-1].failure.kind == "incomplete"
    assert decode(body, finishless=True)[-1] == Ended("end of body")


@pytest.mark.requirement("B1")
def test_a_tidy_end_never_ends_a_reply_with_calls():
    body = stream(start(0, type="tool_use", id="t", name="f", input={"a": 1}), stop(0))
    assert decode(body, finishless=True)[-1].failure.kind == "incomplete"
