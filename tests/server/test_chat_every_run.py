"""What holds of every run that is told as a chat completion, whatever happened in it."""

import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.narrate.chat_output import CREATED, asides, chat, chunks, deltas, finishes, plain, rendered
from support.narrate.sample_runs import (
    ALL,
    BROKEN,
    BY_HAND,
    facts_of,
    frames,
    one_by_one,
    run_named,
    shown,
    stories_with_faults,
    tools_started,
    whole,
)
from support.wire.chat_cases.official import ASKED, by_answer, by_chunks, by_helper
from support.wire.official_clients import openai_client

from turnbuckle.server.faces.chat.renderer import EVENTS
from turnbuckle.turn.facts import CallsHandedOver, Decided, ModelAsked, Streamed, ToolFinished
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta, Started

KINDS = {"content", "reasoning_content", "refusal", "tool_calls"}


def check_stream(run, data):
    """The rules of the wire, for any run."""
    facts = facts_of(run)
    outcome = facts[-1].outcome
    read = frames(data)
    role, *rest = chunks(data)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    answering = {fact.model for fact in facts if isinstance(fact, ModelAsked)} | _named(facts)
    for chunk in (role, *rest):
        assert (chunk["id"], chunk["object"], chunk["created"]) == (
            "chatcmpl-r",
            "chat.completion.chunk",
            CREATED,
        )
        assert chunk["model"] in {"agent", *answering}
    for chunk in rest:
        given = [set(choice["delta"]) for choice in chunk["choices"]]
        assert all(len(keys) <= 1 and keys <= KINDS for keys in given)
        assert not any(choice["finish_reason"] and choice["delta"] for choice in chunk["choices"])
    failed = "error" in (read[-1][1] or {})
    assert failed == (outcome.kind == "failed" and not _declined(facts))
    assert finishes(data) == ([] if failed else [_finish(facts)])
    assert (read[-1][1] is None) == (not failed)
    assert [body for _, body in read].count(None) == (not failed)
    _check_words(facts, data)
    _check_tools(facts, data)
    return outcome.kind


def _named(facts):
    """The names that providers gave for the models that answered."""
    streamed = (event for fact in facts if isinstance(fact, Streamed) for event in fact.events)
    return {event.model for event in streamed if isinstance(event, Started)}


def _declined(facts):
    verdicts = [fact.verdict for fact in facts if isinstance(fact, Decided)]
    return bool(verdicts) and verdicts[-1] in ("refused", "filtered")


def _finish(facts):
    kind = facts[-1].outcome.kind
    if kind == "completed":
        return "tool_calls" if any(isinstance(fact, CallsHandedOver) for fact in facts) else "stop"
    return "content_filter" if _declined(facts) and kind != "cancelled" else "length"


def _check_words(facts, data):
    """All that the model said, and nothing else but blank lines and one note at the end."""
    text = "".join(deltas(data, "content"))
    said_text = shown(facts)
    body, mark, _note = (
        text.rpartition("[Not finished: ") if "[Not finished: " in text else text.rpartition("[Stopped.")
    )
    body = body if mark else text
    assert body.replace("\n", "") == said_text.replace("\n", "")
    assert "".join(deltas(data, "refusal")).replace("\n", "") == shown(facts, RefusalDelta)
    lines = [
        line
        for line in "".join(deltas(data, "reasoning_content")).split("\n\n")
        if not line.startswith("Waiting for ")
    ]
    thought = f"{facts[0].notice}{shown(facts, ReasoningDelta)}"
    assert "".join(lines).replace("\n", "") == thought.replace("\n", "")


def _check_tools(facts, data):
    seen = asides(data, "tool")
    started = [tool for tool in seen if tool["status"] == "running"]
    over = [tool for tool in seen if tool["status"] != "running"]
    ids = [tool["toolCallId"] for tool in started]
    assert [tool["tool"] for tool in started] == [name for _, name in tools_started(facts)]
    assert len(set(ids)) == len(ids)
    assert sorted(tool["toolCallId"] for tool in over) == sorted(ids)
    for tool in over:
        assert ids.count(tool["toolCallId"]) == 1
        assert seen.index(tool) > next(
            at for at, one in enumerate(seen) if one["toolCallId"] == tool["toolCallId"]
        )


@pytest.mark.requirement("F1", "F3", "C6")
@pytest.mark.parametrize("name", ALL)
def test_every_run_is_told_by_the_rules_of_the_wire(name):
    run = run_named(name)
    assert check_stream(run, rendered(name)) == facts_of(run)[-1].outcome.kind


@pytest.mark.requirement("F1", "F3", "C6")
@pytest.mark.parametrize("name", BROKEN)
def test_every_run_that_was_cut_killed_robbed_or_stopped_is_told_by_the_rules_of_the_wire(
    name, record_property
):
    count = 0
    for run, faults in stories_with_faults(name):
        count += len(faults)
        data = whole(chat(), run)
        try:
            check_stream(run, data)
            assert one_by_one(chat(), run) == data
        except AssertionError as error:
            raise AssertionError(f"{faults}: {error}") from error
    record_property("worlds tried", count)
    assert count > 30


@pytest.mark.requirement("E4")
@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("name", ALL)
def test_any_grouping_of_the_items_gives_the_same_bytes(name, events):
    run = run_named(name)
    data = rendered(name, events=events, include_usage=True)
    assert one_by_one(chat(events=events, include_usage=True), run) == data
    for at in range(0, len(run), 3):
        reader = chat(events=events, include_usage=True)
        assert reader.open() + reader.take(run[:at]) + reader.take([]) + reader.take(run[at:]) == data


@given(st.lists(st.integers(1, 60)))
@pytest.mark.requirement("E4")
def test_random_groupings_of_a_long_run_give_the_same_bytes(cuts):
    run = run_named("smaller calls instead of drafts")
    reader = chat()
    data, at = reader.open(), 0
    for cut in (*cuts, len(run)):
        data += reader.take(run[at : at + cut])
        at += cut
    assert data == rendered("smaller calls instead of drafts")


@pytest.mark.parametrize("name", ALL)
def test_a_dialect_has_ended_with_the_last_item_and_not_before(name):
    run, reader = run_named(name), chat()
    for item in run:
        assert not reader.ended
        assert reader.beat(5.0)
        reader.take([item])
    assert reader.ended
    assert (reader.beat(5.0), reader.interrupted()) == (b"", b"")


# Official clients


@pytest.mark.requirement("F1", "F3")
@pytest.mark.parametrize("name", ALL)
def test_the_official_package_reads_a_stream_to_the_values_of_the_plain_answer(name):
    data = rendered(name, include_usage=True)
    answer = plain(run_named(name))
    if answer.status != 200:
        message = answer.body["error"]["message"]
        with pytest.raises(openai.APIError) as caught:
            list(openai_client(data).chat.completions.create(**ASKED, stream=True))
        assert (caught.value.message, caught.value.body) == (message, answer.body["error"])
        with pytest.raises(openai.APIStatusError) as refused:
            openai_client(
                msgspec.json.encode(answer.body), "application/json", answer.status
            ).chat.completions.create(**ASKED)
        assert (refused.value.status_code, refused.value.body) == (answer.status, answer.body["error"])
        return
    by_plain = by_answer(msgspec.json.encode(answer.body))
    by_stream = by_helper(data)
    # The helper keeps the name that the first chunk has, which is that of who was asked.
    by_stream = {**by_stream, "model": by_plain["model"]}
    assert by_stream == by_plain
    text = "".join(chunk.choices[0].delta.content or "" for chunk in by_chunks(data) if chunk.choices)
    assert text == by_plain["text"]


@pytest.mark.requirement("F2")
@pytest.mark.parametrize("name", ["one tool", "handed over", "a thought before the rest"])
def test_the_official_helper_is_not_confused_by_no_op_chunks_at_every_place(name):
    reader = chat(include_usage=True)
    data = reader.open() + b"".join([reader.beat(1.0) + reader.take([item]) for item in run_named(name)])
    assert by_helper(data) == by_helper(rendered(name, include_usage=True))


def test_the_runs_put_together_by_hand_have_every_kind_of_end():
    assert {facts[-1].outcome.kind for facts in BY_HAND.values()} == {
        "completed",
        "partial",
        "cancelled",
        "failed",
    }
    ends = {
        fact.outcome.status for facts in BY_HAND.values() for fact in facts if isinstance(fact, ToolFinished)
    }
    assert ends >= {"finished", "killed", "unknown", "denied"}
