"""What holds of every run that is told as a message of Anthropic's API, whatever happened in it."""

from functools import partial

import anthropic
import msgspec
import pytest
from support.narrate.messages_output import message, read_message, rendered, texts, whole_message
from support.narrate.sample_runs import (
    ALL,
    DONE,
    RUN,
    begin,
    decided,
    ended,
    facts_of,
    frames,
    items,
    one_by_one,
    run_named,
    whole,
)
from support.turns.turn_facts import MAIN, burst
from support.wire.official_clients import anthropic_client
from support.wire.transcript_files import transcripts

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.cut_points import broken_by
from turnbuckle.turn.facts import CallsHandedOver, Continue, Decided, GiveUp, ModelAsked, Retry
from turnbuckle.vocab.reply import ReplyReasoning
from turnbuckle.wire.answer import open_answer

ASKED = {"model": "agent", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
STREAMS = [path for path in transcripts("anthropic") if path.suffix == ".sse"]


def check_stream(run, data):
    """The rules of the wire, and the end that the table has for this outcome."""
    facts, read = facts_of(run), read_message(data)
    kind = facts[-1].outcome.kind
    declined = [fact.verdict for fact in facts if isinstance(fact, Decided)][-1:] in (
        ["refused"],
        ["filtered"],
    )
    if kind == "failed" and not declined:
        assert read.last == "error"
        return
    stops = {"partial": "max_tokens", "cancelled": "max_tokens", "completed": "end_turn", "failed": "refusal"}
    wanted = "refusal" if declined and kind == "partial" else stops[kind]
    if kind == "completed" and any(isinstance(fact, CallsHandedOver) for fact in facts):
        wanted = "tool_use"
    assert read.made["stop_reason"] == wanted
    calls = [block for block in read.content if block["type"] == "tool_use"]
    assert bool(calls) == (wanted == "tool_use")
    assert read.content[len(read.content) - len(calls) :] == calls


@pytest.mark.requirement("J1", "J7", "C6")
@pytest.mark.parametrize("name", ALL)
def test_every_run_is_told_by_the_rules_of_the_wire(name):
    run = run_named(name)
    data = rendered(name)
    check_stream(run, data)
    assert one_by_one(message(), run) == data
    for at in range(0, len(run), 3):
        reader = message()
        assert reader.open() + reader.take(run[:at]) + reader.take([]) + reader.take(run[at:]) == data


@pytest.mark.requirement("J1")
@pytest.mark.parametrize("name", ALL)
def test_a_dialect_has_ended_with_the_last_item_and_not_before(name):
    run, reader = run_named(name), message()
    for item in run:
        assert not reader.ended
        assert [event for event, _ in frames(reader.beat(5.0))] == ["ping"]
        reader.take([item])
    assert reader.ended
    assert (reader.beat(5.0), reader.interrupted()) == (b"", b"")


@pytest.mark.requirement("J1", "J2")
@pytest.mark.parametrize("name", ALL)
def test_the_official_package_reads_a_stream_to_the_values_of_the_plain_answer(name):
    data, answer = rendered(name), whole_message(run_named(name))
    body = msgspec.json.encode(answer.body)
    if answer.status != 200:
        with pytest.raises(anthropic.APIStatusError) as caught:
            list(anthropic_client(data).messages.create(**ASKED, stream=True))
        assert caught.value.body["error"] == answer.body["error"]
        with pytest.raises(anthropic.APIStatusError) as refused:
            anthropic_client(body, "application/json", answer.status).messages.create(**ASKED)
        assert (refused.value.status_code, refused.value.body) == (answer.status, answer.body)
        return
    with anthropic_client(data).beta.messages.stream(**ASKED) as stream:
        streamed = stream.get_final_message().to_dict()
    plain = anthropic_client(body, "application/json").beta.messages.create(**ASKED).to_dict()
    for field in ("content", "stop_reason", "model", "id"):
        assert streamed[field] == plain[field]
    assert streamed["usage"]["output_tokens"] == plain["usage"]["output_tokens"]


# Streams of a provider of the same protocol, cut at every byte


def asked(number=1, why="first"):
    return ModelAsked(2.0, number, MAIN.name, "anthropic", "m", why)


def cut_runs(events, whole_events):
    """What may become of a cut reply: it is given up, goes on, or is asked for again."""
    begun = (begin(own_tools=False), asked(), burst(*events))
    yield items(*begun, decided(GiveUp("partial", "it was cut")), ended("partial", "it was cut"))
    again = burst(*whole_events, number=2)
    yield items(*begun, decided(Continue("text")), asked(2, "continue"), again, DONE)
    yield items(*begun, decided(Retry(0.5)), asked(2, "retry"), again, DONE)


def signed(events):
    """The thoughts that a provider vouched for, as it said them."""
    blocks = [block for block in fold(events).blocks if isinstance(block, ReplyReasoning) and block.state]
    return {(block.text, block.state.get("signature", "")) for block in blocks}


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", STREAMS, ids=[path.stem for path in STREAMS])
@pytest.mark.requirement("J1", "B1")
def test_a_stream_cut_at_any_byte_is_told_as_a_legal_stream_with_one_true_end(path, record_property):
    data, opened = path.read_bytes(), partial(open_answer, "anthropic")
    reset = broken_by("reset")

    def read_to(at):
        decoder = opened()
        return [*decoder.feed(data[:at]), *(decoder.close(reset) if decoder.last is None else ())]

    everything, before = read_to(len(data)), None
    vouched = {pair for pair in signed(everything) if pair[1]}
    for at in range(len(data) + 1):
        events = read_to(at)
        if events == before:
            continue  # the same story
        before = events
        for run in cut_runs(events, everything):
            told = whole(message(), run)
            assert one_by_one(message(), run) == told
            content = read_message(told).content
            thoughts = [block for block in content if block["type"] == "thinking" and block["signature"]]
            assert {(block["thinking"], block["signature"]) for block in thoughts} <= vouched
            assert not any(block["type"] == "tool_use" for block in content)  # nothing was handed over
    record_property("cuts tried", len(data) + 1)


@pytest.mark.requirement("J1")
def test_a_reply_that_goes_on_stays_one_text_and_its_second_thoughts_are_not_told():
    read = read_message(whole(message(), run_named("a thought before the rest")))
    assert [block["type"] for block in read.content] == ["thinking", "text"]
    assert texts(read.content) == ["It is all done now."]


@pytest.mark.requirement("J1")
def test_a_server_that_lets_go_says_so_by_an_error_and_where_to_go_on():
    reader = message()
    data = reader.open() + reader.take(run_named("left and taken up")[:3]) + reader.interrupted()
    read = read_message(data)
    assert read.last == "error"
    assert read.made["error"]["type"] == "api_error"
    assert f"/v1/runs/{RUN}/events" in read.made["error"]["message"]
    assert read.made["turnbuckle"]["resumable"]
