"""Tasks whose caller brought tools or limits, in a world of its own for every fault."""

import asyncio

import msgspec
import pytest
from support.turns.histories import in_pieces
from support.worlds.relay_tasks import PAGE, RELAY, RELAY_TASKS, TOOLS

from turnbuckle.lab.script import Finish, Say
from turnbuckle.testing.world.brains import PlannedCall, Round, planned
from turnbuckle.testing.world.campaign import try_every_fault
from turnbuckle.testing.world.faults import CutReply
from turnbuckle.testing.world.invariants import check_run, check_wanted
from turnbuckle.testing.world.run_world import RunWorld, Task
from turnbuckle.turn.facts import CallsHandedOver, Continue, Decided, DraftKept, ToolFinished
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.vocab.request import NamedTool, RunOptions

NAMED = {task.name: task for task in RELAY_TASKS}
PLACES = [
    pytest.param(task, PROTOCOL_NAMES[at % len(PROTOCOL_NAMES)], id=task.name)
    for at, task in enumerate(RELAY_TASKS)
]
SIZE = 30_000
KILL_AFTER = 4_000
FILE = "".join(
    f'{number:05}: the value "{number * 7919}" of row {number} is kept — π\n' for number in range(SIZE)
)[:SIZE]


def play(task, fault=None, protocol="openai_chat", wired=False):
    given = NAMED[task] if isinstance(task, str) else task
    scenario = (
        RunWorld(given, protocol=protocol, wired=wired)
        if fault is None
        else RunWorld(given, fault, protocol=protocol)
    )
    story = asyncio.run(scenario.play())
    assert check_run(story) == ()
    return story


def of(story, kind):
    return [fact for fact in story.facts if isinstance(fact, kind)]


@pytest.mark.requirement("F11", "B1", "E2", "E6")
@pytest.mark.parametrize("task, protocol", PLACES)
def test_no_cut_kill_theft_leave_or_stop_at_any_point_breaks_an_invariant(task, protocol, record_property):
    report = asyncio.run(try_every_fault(task, protocol))
    record_property("worlds tried", report.worlds)
    assert report.problems == ()
    assert report.worlds > 30


@pytest.mark.requirement("A10", "F11")
@in_pieces
def test_every_task_comes_to_its_end_over_the_bytes_of_every_protocol(protocol, record_property):
    for task in RELAY_TASKS:
        story = asyncio.run(RunWorld(task, protocol=protocol, wired=True).play())
        assert check_run(story) == (), task.name
        assert check_wanted(task, story) == (), task.name
    record_property("worlds tried", len(RELAY_TASKS))


@pytest.mark.requirement("F11", "B8")
@pytest.mark.parametrize("choice", ["auto", "required", NamedTool("put")], ids=["auto", "required", "named"])
@in_pieces
def test_a_large_call_arrives_whole_through_a_provider_that_kills_every_stream(protocol, choice):
    put = PlannedCall("put", {"path": "big.txt", "body": FILE})
    options = RunOptions(
        own_tools=False, tools=(msgspec.structs.replace(TOOLS[0], name="put"),), tool_choice=choice
    )
    task = Task(
        "a large call", (planned(Round("Here.", (put,)), pieces=50),), kill_after=KILL_AFTER, options=options
    )
    story = play(task, protocol=protocol, wired=True)
    assert story.outcome.kind == "completed"
    assert story.outcome.drafts == ()
    (over,) = of(story, CallsHandedOver)
    (call,) = over.calls
    assert (call.id, call.name) == ("call_r_0", "put")
    assert msgspec.json.decode(call.arguments) == put.arguments
    assert story.argument_characters <= 1.15 * SIZE
    assert story.done == ()


@pytest.mark.requirement("F11", "B7")
@in_pieces
def test_a_large_call_whose_model_knows_no_drafts_ends_soon_and_honestly(protocol):
    put = PlannedCall("put", {"path": "big.txt", "body": FILE})
    options = RunOptions(own_tools=False, tools=(msgspec.structs.replace(TOOLS[0], name="put"),))
    brain = planned(Round("", (put,)), pieces=50, drafts=False)
    task = Task("a large call", (brain,), kill_after=KILL_AFTER, kill_plain=True, options=options)
    story = play(task, protocol=protocol, wired=True)
    assert story.outcome.kind == "failed"  # the caller cannot reach the draft
    assert len(story.outcome.drafts) == 1
    assert of(story, CallsHandedOver) == []
    assert len(story.asked) == 4


@pytest.mark.requirement("F11")
def test_a_small_call_that_was_cut_is_simply_made_again():
    story = play("one call for the caller", CutReply(0, 6, "reset"))
    assert of(story, DraftKept) == []
    assert [fact.decision for fact in of(story, Decided)] == [Continue("call", "find", 1)]
    assert len(story.turn.handed) == 1


@pytest.mark.requirement("F11")
def test_a_relay_never_runs_a_tool_of_ours_and_says_so():
    story = play("a relay that reaches for ours")
    (told,) = of(story, ToolFinished)
    assert told.outcome.status == "not_started"
    assert told.outcome.text == "There is no tool with the name 'shell'. The tools are: find, edit_page."
    assert [tool.name for tool in story.asked[0].request.tools] == ["find", "edit_page"]


@pytest.mark.requirement("F11")
def test_ours_run_first_and_their_results_stay_in_the_history():
    story = play("ours first, then the caller's")
    assert [fact.name for fact in of(story, ToolFinished)] == ["write_file", "read_file"]
    assert [message.role for message in story.turn.messages] == ["user", "assistant", "tool"]
    assert len(story.turn.messages[-1].parts) == 2


@pytest.mark.requirement("F11")
def test_a_forced_call_that_was_cut_is_finished_by_force_and_nothing_else_is_forced():
    story = play("a forced call that becomes a draft")
    choices = [asked.request.tool_choice for asked in story.asked]
    assert choices[0] == NamedTool("edit_page")
    assert set(choices[1:]) == {NamedTool("finish_call")}
    assert len(choices) > 1
    (call,) = story.turn.handed
    assert msgspec.json.decode(call.arguments)["text"] == PAGE


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("name", ["the caller's own limit", "the caller's limit cuts a call", "the caller's limit is thought away"])  # fmt: skip
def test_the_callers_limit_ends_the_answer_and_nobody_goes_on_behind_it(name):
    story = play(name)
    assert (story.outcome.kind, story.outcome.why) == (
        "partial",
        "the output limit of the request is reached",
    )
    assert [asked.request.max_output_tokens for asked in story.asked] == [30]


@pytest.mark.requirement("F11")
def test_what_came_before_a_cut_counts_against_the_callers_limit():
    words = " ".join(f"word{number}" for number in range(12))

    def brain(request, number):
        said = "".join(
            part.text for message in request.messages[1:] for part in message.parts if not message.note
        )
        return [Say(words[len(said) :], 20), Finish()]

    task = Task("limited", (brain,), answer=words, options=RunOptions(max_output_tokens=100))
    story = play(task, CutReply(0, 3, "reset"))
    assert check_wanted(task, story) == ()
    assert [asked.request.max_output_tokens for asked in story.asked] == [100, 90]


@pytest.mark.requirement("F11")
def test_a_relay_without_tools_offers_none():
    task = Task(
        "a title", (planned(Round("A title.")),), answer="A title.", options=RunOptions(own_tools=False)
    )
    story = play(task)
    assert check_wanted(task, story) == ()
    assert story.asked[0].request.tools == ()


@pytest.mark.requirement("F11")
def test_what_the_caller_asks_of_a_model_reaches_every_model_call():
    options = msgspec.structs.replace(
        RELAY,
        temperature=0.5,
        top_p=0.9,
        stop=("END",),
        effort="low",
        parallel_calls=False,
        response_format={"type": "json_object"},
        extra={"openai_chat": {"seed": 7}, "anthropic": {"top_k": 3}},
    )
    task = Task("options", (planned(Round("", (PlannedCall("find", {}),))),), options=options)
    story = play(task, CutReply(0, 2, "reset"))
    assert len(story.asked) == 2
    for asked in story.asked:
        request = asked.request
        assert (request.temperature, request.top_p, request.stop) == (0.5, 0.9, ("END",))
        assert (request.effort, request.parallel_calls) == ("low", False)
        assert request.response_format == {"type": "json_object"}
        assert request.extra == {"seed": 7}
