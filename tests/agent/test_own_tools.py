"""Own tools in an agent: drafts over a cut, consent, live output, time limits, the workspace."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import pytest
from support.agents.open_agent import agent, lab_provider, run_scenario

from turnbuckle import (
    Agent,
    Allow,
    Deny,
    QuestionAnswered,
    QuestionAsked,
    ToolBegun,
    ToolContext,
    ToolEnded,
    ToolError,
    ToolOutcome,
    ToolPrinted,
    TurnbuckleError,
    foreign_tool,
    read_text,
    tool,
    was_written,
    write_text,
)
from turnbuckle.lab.received import brings_results, last_user_text, shown_draft
from turnbuckle.lab.script import Call, Finish, KillAfter, LabRequest, Say, ScriptItem

NOTE = "".join(f"{number:03} of the long note\n" for number in range(160))
ASK = {"approval": {"save_note": "ask"}}


@tool(
    effect="write",
    draftable="text",
    subject="path",
    probe=lambda arguments, context: was_written(context, "n.txt"),
)
def save_note(path: str, text: Annotated[str, "All of it."], context: ToolContext) -> str:
    """Save a note."""
    write_text(context, path, text)
    return f"saved {len(text)} characters"


def saves(path: str = "n.txt", text: str = "hello") -> str:
    return f'call save_note with {{"path": "{path}", "text": "{text}"}}'


def cuts(request: LabRequest) -> Iterable[ScriptItem]:
    """A model whose every stream dies after 700 characters of arguments, and that finishes its drafts."""
    if brings_results(request):
        yield Say("Saved.")
    elif draft := shown_draft(last_user_text(request)):
        yield KillAfter(arguments=700, how="fin")
        rest = NOTE[NOTE.index(draft.tail) + len(draft.tail) :]
        yield Call("finish_call", {"draft": draft.id, "after": draft.tail[-60:], "rest": rest}, 40)
    else:
        yield KillAfter(arguments=700, how="fin")
        yield Call("save_note", {"path": "n.txt", "text": NOTE}, 40)
    yield Finish()


@pytest.mark.requirement("B8", "D7")
def test_a_long_argument_of_an_own_tool_survives_every_cut_and_the_tool_runs_once(tmp_path: Path):
    async def main() -> Any:
        async with lab_provider(cuts) as provider:
            given = {"model": "m", "base_url": f"{provider.url}/v1", "api_key": "any", "tools": [save_note]}
            async with agent(tmp_path, **given) as opened:
                events = [event async for event in opened.stream("save the note")]
                return events, await opened.wait(events[0].run)

    events, result = asyncio.run(main())
    assert (result.outcome, result.text) == ("completed", "Saved.")
    assert result.wasted.times >= 3
    assert [event.arguments["text"] == NOTE for event in events if isinstance(event, ToolBegun)] == [True]
    assert (tmp_path / "n.txt").read_text() == NOTE


@pytest.mark.requirement("D1")
def test_an_argument_of_an_own_tool_that_is_given_twice_is_refused_and_asked_for_again(tmp_path: Path):
    seen: list[LabRequest] = []

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        seen.append(request)
        if brings_results(request):
            yield Say("Saved.")
        elif len(seen) == 1:
            yield Call("save_note", '{"path": "harmless.txt", "text": "a", "path": "harmful.txt"}')
        else:
            yield Call("save_note", {"path": "n.txt", "text": "a"})
        yield Finish()

    async def main() -> Any:
        async with lab_provider(model) as provider:
            given = {"model": "m", "base_url": f"{provider.url}/v1", "api_key": "any", "tools": [save_note]}
            async with agent(tmp_path, **given) as opened:
                return await opened.run("save the note")

    assert asyncio.run(main()).outcome == "completed"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["n.txt"]


# Consent


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("answer, runs, verdict", [(True, True, "allowed"), (False, False, "denied")])
@pytest.mark.parametrize("plain", [True, False])
def test_a_function_of_the_program_gives_consent_or_not(
    tmp_path: Path, answer: bool, runs: bool, verdict, plain: bool
):
    asked: list[QuestionAsked] = []
    threads: list[threading.Thread] = []

    def ask(question: QuestionAsked) -> bool:
        asked.append(question)
        threads.append(threading.current_thread())
        return answer

    async def later(question: QuestionAsked) -> bool:
        return ask(question)

    async def scenario(opened: Agent):
        return [event async for event in opened.stream(saves())]

    events = run_scenario(tmp_path, scenario, tools=[save_note], ask=ask if plain else later, **ASK)
    (question,) = asked
    assert (question.kind, question.tool, question.arguments) == (
        "approval",
        "save_note",
        {"path": "n.txt", "text": "hello"},
    )
    assert (threads[0] is threading.main_thread()) != plain  # a plain one may wait for a person
    assert [event.verdict for event in events if isinstance(event, QuestionAnswered)] == [verdict]
    assert (tmp_path / "n.txt").exists() == runs


@pytest.mark.requirement("D8", "H10", "H14")
def test_a_program_allows_for_good_denies_with_words_and_takes_a_rule_away(tmp_path: Path):
    answers: list[Allow | Deny] = [Allow(always=True), Deny("use another name")]

    async def scenario(opened: Agent):
        first, second = await opened.run(saves()), await opened.run(saves())
        [rule] = await opened.rules()
        await opened.remove_rule(rule.id)
        with pytest.raises(TurnbuckleError, match="there is no rule"):
            await opened.remove_rule(rule.id)
        return rule.text, first.ok and second.ok, (await opened.run(saves())).text

    told = run_scenario(tmp_path, scenario, tools=[save_note], ask=lambda _: answers.pop(0), **ASK)
    assert told[:2] == ('"save_note:n.txt" = "allow"', True)
    assert "use another name" in told[2]
    assert not answers


@pytest.mark.requirement("D8")
def test_a_function_that_fails_has_given_no_consent(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    def ask(question: QuestionAsked) -> bool:
        raise OSError("no terminal")

    result = run_scenario(tmp_path, lambda agent: agent.run(saves()), tools=[save_note], ask=ask, **ASK)
    assert "said no" in result.text
    assert "no terminal" in caplog.text
    assert not (tmp_path / "n.txt").exists()


@pytest.mark.requirement("D8")
def test_a_question_that_the_function_leaves_open_can_be_answered_by_anybody_else_and_counts_once(
    tmp_path: Path,
):
    async def scenario(opened: Agent):
        verdicts = []
        async for event in opened.stream(saves()):
            if isinstance(event, QuestionAsked):
                (waiting,) = await opened.approvals()
                assert waiting == event
                with pytest.raises(ValueError, match="True, False, Allow"):
                    await opened.answer(event, "yes")
                assert await opened.answer(event, True, by="anna")
                assert not await opened.answer(event, False)
            elif isinstance(event, QuestionAnswered):
                verdicts.append((event.verdict, event.by))
        assert await opened.approvals() == ()
        return verdicts

    assert run_scenario(tmp_path, scenario, tools=[save_note], ask=lambda question: None, **ASK) == [
        ("allowed", "anna")
    ]
    assert (tmp_path / "n.txt").read_text() == "hello"


@pytest.mark.requirement("D8")
def test_a_function_that_still_thinks_is_left_alone_when_somebody_else_answers(tmp_path: Path):
    asked = asyncio.Event()
    ends: list[str] = []

    async def ask(question: QuestionAsked) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("taken back")
        return False

    async def scenario(opened: Agent):
        running = asyncio.create_task(opened.run(saves()))
        await asked.wait()
        (question,) = await opened.approvals()
        assert await opened.answer(question, True)
        return await running

    assert run_scenario(tmp_path, scenario, tools=[save_note], ask=ask, **ASK).ok
    assert ends == ["taken back"]


@pytest.mark.requirement("D8")
def test_the_model_can_ask_the_program_in_words(tmp_path: Path):
    result = run_scenario(
        tmp_path,
        lambda agent: agent.run("ask me which colour"),
        ask=lambda asked: "blue" if "colour" in asked.question else "?",
    )
    assert "blue" in result.text


@pytest.mark.requirement("D8")
def test_where_nobody_could_answer_nobody_is_asked(tmp_path: Path):
    async def scenario(opened: Agent):
        return [event async for event in opened.stream(saves())]

    events = run_scenario(tmp_path, scenario, tools=[save_note], **ASK)
    assert not [event for event in events if isinstance(event, QuestionAsked)]
    assert [event.status for event in events if isinstance(event, ToolEnded)] == ["denied"]


@pytest.mark.requirement("D8")
def test_rules_look_at_the_argument_that_the_tool_names_as_its_subject(tmp_path: Path):
    rules = {"save_note:secret/*": "deny", "save_note": "allow"}
    result = run_scenario(
        tmp_path, lambda agent: agent.run(saves("secret/a")), tools=[save_note], approval=rules
    )
    assert "do not allow" in result.text
    result = run_scenario(
        tmp_path, lambda agent: agent.run(saves("open.txt")), tools=[save_note], approval=rules
    )
    assert "saved 5 characters" in result.text


# What a running tool can do


@tool(effect="read", timeout=0.2)
async def hangs(context: ToolContext) -> None:
    """Say a line, and hang."""
    context.publish("I begin\n")
    await asyncio.Event().wait()


@tool(effect="read", timeout=600)
def waits(context: ToolContext) -> str:
    """Wait until it should stop."""
    context.publish("waiting\n")
    context.stopping.wait(60)
    return "stopped in time"


@tool(effect="read")
def fails(how: str) -> str:
    """Fail."""
    if how == "known":
        raise ToolError("There is no such thing.")
    return str(1 // 0)


@tool(effect="read")
def shapes(kind: str) -> Any:
    """Give something."""
    return {
        "text": "plain",
        "value": {"a": [1, 2]},
        "none": None,
        "outcome": ToolOutcome("failed", "it says no"),
    }[kind]


def finished(folder: Path, task: str, *tools: Any) -> tuple[list[Any], ToolEnded]:
    async def scenario(opened: Agent):
        return [event async for event in opened.stream(task)]

    events = run_scenario(folder, scenario, tools=tools)
    (end,) = [event for event in events if isinstance(event, ToolEnded)]
    return events, end


@pytest.mark.requirement("D5")
def test_a_tool_that_takes_too_long_is_ended_and_what_it_printed_is_kept(tmp_path: Path):
    events, end = finished(tmp_path, "call hangs with {}", hangs)
    assert [event.text for event in events if isinstance(event, ToolPrinted)] == ["I begin\n"]
    assert (end.status, end.text) == ("timed_out", "I begin\n")


@pytest.mark.requirement("D5", "G2")
def test_a_plain_tool_is_told_to_stop_and_may_end_well(tmp_path: Path):
    async def scenario(opened: Agent):
        run = await opened.start("call waits with {}")
        async for event in opened.follow(run):
            if isinstance(event, ToolPrinted):
                break
        receipt = await opened.stop(run)
        return receipt.tools[0].status

    assert run_scenario(tmp_path, scenario, tools=[waits]) == "finished"


@pytest.mark.parametrize(
    "task, status, text",
    [
        ('call fails with {"how": "known"}', "failed", "There is no such thing."),
        ('call fails with {"how": "bug"}', "failed", "fails failed. ZeroDivisionError: integer division"),
        ('call fails with {"why": "bug"}', "not_started", "The arguments do not fit fails."),
        ('call shapes with {"kind": "text"}', "finished", "plain"),
        ('call shapes with {"kind": "value"}', "finished", '{"a":[1,2]}'),
        ('call shapes with {"kind": "none"}', "finished", ""),
        ('call shapes with {"kind": "outcome"}', "failed", "it says no"),
    ],
)
def test_what_a_tool_gives_or_raises_becomes_its_one_outcome(
    tmp_path: Path, task: str, status: str, text: str
):
    _, end = finished(tmp_path, task, fails, shapes)
    assert (end.status, end.text[: len(text)]) == (status, text)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize("path", ["../out.txt", "link/out.txt"])
def test_an_own_tool_that_uses_our_files_stays_inside_the_workspace(tmp_path: Path, path: str):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "link").symlink_to(outside)
    _, end = finished(work, saves(path), save_note)
    assert end.status == "failed"
    assert list(outside.iterdir()) == []


def test_what_was_written_can_be_read_again(tmp_path: Path):
    @tool(effect="read")
    def shout(path: str, context: ToolContext) -> str:
        """Read a file aloud."""
        return read_text(context, path).upper()

    (tmp_path / "a.txt").write_text("hello")
    _, end = finished(tmp_path, 'call shout with {"path": "a.txt"}', shout)
    assert end.text == "HELLO"


@pytest.mark.requirement("D1")
def test_a_tool_with_a_schema_of_its_own_is_checked_by_it(tmp_path: Path):
    async def weather(arguments: dict[str, Any], context: ToolContext) -> str:
        return f"rain in {arguments['city']}"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    made = foreign_tool("weather", "Tell the weather.", schema, weather, effect="read")
    assert finished(tmp_path, 'call weather with {"city": "Rome"}', made)[1].text == "rain in Rome"
    assert finished(tmp_path, 'call weather with {"city": 5}', made)[1].status == "not_started"
