"""What our encoder writes is read back the same, by our decoder and by the official package."""

import msgspec
import openai
import pytest
from support.wire.official_clients import openai_client
from support.wire.transcript_files import transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.stream_invariants import content_of
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
from turnbuckle.vocab.reply import Reply, ReplyCall, ReplyText
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.openai_responses.encode import ResponsesEncoder, answer, error_body

ENDED = Ended("response.completed")
USAGE = Usage(input=10, output=5, cached=4, reasoning=2)
EVENTS = [
    BlockStarted(0, "reasoning"),
    StateNoted(0, {"type": "reasoning", "id": "rs_up"}),
    ReasoningDelta(0, "Hm,"),
    ReasoningDelta(0, " so."),
    StateNoted(0, {"type": "reasoning", "id": "rs_up", "encrypted_content": "gAAA", "summary": []}),
    BlockClosed(0),
    TextDelta(1, 'Say "hi"\n'),
    TextDelta(1, "to 🌊\u2028."),
    CallStarted(2, "call_a", "add"),
    CallStarted(3, "call_b", "now"),
    CallArgs(2, '{"a":'),
    CallArgs(3, "{}"),
    CallArgs(2, '"é"}'),
    BlockClosed(1),
    CallClosed(2),
    CallClosed(3),
    UsageNoted(USAGE),
    FinishNoted("calls", "completed"),
    ENDED,
]
RECORDED = [path for path in transcripts("openai_responses") if path.stem != "nothing-is-announced"]


def encode(events, **options):
    encoder = ResponsesEncoder("resp_1", "m", 1790000000, **options)
    return encoder.open() + b"".join([encoder.event(event) for event in events])


def decode(body: bytes):
    decoder = open_answer("openai_responses")
    return decoder.feed(body) + decoder.close()


def frames(body: bytes):
    return [msgspec.json.decode(part.partition(b"data: ")[2]) for part in body.split(b"\n\n") if part]


def final(body: bytes):
    with openai_client(body).responses.stream(model="m", input="Hi") as stream:
        return stream.get_final_response()


def calls_of(reply):
    return [(call.id, call.name, call.arguments, call.closed) for call in reply.calls]


def test_written_events_are_read_back_to_the_same_reply():
    before, after = fold(EVENTS), fold(decode(encode(EVENTS)))
    assert (after.id, after.model) == ("resp_1", "m")
    assert [type(block) for block in after.blocks] == [type(block) for block in before.blocks]
    assert (after.text, after.reasoning, calls_of(after)) == (before.text, before.reasoning, calls_of(before))
    assert (after.usage, after.finish, after.last) == (before.usage, before.finish, before.last)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_body_passes_through_the_encoder_unchanged(path):
    events = decode(path.read_bytes())
    before = fold(events)
    again = decode(encode(events))
    after = fold(again)
    assert content_of(again) == content_of(events)
    assert (after.finish, after.finish_detail, after.usage) == (
        before.finish,
        before.finish_detail,
        before.usage,
    )
    assert type(after.last) is type(before.last)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_helper_of_the_official_package_takes_any_reply_that_we_write(path):
    events = decode(path.read_bytes())
    body = encode(events)
    with openai_client(body).responses.stream(model="m", input="Hi") as stream:
        kinds = [event.type for event in stream]
    assert kinds == [frame["type"] for frame in frames(body)]


def test_the_helper_of_the_official_package_reads_the_same_values():
    reply, response = fold(EVENTS), final(encode(EVENTS))
    thought, message, *calls = response.output
    assert (response.id, response.model, response.status) == ("resp_1", "m", "completed")
    assert response.output_text == reply.text
    assert (thought.id, thought.encrypted_content, thought.summary[0].text) == ("rs_up", "gAAA", "Hm, so.")
    assert message.status == "completed"
    assert [(call.call_id, call.name, call.arguments, call.status) for call in calls] == [
        ("call_a", "add", '{"a":"é"}', "completed"),
        ("call_b", "now", "{}", "completed"),
    ]
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 5, 15)
    assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (4, 2)


def test_the_raw_stream_of_the_official_package_reads_the_same_values():
    texts: dict[str, str] = {}
    for event in openai_client(encode(EVENTS)).responses.create(model="m", input="Hi", stream=True):
        if event.type.endswith(".delta"):
            texts[event.item_id] = texts.get(event.item_id, "") + event.delta
    assert list(texts.values()) == ["Hm, so.", 'Say "hi"\nto 🌊\u2028.', '{"a":"é"}', "{}"]


def test_every_event_is_numbered_from_zero_and_named_twice():
    body = encode(EVENTS)
    assert [frame["sequence_number"] for frame in frames(body)] == list(range(len(frames(body))))
    names = [line[7:].decode() for line in body.split(b"\n") if line.startswith(b"event: ")]
    assert names == [frame["type"] for frame in frames(body)]


def test_a_text_is_written_in_the_order_that_strict_clients_demand():
    assert [frame["type"] for frame in frames(encode([TextDelta(0, "Hi"), BlockClosed(0), ENDED]))] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_a_stream_is_written_in_the_subset_that_every_client_reads():
    body = encode(EVENTS)
    assert b"\r" not in body
    for part in body.rstrip(b"\n").split(b"\n\n"):
        name, data = part.split(b"\n")
        assert (name[:7], data[:6]) == (b"event: ", b"data: ")


def test_the_terminal_event_tells_every_item_in_its_place():
    begun = [CallStarted(0, "call_a", "add"), CallStarted(1, "call_b", "add")]
    told = frames(encode([*begun, CallClosed(1), CallClosed(0), ENDED]))
    done = [frame["item"] for frame in told if frame["type"] == "response.output_item.done"]
    assert [item["call_id"] for item in done] == ["call_b", "call_a"]
    assert told[-1]["response"]["output"] == done[::-1]


@pytest.mark.parametrize(
    "event",
    [Alive("ping"), UsageNoted(USAGE), FinishNoted("stop", "completed"), BlockStarted(0, "reasoning")],
)
def test_what_is_only_remembered_writes_nothing(event):
    assert ResponsesEncoder("resp_1", "m", 1).event(event) == b""


def test_usage_is_told_even_if_nobody_counted():
    assert frames(encode([ENDED]))[-1]["response"]["usage"]["total_tokens"] == 0


def test_a_refusal_is_read_back_by_both():
    body = encode([RefusalDelta(0, "I "), RefusalDelta(0, "will not."), BlockClosed(0), ENDED])
    assert fold(decode(body)).refusal == "I will not."
    assert final(body).output[0].content[0].refusal == "I will not."


def test_arguments_wait_for_a_late_name():
    begun = [CallStarted(0, "", ""), CallArgs(0, '{"a"'), CallNamed(0, "call_1", "add"), CallArgs(0, ":1}")]
    body = encode([*begun, CallClosed(0), ENDED])
    assert calls_of(fold(decode(body))) == [("call_1", "add", '{"a":1}', True)]
    assert final(body).output[0].arguments == '{"a":1}'


def test_rewritten_arguments_are_the_ones_that_count():
    events = [
        CallStarted(0, "call_1", "add"),
        CallArgs(0, "{,"),
        CallRewritten(0, '{"a":1}'),
        CallClosed(0),
        ENDED,
    ]
    assert calls_of(fold(decode(encode(events)))) == [("call_1", "add", '{"a":1}', True)]
    assert final(encode(events)).output[0].arguments == '{"a":1}'


def test_a_call_without_arguments_is_written_with_an_empty_object():
    assert final(encode([CallStarted(0, "call_1", "now"), CallClosed(0), ENDED])).output[0].arguments == "{}"


@pytest.mark.parametrize(
    "finish, status, reason",
    [
        (None, "completed", None),
        (FinishNoted("stop", "stop"), "completed", None),
        (FinishNoted("other", "whatever"), "completed", None),
        (FinishNoted("length", "length"), "incomplete", "max_output_tokens"),
        (FinishNoted("window", "x"), "incomplete", "max_output_tokens"),
        (FinishNoted("filtered", "content_filter"), "incomplete", "content_filter"),
        (FinishNoted("malformed", "x"), "incomplete", "malformed"),
        (FinishNoted("other", "incomplete", "steered"), "incomplete", "steered"),
    ],
)
def test_the_finish_decides_the_status(finish, status, reason):
    last = frames(encode([*([finish] if finish else []), ENDED]))[-1]
    details = last["response"]["incomplete_details"]
    assert (last["type"], last["response"]["status"]) == (f"response.{status}", status)
    assert (details and details["reason"]) == reason


@pytest.mark.requirement("B1", "C1")
def test_a_capped_reply_never_gives_a_call_out_as_complete():
    begun = [CallStarted(0, "call_1", "add"), CallArgs(0, '{"a":')]
    for rest in ([FinishNoted("length", "length"), CallClosed(0)], [FinishNoted("length", "length")], []):
        events = [*begun, *rest, ENDED]
        assert calls_of(fold(decode(encode(events)))) == [("call_1", "add", '{"a":', False)]
        assert msgspec.json.decode(msgspec.json.encode(answer(fold(events), created=1)))["output"][0][
            "status"
        ] == ("incomplete")


@pytest.mark.requirement("B1")
def test_a_cut_is_a_failed_response_and_nothing_more():
    cut = Cut(Failure("rate_limited", "Slow down, try again in 2s", True))
    body = encode([TextDelta(0, "Half"), cut])
    assert frames(body)[-1]["response"]["error"] == {
        "code": "rate_limit_exceeded",
        "message": cut.failure.message,
    }
    reply = fold(decode(body))
    assert (reply.text, reply.last.failure.kind, reply.last.failure.retry_after) == (
        "Half",
        "rate_limited",
        2.0,
    )
    with pytest.raises(RuntimeError, match=r"Didn't receive a `response\.completed` event"):
        final(body)


@pytest.mark.parametrize(
    "kind",
    "rate_limited overloaded server timeout auth permission billing not_found context too_large filtered invalid".split(),
)
def test_the_kind_of_a_failure_survives_the_way_through_the_wire(kind):
    cut = decode(encode([Cut(failure(kind, "it did not work"))]))[-1]
    assert (cut.failure.kind, cut.failure.message) == (kind, "it did not work")


def test_a_whole_item_can_be_written_between_others():
    encoder = ResponsesEncoder("resp_1", "m", 1)
    result = {
        "type": "function_call_output",
        "id": "fco_1",
        "call_id": "call_1",
        "output": "2",
        "status": "completed",
    }
    call = [CallStarted(0, "call_1", "add"), CallArgs(0, "{}"), CallClosed(0)]
    text = [TextDelta(1, "Two."), BlockClosed(1), ENDED]
    body = b"".join(
        [encoder.open(), *map(encoder.event, call), encoder.item(result), *map(encoder.event, text)]
    )
    assert [item.type for item in final(body).output] == ["function_call", "function_call_output", "message"]
    reply = fold(decode(body))
    assert (reply.blocks[1].data, reply.finish) == (result, "stop")


def test_opaque_blocks_of_other_wires_are_not_written():
    events = [OpaqueBlock(0, {"type": "server_tool_use", "id": "srv_1"}), TextDelta(1, "ok"), ENDED]
    assert [item.type for item in final(encode(events)).output] == ["message"]


def test_fields_of_the_request_are_repeated_in_the_response():
    first = frames(encode([], echo={"instructions": "Be brief.", "id": "forged"}))[0]["response"]
    assert (first["instructions"], first["id"], first["status"]) == ("Be brief.", "resp_1", "in_progress")


def test_an_answer_that_was_too_long_is_incomplete_whatever_its_provider_said():
    events = [TextDelta(0, "Half"), FinishNoted("length", "completed")]
    assert frames(encode([*events, ENDED]))[-1]["type"] == "response.incomplete"


@pytest.mark.requirement("A1")
def test_a_plain_answer_is_read_back_by_both():
    reply = msgspec.structs.replace(fold(EVENTS), id="resp_1", model="m")
    body = msgspec.json.encode(answer(reply, created=1790000000))
    again = fold(decode(body))
    assert (again.text, again.reasoning, calls_of(again)) == (reply.text, reply.reasoning, calls_of(reply))
    assert (again.usage, again.finish, again.id, again.model) == (reply.usage, reply.finish, "resp_1", "m")
    response = openai_client(body, "application/json").responses.create(model="m", input="Hi")
    assert (response.output_text, response.usage.total_tokens) == (reply.text, 15)
    assert [item.type for item in response.output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]


def test_a_cut_reply_as_a_plain_answer_is_a_failed_response():
    reply = Reply(
        (ReplyText("Half"), ReplyCall("c", "f", "{")), "resp_1", "m", last=Cut(failure("server", "boom"))
    )
    made = answer(reply, created=1)
    assert (made["status"], made["error"]) == ("failed", {"code": "server_error", "message": "boom"})
    assert [item["status"] for item in made["output"]] == ["incomplete", "incomplete"]


def test_the_official_package_shows_the_message_of_an_error_body():
    body = msgspec.json.encode(error_body(failure("auth", "no such key")))
    client = openai_client(body, "application/json", status=401)
    with pytest.raises(openai.AuthenticationError, match="no such key"):
        client.responses.create(model="m", input="Hi")
