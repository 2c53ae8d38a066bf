"""What we write in the words of Messages is read back by us and by the official package."""

from pathlib import Path

import anthropic
import msgspec
import pytest
from support.wire.official_clients import anthropic_client

from turnbuckle.reply.accumulate import fold
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Cut,
    Ended,
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.wire.anthropic.decode import AnthropicDecoder
from turnbuckle.wire.anthropic.encode import AnthropicEncoder, answer, error_body, finish_word
from turnbuckle.wire.decoder import ReplyDecoder

FOLDER = Path(__file__).parents[2] / "transcripts" / "anthropic"
CLEAN = sorted(path.name for path in FOLDER.glob("clean-*"))
ENDED = [
    *CLEAN,
    "compaction.sse",
    "mcp-call-and-result.sse",
    "server-side-fallback.sse",
    "block-left-open.sse",
    "blocks-share-index-zero.sse",
    "crlf-and-a-character-in-two-halves.sse",
    "length-inside-a-call.sse",
]
ASKED = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]}
USAGE = UsageNoted(Usage(120, 30, cached=100, cache_written=5, reasoning=12))
FINISH = FinishNoted("stop", "end_turn")
END = Ended("message_stop")

# Streams as other dialects produce them: without starts, closed only at the end, names late, state of any kind.
EVENTS = {
    "text": [
        TextDelta(0, "Hel"),
        TextDelta(0, 'lo \u2028 "quoted" \n 🌊'),
        BlockClosed(0),
        USAGE,
        FINISH,
        END,
    ],
    "reasoning and text side by side": [
        ReasoningDelta(0, "hm"),
        TextDelta(1, "a"),
        ReasoningDelta(0, " so"),
        TextDelta(1, "b"),
        BlockClosed(0),
        BlockClosed(1),
        FINISH,
        USAGE,
        END,
    ],
    "parallel calls, interleaved": [
        CallStarted(0, "a", "f"),
        CallStarted(1, "b", "g"),
        CallArgs(0, '{"x":'),
        CallArgs(1, "{}"),
        CallArgs(0, "1}"),
        CallClosed(0),
        CallClosed(1),
        FinishNoted("calls", "tool_calls"),
        USAGE,
        END,
    ],
    "a name behind the arguments": [
        CallStarted(0, "a", ""),
        CallArgs(0, '{"x"'),
        CallNamed(0, "a", "f"),
        CallArgs(0, ":1}"),
        CallClosed(0),
        FinishNoted("calls", "tool_calls"),
        USAGE,
        END,
    ],
    "a call without arguments, with state": [
        BlockStarted(0, "text"),
        TextDelta(0, "Now."),
        BlockClosed(0),
        CallStarted(1, "a", "now"),
        StateNoted(1, {"caller": {"type": "direct"}, "extra_content": {"google": {}}}),
        CallClosed(1),
        FinishNoted("calls", "tool_use"),
        USAGE,
        END,
    ],
    "arguments that came whole at the end": [
        CallStarted(0, "a", "f"),
        CallRewritten(0, '{"x":1}'),
        CallClosed(0),
        FinishNoted("calls", "tool_calls"),
        USAGE,
        END,
    ],
    "thoughts, told and secret": [
        BlockStarted(0, "reasoning"),
        StateNoted(0, {"type": "redacted_thinking", "data": "x"}),
        BlockClosed(0),
        BlockStarted(1, "reasoning"),
        ReasoningDelta(1, "hm"),
        StateNoted(1, {"type": "thinking", "signature": "s"}),
        BlockClosed(1),
        BlockStarted(2, "reasoning"),
        StateNoted(2, {"type": "thinking", "signature": "t"}),
        BlockClosed(2),
        TextDelta(3, "so"),
        BlockClosed(3),
        FINISH,
        USAGE,
        END,
    ],
    "the provider's own search": [
        OpaqueBlock(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        OpaqueBlock(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}),
        BlockClosed(0),
        OpaqueBlock(1, {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
        BlockClosed(1),
        BlockStarted(2, "text"),
        TextDelta(2, "found"),
        StateNoted(2, {"citations": [{"type": "web_search_result_location", "url": "u"}, {"type": "other"}]}),
        BlockClosed(2),
        FINISH,
        USAGE,
        END,
    ],
    "nothing at all": [FINISH, USAGE, END],
}


def encode(events):
    encoder = AnthropicEncoder("msg_1", "claude", 0)
    return encoder.open() + b"".join(encoder.event(event) for event in events)


def decode(body):
    decoder = ReplyDecoder(AnthropicDecoder())
    return fold(decoder.feed(body) + decoder.close())


def recorded(name):
    decoder = ReplyDecoder(AnthropicDecoder())
    return decoder.feed((FOLDER / name).read_bytes()) + decoder.close()


def essence(reply):
    """What a stream of this wire can carry: state of a call is noted when its start is already out."""
    blocks = [
        msgspec.structs.replace(block, state=None) if hasattr(block, "arguments") else block
        for block in reply.blocks
    ]
    return blocks, reply.finish, reply.usage, reply.ended


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.requirement("A10")
def test_what_is_written_is_read_back_by_our_decoder(name):
    events = EVENTS[name]
    assert essence(decode(encode(events))) == essence(fold(events))


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.requirement("A3", "A10")
def test_a_recorded_reply_is_written_and_read_back_the_same(name):
    events = recorded(name)
    reply, again = fold(events), decode(encode(events))
    assert again.finish_said == reply.finish_said
    assert essence(again) == essence(reply)


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.requirement("A10")
def test_what_is_written_is_read_by_the_official_stream_and_helper(name):
    reply, body = fold(EVENTS[name]), encode(EVENTS[name])
    raw = list(anthropic_client(body).messages.create(**ASKED, stream=True))
    with anthropic_client(body).messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    shown = [event.delta for event in raw if event.type == "content_block_delta"]
    calls = [block for block in message.content if block.type == "tool_use"]
    assert "".join(delta.text for delta in shown if delta.type == "text_delta") == reply.text
    assert "".join(delta.thinking for delta in shown if delta.type == "thinking_delta") == reply.reasoning
    assert "".join(block.text for block in message.content if block.type == "text") == reply.text
    assert "".join(block.thinking for block in message.content if block.type == "thinking") == reply.reasoning
    assert [(call.id, call.name, call.input) for call in calls] == [
        (call.id, call.name, judge(call.arguments).value) for call in reply.calls
    ]
    assert len(message.content) == len(reply.blocks)
    assert (message.id, message.model) == ("msg_1", "claude")
    assert message.stop_reason == ("tool_use" if reply.calls else "end_turn")
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (15, 30)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (100, 5)
    assert usage.output_tokens_details.thinking_tokens == 12


@pytest.mark.parametrize("name", CLEAN)
def test_a_reply_as_a_plain_answer_is_read_back_by_us_and_by_the_official_package(name):
    reply = fold(recorded(name))
    body = msgspec.json.encode(answer(reply, created=0))
    again, message = decode(body), anthropic_client(body, "application/json").messages.create(**ASKED)
    assert [_comparable(block) for block in again.blocks] == [_comparable(block) for block in reply.blocks]
    assert (again.id, again.model, again.finish, again.usage) == (
        reply.id,
        reply.model,
        reply.finish,
        reply.usage,
    )
    assert "".join(block.text for block in message.content if block.type == "text") == reply.text
    assert message.stop_reason == reply.finish_said


def _comparable(block):
    if not hasattr(block, "arguments"):
        return block
    return block.id, block.name, judge(block.arguments), block.state


def test_every_frame_is_in_the_safe_subset():
    for frame in encode([Alive("ping"), *EVENTS["text"]]).split(b"\n\n")[:-1]:
        name, data = frame.split(b"\n")
        assert name == b"event: " + msgspec.json.decode(data.removeprefix(b"data: "))["type"].encode()


@pytest.mark.requirement("B1")
@pytest.mark.parametrize(
    "broken, kind, type_name",
    [
        (failure("overloaded", "busy"), "overloaded", "overloaded_error"),
        (failure("rate_limited", "slow"), "rate_limited", "rate_limit_error"),
        (failure("auth", "who"), "auth", "authentication_error"),
        (failure("billing", "pay"), "billing", "billing_error"),
        (failure("reset", "it broke"), "server", "api_error"),
        (failure("stalled", "no event"), "timeout", "timeout_error"),
        (failure("too_large", "big"), "too_large", "request_too_large"),
        (failure("invalid", "no"), "invalid", "invalid_request_error"),
    ],
)
def test_a_failure_is_an_error_event_and_never_an_end(broken, kind, type_name):
    body = encode(
        [TextDelta(0, "half"), CallStarted(1, "a", "f"), CallArgs(1, "{}"), CallClosed(1), Cut(broken)]
    )
    reply = decode(body)
    assert (reply.text, reply.finish, reply.last.failure.kind) == ("half", None, kind)
    assert b"message_stop" not in body
    with (
        pytest.raises(anthropic.APIStatusError) as raised,
        anthropic_client(body).messages.stream(**ASKED) as stream,
    ):
        stream.get_final_message()
    assert raised.value.body["error"] == {"type": type_name, "message": broken.message}


def test_an_error_body_carries_the_request_id():
    made = error_body(Failure("not_found", "no such model", False, request_id="req_1"))
    error = {"type": "not_found_error", "message": "no such model"}
    assert made == {"type": "error", "error": error, "request_id": "req_1"}
    with pytest.raises(anthropic.NotFoundError, match="no such model"):
        anthropic_client(msgspec.json.encode(made), "application/json", 404).messages.create(**ASKED)


@pytest.mark.requirement("B1")
def test_a_call_that_was_not_closed_is_not_closed_on_the_wire():
    reply = decode(encode([TextDelta(0, "x"), CallStarted(1, "a", "f"), CallArgs(1, "{}"), FINISH, END]))
    assert [block.closed for block in reply.blocks] == [True, False]


def test_a_call_that_never_got_a_name_is_not_written():
    reply = decode(
        encode([CallStarted(0, "a", ""), CallArgs(0, "{}"), CallClosed(0), TextDelta(1, "x"), FINISH, END])
    )
    assert (reply.calls, reply.text, reply.ended) == ((), "x", True)


def test_a_call_is_announced_before_its_arguments_come():
    encoder = AnthropicEncoder("msg_1", "claude", 0)
    body = encoder.open() + encoder.event(CallStarted(0, "a", "write_file"))
    assert [(call.id, call.name) for call in decode(body).calls] == [("a", "write_file")]


def test_arguments_that_were_written_cannot_be_taken_back():
    encoder = AnthropicEncoder("msg_1", "claude", 0)
    for event in (CallStarted(0, "a", "f"), CallArgs(0, "{")):
        encoder.event(event)
    with pytest.raises(ValueError, match="taken back"):
        encoder.event(CallRewritten(0, "{}"))


def test_a_refusal_goes_as_text_with_its_own_reason():
    reply = decode(
        encode([RefusalDelta(0, "I will "), RefusalDelta(0, "not."), FinishNoted("refused", "", "bio"), END])
    )
    assert (reply.text, reply.finish, reply.finish_detail) == ("I will not.", "refused", "bio")


@pytest.mark.parametrize(
    "finish, said, has_calls, word",
    [
        (None, "", False, "end_turn"),
        (None, "", True, "tool_use"),
        ("calls", "tool_use", False, "end_turn"),
        ("stop", "end_turn", True, "tool_use"),
        ("stop", "stop", False, "end_turn"),
        ("stop", "stop", True, "tool_use"),
        ("stop", "stop_sequence", False, "stop_sequence"),
        ("calls", "tool_calls", True, "tool_use"),
        ("length", "length", True, "max_tokens"),
        ("filtered", "content_filter", False, "refusal"),
        ("refused", "refusal", False, "refusal"),
        ("window", "", False, "model_context_window_exceeded"),
        ("paused", "", False, "pause_turn"),
        ("compacted", "", False, "compaction"),
        ("malformed", "x", False, "end_turn"),
        ("other", "future_reason", False, "end_turn"),
    ],
)
def test_the_reason_to_stop_is_a_word_that_clients_know(finish, said, has_calls, word):
    assert finish_word(finish, said, has_calls) == word
