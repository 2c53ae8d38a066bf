"""Long work through a small window, broken at every point: the history is made smaller, and nothing is lost or
done twice."""

import asyncio
import re
from typing import Any

import pytest
from msgspec.structs import replace

from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.campaign import faults_of, try_faults
from turnbuckle.testing.world.compaction_rules import is_for_summary, left_out_of, windowed
from turnbuckle.testing.world.faults import Kill
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.model import Fails
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import Compacted, Decided, ModelAsked, SummaryDropped
from turnbuckle.turn.policy import TurnLimits
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.messages import CallPart, Message, TextPart, text_of
from turnbuckle.vocab.request import RunOptions

FILES = {f"f{number}.txt": f"{number} " + "some words of it " * 60 for number in range(1, 4)}
DONE = "All files are there."
KINDS = ("compacted", "summary_dropped")
TOO_LONG = "Task: answer. " + " ".join(f"word{number}" for number in range(300))
TOO_LONG = "Task: answer. " + " ".join(f"word{number}" for number in range(300))
TASK = "Write the three files, and read each. Never write one twice."


def writes_and_reads(request, number):
    """A model that goes on from what it is told, calls or notes: it writes each file and reads it."""
    written: set[str] = set()
    read: set[str] = set()
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, CallPart):
                (path,) = re.findall(r"f\d\.txt", part.arguments)[:1]
                (read if part.name == "read_file" else written).add(path)
        told = text_of(message.parts)
        written |= set(re.findall(r"(f\d\.txt): written", told))
        read |= set(re.findall(r"(f\d\.txt): read", told))
    for path, content in FILES.items():
        if path not in written:
            return [Call("write_file", {"path": path, "content": content}, 0), Finish()]
        if path not in read:
            return [Call("read_file", {"path": path}, 0), Finish()]
    return [Say(DONE, 0), Finish()]


def long_work(name="long work", window=1_300, **more):
    brain = windowed(writes_and_reads, window)
    fields = {"answer": DONE, "files": FILES, "window": window, "prompt": TASK, **more}
    return Task(name, fields.pop("brains", (brain,)), **fields)


def play(task, **more):
    return asyncio.run(RunWorld(task, **more).play())


def made(story):
    return [fact for fact in story.facts if isinstance(fact, Compacted)]


@pytest.mark.requirement("I2", "I3", "I4", "I6")
@pytest.mark.parametrize(
    "protocol, window",
    [("openai_chat", 1_300), ("anthropic", 1_700), ("openai_responses", 1_300), ("gemini", 1_300)],
)
def test_no_cut_kill_theft_or_stop_at_any_point_of_a_compaction_breaks_an_invariant(
    protocol, window, record_property
):
    task = long_work(window=window)
    story = play(task, protocol=protocol)
    assert story.appends == len(story.facts), "each fact is an append of its own"
    asked = next(at for at, fact in enumerate(story.facts) if isinstance(fact, ModelAsked) and fact.folding)
    done = next(at for at, fact in enumerate(story.facts) if isinstance(fact, Compacted))
    reply = next(at for at, one in enumerate(story.asked) if is_for_summary(one.request))

    def is_near(fault):
        near = range(asked - 2, done + 4)
        return getattr(fault, "append", asked) in near and getattr(fault, "reply", reply) in (
            reply,
            reply + 1,
        )

    faults = [one for one in faults_of(story, ("tidy", "reset")) if not hasattr(one, "run") and is_near(one)]
    report = asyncio.run(try_faults(task, protocol, faults))

    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 60


def asked_for(summary, rounds=8):
    """Somebody wants a conversation to be smaller, and its model writes this summary."""
    talk = tuple(
        message
        for number in range(rounds)
        for message in (
            Message("user", (TextPart(f"Question {number}: " + "why " * 20),)),
            Message("assistant", (TextPart(f"Answer {number}: " + "because " * 30),)),
        )
    )
    return Task(
        "a wish for less",
        (windowed(writes_and_reads, 100_000, summary=summary),),
        answer="",
        steady=False,
        history=talk,
        options=RunOptions(compact="the questions"),
        window=100_000,
    )


@pytest.mark.requirement("I2", "I4", "I6")
@pytest.mark.parametrize(
    "summary, made_of_it",
    [("Task: answer. Forbidden: none.", ["compacted"]), (TOO_LONG, ["summary_dropped"])],
    ids=["it helps", "it is too long"],
)
@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_no_fault_in_a_compaction_that_somebody_asked_for_breaks_an_invariant(protocol, summary, made_of_it):
    task = asked_for(summary)
    story = play(task, protocol=protocol)
    assert [tag for fact in story.facts if (tag := fact.__struct_config__.tag) in KINDS] == made_of_it
    assert story.outcome.kind == "completed"

    report = asyncio.run(try_faults(task, protocol, list(faults_of(story, ("tidy", "reset")))))

    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("I2", "I6")
def test_a_summary_that_is_too_long_is_made_once_however_often_its_process_dies():
    task = asked_for(TOO_LONG)
    whole = play(task)
    at = next(at for at, fact in enumerate(whole.facts) if isinstance(fact, SummaryDropped))

    for fault in (Kill(at, "after"), Kill(at, "after", power=True), Kill(at + 1, "before")):
        story = play(task, fault=fault)
        assert (check_run(story), len(story.asked)) == ((), 1), fault
        assert story.outcome.why.startswith("there is nothing to make smaller: with a summary it would take")


@pytest.mark.requirement("I2", "I4")
def test_work_that_is_longer_than_the_window_comes_to_its_end():
    story = play(long_work())

    steps = [fact.step for fact in made(story)]
    assert (check_run(story), check_wanted(long_work(), story)) == ((), ())
    assert steps == ["summary"] * 2
    assert not any(isinstance(fact, Decided) for fact in story.facts), "no request was ever refused"


@pytest.mark.requirement("I1", "I2")
def test_a_window_that_nobody_knew_is_learned_from_the_refusal():
    task = long_work(window=1_300)
    blind = replace(task, window=None)
    scene = RunWorld(replace(task, window=10**6))
    scene._policy = replace(task.policy("openai_chat"), routes=blind.policy("openai_chat").routes)
    story = asyncio.run(scene.play())

    refusals = [fact for fact in story.facts if isinstance(fact, Decided)]
    assert (story.outcome.kind, story.files) == ("completed", FILES)
    assert len(refusals) == 1, "the window is known from then on"
    assert refusals[0].failure.window == 1_300


@pytest.mark.requirement("I4")
def test_a_provider_that_counts_more_than_we_do_is_believed():
    brain = windowed(writes_and_reads, 2_400, wrong_by=1.8)
    story = play(long_work(window=2_400, brains=(brain,)))

    assert (story.outcome.kind, story.files) == ("completed", FILES)
    assert sum(isinstance(fact, Decided) for fact in story.facts) <= 1


def summaries(*answers):
    """A model of which each request for a summary gets the next of these answers, and the last one forever."""
    whole, count = windowed(writes_and_reads, 1_300), iter(answers)
    last: list[Any] = []

    def brain(request, number):
        if not is_for_summary(request):
            return whole(request, number)
        last[:] = [next(count, last[0] if last else None)]
        return last[0]

    return brain


@pytest.mark.requirement("I4", "I6")
@pytest.mark.parametrize(
    "bad",
    [
        [Fails(failure("reset", "the connection was reset"))],
        [Say("half a summ"), Fails(failure("reset", "the connection was reset"))],
        [Say(""), Finish()],
        [Say("I cannot help with that."), Finish("refused")],
        [Call("read_file", {"path": "f1.txt"}), Finish()],
    ],
    ids=["broken", "cut", "empty", "refused", "a call"],
)
def test_a_summary_that_does_not_come_is_asked_for_again_and_then_done_without(bad):
    task = long_work(brains=(summaries(bad),))
    story = play(task)

    first = next(fact for fact in made(story) if fact.step == "summary")
    assert (check_run(story), check_wanted(task, story)) == ((), ())
    assert first.why == "no model could summarise it"
    told = text_of(first.compaction.note[0].parts)
    assert "f1.txt: written" in told, "what needs no model is there all the same"


@pytest.mark.requirement("I6")
def test_a_summary_that_broke_once_is_made_the_second_time():
    good = [Say("Decisions: none."), Finish(usage=Usage(input=300, output=9))]
    story = play(long_work(brains=(summaries([Fails(failure("reset", "gone"))], good),)))

    first = next(fact for fact in made(story) if fact.step == "summary")
    assert (first.why, first.compaction.summary) == ("", "Decisions: none.")


@pytest.mark.requirement("I4")
def test_what_cannot_be_made_smaller_ends_with_words_that_say_what_to_do():
    task = long_work(window=400, prompt="Do this: " + "a very long wish " * 200)
    story = play(task)

    assert story.outcome.kind == "failed"
    assert "does not fit" in story.outcome.why
    assert "/new" in story.outcome.why
    assert len(story.asked) <= 2


@pytest.mark.requirement("I4")
def test_a_refusal_that_nothing_helps_against_is_told_in_the_providers_words():
    task = replace(long_work(window=400, prompt="Do this: " + "a very long wish " * 200), window=10**6)
    story = play(task)

    assert story.outcome.kind == "failed"
    assert "prompt is too long" in story.outcome.why
    assert story.outcome.failure.kind == "context"
    assert story.outcome.failure.status == 400


@pytest.mark.requirement("I9")
def test_in_a_relay_nothing_is_made_smaller():
    task = long_work()
    relayed = replace(task, options=replace(task.options, own_tools=False), files=None, answer=None)
    story = play(relayed)

    assert made(story) == []
    assert all(not left_out_of(asked.request.messages) for asked in story.asked)


@pytest.mark.requirement("I4")
def test_summaries_count_as_model_calls():
    story = play(long_work(limits=TurnLimits(model_calls=6)))

    asks = [fact for fact in story.facts if isinstance(fact, ModelAsked)]
    assert len(asks) == 6
    assert "6 model calls" in story.outcome.why
