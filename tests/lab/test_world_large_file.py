"""A large file through a provider that kills every stream after a few kilobytes of arguments."""

import asyncio

import msgspec
import pytest
from support.turns.histories import in_pieces

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.brains import PlannedCall, Round, planned
from turnbuckle.testing.world.invariants import check_run
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import Decided, DraftKept, FinishDraft
from turnbuckle.vocab.messages import CallPart, text_of

SIZE = 30_000
KILL_AFTER = 4_000
FILE = "".join(
    f'{number:05}: the value "{number * 7919}" of row {number} is kept — π\n' for number in range(SIZE)
)[:SIZE]
WRITE = PlannedCall("write_file", {"path": "big.txt", "content": FILE})


def play(brain, protocol, **more):
    task = Task("a large file", (brain,), kill_after=KILL_AFTER, **more)
    story = asyncio.run(RunWorld(task, protocol=protocol, wired=True).play())
    assert check_run(story) == ()
    return story


@pytest.mark.requirement("B6", "B8")
@in_pieces
def test_a_large_file_gets_through_and_is_generated_about_once(protocol):
    story = play(planned(Round("I write it.", (WRITE,)), Round("Done."), pieces=50), protocol)
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": FILE}
    assert [done.name for done in story.done] == ["write_file"]
    assert story.argument_characters <= 1.05 * len(msgspec.json.encode(WRITE.arguments).decode())
    assert story.turn.shown == "Done."
    assert story.outcome.drafts == ()


@pytest.mark.requirement("B8", "B13")
@pytest.mark.parametrize("rest", [0, 3_000])
def test_a_large_file_of_equal_blocks_gets_through_and_loses_none(rest):
    block = FILE[:1_500]
    write = PlannedCall("write_file", {"path": "big.txt", "content": block * 12})
    story = play(planned(Round("", (write,)), Round("Done."), pieces=50, rest=rest), "openai_chat")
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": block * 12}
    assert [done.name for done in story.done] == ["write_file"]
    assert story.argument_characters <= 1.15 * 12 * 1_500


@pytest.mark.requirement("B8")
@in_pieces
def test_a_large_file_gets_through_in_pieces_that_the_model_chooses(protocol):
    brain = planned(Round("", (WRITE,)), Round("Done."), pieces=50, rest=3_000)
    story = play(brain, protocol)
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": FILE}
    assert [done.name for done in story.done] == ["write_file"]
    assert sum(isinstance(fact, Decided) for fact in story.facts) == 1
    assert story.argument_characters <= 1.15 * SIZE


def knows_no_drafts(request, number):
    """It overlooks drafts, but makes smaller calls when it is asked to."""
    calls = [part for message in request.messages for part in message.parts if isinstance(part, CallPart)]
    written = "".join(msgspec.json.decode(call.arguments)["content"] for call in calls)
    if len(written) == SIZE:
        return [Say("Done."), Finish()]
    asked = any("smaller" in text_of(message.parts) for message in request.messages if message.note)
    piece = FILE[len(written) :][: 3_000 if written or asked else SIZE]
    return [
        Call("append_file" if written else "write_file", {"path": "big.txt", "content": piece}, 50),
        Finish(),
    ]


@pytest.mark.requirement("B5", "B7")
@in_pieces
def test_a_model_that_overlooks_drafts_gets_through_by_smaller_calls(protocol):
    story = play(knows_no_drafts, protocol)
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": FILE}
    assert story.outcome.drafts == ()


def heeds_nothing(request, number):
    return [Call("write_file", WRITE.arguments, 50), Finish()]


@pytest.mark.requirement("B6", "B7", "B9", "C7", "D1")
@in_pieces
def test_a_model_that_heeds_nothing_is_stopped_soon_and_its_draft_is_kept(protocol):
    story = play(heeds_nothing, protocol, kill_plain=True)
    assert story.outcome.kind == "partial"
    assert "write_file was cut 4 times in a row" in story.outcome.why
    assert len(story.asked) == 4
    assert story.files == {}
    assert story.done == ()
    assert len(story.outcome.drafts) == 1
    kept = [fact.draft for fact in story.facts if isinstance(fact, DraftKept)]
    assert [draft.id for draft in kept] == list(story.outcome.drafts)
    assert FILE.startswith(kept[0].text)
    assert len(kept[0].text) > 0.9 * KILL_AFTER


@pytest.mark.requirement("B7")
def test_repeated_cuts_of_one_call_ask_for_smaller_pieces_then_for_a_plain_answer():
    story = play(heeds_nothing, "openai_chat", kill_plain=True)
    decided = [fact for fact in story.facts if isinstance(fact, Decided)]
    assert [type(fact.decision).__name__ for fact in decided] == ["FinishDraft"] * 3 + ["GiveUp"]
    assert [fact.decision.escalation for fact in decided if isinstance(fact.decision, FinishDraft)] == [
        1,
        2,
        3,
    ]
    assert [asked.request.stream for asked in story.asked] == [True, True, True, False]
    notes = [text_of(asked.request.messages[-1].parts) for asked in story.asked[1:]]
    assert notes[0] != notes[1]


@pytest.mark.requirement("B7")
def test_another_route_is_taken_before_a_plain_answer_is_asked_for():
    rescue = planned(Round("", (WRITE,)), Round("Done."), pieces=50)
    task = Task("two routes", (heeds_nothing, rescue), kill_after=KILL_AFTER)
    story = asyncio.run(RunWorld(task, wired=True).play())
    assert check_run(story) == ()
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": FILE}
    assert [asked.route for asked in story.asked[:4]] == ["route0"] * 3 + ["route1"]
    assert all(asked.request.stream for asked in story.asked)


@pytest.mark.requirement("B7")
def test_a_plain_answer_rescues_a_model_that_heeds_nothing():
    def heeds_nothing_but_ends(request, number):
        if any(message.role == "tool" for message in request.messages):
            return [Say("Done."), Finish()]
        return heeds_nothing(request, number)

    story = play(heeds_nothing_but_ends, "openai_chat")
    assert story.outcome.kind == "completed"
    assert story.files == {"big.txt": FILE}
    assert [asked.request.stream for asked in story.asked] == [True, True, True, False, True]
