"""A run as a response: each rule by an example."""

import msgspec
import openai
import pytest
from support.narrate.responses_output import events, final, outline, rendered, response
from support.narrate.sample_runs import ALL, BIG, DONE, NOTICE, RESET, facts_of, items, run_named, whole
from support.turns.turn_facts import START, ask, burst
from support.wire.official_clients import openai_client

from turnbuckle.narrate.fold import LEFT
from turnbuckle.server.faces.chat.renderer import ARGUMENTS_PIECE
from turnbuckle.turn.facts import ToolFinished
from turnbuckle.vocab.events import (
    BlockClosed,
    Ended,
    FinishNoted,
    ReasoningDelta,
    StateNoted,
    TextDelta,
)
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import result_part

ENDED = (FinishNoted("stop", "stop"), Ended("e"))

# Items


CONSENT = "Waiting for consent to run shell: rm -rf build (POST /v1/runs/r/approvals/a1-0)"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("one tool", [("says", "I look."), ("runs", "read_file"), ("says", "It is all done now.")]),
        ("a route that dies in the middle", [("says", "It is all done now.")]),
        ("left and taken up", [("says", "So it goes.")]),
        ("draft", [("says", "Here it comes."), ("runs", "write_file"), ("says", "It is all done now.")]),
        (
            "a thought before the rest",
            [("thinks", "Hm."), ("says", "It is all done now."), ("thinks", "Where was I?")],
        ),
        ("text, thought, text", [("says", "First."), ("thinks", "Hm."), ("says", "Then.")]),
        ("text in blocks", [("says", "The sky is blue.")]),
        ("thoughts", [("thinks", "One. Two."), ("thinks", "Three."), ("says", "AB")]),
        ("a thought that was cut", [("thinks", "Hm"), ("thinks", "Hm hm."), ("says", "Yes.")]),
        ("side by side", [("runs", "look"), ("runs", "look"), ("says", "Both.")]),
        ("run again after a crash", [("runs", "look"), ("says", "Done.")]),
        ("no consent", [("thinks", CONSENT), ("says", "Well.")]),
        ("an internal tool", [("says", "Hm."), ("says", "Done.")]),
        ("handed over behind a tool of ours", [("runs", "look"), ("calls", "call_r_0")]),
        ("stopped in text", [("says", "Once upon a\n\n[Stopped.]")]),
        ("stopped in a tool", [("says", "I wait."), ("runs", "shell"), ("says", "[Stopped.]")]),
        ("a refusal in words", [("says", "I will not.")]),
        ("at the client's limit", [("says", "One, two")]),
        ("partial, JSON wanted", [("says", '{"a":')]),
        ("steered", [("says", "One."), ("says", "Two.")]),
        ("a fresh start", [("thinks", NOTICE), ("thinks", "Hm."), ("says", "Hello.")]),
        ("rate limited", []),
    ],
)
@pytest.mark.requirement("F4", "B3", "C6")
def test_items_stand_in_their_true_order_and_a_cut_text_is_one_message(name, expected):
    assert outline(final(name)["output"]) == expected


@pytest.mark.parametrize(
    "name, expected",
    [
        ("one tool", [("says", "I look."), ("calls", "r0_1"), ("gets", "r0_1"), ("says", "It is all done now.")]),
        ("side by side", [("calls", "a"), ("calls", "b"), ("gets", "b"), ("gets", "a"), ("says", "Both.")]),
        ("the same id again", [("calls", "c1"), ("gets", "c1"), ("calls", "c1-2"), ("gets", "c1-2"), ("calls", "c1-3"), ("gets", "c1-3"), ("says", "Done.")]),
        ("handed over behind a tool of ours", [("calls", "c1"), ("gets", "c1"), ("calls", "call_r_0")]),
    ],
)  # fmt: skip
@pytest.mark.requirement("F4")
def test_tools_of_ours_can_be_had_as_calls_with_their_outputs_directly_behind(name, expected):
    assert outline(final(name, tools="function")["output"]) == expected


@pytest.mark.requirement("F4", "G4")
def test_a_notice_is_told_once_before_the_answer_and_beside_the_outcome():
    body = final("a fresh start")
    assert body["turnbuckle"]["notice"] == NOTICE
    assert msgspec.json.encode(body["output"]).decode().count(NOTICE) == 1
    assert "notice" not in final("one tool")["turnbuckle"]


@pytest.mark.requirement("F4")
def test_a_running_tool_is_in_progress_with_all_its_arguments_and_ends_with_its_output():
    run, reader = run_named("consent"), response()
    reader.open()
    reader.take(run[:5])
    started = events(reader.take(run[5:6]))
    assert [event["type"] for event in started] == [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
    ]
    assert (started[0]["item"]["status"], started[0]["item"]["arguments"]) == ("in_progress", "")
    assert started[-1]["arguments"] == '{"command":"rm -rf build"}'
    over = events(reader.take(run[6:7]))
    assert [event["type"] for event in over] == ["response.mcp_call.completed", "response.output_item.done"]
    assert over[-1]["item"] == {
        "type": "mcp_call",
        "id": "mcp_r_1",
        "status": "completed",
        "server_label": "turnbuckle",
        "name": "shell",
        "arguments": '{"command":"rm -rf build"}',
        "output": "fine",
        "error": None,
        "approval_request_id": None,
    }


@pytest.mark.requirement("F4", "D8", "G9")
def test_what_a_person_is_asked_is_shown_by_plain_clients_and_can_be_found_by_others():
    run, reader = run_named("consent"), response()
    reader.open()
    seen = events(reader.take(run[:4]))
    asked = {
        "id": "a1-0",
        "status": "asked",
        "kind": "approval",
        "tool": "shell",
        "label": "rm -rf build",
        "expires": 90.0,
        "answer": "POST /v1/runs/r/approvals/a1-0",
    }
    assert (seen[0]["type"], seen[0]["turnbuckle"]) == ("response.in_progress", {"approval": asked})
    assert outline([seen[-1]["item"]]) == [("thinks", CONSENT)]
    assert reader.body()["turnbuckle"] == {"approvals": [asked]}
    assert reader.body()["status"] == "in_progress"
    (answered,) = events(reader.take(run[4:5]))
    assert answered["turnbuckle"] == {"approval": {"id": "a1-0", "status": "allowed"}}
    assert final("consent")["turnbuckle"]["approvals"] == [{**asked, "status": "allowed"}]
    question = final("a question")
    assert outline(question["output"])[0][1].startswith(
        "Waiting for an answer: Red or blue? (POST /v1/runs/r/"
    )
    assert question["turnbuckle"]["approvals"][0]["status"] == "answered"


ENDS = [
    ("consent", "completed", "completed"),
    ("a tool that fails", "failed", "completed"),
    ("stopped in a tool", "incomplete", "incomplete"),
    ("unknown after a crash", "incomplete", "incomplete"),
    ("a tool without an end", "incomplete", "incomplete"),
]


@pytest.mark.parametrize("name, hosted, function", ENDS)
@pytest.mark.requirement("F4", "D4")
def test_what_a_tool_gave_is_told_in_the_words_that_the_model_was_told(name, hosted, function):
    facts = facts_of(run_named(name))
    outcomes = [fact.outcome for fact in facts if isinstance(fact, ToolFinished)] or [LEFT]
    words = text_of(result_part("c1", outcomes[0]).content)
    (ran,) = [item for item in final(name)["output"] if item["type"] == "mcp_call"]
    assert (ran["status"], ran["output"]) == (hosted, words)
    assert (ran["error"] is None) == (hosted == "completed")
    (output,) = [
        item for item in final(name, tools="function")["output"] if item["type"] == "function_call_output"
    ]
    assert (output["status"], output["output"]) == (function, [{"type": "input_text", "text": words}])


@pytest.mark.requirement("F11")
def test_calls_for_the_client_come_whole_and_without_an_output():
    seen = events(rendered("handed over"))
    pieces = [
        event["delta"]
        for event in seen
        if event["type"] == "response.function_call_arguments.delta" and event["output_index"] == 1
    ]
    assert "".join(pieces) == BIG
    assert max(map(len, pieces)) <= ARGUMENTS_PIECE < len(BIG)
    output = final("handed over")["output"]
    assert outline(output) == [("says", "I edit it."), ("calls", "call_r_0"), ("calls", "call_r_1")]
    assert [(item["name"], item["status"]) for item in output[1:]] == [
        ("edit", "completed"),
        ("now", "completed"),
    ]


@pytest.mark.requirement("F4")
def test_a_thought_is_done_before_the_text_behind_it_begins():
    """Chat providers do not say that a thought is over, and clients know one open item."""
    spoken = (burst(ReasoningDelta(0, "Hm.")), burst(TextDelta(1, "Yes")), burst(TextDelta(1, "."), *ENDED))
    assert item_events(START, ask(), *spoken, DONE) == [("added", 0), ("done", 0), ("added", 1), ("done", 1)]


@pytest.mark.requirement("F4")
def test_a_thought_that_goes_on_beside_the_text_does_not_break_it_up():
    spoken = [burst(ReasoningDelta(0, "Hm "), TextDelta(1, "Yes ")) for _ in range(4)]
    run = (START, ask(), *spoken, burst(*ENDED), DONE)
    assert item_events(*run) == [
        ("added", 0),
        ("done", 0),
        ("added", 1),
        ("added", 2),
        ("done", 2),
        ("done", 1),
    ]
    output = events(whole(response(), items(*run)))[-1]["response"]["output"]
    assert outline(output) == [("thinks", "Hm "), ("says", "Yes " * 4), ("thinks", "Hm " * 3)]


def item_events(*facts):
    """When items were added and done."""
    seen = events(whole(response(), items(*facts)))
    known = {"response.output_item.added": "added", "response.output_item.done": "done"}
    return [(known[event["type"]], event["output_index"]) for event in seen if event["type"] in known]


@pytest.mark.requirement("A3", "F4")
def test_what_a_responses_provider_said_of_its_items_is_told_again():
    sealed = {"type": "reasoning", "id": "rs_up", "encrypted_content": "gAAA", "summary": []}
    spoken = burst(
        StateNoted(0, {"type": "reasoning", "id": "rs_up"}), ReasoningDelta(0, "Hm."), StateNoted(0, sealed), BlockClosed(0),
        TextDelta(1, "I look."), StateNoted(1, {"type": "message", "phase": "commentary"}), BlockClosed(1),
        TextDelta(2, "Yes."), StateNoted(2, {"type": "message", "phase": "final_answer"}), BlockClosed(2),
        StateNoted(3, {"type": "reasoning", "id": "rs_up", "encrypted_content": "hBBB"}), BlockClosed(3),
        FinishNoted("stop", "completed"), Ended("response.completed"),
    )  # fmt: skip
    asked = msgspec.structs.replace(ask(), protocol="openai_responses")
    data = whole(response(), items(START, asked, spoken, DONE))
    thought, first, second, sealed_only = events(data)[-1]["response"]["output"]
    assert (thought["id"], thought["encrypted_content"], thought["summary"]) == (
        "rs_up",
        "gAAA",
        [{"type": "summary_text", "text": "Hm."}],
    )
    assert [(item["content"][0]["text"], item["phase"]) for item in (first, second)] == [
        ("I look.", "commentary"),
        ("Yes.", "final_answer"),
    ]
    assert (sealed_only["encrypted_content"], sealed_only["summary"]) == ("hBBB", [])
    assert sealed_only["id"] != "rs_up"
    with openai_client(data).responses.stream(model="m", input="Hi") as stream:
        assert len(stream.get_final_response().output) == 4


def test_annotations_of_a_text_that_was_joined_stand_at_their_places_in_all_of_it():
    noted = StateNoted(0, {"type": "message", "annotations": [{"type": "url_citation", "start_index": 0}]})
    asked = [msgspec.structs.replace(ask(number), protocol="openai_responses") for number in (1, 2)]
    rest = burst(TextDelta(0, "sky."), noted, FinishNoted("stop", "completed"), Ended("e"), number=2)
    parts = [
        events(whole(response(), items(START, *facts, DONE)))[-1]["response"]["output"][0]["content"][0]
        for facts in ((asked[1], rest), (asked[0], burst(TextDelta(0, "The "), RESET), asked[1], rest))
    ]
    places = [(part["text"], part["annotations"][0]["start_index"]) for part in parts]
    assert places == [("sky.", 0), ("The sky.", 4)]


@pytest.mark.parametrize(
    "name, status", [("stopped in text", "incomplete"), ("one tool", "completed"), ("filtered", "incomplete")]
)
def test_a_message_that_is_open_at_the_end_is_as_finished_as_the_response(name, status):
    *_, last = [item for item in final(name)["output"] if item["type"] == "message"]
    assert last["status"] == status


# The object


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("name", ALL)
def test_the_object_can_be_had_at_any_moment_and_only_grows(name):
    reader = response(echo={"instructions": "Be kind.", "metadata": {"a": "b"}, "store": True})
    assert (reader.body()["status"], reader.body()["output"]) == ("queued", [])
    length = 0
    for item in run_named(name):
        reader.take([item])
        body = reader.body()
        assert (body["id"], body["object"], body["instructions"], body["metadata"], body["store"]) == (
            "resp_r",
            "response",
            "Be kind.",
            {"a": "b"},
            True,
        )
        assert (body["status"] == "in_progress") == (not reader.ended)
        assert len(body["output"]) >= length
        length = len(body["output"])
    whole_reader = response(echo={"instructions": "Be kind.", "metadata": {"a": "b"}, "store": True})
    assert reader.body() == events(whole(whole_reader, run_named(name)))[-1]["response"]


@pytest.mark.requirement("F4")
def test_an_item_that_still_grows_is_shown_as_far_as_it_is_written():
    reader = response()
    reader.take(run_named("stopped in text")[:3])
    (item,) = reader.body()["output"]
    assert (item["status"], item["content"][0]["text"]) == ("in_progress", "Once upon a")
    assert reader.body()["usage"] is None


@pytest.mark.requirement("C6", "F4")
def test_a_failed_run_is_an_error_to_a_client_that_does_not_stream_and_a_response_all_the_same():
    reader = response()
    reader.take(run_named("rate limited"))
    answer = reader.answer()
    assert (answer.status, answer.body["status"], answer.body["id"]) == (429, "failed", "resp_r")
    rendered = dict(answer.headers)
    assert (rendered["x-should-retry"], rendered["x-turnbuckle-outcome"]) == ("false", "failed")
    assert "retry-after" not in rendered
    with pytest.raises(openai.RateLimitError) as caught:
        openai_client(msgspec.json.encode(answer.body), "application/json", answer.status).responses.create(
            model="m", input="Hi"
        )
    assert caught.value.body == {
        "message": "too many requests",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }


def test_a_plain_answer_is_not_there_before_the_end():
    reader = response()
    reader.take(run_named("one tool")[:-1])
    with pytest.raises(ValueError, match="not ended"):
        reader.answer()


@pytest.mark.requirement("F4")
def test_usage_is_what_all_attempts_have_spent():
    used = final("a thought before the rest")["usage"]
    assert (used["input_tokens"], used["output_tokens"], used["total_tokens"]) == (30, 7, 37)
    assert used["input_tokens_details"]["cached_tokens"] == 2
    assert used["output_tokens_details"]["reasoning_tokens"] == 4
