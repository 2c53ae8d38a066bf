"""The body decides how it is read, and every body has exactly one last word."""

import gc
import json
import weakref

import pytest

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Alive, CallArgs, Cut, Ended, Skipped, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.decoder import DecoderLimits
from turnbuckle.wire.openai_chat.decode import ChatDecoder

ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}'
)
STREAM = (
    b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"id":"chatcmpl-1","model":"m","choices":[{"index":0,"delta":{"content":"lo."},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
JSON = {"Content-Type": "application/json"}
SSE = {"Content-Type": "text/event-stream"}
BROKEN = failure("reset", "the connection was reset")


def _read(data, *, broken=None, bytewise=False, **how):
    decoder = open_answer("openai_chat", **how)
    chunks = [data[at : at + 1] for at in range(len(data))] if bytewise else [data]
    events = [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close(broken)
    assert check_stream(events) == ()
    assert decoder.last is events[-1]
    return events


def _delta(content):
    """One frame with a text written as raw JSON."""
    return b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % content


def _failure(events):
    assert isinstance(events[-1], Cut)
    return events[-1].failure


@pytest.mark.requirement("A11")
@pytest.mark.parametrize(
    "headers", [JSON, SSE, {}], ids=["announced as JSON", "announced as a stream", "unannounced"]
)
@pytest.mark.parametrize(
    "data, by",
    [
        pytest.param(ANSWER, "answer", id="a plain answer"),
        pytest.param(STREAM, "[DONE]", id="a stream"),
        pytest.param(b"\n\n  \r\n" + ANSWER, "answer", id="white space before a plain answer"),
        pytest.param(b"\n\r\n" + STREAM, "[DONE]", id="blank lines before a stream"),
        pytest.param(b"\xef\xbb\xbf" + ANSWER, "answer", id="a byte order mark before a plain answer"),
        pytest.param(b": hi\n\n" + STREAM, "[DONE]", id="a comment before a stream"),
        pytest.param(ANSWER + b"\n\n", "answer", id="white space behind a plain answer"),
    ],
)
@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_the_body_decides_how_it_is_read(data, by, headers, bytewise):
    reply = fold(_read(data, headers=headers, bytewise=bytewise))
    assert (reply.text, reply.finish, reply.last) == ("Hello.", "stop", Ended(by))


@pytest.mark.requirement("A11", "B1")
@pytest.mark.parametrize(
    "data, kind",
    [
        pytest.param(b"", "incomplete", id="nothing"),
        pytest.param(b" \n\n ", "incomplete", id="white space"),
        pytest.param(b"<html><body>Bad gateway</body></html>", "garbage", id="a page"),
        pytest.param(b"\n<!DOCTYPE html>", "garbage", id="a page behind a blank line"),
        pytest.param(b"upstream connect error", "garbage", id="a sentence"),
        pytest.param(b'"busy"', "garbage", id="a JSON text"),
        pytest.param(b"[]", "garbage", id="an empty list"),
        pytest.param(b"{}", "garbage", id="an empty object"),
        pytest.param(b'{"choices":[]}', "garbage", id="no choices"),
        pytest.param(b'{"choices":[{"index":0}]}', "garbage", id="a choice without a message"),
        pytest.param(b'{"choices":7}', "garbage", id="choices of a wrong type"),
        pytest.param(ANSWER[:-1], "incomplete", id="an answer without its end"),
        pytest.param(b": hi\n\n", "incomplete", id="only a comment"),
        pytest.param(b"data: {", "garbage", id="half a frame"),
    ],
)
@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_a_body_that_holds_no_reply_is_a_cut_that_may_be_tried_again(data, kind, bytewise):
    events = _read(data, bytewise=bytewise)
    assert (_failure(events).kind, _failure(events).retryable) == (kind, True)
    assert fold(events).text == ""


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("data", [b"", b" ", STREAM[:100], ANSWER[:20], b"<html>", b": hi\n\n"])
def test_what_broke_the_transport_is_the_last_word(data):
    assert _failure(_read(data, broken=BROKEN)) == BROKEN


def test_a_whole_answer_stands_though_the_connection_broke_behind_it():
    assert _read(ANSWER, broken=BROKEN)[-1] == Ended("answer")


@pytest.mark.requirement("B1")
def test_a_reason_to_stop_does_not_end_a_stream_whose_connection_broke():
    before_done = STREAM[: STREAM.index(b"data: [DONE]")]
    assert _failure(_read(before_done, broken=BROKEN)) == BROKEN
    assert _read(before_done)[-1] == Ended("finish_reason")


def test_an_error_status_is_read_as_an_error_whatever_its_body():
    for data in (ANSWER, STREAM, b"", b"<html>", b"\xff\xfe"):
        found = _failure(_read(data, status=503))
        assert (found.kind, found.status) == ("overloaded", 503)


def test_a_huge_error_body_is_read_only_up_to_its_cap():
    decoder = open_answer("openai_chat", status=500, limits=DecoderLimits(error=1000))
    for _ in range(100):
        assert decoder.feed(b"x" * 100_000) == []
    found = _failure(decoder.close())
    assert found.said == "x" * 1000
    assert found.kind == "server"


@pytest.mark.parametrize(
    "data, limits, what",
    [
        pytest.param(
            b"data: " + b"x" * 100 + b"\n\n", DecoderLimits(line=50), "line of more than 50 bytes", id="line"
        ),
        pytest.param(
            b"data: x\n" * 20 + b"\n", DecoderLimits(event=50), "event of more than 50 bytes", id="event"
        ),
        pytest.param(b": hi\n\n" * 100, DecoderLimits(payload=50), "reply of more than 50 bytes", id="reply"),
        pytest.param(
            b'{"a":"' + b"x" * 100, DecoderLimits(payload=50), "answer of more than 50 bytes", id="answer"
        ),
        pytest.param(
            b"<html>" + b"x" * 100, DecoderLimits(payload=50), "answer of more than 50 bytes", id="page"
        ),
    ],
)
@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_what_is_over_a_cap_is_cut_with_its_own_failure(data, limits, what, bytewise):
    found = _failure(_read(data, limits=limits, bytewise=bytewise))
    assert (found.kind, found.message, found.retryable) == ("oversize", what, False)


def test_text_before_the_cap_is_kept():
    events = _read(
        STREAM[: STREAM.index(b"data: [DONE]")] + b"data: " + b"x" * 999, limits=DecoderLimits(line=500)
    )
    assert fold(events).text == "Hello."
    assert _failure(events).kind == "oversize"


def test_nothing_comes_after_the_last_word():
    decoder = open_answer("openai_chat")
    events = decoder.feed(STREAM + STREAM)
    assert [type(event) for event in events].count(Ended) == 1
    assert decoder.feed(STREAM) == []
    assert decoder.close() == []
    assert decoder.close(BROKEN) == []
    assert decoder.last == Ended("[DONE]")


def test_closing_twice_gives_nothing_more():
    decoder = open_answer("openai_chat")
    assert len(decoder.close()) == 1
    assert decoder.close() == []


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_invalid_utf8_in_a_frame_is_replaced_and_the_stream_goes_on(bytewise):
    events = _read(_delta(b"a\xffb") + _delta(b"c\xe2\x82") + STREAM, bytewise=bytewise)
    assert fold(events).text == "a\ufffdbc\ufffdHello."


@pytest.mark.parametrize("bytewise", [False, True], ids=["whole", "byte by byte"])
def test_surrogate_halves_in_two_deltas_are_one_character(bytewise):
    events = _read(_delta(b"a\\ud83d") + _delta(b"\\ude00b") + STREAM, bytewise=bytewise)
    shown = [event.text for event in events if isinstance(event, TextDelta)]
    assert shown == ["a", "😀b", "Hel", "lo."]


@pytest.mark.parametrize(
    "pieces, text",
    [
        ([b"a\\ud83d", b"b"], "a\ufffdb"),
        ([b"\\ude00a"], "\ufffda"),
        ([b"a\\ud83d\\ude00b"], "a😀b"),
        ([b"\\ud83d", b"\\ud83d", b"\\ude00"], "\ufffd😀"),
        ([b"a\\ud83d"], "a\ufffd"),
    ],
)
def test_a_lone_half_is_replaced(pieces, text):
    finish = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    data = b"".join(map(_delta, pieces)) + finish + b"data: [DONE]\n\n"
    assert fold(_read(data)).text == text


def test_a_half_at_a_cut_is_not_shown():
    assert fold(_read(_delta(b"a\\ud83d"), broken=BROKEN)).text == "a"


def test_halves_in_the_arguments_of_a_call_are_joined_too():
    def fragment(arguments, **more):
        call = b'{"index":0,"function":{"name":null,"arguments":"%b"}}' % arguments
        return b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[%b]}}]}\n\n' % call

    start = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}\n\n'
    events = _read(start + fragment(b'{\\"a\\":\\"\\ud83d') + fragment(b'\\ude00\\"}') + b"data: [DONE]\n\n")
    assert "".join(event.text for event in events if isinstance(event, CallArgs)) == '{"a":"😀"}'


def test_state_that_was_joined_from_halves_is_whole_also_at_a_tidy_end():
    def detail(text):
        details = b'[{"type":"reasoning.text","index":0,"text":"%b"}]' % text
        return (
            b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"reasoning_details":%b}}]}\n\n'
            % details
        )

    finish = b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    for end in (b"", b"data: [DONE]\n\n"):
        (block,) = fold(_read(detail(b"\\ud83d") + detail(b"\\ude00") + finish + end)).blocks
        assert block.state is not None
        assert (block.text, block.state["reasoning_details"][0]["text"]) == ("😀", "😀")


@pytest.mark.parametrize("bad", [b"ping", b"7", b"null", b'{"choices":[],"usage":[3],"created":"x"}'])
def test_a_frame_that_holds_nothing_of_ours_costs_nothing(bad):
    events = _read(b"data: " + bad + b"\n\n" + STREAM)
    assert (fold(events).text, fold(events).skipped, events[-1]) == ("Hello.", 0, Ended("[DONE]"))


@pytest.mark.requirement("A15")
@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"nonsense",
        b'{"choices":[{"delta":{"content":7}}]}',
        b'{"choices":[{"delta":{"content":NaN}}]}',
        b'{"choices":' + b"[" * 2000,
    ],
)
@pytest.mark.parametrize("at", [0, 1])
def test_an_unreadable_frame_is_skipped_and_named_and_nothing_behind_it_is_shown(bad, at):
    frames = STREAM.split(b"\n\n")
    events = _read(b"\n\n".join([*frames[:at], b"data: " + bad, *frames[at:]]))
    skipped = [event for event in events if isinstance(event, Skipped)]
    assert [event.sample for event in skipped] == [bad.decode()[:300]]
    assert fold(events).text == ("", "Hel")[at]
    assert isinstance(events[-1], Cut)


def test_comments_and_empty_events_are_signs_of_life():
    assert _read(b": hi\n\nid: 1\n\n" + STREAM)[:2] == [Alive("comment"), Alive("empty")]


def test_a_failure_carries_the_request_id_of_its_response():
    headers = {"X-Request-Id": "req_1"}
    for data in (b'data: {"error":{"message":"boom"}}\n\n', b"", STREAM[:80]):
        assert _failure(_read(data, headers=headers)).request_id == "req_1"
    assert _failure(_read(b"", broken=BROKEN, headers=headers)).request_id == "req_1"


def test_an_error_in_a_plain_body_keeps_what_was_said():
    found = _failure(
        _read(json.dumps({"error": {"message": "no", "type": "invalid_request_error"}}).encode())
    )
    assert (found.kind, found.message) == ("invalid", "no")
    assert json.loads(found.said) == {"message": "no", "type": "invalid_request_error"}


def test_a_decoder_is_gone_when_nobody_holds_it():
    """With all that it keeps of a long reply, and without a search for cycles."""
    decoder = ChatDecoder()
    gone = weakref.ref(decoder)
    decoder.frames([(b"", b'{"choices":[{"index":0,"delta":{"content":"a"}}]}'), (b"", b"[DONE]")], [])
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        del decoder
        assert gone() is None
    finally:
        if was_enabled:
            gc.enable()
