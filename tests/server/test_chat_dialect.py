"""A run as a chat completion: each rule by an example."""

import openai
import pytest
from support.narrate.chat_output import CREATED, asides, chat, chunks, deltas, finishes, plain, rendered
from support.narrate.sample_runs import (
    ALL,
    BIG,
    NOTICE,
    RUN,
    facts_of,
    frames,
    items,
    notices_of,
    run_named,
    start,
)
from support.turns.turn_facts import START, ask, burst
from support.wire.chat_cases.official import ASKED, by_helper
from support.wire.official_clients import openai_client

from turnbuckle.server.faces.chat.renderer import ARGUMENTS_PIECE
from turnbuckle.server.faces.chat.whole_renderer import WholeChatRenderer
from turnbuckle.turn.facts import Decided
from turnbuckle.turn.labels import SHORT
from turnbuckle.vocab.events import CallArgs, CallStarted, ReasoningDelta, TextDelta

# The text


@pytest.mark.requirement("F2")
def test_the_role_is_there_before_anything_is_known_of_the_run():
    (chunk,) = chunks(chat().open())
    assert chunk["choices"][0]["delta"] == {"role": "assistant", "content": ""}


@pytest.mark.requirement("F1")
def test_a_burst_is_one_chunk_for_each_kind_of_words():
    run = items(
        START,
        ask(),
        burst(
            TextDelta(0, "a"),
            TextDelta(0, "b"),
            ReasoningDelta(1, "c"),
            ReasoningDelta(1, "d"),
            TextDelta(2, "e"),
            TextDelta(3, "f"),
        ),
    )
    data = chat().take(run)
    assert (deltas(data, "content"), deltas(data, "reasoning_content")) == (["ab", "\n\nef"], ["cd"])
    assert len(chunks(data)) == 3


@pytest.mark.parametrize(
    "name, text",
    [
        ("one tool", "I look.\n\nIt is all done now."),
        ("a route that dies in the middle", "It is all done now."),
        ("paragraphs of its own", "I look.\n\nDone.\n\nBye."),
        ("text in blocks", "The sky is blue."),
        ("left and taken up", "So it goes."),
        ("draft", "Here it comes.\n\nIt is all done now."),
        ("an internal tool", "Hm.\n\nDone."),
        ("steered", "One.\n\nTwo."),
    ],
)
@pytest.mark.requirement("F1", "B3")
def test_a_cut_text_goes_on_in_its_words_and_a_round_of_tools_begins_a_paragraph(name, text):
    assert "".join(deltas(rendered(name), "content")) == text


def test_thoughts_of_different_blocks_and_attempts_are_paragraphs():
    assert "".join(deltas(rendered("thoughts"), "reasoning_content")) == "One. Two.\n\nThree."
    assert "".join(deltas(rendered("a thought that was cut"), "reasoning_content")) == "Hm\n\nHm hm."


@pytest.mark.requirement("G4", "F1")
@pytest.mark.parametrize("how", ["chunk", "none"])
def test_a_notice_is_a_line_before_the_answer_and_no_part_of_its_text(how):
    data = rendered("a fresh start", events=how)
    assert "".join(deltas(data, "reasoning_content")) == f"{NOTICE}\n\nHm."
    assert "".join(deltas(data, "content")) == "Hello."
    assert asides(data, "notice") == ([NOTICE] if how == "chunk" else [])


@pytest.mark.requirement("G4", "F1")
def test_an_answer_in_one_piece_has_the_notice_before_its_thoughts_and_beside_its_outcome():
    body = plain(run_named("a fresh start")).body
    assert body["choices"][0]["message"]["reasoning_content"] == f"{NOTICE}\n\nHm."
    assert body["choices"][0]["message"]["content"] == "Hello."
    assert body["turnbuckle"]["notice"] == NOTICE


# The end


@pytest.mark.parametrize(
    "name, finish, note",
    [
        ("stopped in text", "length", "Once upon a\n\n[Stopped.]"),
        ("stopped in a tool", "length", "I wait.\n\n[Stopped.]"),
        ("a tool without an end", "length", "[Not finished: the disk is gone]"),
        ("partial with a draft", "length", "I write.\n\n[Not finished: it was cut. Kept as a draft: d1.]"),
        ("filtered", "content_filter", "It is\n\n[Not finished: a content filter stopped it]"),
        ("filtered at once", "content_filter", "[Not finished: a content filter stopped it]"),
        ("a refusal in words", "content_filter", ""),
        ("stopped after a refusal", "length", "[Stopped.]"),
        ("at the client's limit", "length", "One, two"),
        ("partial, JSON wanted", "length", '{"a":'),
        ("handed over", "tool_calls", "I edit it."),
        ("one tool", "stop", "I look.\n\nIt is all done now."),
    ],
)
@pytest.mark.requirement("C6", "F1")
def test_what_is_not_finished_says_so_in_the_text_unless_that_would_spoil_it(name, finish, note):
    data = rendered(name)
    assert finishes(data) == [finish]
    assert "".join(deltas(data, "content")) == note
    answer = plain(run_named(name))
    assert answer.status == 200
    (choice,) = answer.body["choices"]
    assert (choice["finish_reason"], choice["message"]["content"] or "") == (finish, note)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.requirement("C6")
def test_the_outcome_itself_stands_on_the_last_chunk_and_on_the_plain_answer(name):
    started, *_, last = facts = facts_of(run_named(name))
    outcome = last.outcome
    expected = {"outcome": outcome.kind, "why": outcome.why, "run": "r", "drafts": list(outcome.drafts)}
    (key,) = [
        body["turnbuckle"]
        for _, body in frames(rendered(name))
        if body and "outcome" in body.get("turnbuckle", ())
    ]
    answer = plain(run_named(name))
    notice = {"notice": started.notice} if started.notice else {}
    noticed = notices_of(facts)
    assert key == expected
    assert answer.body["turnbuckle"] == {**expected, **notice, **({"notices": noticed} if noticed else {})}
    assert dict(answer.headers)["x-turnbuckle-outcome"] == outcome.kind


@pytest.mark.requirement("C6")
def test_a_failed_run_ends_with_an_error_and_nothing_behind_it():
    data = rendered("rate limited", include_usage=True)
    assert b"[DONE]" not in data
    assert frames(data)[-1][1]["error"] == {
        "message": "too many requests",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    answer = plain(run_named("rate limited"))
    assert answer.status == 429
    assert dict(answer.headers)["x-should-retry"] == "false"
    assert "retry-after" not in dict(answer.headers)


@pytest.mark.requirement("C6")
def test_what_an_earlier_model_declined_is_no_reason_for_how_the_last_one_failed():
    assert frames(rendered("filtered, and then no way"))[-1][1]["error"]["code"] == "connect"
    assert plain(run_named("filtered, and then no way")).status == 502


def test_a_plain_answer_is_not_there_before_the_end():
    page = WholeChatRenderer(RUN, model="agent", created=CREATED)
    page.take(run_named("one tool")[:-1])
    with pytest.raises(ValueError, match="not ended"):
        page.answer()
    assert (page.open(), page.beat(1.0), page.interrupted(), page.ended) == (b"", b"", b"", False)


@pytest.mark.requirement("F1")
def test_usage_is_what_all_attempts_have_spent_and_only_there_where_it_was_asked_for():
    *others, last = chunks(rendered("a thought before the rest", include_usage=True))
    assert (last["choices"], last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (
        [],
        30,
        7,
    )
    assert last["usage"]["prompt_tokens_details"]["cached_tokens"] == 2
    assert last["usage"]["completion_tokens_details"]["reasoning_tokens"] == 4
    assert {chunk["usage"] for chunk in others} == {None}
    assert not any("usage" in chunk for chunk in chunks(rendered("a thought before the rest")))
    assert plain(run_named("a thought before the rest")).body["usage"] == last["usage"]


@pytest.mark.requirement("F5")
def test_a_server_that_stops_says_where_the_run_can_be_followed():
    (frame,) = frames(chat().interrupted())
    assert frame[1]["error"]["code"] == "interrupted"
    assert "/v1/runs/r/events" in frame[1]["error"]["message"]
    assert frame[1]["turnbuckle"] == {"run": "r", "resumable": True}
    with pytest.raises(openai.APIError, match="The run is kept"):
        list(
            openai_client(chat().open() + chat().interrupted()).chat.completions.create(**ASKED, stream=True)
        )


# Calls for the client


@pytest.mark.requirement("F11")
def test_calls_are_handed_over_whole_each_begun_once_and_in_pieces_of_bounded_size():
    data = rendered("handed over")
    fragments = [fragment for calls in deltas(data, "tool_calls") for fragment in calls]
    begun = [fragment for fragment in fragments if "id" in fragment]
    assert [(one["index"], one["id"], one["type"], one["function"]) for one in begun] == [
        (0, "call_r_0", "function", {"name": "edit", "arguments": ""}),
        (1, "call_r_1", "function", {"name": "now", "arguments": ""}),
    ]
    pieces = [fragment["function"]["arguments"] for fragment in fragments if fragment["index"] == 0]
    assert "".join(pieces) == BIG
    assert max(map(len, pieces)) <= ARGUMENTS_PIECE < len(BIG)
    assert by_helper(data)["calls"] == [("call_r_0", "edit", BIG), ("call_r_1", "now", "{}")]


@pytest.mark.requirement("F11")
def test_a_call_without_arguments_is_json_that_a_client_can_parse():
    assert by_helper(rendered("handed over behind a tool of ours"))["calls"] == [("call_r_0", "now", "{}")]


@pytest.mark.requirement("F11")
def test_a_call_shows_nothing_before_it_is_handed_over():
    run = items(START, ask(), burst(CallStarted(0, "x", "edit"), CallArgs(0, BIG)), burst(CallArgs(0, "}")))
    assert chat().take(run) == b""


# Tools of ours


@pytest.mark.requirement("F3")
def test_a_call_has_one_start_and_one_end_with_what_a_person_needs_to_know():
    running, over = asides(rendered("consent"), "tool")
    assert running == {
        "toolCallId": "c1",
        "tool": "shell",
        "label": "rm -rf build",
        "emoji": "💻",
        "status": "running",
    }
    assert over == {**running, "status": "completed", "seconds": 1.25}


@pytest.mark.parametrize(
    "name, expected",
    [
        (
            "the same id again",
            [
                ("c1", "running"),
                ("c1", "completed"),
                ("c1-2", "running"),
                ("c1-2", "completed"),
                ("c1-3", "running"),
                ("c1-3", "completed"),
            ],
        ),
        (
            "an id that looks like another's",
            [
                ("c-2", "running"),
                ("c-2", "completed"),
                ("c", "running"),
                ("c", "completed"),
                ("c-3", "running"),
                ("c-3", "completed"),
            ],
        ),
        ("side by side", [("a", "running"), ("b", "running"), ("b", "completed"), ("a", "completed")]),
        ("run again after a crash", [("c1", "running"), ("c1", "completed")]),
        ("unknown after a crash", [("c1", "running"), ("c1", "unknown")]),
        ("stopped in a tool", [("c1", "running"), ("c1", "killed")]),
        ("a tool without an end", [("c1", "running"), ("c1", "unknown")]),
        ("an internal tool", []),
        ("no consent", []),
        ("a question", []),
    ],
)
@pytest.mark.requirement("F3")
def test_every_start_has_its_end_and_nothing_else_is_shown(name, expected):
    assert [(tool["toolCallId"], tool["status"]) for tool in asides(rendered(name), "tool")] == expected


@pytest.mark.parametrize(
    "events, event", [("tools", "turnbuckle.tool.progress"), ("hermes", "hermes.tool.progress")]
)
@pytest.mark.requirement("F3")
def test_progress_can_be_had_as_named_events(events, event):
    data = rendered("one tool", events=events)
    named = [body for name, body in frames(data) if name]
    assert {name for name, _ in frames(data)} == {"", event}
    assert named == asides(rendered("one tool"), "tool")
    assert asides(data, "tool") == []


@pytest.mark.parametrize("name", ALL)
@pytest.mark.requirement("F3")
def test_whoever_wants_none_of_it_gets_nothing_but_the_known_shape(name):
    data = rendered(name, events="none")
    assert {frame_name for frame_name, _ in frames(data)} == {""}
    assert b'"turnbuckle"' not in data
    assert "".join(deltas(data, "content")) == "".join(deltas(rendered(name), "content"))
    assert "turnbuckle" not in plain(run_named(name), events="none").body


@pytest.mark.parametrize(
    "command, hidden",
    [
        ("curl -H 'Authorization: Bearer abcdefgh12345678' x", "abcdefgh12345678"),
        ("echo " + "x" * (SHORT - 12) + " sk-abcdefghijklmnopqrstuvwx", "sk-"),
    ],
)
@pytest.mark.requirement("F3")
def test_a_label_is_short_and_holds_no_credential(command, hidden):
    data = chat().take(items(START, ask(), start("shell", command=command)))
    (tool,) = asides(data, "tool")
    assert hidden not in data.decode()
    assert 0 < len(tool["label"]) <= SHORT


# Notices and questions


@pytest.mark.requirement("D8", "F3")
def test_a_plain_client_sees_in_the_reasoning_why_nothing_happens_and_where_to_answer():
    data = rendered("consent", events="none")
    assert deltas(data, "reasoning_content") == [
        "Waiting for consent to run shell: rm -rf build (POST /v1/runs/r/approvals/a1-0)"
    ]
    asked, answered = asides(rendered("consent"), "approval")
    assert asked == {
        "id": "a1-0", "status": "asked", "kind": "approval", "tool": "shell", "label": "rm -rf build", "expires": 90.0, "answer": "POST /v1/runs/r/approvals/a1-0",
    }  # fmt: skip
    assert answered == {"id": "a1-0", "status": "allowed"}


@pytest.mark.requirement("D8")
def test_a_question_is_told_in_its_own_words():
    data = rendered("a question")
    assert deltas(data, "reasoning_content") == [
        "Waiting for an answer: Red or blue? (POST /v1/runs/r/approvals/a1-0)"
    ]
    assert [one["status"] for one in asides(data, "approval")] == ["asked", "answered"]
    assert asides(data, "approval")[0]["kind"] == "question"


@pytest.mark.parametrize("name", ["draft", "gave-up", "killed-in-text", "neither drafts nor smaller calls"])
@pytest.mark.requirement("B4")
def test_notices_of_the_run_ride_beside_the_text(name):
    facts = facts_of(run_named(name))
    notices = [fact.notice for fact in facts if isinstance(fact, Decided) and fact.notice]
    assert notices
    assert [notice for notice in asides(rendered(name), "notice") if notice in notices] == notices


def test_long_waits_stops_and_new_owners_are_told():
    assert "waiting 7 s before the next try" in asides(rendered("rate limited"), "notice")
    assert "stopping" in asides(rendered("stopped in text"), "notice")
    assert "resumed after a restart" in asides(rendered("left and taken up"), "notice")
