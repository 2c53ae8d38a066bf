"""What we write as Chat Completions is read back to the same values, by us and by the official package."""

from typing import get_args

import msgspec
import openai
import pytest
from support.wire.chat_cases.calls import CALLS
from support.wire.chat_cases.case import body, read
from support.wire.chat_cases.clean import CLEAN
from support.wire.chat_cases.endings import ENDINGS
from support.wire.chat_cases.framing import FRAMING
from support.wire.chat_cases.official import ASKED, by_answer, by_chunks, by_helper, by_us
from support.wire.chat_cases.reasoning import REASONING
from support.wire.official_clients import openai_client

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import check_stream
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
    Finish,
    FinishNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.wire.failures import from_error
from turnbuckle.wire.openai_chat.encode import ChatEncoder, answer, error_body, finish_word
from turnbuckle.wire.sse import SseDecoder

ENDED = [case for case in [*CLEAN, *CALLS, *REASONING, *ENDINGS, *FRAMING] if case.last.startswith("ended")]
USAGE = Usage(100, 20, cached=64, cache_written=8, reasoning=12)
END = [UsageNoted(USAGE), FinishNoted("stop", "end_turn"), Ended("message_stop")]
# Streams as other dialects produce them: with starts and closes, names late, state that this wire has no word for.
EVENTS = {
    "text": [TextDelta(0, "Hel"), TextDelta(0, 'lo \u2028 "quoted" \n\x00 🌊'), BlockClosed(0), *END],
    "nothing": END,
    "reasoning, text and a call": [
        BlockStarted(0, "reasoning"),
        ReasoningDelta(0, "Hm"),
        StateNoted(0, {"signature": "abc"}),
        BlockClosed(0),
        Alive("ping"),
        BlockStarted(1, "text"),
        TextDelta(1, "I will look."),
        BlockClosed(1),
        CallStarted(2, "toolu_1", "read"),
        CallArgs(2, '{"p":'),
        CallArgs(2, '"a"}'),
        CallClosed(2),
        OpaqueBlock(3, {"type": "server_tool_use"}),
        *END,
    ],
    "two calls side by side": [
        CallStarted(0, "c0", "add"),
        CallStarted(1, "c1", "mul"),
        CallArgs(1, '{"a":'),
        CallArgs(0, '{"b":1}'),
        CallArgs(1, "2}"),
        CallClosed(0),
        CallClosed(1),
        *END,
    ],
    "a name that comes late": [
        CallStarted(0, "", ""),
        CallArgs(0, '{"a"'),
        CallNamed(0, "c0", "add"),
        CallArgs(0, ":1}"),
        CallClosed(0),
        *END,
    ],
    "arguments that come only at the end": [
        CallStarted(0, "c0", "add"),
        CallRewritten(0, '{"a":1}'),
        CallClosed(0),
        *END,
    ],
    "a call without arguments": [CallStarted(0, "c0", "now"), CallArgs(0, "{}"), CallClosed(0), *END],
    "a refusal": [RefusalDelta(0, "I ca"), RefusalDelta(0, "n not."), BlockClosed(0), *END],
    "a call between texts": [
        TextDelta(0, "a"),
        CallStarted(1, "c0", "now"),
        TextDelta(2, "b"),
        CallArgs(1, "{}"),
        CallClosed(1),
        *END,
    ],
}


def _written(events):
    encoder = ChatEncoder("chatcmpl-1", "agent", 1792000000)
    return encoder.open() + b"".join(encoder.event(event) for event in events)


def _content(reply):
    """What must survive: who said what, in which words, and the state that this wire can carry. A call without
    arguments is written as one with none."""
    return {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "refusal": reply.refusal,
        "calls": [
            (call.id, call.name, call.arguments or "{}", call.closed, call.state) for call in reply.calls
        ],
        "finish": finish_word(reply.finish, bool(reply.calls)),
        "usage": reply.usage,
    }


def _same_events(case):
    return read(body(case.name), case.quirks)


@pytest.mark.parametrize("name", EVENTS)
def test_any_events_are_read_back_by_our_own_decoder(name):
    events = read(_written(EVENTS[name]))
    assert check_stream(events) == ()
    assert _content(fold(events)) == _content(fold(EVENTS[name]))
    assert events[-1] == Ended("[DONE]")


@pytest.mark.parametrize("name", EVENTS)
def test_any_events_are_read_by_the_official_package_to_the_same_values(name):
    data = _written(EVENTS[name])
    ours = by_us(fold(read(data)))
    assert by_helper(data) == ours
    assert ours["text"] == fold(EVENTS[name]).text
    assert (
        "".join(chunk.choices[0].delta.content or "" for chunk in by_chunks(data) if chunk.choices)
        == ours["text"]
    )


@pytest.mark.requirement("A3")
@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_a_recorded_reply_written_again_is_the_same_reply(case):
    first = _same_events(case)
    again = fold(read(_written(first)))
    expected = _content(fold(first))
    assert {**_content(again), "usage": None} == {**expected, "usage": None}
    states = [block.state for block in fold(first).blocks if getattr(block, "state", None)]
    assert [block.state for block in again.blocks if getattr(block, "state", None)] == states


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_a_recorded_reply_written_again_is_read_the_same_by_the_official_package(case):
    data = _written(_same_events(case))
    theirs, ours = by_helper(data), by_us(fold(read(data)))
    if "object" in case.name and "arguments" not in case.name:  # they do not take it apart
        assert "}" in theirs.pop("calls")[0][2][:-1]
        del ours["calls"]
    assert theirs == ours


@pytest.mark.parametrize("case", ENDED, ids=lambda case: case.name)
def test_a_recorded_reply_written_as_a_plain_answer_is_read_back(case):
    reply = fold(_same_events(case))
    data = msgspec.json.encode(answer(reply, created=1792000000))
    again = fold(read(data))
    assert by_us(again) == by_answer(data)
    assert (again.text, again.reasoning, again.refusal) == (reply.text, reply.reasoning, reply.refusal)
    assert [(call.id, call.name, call.state) for call in again.calls] == [
        (call.id, call.name, call.state) for call in reply.calls
    ]


# Single rules


def _chunks(data):
    frames = [payload for _, payload in SseDecoder().feed(data)]
    return [msgspec.json.decode(payload) for payload in frames if payload != b"[DONE]"]


@pytest.mark.parametrize("name", EVENTS)
def test_every_chunk_is_whole_and_names_the_reply(name):
    for chunk in _chunks(_written(EVENTS[name])):
        assert (chunk["id"], chunk["object"], chunk["created"], chunk["model"]) == (
            "chatcmpl-1",
            "chat.completion.chunk",
            1792000000,
            "agent",
        )
        assert "usage" in chunk or chunk["choices"][0]["finish_reason"]


@pytest.mark.parametrize("name", EVENTS)
def test_role_ids_and_names_are_written_once(name):
    deltas = [choice["delta"] for chunk in _chunks(_written(EVENTS[name])) for choice in chunk["choices"]]
    assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]
    fragments = [fragment for delta in deltas for fragment in delta.get("tool_calls", ())]
    calls = len(fold(EVENTS[name]).calls)
    assert len([fragment for fragment in fragments if "id" in fragment]) == calls
    assert len([fragment for fragment in fragments if "name" in fragment["function"]]) == calls


def test_the_end_is_the_reason_then_usage_then_the_mark():
    data = _written(EVENTS["text"])
    *_, finish, usage = _chunks(data)
    assert (finish["choices"][0]["finish_reason"], finish["choices"][0]["delta"]) == ("stop", {})
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 20
    assert data.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("finish", [None, *get_args(Finish)])
@pytest.mark.parametrize("has_calls", [True, False])
def test_only_the_words_that_clients_know_are_written(finish, has_calls):
    assert finish_word(finish, has_calls) in ("stop", "length", "tool_calls", "content_filter")
    if finish in (None, "stop", "calls"):
        assert finish_word(finish, has_calls) == ("tool_calls" if has_calls else "stop")


@pytest.mark.requirement("B1")
def test_a_cut_is_an_error_event_and_never_a_finish():
    data = _written(
        [TextDelta(0, "Hel"), FinishNoted("stop", "stop"), Cut(failure("reset", "the line broke"))]
    )
    assert b"[DONE]" not in data
    assert not any(choice["finish_reason"] for chunk in _chunks(data) for choice in chunk.get("choices", ()))
    reply = fold(read(data))
    assert (reply.text, reply.finish) == ("Hel", None)
    assert isinstance(reply.last, Cut)
    assert reply.last.failure.message == "the line broke"
    with pytest.raises(openai.APIError, match="the line broke"):
        list(openai_client(data).chat.completions.create(**ASKED, stream=True))


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_an_error_body_has_the_known_shape_and_is_read_back(kind):
    made = error_body(Failure(kind, "what happened", False, param="messages"))
    assert set(made) == {"error"}
    assert set(made["error"]) == {"message", "type", "param", "code"}
    assert (made["error"]["message"], made["error"]["param"]) == ("what happened", "messages")
    again = from_error(made)
    assert (again.message, again.param) == ("what happened", "messages")


def test_an_error_keeps_the_providers_own_code():
    made = error_body(Failure("context", "too long", False, code="context_length_exceeded"))
    assert (made["error"]["code"], from_error(made).kind) == ("context_length_exceeded", "context")


def test_arguments_that_were_written_cannot_be_taken_back():
    encoder = ChatEncoder("r", "m", 1)
    encoder.event(CallStarted(0, "c", "f"))
    encoder.event(CallArgs(0, "{"))
    with pytest.raises(ValueError, match="cannot be taken back"):
        encoder.event(CallRewritten(0, "{}"))


def test_a_call_without_arguments_is_written_as_json_that_a_client_can_parse():
    events = [CallStarted(0, "c1", "now"), CallClosed(0), FinishNoted("calls", "tool_calls"), Ended("x")]
    assert by_helper(_written(events))["calls"] == [("c1", "now", "{}")]
