"""`Agent` in a program: run, stream, follow, stop, sessions, keys."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from support.agents.open_agent import agent, outcome_of, run_scenario, text_of
from support.processes.commands import ENVIRONMENT

import turnbuckle
from turnbuckle import (
    Agent,
    ConfigError,
    ImagePart,
    InUse,
    KeyReused,
    Notice,
    RunOver,
    RunUnfinished,
    RunUnknown,
    SessionBusy,
    SessionExists,
    SessionUnknown,
    TextPart,
    ToolBegun,
    ToolEnded,
    ToolPrinted,
    tool,
)
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import text_of as text_in


@tool(effect="read")
def word_count(text: Annotated[str, "What to count."]) -> str:
    """Count the words of a text."""
    return f"{len(text.split())} words"


@tool(effect="read", name="word_count")
def same_name() -> None:
    """Do nothing."""


@tool(effect="read", name="shell")
def no_shell() -> None:
    """Do nothing."""


COUNT = 'call word_count with {"text": "one two three"}'


@pytest.mark.requirement("C6", "D7")
def test_a_run_gives_its_answer_its_outcome_and_what_it_used(tmp_path: Path):
    result = run_scenario(tmp_path, lambda agent: agent.run(COUNT), tools=[word_count])
    assert (result.outcome, result.ok, result.why) == ("completed", True, "")
    assert "3 words" in result.text
    assert str(result) == result.text
    assert result.usage.input > 0 < result.usage.output
    assert (result.model_calls, result.tool_calls, result.drafts, result.wasted.times) == (2, 1, (), 0)
    assert (result.spent.calls, result.cost) == (2, 0.0)
    assert result.context.used > 0
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert text_in(result.messages[0].parts) == COUNT


@pytest.mark.requirement("E1")
def test_a_stream_tells_what_happens_and_its_text_is_that_of_the_result(tmp_path: Path):
    async def scenario(opened: Agent):
        events = [event async for event in opened.stream("run echo hello", session="work")]
        return events, await opened.wait(events[0].run)

    events, result = run_scenario(tmp_path, scenario)
    assert (events[0].session, result.session) == ("work", "work")
    assert outcome_of(events) == result.outcome == "completed"
    assert text_of(events).endswith(result.text)
    (started,) = [event for event in events if isinstance(event, ToolBegun)]
    (said,) = [event for event in events if isinstance(event, ToolPrinted)]
    (finished,) = [event for event in events if isinstance(event, ToolEnded)]
    assert (started.tool, started.arguments) == ("shell", {"command": "echo hello"})
    assert (said.text, finished.text, finished.status) == ("hello\n", "hello\n", "finished")
    assert started.call == said.call == finished.call


@pytest.mark.requirement("B4", "B8", "C8")
def test_a_cut_inside_a_call_is_a_notice_and_costs_only_what_the_result_says(tmp_path: Path):
    async def scenario(opened: Agent):
        events = [event async for event in opened.stream("write a.txt with 60 lines and cut")]
        return events, await opened.wait(events[0].run)

    events, result = run_scenario(tmp_path, scenario)
    assert [event for event in events if isinstance(event, Notice) and "write_file" in event.text]
    assert (result.outcome, result.wasted.times) == ("completed", 1)
    assert [waste.times for waste in result.wastes] == [1]
    assert (tmp_path / "a.txt").read_text().count("\n") == 60


@pytest.mark.requirement("B9")
def test_a_run_that_gives_up_is_partial_and_brings_its_draft_along(tmp_path: Path):
    task = "write a.txt with 60 lines and cut every time"
    result = run_scenario(
        tmp_path, lambda agent: agent.run(task), settings={"recovery.continuations": 1, "turn.max_calls": 3}
    )
    assert (result.outcome, result.ok) == ("partial", False)
    assert str(result)
    assert result.why
    (draft,) = result.drafts
    assert (draft.tool, draft.argument) == ("write_file", "content")
    assert draft.text.startswith("line 1 of 60")
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.requirement("E4")
def test_any_number_of_tasks_may_follow_one_run_from_any_cursor(tmp_path: Path):
    async def scenario(opened: Agent):
        run = await opened.start("write a.txt with 20 lines and cut")

        async def whole():
            return [event async for event in opened.follow(run)]

        first, second = await asyncio.gather(whole(), whole())
        assert first == second
        assert outcome_of(first) == "completed"
        for place in (0, 1, len(first) // 2, len(first) - 1):
            rest = [event async for event in opened.follow(run, after=first[place].cursor)]
            assert rest == first[place + 1 :]
        with pytest.raises(ValueError, match="there is no event 9999"):
            await anext(opened.follow(run, after=9999))

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G1")
def test_a_session_goes_on_and_its_messages_can_be_read(tmp_path: Path):
    async def scenario(opened: Agent):
        await opened.run("say hello", session="work")
        second = await opened.run("say bye", session="work")
        told = await opened.sessions.messages("work")
        assert [text_in(one.message.parts) for one in told if one.message.role == "user"] == [
            "say hello",
            "say bye",
        ]
        assert [text_in(one.parts) for one in second.messages if one.role == "user"] == ["say bye"]
        assert [(line.name, line.running) for line in await opened.sessions.list()] == [("work", "")]

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G3", "G7")
def test_sessions_can_be_searched_renamed_forked_undone_begun_anew_and_deleted(tmp_path: Path):
    async def scenario(opened: Agent):
        sessions = opened.sessions
        first = await opened.run("say marmalade", session="work")
        await sessions.rename("work", "breakfast")
        assert [line.title for line in await sessions.search("marmalade")] == ["breakfast"]
        await sessions.fork("work", "copy")
        assert len(await sessions.messages("copy")) == len(await sessions.messages("work"))
        with pytest.raises(SessionExists, match="already"):
            await sessions.fork("work", "copy")
        assert await sessions.undo("work") == first.run
        assert await sessions.messages("work") == ()
        await sessions.renew("copy")
        notices = [
            event async for event in opened.stream("say hello", session="copy") if isinstance(event, Notice)
        ]
        assert notices
        assert (await sessions.stop("copy")).run is None
        keyed = await opened.run("say once", session="copy", key="k")
        await sessions.delete("copy")
        with pytest.raises(RunUnknown, match=keyed.run):  # what was deleted does not come back by its key
            await opened.run("say once", session="copy", key="k")
        with pytest.raises(SessionUnknown):
            await sessions.messages("copy")

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G7")
def test_what_has_ended_can_be_taken_back_at_once_also_in_a_store_that_is_read_before_its_writer_knows(
    tmp_path: Path,
):
    async def scenario(opened: Agent):
        for _ in range(3):
            result = await opened.run("say hello", session="work")
            assert await opened.sessions.undo("work") == result.run

    run_scenario(tmp_path, scenario, data=tmp_path / "data")


@pytest.mark.requirement("G1")
def test_a_second_message_waits_or_is_refused_as_its_caller_wants(tmp_path: Path):
    async def scenario(opened: Agent):
        run = await opened.start("tell a story with 30 lines", session="work")
        with pytest.raises(SessionBusy, match=run):
            await opened.run("say no", session="work", busy="refuse")
        queued = await opened.run("say later", session="work")
        assert (await opened.wait(run)).ok
        assert queued.ok
        assert queued.run != run

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G1")
def test_a_message_that_steers_is_answered_by_the_run_that_is_under_way(tmp_path: Path):
    async def scenario(opened: Agent):
        run = await opened.start("tell a story with 30 lines", session="work")
        steered = await opened.run("say something else", session="work", busy="steer")
        assert (steered.run, steered.outcome) == (run, "completed")
        assert [text_in(one.parts) for one in steered.messages if one.role == "user"][
            -1
        ] == "say something else"

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G2")
def test_a_stop_ends_a_run_and_says_what_it_ended(tmp_path: Path):
    async def scenario(opened: Agent):
        run = await opened.start("run sleep 600", session="work")
        async for event in opened.follow(run):
            if isinstance(event, ToolBegun):
                break
        receipt = await opened.stop(run, by="me")
        assert (receipt.stopped, receipt.by, [tool.name for tool in receipt.tools]) == (True, "me", ["shell"])
        assert (await opened.wait(run)).outcome == "cancelled"
        late = await opened.stop(run)
        assert (late.stopped, late.outcome.kind) == (False, "cancelled")
        notices = [
            event async for event in opened.stream("say hi", session="work") if isinstance(event, Notice)
        ]
        assert len(notices) == 1  # the conversation starts fresh, and the user is told why

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("G2")
def test_a_message_that_waits_for_its_turn_can_be_taken_back(tmp_path: Path):
    async def scenario(opened: Agent):
        first = await opened.start("run sleep 600", session="work")
        second = await opened.start("say hello", session="work")
        await opened.stop(second)
        assert (await opened.wait(second)).outcome == "cancelled"
        await opened.stop(first)

    run_scenario(tmp_path, scenario)


@pytest.mark.requirement("F6")
def test_a_task_with_a_key_runs_once_however_often_it_is_given(tmp_path: Path):
    async def scenario(opened: Agent):
        first, second = await asyncio.gather(
            *(opened.run("run echo x >> a.txt", key="job 1") for _ in range(2))
        )
        third = await opened.run("run echo x >> a.txt", key="job 1")
        assert first == second == third
        assert (await opened.run("run echo x >> a.txt", key="job 2")).run != first.run
        with pytest.raises(KeyReused):
            await opened.run("something else", key="job 1")
        with pytest.raises(ValueError, match="key"):
            await opened.run("x", key="\n")

    run_scenario(tmp_path, scenario)
    assert (tmp_path / "a.txt").read_text() == "x\nx\n"


@pytest.mark.requirement("G6", "E2")
def test_a_run_that_was_started_is_kept_when_the_agent_closes_and_goes_on_when_the_next_resumes(
    tmp_path: Path,
):
    async def main():
        async with agent(tmp_path, data=tmp_path / "data") as first:
            run = await first.start("write a.txt with 400 lines", session="work")
            seen = [await anext(first.follow(run))]
        async with agent(tmp_path, data=tmp_path / "data") as second:
            with pytest.raises(RunUnfinished, match=r"agent\.resume"):
                await second.wait(run)
            assert [line.running for line in await second.sessions.list()] == [run]
            assert await second.resume() == (run,)
            assert await second.resume(run) == ()
            rest = [event async for event in second.follow(run, after=seen[-1].cursor)]
            assert outcome_of(rest) == "completed"
            assert next(event.text for event in rest if isinstance(event, Notice)).startswith("Suspended")
            assert await second.resume() == ()

    asyncio.run(main())
    assert (tmp_path / "a.txt").read_text().count("\n") == 400


def test_two_agents_with_their_own_folders_work_side_by_side(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    async def main():
        async with (
            agent(tmp_path / "a", data=tmp_path / "da") as a,
            agent(tmp_path / "b", data=tmp_path / "db") as b,
        ):
            results = await asyncio.gather(a.run("run echo a > x"), b.run("run echo b > x"))
            assert [result.ok for result in results] == [True, True]
            assert len(await a.sessions.list()) == len(await b.sessions.list()) == 1
            with pytest.raises(InUse, match="another data folder"):
                async with agent(tmp_path, data=tmp_path / "da"):
                    pass

    asyncio.run(main())
    assert [(tmp_path / name / "x").read_text() for name in ("a", "b")] == ["a\n", "b\n"]


def test_what_is_in_memory_is_gone_with_the_agent_and_leaves_no_file(tmp_path: Path):
    opened = agent(tmp_path)

    async def main():
        async with opened:
            run = (await opened.run("say hello")).run
        async with opened:
            with pytest.raises(RunUnknown):
                await opened.wait(run)

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["wait", "stop", "resume"])
def test_a_run_that_nobody_knows_is_told_as_that(tmp_path: Path, call: str):
    async def scenario(opened: Agent):
        with pytest.raises(RunUnknown, match="r-nobody"):
            await getattr(opened, call)("r-nobody")

    run_scenario(tmp_path, scenario)


def test_an_agent_that_is_not_open_says_how_to_open_it(tmp_path: Path):
    with pytest.raises(RuntimeError, match="async with"):
        asyncio.run(agent(tmp_path).run("say hello"))

    async def twice():
        async with agent(tmp_path) as opened, opened:
            pass

    with pytest.raises(RuntimeError, match="open already"):
        asyncio.run(twice())


@pytest.mark.parametrize("task", ["", "  ", ()])
def test_an_empty_task_is_refused_before_anything_is_stored(tmp_path: Path, task):
    async def scenario(opened: Agent):
        with pytest.raises(ValueError, match="empty"):
            await opened.run(task, session="work")
        with pytest.raises(ValueError, match="name of a session"):
            await opened.run("say hello", session="no spaces")
        assert await opened.sessions.list() == ()

    run_scenario(tmp_path, scenario)


def test_a_task_may_hold_a_picture(tmp_path: Path):
    picture = ImagePart(url="http://127.0.0.1/a.png")
    result = run_scenario(tmp_path, lambda agent: agent.run([TextPart("say what you see"), picture]))
    assert result.messages[0].parts[1] == picture


def test_instructions_stand_in_front_of_every_conversation(tmp_path: Path):
    async def scenario(opened: Agent):
        result = await opened.run("say hello")
        first = await opened._here().runs.started(RunId(result.run))
        assert "Speak like a sailor." in "".join(text_in(message.parts) for message in first.messages)
        assert all(message.role != "system" for message in result.messages)

    run_scenario(tmp_path, scenario, instructions="Speak like a sailor.")


# Settings


def test_settings_come_from_the_file_the_environment_and_the_program_which_wins(tmp_path: Path):
    file = tmp_path / "t.toml"
    file.write_text('workspace = "."\n[turn]\nmax_calls = 7\nmax_tool_calls = 8\nsame_call = 9\n')
    environment = {"TURNBUCKLE_TURN__MAX_TOOL_CALLS": "80", "TURNBUCKLE_TURN__SAME_CALL": "90"}
    made = Agent(config=file, environment=environment, settings={"turn.same_call": 900})
    turn = made._loaded.settings.turn
    assert (turn.max_calls, turn.max_tool_calls, turn.same_call) == (7, 80, 900)
    assert [value.source for value in made._loaded.explain() if value.key == "turn.same_call"] == [
        "keyword argument"
    ]
    assert made._loaded.settings.workspace == str(tmp_path)
    none = Agent(config=None, environment=environment)
    assert none._loaded.settings.turn.max_tool_calls == 300


ROUTES = '[[routes]]\nname = "a"\npreset = "anthropic"\nmodel = "x"\n[[routes]]\nname = "b"\npreset = "openai"\nmodel = "y"\n'


@pytest.mark.parametrize(
    "model, names",
    [
        ("", ["a", "b"]),
        ("b", ["b", "a"]),
        (["b"], ["b", "a"]),
        ("groq/llama/large", ["groq/llama/large"]),
        (["groq/z", "a"], ["groq/z", "a"]),
        ("rehearsal", [""]),
    ],
)
def test_a_model_is_a_route_of_the_file_a_preset_with_a_name_or_the_rehearsal(tmp_path: Path, model, names):
    (tmp_path / "t.toml").write_text(ROUTES)
    made = Agent(model, config=tmp_path / "t.toml", environment={})
    assert [route.name for route in made._loaded.settings.routes] == names


def test_any_compatible_server_is_a_model_by_its_address():
    made = Agent(
        "big", base_url="http://localhost:9/v1", api_key="env:K", config=None, environment={"K": "sk-hidden"}
    )
    (route,) = made._loaded.settings.routes
    assert (route.model, route.protocol, route.base_url) == ("big", "openai_chat", "http://localhost:9/v1")
    assert "sk-hidden" not in repr(made._loaded.explain())


@pytest.mark.parametrize(
    "given, words",
    [
        ({"model": "gpt"}, "there is no model 'gpt'"),
        ({"model": "nobody/gpt"}, "presets are"),
        ({"base_url": "http://localhost:9"}, "base_url needs one model"),
        ({"model": ["a", "b"], "base_url": "http://localhost:9"}, "base_url needs one model"),
        ({"api_key": "k"}, "whose key"),
        (
            {"settings": {"turn.max_cals": 3}},
            "keyword argument: turn.max_cals is not known; did you mean max_calls",
        ),
        ({"settings": {"turn.max_calls": "many"}}, "turn.max_calls"),
        ({"enable": ["filez"]}, "tools.enable"),
        ({"workspace": "nowhere"}, "is not a folder"),
        ({"config": "nowhere.toml"}, "there is no file"),
        ({"tools": [len]}, "is not a tool"),
        ({"tools": [word_count, same_name]}, "has a tool word_count"),
        ({"tools": [no_shell]}, "shell, and so has the built-in tools"),
    ],
)
def test_what_an_agent_can_not_be_made_of_is_said_when_it_is_made(given, words: str):
    with pytest.raises((ConfigError, TypeError), match=words):
        Agent(**{"config": None, "environment": {}, **given})


def test_a_rule_for_an_own_tool_is_known_and_one_for_nobody_is_refused(tmp_path: Path):
    result = run_scenario(
        tmp_path, lambda agent: agent.run(COUNT), tools=[word_count], approval={"word_count": "deny"}
    )
    assert "do not allow" in result.text
    with pytest.raises(ConfigError, match="did you mean word_count"):
        run_scenario(
            tmp_path, lambda agent: agent.run(COUNT), tools=[word_count], approval={"word_counts": "deny"}
        )


# The names of the package


def test_every_public_name_can_be_imported_and_has_words_that_explain_it():
    for name in turnbuckle.__all__:
        value = getattr(turnbuckle, name)
        if name not in ("__version__", "Event"):
            assert value.__doc__, name
    assert set(turnbuckle.__all__) <= set(dir(turnbuckle))
    assert set(turnbuckle._PLACE) == set(turnbuckle.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = turnbuckle.nothing_of_the_kind


@pytest.mark.process
def test_to_import_the_package_loads_nothing_but_its_names():
    code = "import sys, turnbuckle; print(*(name for name in sys.modules if name.startswith('turnbuckle')))"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["turnbuckle"]


def test_the_package_is_marked_as_typed():
    assert (Path(turnbuckle.__file__).parent / "py.typed").exists()


def test_the_last_event_says_how_it_ended(tmp_path: Path):
    async def scenario(opened: Agent):
        return [event async for event in opened.stream("say hello and refuse")]

    last = run_scenario(tmp_path, scenario)[-1]
    assert isinstance(last, RunOver)
    assert (last.outcome in ("failed", "partial"), bool(last.why)) == (True, True)
