"""Responses streams and answers become events, one behaviour at a time."""

import msgspec
import pytest
from support.wire.transcript_files import FOLDER, transcripts

from turnbuckle.reply.accumulate import fold
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
    Skipped,
    Started,
    StateNoted,
    TextDelta,
)
from turnbuckle.vocab.reply import ReplyOpaque
from turnbuckle.wire.answer import open_answer


def decode(body: bytes):
    decoder = open_answer("openai_responses")
    return decoder.feed(body) + decoder.close()


def recorded_events(name):
    return decode(next(path for path in transcripts("openai_responses") if path.stem == name).read_bytes())


def stream(*events):
    """A stream of these events; pairs are (type, fields)."""
    frames = [{"type": kind, "sequence_number": at, **fields} for at, (kind, fields) in enumerate(events)]
    return b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)


def calls_of(reply):
    return [(call.id, call.name, call.arguments, call.closed) for call in reply.calls]


def added(item, index=0):
    return "response.output_item.added", {"output_index": index, "item": item}


def done(item, index=0):
    return "response.output_item.done", {"output_index": index, "item": item}


def completed(*output):
    return "response.completed", {"response": {"id": "resp_1", "status": "completed", "output": list(output)}}


def text_delta(text, **where):
    return "response.output_text.delta", {
        "item_id": "msg_1",
        "output_index": 0,
        "content_index": 0,
        "delta": text,
        **where,
    }


CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": "",
    "status": "completed",
}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}


@pytest.mark.requirement("A1")
def test_a_stream_and_the_plain_answer_fold_to_the_same_reply():
    body = (FOLDER / "openai_responses" / "clean-reasoning-then-call.sse").read_bytes()
    last_frame = body.rstrip().rpartition(b"data: ")[2]
    answer = msgspec.json.encode(msgspec.json.decode(last_frame)["response"])
    streamed, plain = fold(decode(body)), fold(decode(answer))
    assert msgspec.structs.replace(plain, last=streamed.last) == streamed


@pytest.mark.requirement("A6")
def test_a_call_only_stream_gives_no_text():
    assert not [event for event in recorded_events("clean-one-call") if isinstance(event, TextDelta)]


def test_events_of_a_text_stream_come_one_by_one():
    events = decode(
        stream(
            ("response.created", {"response": {"id": "resp_1", "model": "m"}}),
            added({**MESSAGE, "status": "in_progress"}),
            text_delta("Hel"),
            text_delta("lo"),
            done({**MESSAGE, "content": [{"type": "output_text", "text": "Hello"}]}),
            completed(),
        )
    )
    assert events == [
        Started("resp_1", "m"),
        Alive("lifecycle"),
        BlockStarted(0, "text"),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        StateNoted(0, {"type": "message", "id": "msg_1", "status": "completed"}),
        BlockClosed(0),
        FinishNoted("stop", "completed"),
        Ended("response.completed"),
    ]


def test_signs_of_life_are_told_apart():
    events = decode(
        b": hello\n\n"
        + stream(
            ("keepalive", {}),
            ("response.web_search_call.searching", {"item_id": "ws_1", "output_index": 0}),
            ("response.shell_call_output_content.delta", {"output_index": 1, "delta": {"stdout": "x"}}),
            ("gateway.busy", {"a": "?"}),
        )
    )
    said = [event.what for event in events if isinstance(event, Alive)]
    assert said == ["comment", "ping", "unknown", "unknown", "unknown"]


@pytest.mark.requirement("A3", "A7")
def test_state_of_reasoning_is_the_whole_item():
    reply = fold(recorded_events("clean-reasoning-then-call"))
    assert reply.blocks[0].state == {
        "id": "rs_77aa",
        "type": "reasoning",
        "encrypted_content": "gAAAAABo9xQvT3k==",
        "summary": [
            {"type": "summary_text", "text": "**Looking at the file**"},
            {"type": "summary_text", "text": "I need its size."},
        ],
    }


@pytest.mark.requirement("A3")
def test_state_of_a_call_is_all_of_its_item_that_is_not_normalised():
    call = fold(recorded_events("clean-reasoning-then-call")).calls[0]
    assert call.state == {
        "id": "fc_77ab",
        "type": "function_call",
        "status": "completed",
        "namespace": "files",
        "caller": {"type": "direct"},
    }


@pytest.mark.requirement("A3")
def test_secret_reasoning_is_a_block_without_text_that_keeps_its_state():
    block = fold(recorded_events("clean-secret-reasoning")).blocks[0]
    assert block.state is not None
    assert (block.text, block.closed, block.state["encrypted_content"]) == ("", True, "gAAAAABsecret")


def test_the_id_of_reasoning_is_known_before_its_first_text():
    events = recorded_events("clean-reasoning-then-call")
    first_text = next(at for at, event in enumerate(events) if isinstance(event, ReasoningDelta))
    assert StateNoted(0, {"type": "reasoning", "id": "rs_77aa"}) in events[:first_text]


def test_items_that_the_provider_runs_are_kept_whole():
    block = fold(recorded_events("clean-web-search")).blocks[0]
    assert block == ReplyOpaque(
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search", "query": "tide porto", "sources": None},
        },
        closed=True,
    )


def test_an_item_that_the_provider_runs_is_not_told_before_it_is_whole():
    events = decode(stream(added({"type": "web_search_call", "id": "ws_1", "status": "in_progress"})))
    assert not [event for event in events if isinstance(event, OpaqueBlock)]


@pytest.mark.requirement("B1")
def test_arguments_alone_do_not_close_a_call():
    where = {"item_id": "fc_1", "output_index": 0}
    events = decode(
        stream(
            added({**CALL, "status": "in_progress"}),
            ("response.function_call_arguments.delta", {**where, "delta": "{}"}),
            ("response.function_call_arguments.done", {**where, "arguments": "{}"}),
        )
    )
    assert [type(event) for event in events] == [CallStarted, CallArgs, Alive, Cut]


@pytest.mark.requirement("C1")
def test_a_call_whose_item_is_incomplete_is_never_closed():
    half = {**CALL, "arguments": '{"a":', "status": "incomplete"}
    for body in (stream(added(CALL), done(half), completed(half)), stream(completed(half))):
        assert not [event for event in decode(body) if isinstance(event, CallClosed)]


def test_completed_closes_a_call_whose_item_was_never_done():
    where = {"item_id": "fc_1", "output_index": 0}
    body = stream(
        added(CALL), ("response.function_call_arguments.delta", {**where, "delta": '{"a":1}'}), completed()
    )
    assert calls_of(fold(decode(body))) == [("call_1", "add", '{"a":1}', True)]


def test_incomplete_does_not_close_a_call_whose_item_was_never_done():
    body = stream(added(CALL), ("response.incomplete", {"response": {"status": "incomplete", "output": []}}))
    assert calls_of(fold(decode(body))) == [("call_1", "add", "", False)]


def test_arguments_that_stand_only_in_the_added_item_are_not_lost():
    body = stream(added({**CALL, "arguments": '{"a":1}'}), completed())
    assert calls_of(fold(decode(body))) == [("call_1", "add", '{"a":1}', True)]


@pytest.mark.parametrize(
    "pieces, whole, expected",
    [
        (["{}"], "{}", []),
        (['{"a"'], '{"a":1}', [CallArgs(0, ":1}")]),
        ([], '{"a":1}', [CallArgs(0, '{"a":1}')]),
        (['{"b"'], '{"a":1}', [CallRewritten(0, '{"a":1}')]),
    ],
)
@pytest.mark.requirement("A2")
def test_whole_arguments_settle_their_pieces(pieces, whole, expected):
    where = {"item_id": "fc_1", "output_index": 0}
    deltas = [("response.function_call_arguments.delta", {**where, "delta": piece}) for piece in pieces]
    body = stream(
        added(CALL), *deltas, ("response.function_call_arguments.done", {**where, "arguments": whole})
    )
    changes = [event for event in decode(body) if isinstance(event, CallArgs | CallRewritten)]
    assert changes[len(pieces) :] == expected


def test_a_call_that_began_without_a_name_is_named_when_it_is_done():
    where = {"item_id": "fc_1", "output_index": 0}
    body = stream(
        ("response.function_call_arguments.delta", {**where, "delta": "{}"}),
        done({**CALL, "arguments": "{}"}),
    )
    events = [event for event in decode(body) if isinstance(event, CallStarted | CallNamed)]
    assert events == [CallStarted(0, "fc_1", ""), CallNamed(0, "call_1", "add")]


def test_two_calls_of_one_index_without_item_ids_stay_two_calls():
    one, two = ({key: value for key, value in CALL.items() if key != "id"} for _ in range(2))
    two["call_id"] = "call_2"
    body = stream(added(one), done({**one, "arguments": "{}"}), added(two), done({**two, "arguments": "{}"}))
    assert [call.id for call in fold(decode(body)).calls] == ["call_1", "call_2"]


@pytest.mark.parametrize(
    "repeated", [added(MESSAGE), done({**MESSAGE, "content": [{"type": "output_text", "text": "Hi"}]})]
)
def test_an_item_told_twice_is_shown_once(repeated):
    whole = {**MESSAGE, "content": [{"type": "output_text", "text": "Hi"}]}
    body = stream(added(MESSAGE), text_delta("Hi"), repeated, done(whole), completed(whole))
    assert (fold(decode(body)).text, fold(decode(body)).skipped) == ("Hi", 0)


@pytest.mark.parametrize("late", [text_delta("more"), text_delta("x", content_index=1)])
def test_text_for_an_item_that_was_told_whole_is_skipped_and_said(late):
    whole = {**MESSAGE, "content": [{"type": "output_text", "text": "Hi"}]}
    events = decode(stream(added(MESSAGE), text_delta("Hi"), done(whole), late, completed(whole)))
    assert [event.harmless for event in events if isinstance(event, Skipped)] == [True]
    assert (fold(events).text, events[-1]) == ("Hi", Ended("response.completed"))


@pytest.mark.requirement("A15")
def test_text_for_an_item_that_has_none_leaves_a_hole():
    whole = {**MESSAGE, "content": [{"type": "output_text", "text": "Hi"}]}
    lost = text_delta("x", item_id="fc_1", output_index=1)
    events = decode(
        stream(added(CALL, 1), added(MESSAGE), text_delta("Hi"), done(whole), lost, completed(whole))
    )
    assert [type(event) for event in events if isinstance(event, Skipped | Ended | Cut)] == [Skipped, Cut]


def test_reasoning_told_in_both_spellings_is_shown_once():
    where = {"item_id": "rs_1", "output_index": 0}
    body = stream(
        added({"type": "reasoning", "id": "rs_1", "summary": []}),
        ("response.reasoning_text.delta", {**where, "content_index": 0, "delta": "Long thought."}),
        ("response.reasoning_summary_text.delta", {**where, "summary_index": 0, "delta": "Short."}),
        completed(),
    )
    reply = fold(decode(body))
    assert (reply.reasoning, reply.skipped) == ("Long thought.", 0)


@pytest.mark.parametrize("status", ["failed", "incomplete", "cancelled"])
@pytest.mark.requirement("B1")
def test_a_completed_event_whose_response_says_worse_is_not_complete(status):
    (last,) = [
        event
        for event in decode(
            stream(("response.completed", {"response": {"id": "r", "status": status, "output": []}}))
        )
        if isinstance(event, FinishNoted | Cut)
    ]
    assert isinstance(last, Cut) if status != "incomplete" else last.finish == "other"


@pytest.mark.parametrize(
    "reason, finish",
    [
        ("max_output_tokens", "length"),
        ("content_filter", "filtered"),
        ("max_messages", "other"),
        ("steered", "other"),
        (None, "other"),
    ],
)
def test_the_reason_of_an_incomplete_response_is_its_finish(reason, finish):
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    assert fold(decode(stream(("response.incomplete", {"response": response})))).finish == finish


def test_a_rate_limit_inside_a_stream_says_when_to_come_back():
    failure = recorded_events("failed-by-rate-limit")[-1].failure
    assert (failure.retryable, failure.retry_after) == (True, 11.054)


def test_a_response_cancelled_at_the_provider_is_not_asked_for_again():
    assert recorded_events("cancelled")[-1].failure.retryable is False


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b'"x"',
        b"nonsense",
        b'{"type":7}',
        b'{"type":"response.output_text.delta","output_index":[]}',
        b'{"type":"response.completed","response":3}',
    ],
)
def test_a_frame_that_cannot_be_read_is_skipped_and_said(data):
    events = decode(b"data: " + data + b"\n\n")
    assert [type(event) for event in events if not isinstance(event, Alive)] == [Skipped, Cut]


@pytest.mark.parametrize(
    "frame",
    [
        b'event: error\ndata: {"message":"boom","code":"server_error"}',
        b'data: {"type":"error","message":"boom","code":"server_error","param":null}',
        b'data: {"type":"error","error":{"message":"boom","code":"server_error"}}',
        b'data: {"error":{"message":"boom","code":"server_error"}}',
        b'data: {"type":"response.failed","response":{"error":{"message":"boom","code":"server_error"}}}',
    ],
)
def test_an_error_is_read_in_any_of_its_shapes(frame):
    (last,) = decode(frame + b"\n\n")
    assert (last.failure.kind, last.failure.code, last.failure.message) == ("server", "server_error", "boom")


@pytest.mark.parametrize("document", [b"[]", b'"hello"', b"{}", b'{"object":"chat.completion","choices":[]}'])
@pytest.mark.requirement("A11")
def test_an_answer_that_is_no_response_is_garbage(document):
    (last,) = decode(document)
    assert last.failure.kind == "garbage"


def test_a_failed_answer_keeps_the_text_that_it_brings():
    item = {**MESSAGE, "status": "incomplete", "content": [{"type": "output_text", "text": "Half"}]}
    body = msgspec.json.encode(
        {"id": "r", "status": "failed", "output": [item], "error": {"message": "boom"}}
    )
    reply = fold(decode(body))
    assert (reply.text, reply.ended) == ("Half", False)


def test_what_is_stored_of_annotations_does_not_grow_with_the_square_of_their_number():
    notes = [{"type": "url_citation", "url": f"https://example.test/{place}"} for place in range(1_500)]
    where = {"item_id": "m", "output_index": 0, "content_index": 0}
    told = [("response.output_text.annotation.added", {**where, "annotation": note}) for note in notes]
    part = {"type": "output_text", "text": "Hi.", "annotations": notes}
    message = {"type": "message", "id": "m", "content": [part]}
    events = decode(
        stream(added({**message, "content": []}), text_delta("Hi.", **where), *told, done(message))
    )
    states = [event.data for event in events if isinstance(event, StateNoted)]
    assert states[0]["annotations"] == notes[:1]
    assert states[-1]["annotations"] == notes
    assert sum(len(msgspec.json.encode(state)) for state in states) < 2_000_000
