"""Cut calls of small models: finished as plain text where that can be proved, and in part, never wrong, where not."""

import asyncio

import msgspec
import pytest

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.campaign import faults_of, try_faults
from turnbuckle.testing.world.faults import NOTHING, CutReply
from turnbuckle.testing.world.invariants import check_run
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.testing.world.small import small
from turnbuckle.turn.facts import CallsHandedOver, Decided, ModelAsked, Streamed
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.messages import CallPart, text_of
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import RunOptions, ToolSpec

CODE = "".join(
    f"def part_{number}(value):\n    total = value * {number}\n    return total + {number * 7}\n\n\n"
    for number in range(12)
)
DATA = "[\n" + ",\n".join(f'  {{"id": {number}, "name": "item {number}"}}' for number in range(30)) + "\n]\n"
PROSE = "".join(
    f"Line {number} of the story tells what happened on day {number * 3}.\n" for number in range(30)
)
FILES = {"code.py": CODE, "data.json": DATA, "story.txt": PROSE}
PLAIN = Quirks(drafts="text")
PREFILL = Quirks(drafts="text", prefill="plain")
STYLES = ("obeys", "named fence", "no fence", "short", "tail", "leaves out", "quotes us", "talks")


def play(path, style, quirks, kill_after, fault=NOTHING, **more):
    task = Task(
        "a small model", (small(path, FILES[path], style, **more),), quirks=quirks, kill_after=kill_after
    )
    story = asyncio.run(RunWorld(task, fault).play())
    assert check_run(story) == ()
    return story


def ways(story):
    return [fact.way for fact in story.facts if isinstance(fact, ModelAsked) and fact.way]


def is_right(story, path):
    return story.files.get(path, "").rstrip("\n") == FILES[path].rstrip("\n")


@pytest.mark.requirement("B8", "B13")
@pytest.mark.parametrize("quirks", [PREFILL, PLAIN], ids=["goes on", "does not"])
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("share", [0.3, 0.45, 0.61, 0.83, 0.97])
def test_a_small_model_finishes_its_cut_file_in_one_more_answer(path, quirks, share):
    story = play(path, "obeys", quirks, int(len(FILES[path]) * share))
    assert story.outcome.kind == "completed"
    assert is_right(story, path)
    assert ways(story) == (["prefill"] if quirks.prefill else ["whole"])
    assert [done.name for done in story.done] == ["write_file"]


@pytest.mark.requirement("B13", "C6")
@pytest.mark.parametrize("quirks", [PREFILL, PLAIN], ids=["goes on", "does not"])
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("share", [0.37, 0.62, 0.9])
def test_no_style_of_a_small_model_puts_a_wrong_file_in_place_and_calls_it_done(style, path, quirks, share):
    story = play(path, style, quirks, int(len(FILES[path]) * share))
    if story.outcome.kind == "completed" and style == "short":
        # Nobody can see that a rest which fits is not all of it; but nothing that had arrived is lost.
        assert FILES[path].startswith(story.files[path].rstrip("\n"))
        assert len(story.files[path]) >= int(len(FILES[path]) * share) - 60
    elif story.outcome.kind == "completed":
        assert is_right(story, path)
    else:
        assert story.outcome.kind == "partial"
        assert path not in story.files or is_right(story, path)
        assert story.outcome.drafts
    assert len(story.asked) <= 12


@pytest.mark.requirement("B7", "B8")
def test_what_does_not_fit_leads_to_the_next_way_and_is_told():
    story = play("story.txt", "obeys", PREFILL, 700, prefills=False)
    assert ways(story) == ["prefill", "whole"]
    (refused,) = [fact for fact in story.facts if isinstance(fact, Decided) and fact.verdict == "unjoined"]
    assert "in another way" in refused.notice
    assert is_right(story, "story.txt")


@pytest.mark.requirement("B8", "C5")
def test_the_history_holds_the_whole_call_and_nothing_of_how_it_came_about():
    story = play("code.py", "obeys", PREFILL, 500)
    last = story.asked[-1].request.messages
    assert [message.role for message in last] == ["user", "assistant", "tool"]
    (call,) = [part for message in last for part in message.parts if isinstance(part, CallPart)]
    assert call.name == "write_file"
    shown = [event for fact in story.facts if isinstance(fact, Streamed) for event in fact.events]
    assert "".join(event.text for event in shown if isinstance(event, TextDelta)) == "It is done."


@pytest.mark.requirement("B8", "B13", "E2")
@pytest.mark.parametrize("quirks", [PREFILL, PLAIN], ids=["goes on", "does not"])
def test_no_fault_at_any_point_of_the_ladder_makes_a_wrong_file(quirks, record_property):
    task = Task(
        "a small model",
        (small("story.txt", PROSE, pieces=160),),
        quirks=quirks,
        kill_after=900,
        files=None,
        steady=False,
    )

    async def all_faults():
        story = await RunWorld(task).play()
        return await try_faults(task, "openai_chat", (NOTHING, *faults_of(story)))

    report = asyncio.run(all_faults())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 60


def goes_on(request, number):
    """It tells a story, and goes on with it wherever it is put."""
    begun = text_of(request.messages[-1].parts) if request.prefill else ""
    return [Say(PROSE[len(begun) :], 7), Finish()]


@pytest.mark.requirement("B3", "B13")
def test_cut_text_goes_on_behind_itself_at_every_cut(record_property):
    task = Task("a story", (goes_on,), answer=PROSE, quirks=Quirks(prefill="plain"))

    async def all_cuts():
        story = await RunWorld(task).play()
        cuts = [CutReply(0, after, "reset") for after in range(2, story.asked[0].events, 5)]
        return await try_faults(task, "openai_chat", cuts)

    report = asyncio.run(all_cuts())
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("B8", "F11")
@pytest.mark.parametrize("quirks", [PREFILL, PLAIN], ids=["goes on", "does not"])
@pytest.mark.parametrize("path", FILES)
def test_a_caller_behind_a_relay_gets_the_whole_call_of_a_small_model(path, quirks):
    tool = ToolSpec("write_file", "", {"type": "object", "properties": {}, "required": ["path", "content"]})
    brain = small(path, FILES[path])
    task = Task(
        "relay", (brain,), quirks=quirks, kill_after=900, options=RunOptions(own_tools=False, tools=(tool,))
    )
    story = asyncio.run(RunWorld(task).play())
    assert check_run(story) == ()
    (over,) = [fact for fact in story.facts if isinstance(fact, CallsHandedOver)]
    (call,) = over.calls
    given = msgspec.json.decode(call.arguments)
    assert (call.name, given["path"], given["content"].rstrip()) == ("write_file", path, FILES[path].rstrip())


def misquotes(request, number):
    """A strong model that never quotes the end of its draft, but writes a text when it is asked for one."""
    if not request.tools:
        return small("story.txt", PROSE)(request, number)
    if any(message.note for message in request.messages):
        return [
            Call("finish_call", {"draft": "d1", "after": f"never written {number}", "rest": "x"}),
            Finish(),
        ]
    return small("story.txt", PROSE)(request, number)


@pytest.mark.requirement("B7", "B8")
def test_a_model_whose_pieces_never_fit_is_asked_for_plain_text():
    task = Task("misquotes", (misquotes,), kill_after=900)
    story = asyncio.run(RunWorld(task).play())
    assert check_run(story) == ()
    assert ways(story) == ["whole"]
    assert is_right(story, "story.txt")
