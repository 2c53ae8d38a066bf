"""One story on every surface: whoever tells a run, and however, says the same words, the same end and the same notices."""

import pytest
from support.narrate.sample_runs import (
    ALL,
    BROKEN,
    facts_of,
    run_named,
    simulated_with_faults,
    stories_with_faults,
    waited,
)
from support.narrate.surfaces import SURFACES, Rendering, console

from turnbuckle.agent.events import Cursor, EventRenderer
from turnbuckle.cli.chat.renderer import ChatRunRenderer
from turnbuckle.cli.pieces import PieceRenderer
from turnbuckle.cli.waiting import words
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.notices import CRASHED, RESTARTED, STOPPING
from turnbuckle.narrate.receipt import receipt
from turnbuckle.narrate.told import CallGrown
from turnbuckle.turn.facts import RunEnded, RunLeft, StopAsked, ToolFinished, decode
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome

LET_GO = "Suspended: the server stops. It can be resumed."
WORDS = [
    # What happened, and the text, outcome and notices of it.
    ("text in blocks", "The sky is blue.", "completed", ()),
    ("a refusal in words", "I will not.", "failed", ()),
    ("text and a refusal", "Well.\n\nI will not.", "failed", ()),
    ("refusals around a tool", "I will not.\n\nStill not.", "failed", ()),
    ("an internal tool", "Hm.\n\nDone.", "completed", ()),
    ("text, thought, text", "First.\n\nThen.", "completed", ()),
    ("messages of a Responses provider", "I look.\n\nDone.", "completed", ()),
    ("line ends that come one by one", "I look.\n\nDone.", "completed", ()),
    ("paragraphs of its own", "I look.\n\nDone.\n\nBye.", "completed", ()),
    ("steered", "One.\n\nTwo.", "completed", ()),
    ("handed over", "I edit it.", "completed", ()),
    ("no consent", "Well.", "completed", ()),
    ("a question", "Red it is.", "completed", ()),
    ("stopped in text", "Once upon a", "cancelled", (STOPPING,)),
    ("stopped in a tool", "I wait.", "cancelled", (STOPPING,)),
    ("left and taken up", "So it goes.", "completed", (LET_GO, RESTARTED)),
    ("run again after a crash", "Done.", "completed", (CRASHED,)),
    ("left, taken up, then killed", "So it goes.", "completed", (LET_GO, RESTARTED, CRASHED)),
    ("partial, JSON wanted", '{"a":', "partial", ()),
    ("partial with a draft", "I write.", "partial", ("stream broke",)),
    ("a fresh start", "Hello.", "completed", ("Fresh start: the last run was stopped.",)),
    ("a thought before the rest", "It is all done now.", "completed", ()),
    ("rate limited", "", "failed", ()),
    ("draft", "Here it comes.\n\nIt is all done now.", "completed", None),
    ("nothing forever", "", "failed", None),
]


def told_by_all(run) -> dict[str, Rendering]:
    return {name: tell(run) for name, tell in SURFACES.items()}


def same_tools(one, other) -> bool:
    """Responses know fewer words for the end of a tool: there it only counts whether it went well."""
    if one is None or other is None:
        return True
    ends = [
        (name, "" if any(end == "" for _, end in one) and status != "finished" else status)
        for name, status in other
    ]
    return list(one) == ends


def differences(told: dict[str, Rendering]) -> list[str]:
    """Where a surface says something else than `GET /v1/runs`. A failed plain chat is an error, and has no text."""
    first = told["GET /v1/runs"]
    return [
        f"{name}: {one} instead of {first}"
        for name, one in told.items()
        if one.text not in (first.text, None)
        or not same_tools(one.tools, told.get("Agent: events", first).tools)
        or (one.text is None and first.outcome != "failed")
        or (one.outcome, one.why, one.notices) != (first.outcome, first.why, first.notices)
    ]


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name, text, outcome, notices", WORDS, ids=[row[0] for row in WORDS])
def test_every_kind_of_run_is_told_in_the_right_words(surface, name, text, outcome, notices):
    told = SURFACES[surface](run_named(name))
    assert told.text in (text, None)
    assert told.outcome == outcome
    assert notices is None or told.notices == notices


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", ALL)
def test_all_surfaces_tell_one_story(name):
    assert differences(told_by_all(run_named(name))) == []


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", BROKEN)
def test_all_surfaces_tell_one_story_whatever_broke(name, record_property):
    wrong = {}
    count = 0
    for run, faults in stories_with_faults(name):
        count += len(faults)
        if found := differences(told_by_all(run)):
            wrong[str(faults)] = found
    record_property("worlds tried", count)
    assert not wrong
    assert count > 30


@pytest.mark.requirement("C6", "F4")
@pytest.mark.parametrize("name", ALL)
def test_that_a_run_was_waited_for_is_part_of_nobodys_story(name):
    run = run_named(name)
    assert told_by_all(waited(run)) == told_by_all(run)


@pytest.mark.requirement("C6")
@pytest.mark.process
def test_the_page_tells_the_same_story_and_draws_the_same_words():
    runs = {name: run_named(name) for name in ALL}
    runs |= {
        f"{name} {fault}": run for name in BROKEN[:3] for fault, run in list(simulated_with_faults(name))[::7]
    }
    wrong = {}
    for name, (told, drawn) in console(runs).items():
        found = differences({"GET /v1/runs": SURFACES["GET /v1/runs"](runs[name]), "console": told})
        if found or drawn != told.text:
            wrong[name] = (found, drawn)
    assert not wrong


def test_the_runs_of_the_table_hold_a_graceful_restart_and_a_crash():
    left = {name for name in ALL if any(isinstance(fact, RunLeft) for fact in facts_of(run_named(name)))}
    assert "left and taken up" in left
    assert "run again after a crash" not in left


FINISHED = ["draft", "a wrong anchor, then the right one", "anchors that never fit"]


@pytest.mark.requirement("H13")
@pytest.mark.parametrize("name", FINISHED)
def test_no_surface_names_the_tool_that_finishes_a_draft(name):
    run = run_named(name)
    chat, plain, events = ChatRunRenderer(), PieceRenderer(), EventRenderer(RunId("r"), Cursor())
    narration = Narration(arguments=True)
    for item in run:
        fact = decode(item.data)
        told = [one for one in narration.take(fact) if not isinstance(one, CallGrown)]
        shown: list[object] = [
            *chat.take(item.seq, fact),
            *chat.live(),
            *plain.take(fact),
            *told,
            *events.take(item),
        ]
        shown += [words(chat.waiting, fact.at), narration.waiting.on(fact.at)]
        assert "finish_call" not in repr(shown)
    assert "finish_call" not in repr(receipt(facts_of(run)))


@pytest.mark.requirement("H13")
def test_a_stop_between_the_pieces_of_a_draft_is_told_without_the_tool_that_finishes_it():
    found = 0
    for name in FINISHED:
        facts = facts_of(run_named(name))
        for at, fact in enumerate(facts):
            if isinstance(fact, ToolFinished) and fact.name == "finish_call":
                found += 1
                stopped = [
                    *facts[:at],
                    StopAsked(fact.at, "user"),
                    fact,
                    RunEnded(fact.at, Outcome("cancelled")),
                ]
                assert "finish_call" not in repr(receipt(stopped))
    assert found > 0
