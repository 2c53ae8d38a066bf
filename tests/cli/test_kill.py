"""`kill -9` of a real `turnbuckle run` at named points, and what `turnbuckle runs resume` makes of it.

The model of these tests works in four steps, each with some text before its call: it runs a command that cannot be
undone, appends to a file, writes a file whose call is cut on the way, and ends. It knows what it has done from the
history alone, as a real one does.
"""

import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import command, configure, facts_of, provider

from turnbuckle.lab.received import brings_results, last_user_text, results_brought, shown_draft
from turnbuckle.lab.script import Call, Case, Finish, KillAfter, LabRequest, Pace, Say, ScriptItem
from turnbuckle.turn.facts import Fact, RunEnded, Streamed, ToolFinished, ToolStarted
from turnbuckle.vocab.events import TextDelta

CONTENT = "".join(f"{number:03} of the long file\n" for number in range(60))
COMMAND = "echo once >> effects.txt; echo printed; echo printed again"
STEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("First I run a command. ", "shell", {"command": COMMAND}),
    ("Then I add a line. ", "append_file", {"path": "added.txt", "content": "added\n"}),
    ("Then I write a file. ", "write_file", {"path": "long.txt", "content": CONTENT}),
    ("That is all that was to be done.", "", {}),
]

POINTS = [
    "after-append:RunStarted:1",  # the first question to the model is stored with it
    *(f"{side}-append:ModelAsked:{n}" for n in (2, 4) for side in ("before", "after")),
    *(f"{side}-append:Streamed:{n}" for n in (1, 2, 4) for side in ("before", "after")),
    *(f"{side}-append:ToolStarted:{n}" for n in (1, 2, 3) for side in ("before", "after")),
    *(f"{side}-append:ToolFinished:{n}" for n in (1, 2, 3) for side in ("before", "after")),
    *(
        f"{side}-append:{fact}:1"
        for fact in ("DraftKept", "Decided", "DraftClosed")
        for side in ("before", "after")
    ),
    "after-append:ToolSaid:1",
    "before-append:RunEnded:1",
    *(f"{place}-tool:shell:1" for place in ("before", "in", "after")),
    *(f"{place}-tool:{tool}:1" for tool in ("append_file", "write_file") for place in ("before", "after")),
]


def model(request: LabRequest) -> Iterable[ScriptItem]:
    say, tool, arguments = STEPS[min(results_brought(request), len(STEPS) - 1)]
    note = "" if brings_results(request) else last_user_text(request)
    if draft := shown_draft(note):
        rest = CONTENT[CONTENT.index(draft.tail) + len(draft.tail) :]
        yield Call("finish_call", {"draft": draft.id, "after": draft.tail[-60:], "rest": rest}, 40)
        yield Finish()
        return
    if tool == "write_file" and "smaller calls" not in note:
        yield KillAfter(arguments=700, how="fin")
    yield Pace(6, 0.003)
    yield Say(say.removeprefix(_said(request)) if "go on" in note.lower() else say)
    if tool:
        yield Call(tool, arguments, 40)
    yield Finish()


def _said(request: LabRequest) -> str:
    """What the model said in the reply that it is asked to go on with."""
    last = [item for item in request.body["messages"] if item["role"] == "assistant"][-1]
    return str(last.get("content") or "")


def _texts(facts: list[Fact]) -> str:
    streamed = [event for fact in facts if isinstance(fact, Streamed) for event in fact.events]
    return "".join(event.text for event in streamed if isinstance(event, TextDelta))


def _outcomes(facts: list[Fact], tool: str) -> list[str]:
    return [fact.outcome.status for fact in facts if isinstance(fact, ToolFinished) and fact.name == tool]


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.process
@pytest.mark.requirement("D2", "D3", "E1", "E2", "G5")
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_goes_on_without_losing_or_repeating_anything(point: str, tmp_path: Path) -> None:
    with provider(Case("steps", "works in steps", ((model,),))) as lab:
        configure(tmp_path, lab.url)
        killed = command(tmp_path, "run", "do the steps", TURNBUCKLE_FAULT=point)
        assert killed.code == -signal.SIGKILL
        resumed = command(tmp_path, "runs", "resume")
        asked = str(lab.requests[-1].body)
    facts = facts_of(tmp_path)

    assert resumed.code == 0, resumed.err
    assert isinstance(facts[-1], RunEnded)
    assert sum(isinstance(fact, RunEnded) for fact in facts) == 1
    # What was shown stays, and what came later goes on behind it.
    assert _texts(facts) == "".join(say for say, _, _ in STEPS)
    assert _texts(facts).startswith(killed.out.replace("\n", ""))
    # Every effect happened once, or, where nobody can know, the model is told so.
    told = _outcomes(facts, "shell")
    assert len(told) == 1
    effects = len(_lines(tmp_path / "effects.txt"))
    assert effects <= 1
    if told == ["finished"]:
        assert effects == 1
    else:
        assert told == ["unknown"]
        assert "how it ended is not known" in asked
    assert _lines(tmp_path / "added.txt") == ["added"]
    assert (tmp_path / "long.txt").read_text() == CONTENT
    assert _outcomes(facts, "append_file") == _outcomes(facts, "write_file") == ["finished"]
    # A tool that had its result before the crash was not started again.
    starts = [fact.name for fact in facts if isinstance(fact, ToolStarted)]
    assert starts.count("shell") == 1


@pytest.mark.process
@pytest.mark.requirement("E2")
@pytest.mark.parametrize("point", ["before-append:RunStarted:1", "after-append:RunEnded:1"])
def test_a_run_that_never_began_or_has_ended_is_not_taken_up_again(point: str, tmp_path: Path) -> None:
    killed = command(tmp_path, "run", "write hello.txt", TURNBUCKLE_FAULT=point)
    assert killed.code == -signal.SIGKILL
    again = command(tmp_path, "runs", "resume")
    assert (again.code, again.err) == (2, "turnbuckle: there is no unfinished run\n")
    assert command(tmp_path, "run", "list").code == 0


@pytest.mark.process
@pytest.mark.requirement("G5")
def test_a_run_that_crashes_again_and_again_without_progress_ends(tmp_path: Path) -> None:
    command(tmp_path, "run", "write hello.txt", TURNBUCKLE_FAULT="after-append:ModelAsked:1")
    codes = [
        command(tmp_path, "runs", "resume", TURNBUCKLE_FAULT="after-append:ModelAsked:1").code
        for _ in range(4)
    ]
    assert codes[:2] == [-signal.SIGKILL, -signal.SIGKILL]
    assert codes[2:] == [1, 2]  # it failed honestly, and then there was nothing left to resume


@pytest.mark.process
@pytest.mark.requirement("E2")
def test_continue_finishes_the_run_that_died_and_then_does_the_task(tmp_path: Path) -> None:
    command(tmp_path, "run", "write one.txt", TURNBUCKLE_FAULT="before-tool:write_file:1")
    went_on = command(tmp_path, "run", "--continue", "write two.txt")
    assert went_on.code == 0, went_on.err
    assert (tmp_path / "one.txt").exists()
    assert (tmp_path / "two.txt").exists()


@pytest.mark.process
@pytest.mark.requirement("H8")
def test_a_call_whose_process_died_is_paid_for_at_the_price_of_its_model(tmp_path: Path) -> None:
    command(tmp_path, "run", "tell a story with 40 lines", TURNBUCKLE_FAULT="after-append:Streamed:3")
    resumed = command(tmp_path, "runs", "resume")
    assert resumed.code == 0, resumed.err
    ended = facts_of(tmp_path)[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.spent.calls, ended.spent.unpriced_calls, ended.spent.cost) == (2, 0, 0.0)
