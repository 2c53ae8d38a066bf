"""The invariants of a run find what they are there to find: each story here was spoilt in one way."""

import asyncio

import pytest
from msgspec.structs import replace
from support.worlds.tasks import TASKS

from turnbuckle.journal.port import Item
from turnbuckle.testing.world.faults import CutReply, KillInTool, Steal
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.run_world import RunWorld
from turnbuckle.testing.world.tools import Done
from turnbuckle.turn.facts import Decided, ModelAsked, StopAsked, Streamed, ToolFinished, ToolStarted
from turnbuckle.turn.policy import TurnLimits
from turnbuckle.vocab.events import Cut, Ended, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.messages import CallPart, Message, TextPart
from turnbuckle.vocab.outcome import Outcome

NAMED = {task.name: task for task in TASKS}


def story_of(name="write, then read", fault=None):
    scenario = RunWorld(NAMED[name], fault) if fault is not None else RunWorld(NAMED[name])
    return asyncio.run(scenario.play())


STORY = story_of()


def with_facts(story, facts):
    """The same story with other facts."""
    return replace(story, facts=tuple(facts), items=story.items[: len(facts)])


def first(story, kind):
    return next(place for place, fact in enumerate(story.facts) if isinstance(fact, kind))


def found(story):
    return {problem.split(":")[0] for problem in check_run(story)}


def test_a_sound_story_has_no_problem():
    assert check_run(STORY) == ()
    assert check_wanted(NAMED["write, then read"], STORY) == ()


def test_a_missing_end_is_found():
    assert "one_end" in found(with_facts(STORY, STORY.facts[:-1]))


def test_an_end_in_the_middle_is_found():
    spoilt = replace(STORY, facts=(*STORY.facts, STORY.facts[-1]), items=(*STORY.items, STORY.items[-1]))
    assert "one_end" in found(spoilt)


def test_another_outcome_than_the_journal_tells_is_found():
    assert "one_end" in found(replace(STORY, outcome=Outcome("cancelled")))


def test_a_second_last_word_is_found():
    place = max(at for at, fact in enumerate(STORY.facts) if isinstance(fact, Streamed))
    fact = STORY.facts[place]
    twice = replace(fact, events=(*fact.events, Ended("again")))
    assert "one_last_word_each" in found(
        replace(STORY, facts=(*STORY.facts[:place], twice, *STORY.facts[place + 1 :]))
    )


def test_text_that_was_shown_and_is_not_in_the_answer_is_found():
    place = max(at for at, fact in enumerate(STORY.facts) if isinstance(fact, Streamed))
    extra = Streamed(0.0, STORY.facts[place].attempt, (TextDelta(5, "taken back"),))
    spoilt = replace(
        STORY, facts=(*STORY.facts[:place], extra, *STORY.facts[place:]), items=(*STORY.items, STORY.items[0])
    )
    assert "shown_is_final" in found(spoilt)


def test_a_tool_that_ran_from_a_cut_reply_is_found():
    last_word = max(at for at in range(first(STORY, ToolStarted)) if isinstance(STORY.facts[at], Streamed))
    cut = replace(STORY.facts[last_word], events=(Cut(failure("reset", "gone")),))
    assert "tools_from_whole_replies" in found(
        replace(STORY, facts=(*STORY.facts[:last_word], cut, *STORY.facts[last_word + 1 :]))
    )


def test_a_write_that_was_done_twice_is_found():
    assert "writes_once" in found(replace(STORY, done=(*STORY.done, *STORY.done)))


def test_an_effect_before_its_intent_is_found():
    assert "writes_once" in found(replace(STORY, done=(Done("key", "write_file", False),)))


def test_a_start_without_an_end_is_found():
    place = first(STORY, ToolFinished)
    assert "starts_are_settled" in found(
        replace(STORY, facts=(*STORY.facts[:place], *STORY.facts[place + 1 :]), items=STORY.items[:-1])
    )


def test_an_answer_given_twice_is_found():
    place = first(STORY, ToolFinished)
    spoilt = (*STORY.facts[: place + 1], *STORY.facts[place:])
    assert "starts_are_settled" in found(replace(STORY, facts=spoilt, items=(*STORY.items, STORY.items[0])))


def test_a_turn_that_is_not_what_the_journal_folds_to_is_found():
    assert "folds_the_same" in found(replace(STORY, driven=replace(STORY.driven, attempt=99)))


def test_lost_items_are_found():
    story = story_of(fault=KillInTool(0, "after"))
    assert check_run(story) == ()
    other = (Item(1, b"another"), *story.seen[0][1:])
    assert "nothing_seen_is_lost" in found(replace(story, seen=(other,)))


def test_a_reader_that_sees_another_story_is_found():
    cursor, read = STORY.reread[0]
    assert "readers_agree" in found(replace(STORY, reread=((cursor, read[1:]),)))


def test_a_robbed_process_that_went_on_is_found():
    story = story_of(fault=Steal(10, "before"))
    assert check_run(story) == ()
    epoch, count, _ = story.robbed[0]
    assert "robbed_do_nothing" in found(replace(story, robbed=((epoch, count, 1),)))
    assert "robbed_do_nothing" in found(replace(story, robbed=((epoch, count - 1, 0),)))


@pytest.mark.parametrize("limits", [TurnLimits(model_calls=1), TurnLimits(tool_calls=1)])
def test_a_budget_that_was_not_kept_is_found(limits):
    assert "budgets" in found(replace(STORY, policy=replace(STORY.policy, limits=limits)))


def test_an_illegal_request_is_found():
    half = Message("assistant", (CallPart("x", "shell", '{"comm'),))
    asked = STORY.asked[-1]
    spoilt = replace(asked, request=replace(asked.request, messages=(*asked.request.messages, half)))
    assert "legal_requests" in found(replace(STORY, asked=(*STORY.asked[:-1], spoilt)))


def test_an_edited_history_is_found():
    asked = STORY.asked[-1]
    other = Message("user", (TextPart("Do something else."),))
    spoilt = replace(asked, request=replace(asked.request, messages=(other, *asked.request.messages[1:])))
    assert any(
        "changed" in problem for problem in check_run(replace(STORY, asked=(*STORY.asked[:-1], spoilt)))
    )


def test_a_break_that_nobody_decided_on_is_found():
    story = story_of(fault=CutReply(0, 1, "reset"))
    place = first(story, Decided)
    facts = (*story.facts[:place], *story.facts[place + 1 :])
    assert "every_break_is_decided" in found(replace(story, facts=facts, items=story.items[:-1]))


def test_a_draft_that_is_not_listed_is_found():
    story = story_of("neither drafts nor smaller calls")
    assert len(story.outcome.drafts) == 1
    assert "drafts_are_listed" in found(replace(story, outcome=replace(story.outcome, drafts=())))


def test_a_note_said_twice_is_found():
    story = story_of("nothing, then an answer")
    asked = story.asked[-1]
    twice = replace(asked.request, messages=(*asked.request.messages, asked.request.messages[-1]))
    assert "legal_requests" in found(replace(story, asked=(*story.asked[:-1], replace(asked, request=twice))))


def test_work_that_starts_behind_a_stop_is_found():
    place = first(STORY, ToolStarted)
    facts = (*STORY.facts[:place], StopAsked(0.0), *STORY.facts[place:])
    assert "nothing_starts_after_a_stop" in found(
        replace(STORY, facts=facts, items=(*STORY.items, STORY.items[0]))
    )


def test_attempts_out_of_order_are_found():
    place = first(STORY, ModelAsked)
    late = replace(STORY.facts[place], attempt=7)
    facts = tuple(
        replace(fact, attempt=7) if isinstance(fact, Streamed) and fact.attempt == 1 else fact
        for fact in STORY.facts
    )
    assert "one_last_word_each" in found(replace(STORY, facts=(*facts[:place], late, *facts[place + 1 :])))


def test_files_that_are_not_as_wanted_are_found():
    assert any(
        "files" in problem for problem in check_wanted(NAMED["write, then read"], replace(STORY, files={}))
    )
