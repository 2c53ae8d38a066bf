"""A reply of several calls that is cut: all of them are kept, nothing is generated twice, and they run in their order."""

import asyncio

import msgspec
import pytest
from support.turns.histories import in_pieces
from support.worlds.tasks import LINES, MORE

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.brains import PlannedCall, Round, planned
from turnbuckle.testing.world.invariants import check_run
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import CallsHandedOver, CallsHeld, ModelAsked, ToolStarted
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.request import RunOptions, ToolSpec

FIRST = "".join(f"{number:04}: the first file has line {number}\n" for number in range(200))
SECOND = "".join(f"{number:04}: and the second one has this {number * 31}\n" for number in range(200))
ONE = PlannedCall("write_file", {"path": "first.txt", "content": FIRST})
TWO = PlannedCall("write_file", {"path": "second.txt", "content": SECOND})
CALLERS = (
    PlannedCall("put", {"name": "first", "body": FIRST}),
    PlannedCall("put", {"name": "second", "body": SECOND}),
)
RELAY = RunOptions(own_tools=False, tools=(ToolSpec("put"),))
WHOLE = len(msgspec.json.encode(ONE.arguments)) + len(msgspec.json.encode(TWO.arguments))


def play(brain, protocol="openai_chat", **more):
    story = asyncio.run(RunWorld(Task("two files", (brain,), **more), protocol=protocol, wired=True).play())
    assert check_run(story) == ()
    return story


def started(story):
    return [fact.arguments.get("path") for fact in story.facts if isinstance(fact, ToolStarted)]


@pytest.mark.requirement("B16")
@in_pieces
@pytest.mark.parametrize("share", [0.4, 0.55, 0.7, 0.9, 0.999])
def test_two_files_in_one_cut_reply_are_written_once_in_order_and_generated_once(protocol, share):
    story = play(
        planned(Round("", (ONE, TWO)), Round("Done."), pieces=50), protocol, kill_after=int(WHOLE * share)
    )
    assert story.outcome.kind == "completed"
    assert started(story) == ["first.txt", "second.txt"]
    assert story.files == {"first.txt": FIRST, "second.txt": SECOND}
    assert story.argument_characters <= 1.05 * WHOLE
    notes = [
        text_of(note.parts) for fact in story.facts if isinstance(fact, ModelAsked) for note in fact.notes
    ]
    assert any("write_file first.txt" in note for note in notes)


@pytest.mark.requirement("B16", "F11")
@in_pieces
def test_a_caller_gets_both_calls_of_a_cut_reply_at_once_and_whole(protocol):
    brain = planned(Round("", CALLERS), pieces=50)
    story = play(brain, protocol, kill_after=int(WHOLE * 0.7), options=RELAY)
    (over,) = [fact for fact in story.facts if isinstance(fact, CallsHandedOver)]
    assert [(one.name, msgspec.json.decode(one.arguments)) for one in over.calls] == [
        (one.name, one.arguments) for one in CALLERS
    ]
    assert story.outcome.kind == "completed"
    assert story.argument_characters <= 1.05 * WHOLE


def gives_up(request, number):
    """It makes two calls, and after the cut it only says so."""
    calls = [
        Call("write_file", {"path": "a.txt", "content": LINES}),
        Call("write_file", {"path": "b.txt", "content": MORE}, 20),
    ]
    return [Say("I leave it at that."), Finish()] if number else [*calls, Finish()]


@pytest.mark.requirement("B16", "C6")
def test_whole_calls_that_the_model_does_not_want_any_more_never_run_and_are_named():
    story = play(gives_up, kill_after=300)
    assert any(isinstance(fact, CallsHeld) for fact in story.facts)
    assert story.files == {}
    assert story.outcome.kind == "partial"
    assert "never started: write_file a.txt" in story.outcome.why
    assert len(story.outcome.drafts) == 1


@pytest.mark.requirement("B16")
def test_a_model_that_makes_its_held_calls_again_has_them_run_once():
    brain = planned(Round("", (ONE, TWO)), Round("Done."), pieces=50, remakes=True)
    story = play(brain, kill_after=int(WHOLE * 0.7))
    assert started(story) == ["first.txt", "second.txt"]
    assert story.files == {"first.txt": FIRST, "second.txt": SECOND}
