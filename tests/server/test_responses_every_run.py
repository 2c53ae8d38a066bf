"""What holds of every run that is told as a response, whatever happened in it."""

from itertools import pairwise
from typing import Any, get_args

import msgspec
import openai
import pytest
from support.narrate.responses_output import CREATED, events, final, outline, rendered, response
from support.narrate.sample_runs import (
    ALL,
    BROKEN,
    facts_of,
    notices_of,
    one_by_one,
    run_named,
    shown,
    simulated,
    stories_with_faults,
    tools_started,
    waited,
    whole,
)
from support.wire.official_clients import openai_client

from turnbuckle.server.faces.responses.renderer import ToolItems
from turnbuckle.server.outcomes import ROWS
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, CallsHandedOver, Decided, RunLeft
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta

TERMINAL = ("response.completed", "response.incomplete", "response.failed")
GROWING = (
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.mcp_call_arguments.delta",
)
BOTH = pytest.mark.parametrize("tools", get_args(ToolItems))


STATUSES = {
    "completed": {"completed"},
    "partial": {"incomplete"},
    "cancelled": {"cancelled"},
    "failed": {"failed", "incomplete"},  # the second where the model declined
}


def check_stream(run, data):
    facts = facts_of(run)
    seen = events(data)
    assert [event["sequence_number"] for event in seen] == list(range(len(seen)))
    assert [event["type"] for event in seen[:2]] == ["response.created", "response.in_progress"]
    assert [event["type"] in TERMINAL for event in seen] == [False] * (len(seen) - 1) + [True]
    body = seen[-1]["response"]
    done = _check_items(seen)
    assert body["output"] == done
    _check_end(facts, seen[-1])
    _check_asides(facts, seen)
    _check_words(facts, body["output"])
    _check_tools(facts, seen, body["output"])
    return body["status"]


def _check_items(seen):
    """Every item is added in its turn, grows only then, and is done once, as what it was added as."""
    added: dict[Any, Any] = {}
    grown: dict[Any, Any] = {}
    done: dict[Any, Any] = {}
    for event in (event for event in seen[2:-1] if event["type"] != "response.in_progress"):
        index = event["output_index"]
        match event["type"]:
            case "response.output_item.added":
                assert index == len(added)
                added[index], grown[index] = event["item"], []
            case "response.output_item.done":
                assert index not in done
                done[index] = event["item"]
                assert {key: event["item"].get(key) for key in ("id", "type", "call_id")} == {
                    key: added[index].get(key) for key in ("id", "type", "call_id")
                }
            case name:
                assert index in added
                assert index not in done
                assert event["item_id"] == added[index]["id"]
                if name in GROWING:
                    grown[index].append(event["delta"])
    assert added.keys() == done.keys()
    assert len({item["id"] for item in done.values()}) == len(done)
    for index, item in done.items():
        whole_text = {
            "message": lambda item: item["content"][0].get("text", item["content"][0].get("refusal")),
            "reasoning": lambda item: "".join(part["text"] for part in item["summary"]),
            "function_call": lambda item: item["arguments"],
            "mcp_call": lambda item: item["arguments"],
        }
        if item["type"] in whole_text:
            assert "".join(grown[index]) == whole_text[item["type"]](item)
    return [done[index] for index in sorted(done)]


def _check_end(facts, last):
    outcome, body = facts[-1].outcome, last["response"]
    verdicts = [fact.verdict for fact in facts if isinstance(fact, Decided)]
    declined = (
        bool(verdicts) and verdicts[-1] in ("refused", "filtered") and outcome.kind in ("partial", "failed")
    )
    row = ROWS["declined" if declined else outcome.kind]
    assert (last["type"], body["status"]) == (row.event, row.response)
    assert (body["incomplete_details"] or {}).get("reason", "") == row.reason
    assert (body["error"] is not None) == (row.response == "failed")
    assert (body["completed_at"] == int(facts[-1].at)) == (row.response == "completed")
    assert all(type(body["usage"][key]) is int for key in ("input_tokens", "output_tokens", "total_tokens"))
    own = {"outcome": outcome.kind, "why": outcome.why, "run": "r", "drafts": list(outcome.drafts)}
    own |= {"notice": facts[0].notice} if facts[0].notice else {}
    assert {key: body["turnbuckle"].get(key) for key in own} == own


def _check_asides(facts, seen):
    """What happened beside the answer is told as it happens, and once more at the end."""
    asides = [event["turnbuckle"] for event in seen[2:-1] if event["type"] == "response.in_progress"]
    last = seen[-1]["response"]["turnbuckle"]
    rendered = notices_of(facts)
    assert [one["notice"] for one in asides if "notice" in one] == rendered == last.get("notices", [])
    people = [fact for fact in facts if isinstance(fact, ApprovalAsked | ApprovalAnswered)]
    ways = ["asked" if isinstance(fact, ApprovalAsked) else fact.verdict for fact in people]
    assert [(one["approval"]["id"], one["approval"]["status"]) for one in asides if "approval" in one] == [
        (fact.approval, way) for fact, way in zip(people, ways, strict=True)
    ]
    assert [one["id"] for one in last.get("approvals", [])] == list(
        dict.fromkeys(one.approval for one in people)
    )


def _check_words(facts, output):
    texts = [
        item["content"][0]["text"]
        for item in output
        if item["type"] == "message" and item["content"][0]["type"] == "output_text"
    ]
    text = "".join(texts)
    for mark in ("[Not finished: ", "[Stopped."):
        text = text.partition(mark)[0]
    assert text.rstrip("\n") == shown(facts).rstrip("\n")
    refusals = [
        item["content"][0]["refusal"]
        for item in output
        if item["type"] == "message" and item["content"][0]["type"] == "refusal"
    ]
    assert "".join(refusals) == shown(facts, RefusalDelta)
    thought = f"{facts[0].notice}{shown(facts, ReasoningDelta)}"
    thoughts = [text for kind, text in outline(output) if kind == "thinks"]
    assert "".join(text for text in thoughts if not text.startswith("Waiting for ")) == thought
    asked = [fact for fact in facts if isinstance(fact, ApprovalAsked)]
    assert [text.startswith("Waiting for ") for text in thoughts].count(True) == len(asked)


def _check_tools(facts, seen, output):
    """No call of ours looks like one for the client, or else its output stands directly behind it."""
    handed = [call.id for fact in facts if isinstance(fact, CallsHandedOver) for call in fact.calls]
    calls = [item for item in output if item["type"] == "function_call"]
    answered = [item["call_id"] for item in output if item["type"] == "function_call_output"]
    hosted = [item for item in output if item["type"] == "mcp_call"]
    ours = [item["name"] for item in (*hosted, *calls) if item.get("call_id") not in handed]
    assert ours == [name for _, name in tools_started(facts)]
    assert all(item["output"] is not None for item in hosted)
    assert sorted(item["call_id"] for item in calls) == sorted([*answered, *handed])
    assert [item["call_id"] for item in calls][len(calls) - len(handed) :] == handed
    for done, behind in pairwise(event for event in seen if "output_index" in event):
        item = done.get("item", {})
        if done["type"] != "response.output_item.done" or item.get("call_id") not in answered:
            continue
        if item["type"] == "function_call":
            assert behind["type"] == "response.output_item.added"
            assert (behind["item"]["type"], behind["item"]["call_id"]) == (
                "function_call_output",
                item["call_id"],
            )


@pytest.mark.requirement("F4", "C6")
@BOTH
@pytest.mark.parametrize("name", ALL)
def test_every_run_is_told_by_the_rules_of_the_wire(name, tools):
    run = run_named(name)
    assert check_stream(run, rendered(name, tools=tools)) in STATUSES[facts_of(run)[-1].outcome.kind]


@pytest.mark.requirement("F4", "C6", "E4")
@BOTH
@pytest.mark.parametrize("name", BROKEN)
def test_every_run_that_was_cut_killed_robbed_or_stopped_is_told_by_the_rules_of_the_wire(
    name, tools, record_property
):
    count = 0
    for run, faults in stories_with_faults(name):
        count += len(faults)
        data = whole(response(tools=tools), run)
        try:
            check_stream(run, data)
            assert one_by_one(response(tools=tools), run) == data
        except AssertionError as error:
            raise AssertionError(f"{faults}: {error}") from error
    record_property("worlds tried", count)
    assert count > 30


@pytest.mark.requirement("A10", "F4")
@pytest.mark.parametrize("protocol", ["openai_responses", "anthropic"])
@pytest.mark.parametrize("name", BROKEN)
def test_the_protocol_of_the_provider_makes_no_difference_to_the_rules(name, protocol):
    run = simulated(name, protocol=protocol)
    assert check_stream(run, whole(response(), run)) in STATUSES[facts_of(run)[-1].outcome.kind]


@pytest.mark.requirement("E4", "F4")
@BOTH
@pytest.mark.parametrize("name", ALL)
def test_any_grouping_of_the_items_gives_the_same_bytes(name, tools):
    run, data = run_named(name), rendered(name, tools=tools)
    assert one_by_one(response(tools=tools), run) == data
    for at in range(0, len(run), 3):
        reader = response(tools=tools)
        assert reader.open() + reader.take(run[:at]) + reader.take([]) + reader.take(run[at:]) == data


@pytest.mark.requirement("E4", "F4")
@pytest.mark.parametrize(
    "name", ["one tool", "handed over", "a thought before the rest", "rate limited", "draft"]
)
def test_a_reader_that_comes_back_gets_exactly_what_follows_its_last_number(name):
    run, pieces = run_named(name), rendered(name).split(b"\n\n")[:-1]
    for number in range(len(pieces) + 1):
        reader = response(starting_after=number)
        rest = b"".join(piece + b"\n\n" for piece in pieces[number + 1 :])
        assert one_by_one(reader, run) == rest
        assert reader.ended


# Official clients


@pytest.mark.requirement("F4")
@BOTH
@pytest.mark.parametrize("name", ALL)
def test_the_official_helper_takes_every_run(name, tools):
    data = rendered(name, tools=tools)
    written = [event["type"] for event in events(data)]
    body = events(data)[-1]["response"]
    with openai_client(data).responses.stream(model="m", input="Hi") as stream:
        if body["status"] == "failed":
            with pytest.raises(openai.APIError) as caught:
                list(stream)
            assert str(caught.value) == body["error"]["message"]
            return
        assert [event.type for event in stream] == written
        if body["status"] == "completed":
            assert stream.get_final_response().output_text == "".join(
                text for kind, text in outline(body["output"]) if kind == "says"
            )


@pytest.mark.requirement("F4")
@pytest.mark.parametrize(
    "name", ["one tool", "handed over", "a thought before the rest", "stopped in text", "draft"]
)
def test_the_official_package_reads_a_stream_and_the_plain_answer_to_the_same_response(name):
    reader = response()
    data = whole(reader, run_named(name))
    *_, last = openai_client(data).responses.create(model="m", input="Hi", stream=True)
    plain = openai_client(msgspec.json.encode(reader.answer().body), "application/json").responses.create(
        model="m", input="Hi"
    )
    assert plain.to_dict() == last.response.to_dict()
    assert (plain.id, int(plain.created_at)) == ("resp_r", CREATED)
    assert plain.model in ("m", "world")


@pytest.mark.requirement("F4")
def test_the_official_helper_goes_on_behind_a_number_over_a_whole_replay():
    data = rendered("one tool")
    client = openai_client(data)
    with client.responses.stream(response_id="resp_r", starting_after=9) as stream:
        assert [event.sequence_number for event in stream] == [
            event["sequence_number"] for event in events(data)[10:]
        ]


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize("name", ["one tool", "handed over", "a thought before the rest"])
def test_a_wait_at_every_place_changes_nothing_and_has_a_number_to_come_back_to(name):
    run = waited(run_named(name))
    reader = response()
    data = reader.open() + b"".join([reader.take([item]) + reader.beat(1.0) for item in run])
    numbers = [event["sequence_number"] for event in events(data)]
    assert numbers == list(range(len(events(rendered(name))) + len(run) // 2))
    with openai_client(data).responses.stream(model="m", input="Hi") as stream:
        got = stream.get_final_response()
    assert outline(got.to_dict()["output"]) == outline(final(name)["output"])
    pieces = data.split(b"\n\n")[:-1]
    for number in numbers:
        rest = b"".join(piece + b"\n\n" for piece in pieces[number + 1 :])
        assert one_by_one(response(starting_after=number), run) == rest


@pytest.mark.requirement("F2", "F4")
@pytest.mark.parametrize("name", ALL)
def test_only_what_is_stored_is_told(name):
    """A beat has nothing to say: a number that the journal does not know would be given to something else later."""
    run, reader = run_named(name), response()
    pieces = [reader.open()]
    for item in run:
        pieces += [reader.take([item]), reader.beat(1.0)]
    assert b"".join(pieces) == rendered(name)


@pytest.mark.parametrize("beats", [0, 1])
@pytest.mark.requirement("F4", "F5")
def test_the_farewell_of_a_server_has_a_number_that_nothing_else_gets(beats):
    run = run_named("left and taken up")
    (left,) = [place for place, fact in enumerate(facts_of(run)) if isinstance(fact, RunLeft)]
    reader = response()
    before = reader.open() + reader.take(run[: left + 1]) + b"".join(reader.beat(1.0) for _ in range(beats))
    seen = events(before + reader.interrupted())
    numbers = [event["sequence_number"] for event in seen]
    assert numbers == list(range(len(seen)))
    assert (seen[-1]["type"], seen[-1]["code"]) == ("error", "interrupted")
    assert f"starting_after={numbers[-1]}" in seen[-1]["message"]
    again = response(starting_after=numbers[-1])
    later = [event["sequence_number"] for event in events(again.open() + again.take(run))]
    assert later == list(range(numbers[-1] + 1, len(events(rendered("left and taken up")))))
    stopped = response(starting_after=numbers[-1])
    stopped.open()
    stopped.take(run[: left + 1])
    assert stopped.last_number == numbers[-1]
    assert events(stopped.interrupted())[-1]["code"] == "interrupted"


@pytest.mark.requirement("F4", "F5")
def test_a_server_that_stops_says_from_where_to_go_on():
    reader = response()
    last = events(reader.open() + reader.take(run_named("one tool")[:6]))[-1]["sequence_number"]
    (event,) = events(reader.interrupted())
    assert (event["type"], event["code"], event["sequence_number"], event["param"]) == (
        "error",
        "interrupted",
        last,
        None,
    )
    assert f"starting_after={last}" in event["message"]
    assert not reader.ended
