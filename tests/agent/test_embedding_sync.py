"""Agents in plain code: scripts, notebooks, threads."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents.open_agent import agent, outcome_of

from turnbuckle import Agent, ToolBegun, ToolContext, ToolEnded, tool


def test_a_script_runs_tasks_and_streams_without_any_event_loop(tmp_path: Path):
    with agent(tmp_path) as opened:
        assert opened.run_sync("run echo hello", session="work").ok
        events = list(opened.stream_sync("run echo again", session="work"))
        assert outcome_of(events) == "completed"
        assert [line.name for line in opened.sync(opened.sessions.list())] == ["work"]
    assert not [one for one in threading.enumerate() if one.name == "turnbuckle-agent"]


def test_an_agent_can_be_used_for_one_task_and_then_again(tmp_path: Path):
    made = agent(tmp_path)
    assert made.run_sync("say hello").ok
    assert made.run_sync("say hello").ok
    with made:
        assert made.run_sync("say hello").ok


def test_it_works_where_a_loop_runs_already_as_in_a_notebook(tmp_path: Path):
    async def cell() -> bool:
        with agent(tmp_path) as opened:
            return opened.run_sync("run echo hello").ok

    assert asyncio.run(cell())


def test_async_code_that_would_wait_for_itself_is_told_what_to_do(tmp_path: Path):
    async def main() -> None:
        async with agent(tmp_path) as opened:
            with pytest.raises(RuntimeError, match="use `await` here"):
                opened.run_sync("say hello")
            # From another thread it is fine.
            assert (await asyncio.to_thread(opened.run_sync, "say hello")).ok

    asyncio.run(main())


def test_an_agent_of_another_loop_says_so(tmp_path: Path):
    async def main(opened: Agent) -> None:
        with pytest.raises(RuntimeError, match="lives in another event loop"):
            await opened.run("say hello")

    with agent(tmp_path) as opened:
        asyncio.run(main(opened))
    with pytest.raises(RuntimeError, match="not open"):
        opened.sync(opened.sessions.list())


def test_leaving_a_stream_early_stops_its_run(tmp_path: Path):
    with agent(tmp_path) as opened:
        events = opened.stream_sync("run sleep 600")
        run = next(events).run
        events.close()  # type: ignore[attr-defined]
        assert opened.sync(opened.wait(run)).outcome == "cancelled"


def test_a_mistake_at_opening_is_raised_and_leaves_no_thread(tmp_path: Path):
    with (
        pytest.raises(Exception, match="there is no module"),
        agent(tmp_path, settings={"tools.modules": ["nobody"]}),
    ):
        pass
    assert not [one for one in threading.enumerate() if one.name == "turnbuckle-agent"]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C means what it means in a script on a terminal, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.requirement("G2")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_the_run_cleanly_and_then_interrupts_the_script(tmp_path: Path):
    @tool(effect="read")
    def interrupt(context: ToolContext) -> None:
        """Do what a person does who presses Ctrl-C."""
        os.kill(os.getpid(), signal.SIGINT)
        context.stopping.wait(30)

    with agent(tmp_path, tools=[interrupt], data=tmp_path / "data") as opened:
        with pytest.raises(KeyboardInterrupt):
            opened.run_sync("call interrupt with {}", session="work")
        told = opened.sync(opened.sessions.messages("work"))
        assert told[-1].outcome.kind == "cancelled"


@pytest.mark.requirement("D5")
def test_a_tool_may_use_the_agent_that_it_belongs_to_from_its_thread(tmp_path: Path):
    @tool(effect="read")
    def delegate() -> str:
        """Ask another run."""
        return opened.run_sync("say from inside").text

    with agent(tmp_path, tools=[delegate]) as opened:
        events = list(opened.stream_sync("call delegate with {}"))
        assert [event.tool for event in events if isinstance(event, ToolBegun)] == ["delegate"]
        assert "from inside" in opened.sync(opened.wait(events[0].run)).text


@pytest.mark.parametrize("wish", [SystemExit(2), KeyboardInterrupt()], ids=["exit", "keyboard"])
def test_a_function_that_answers_may_not_leave_the_program_and_that_is_no_consent(
    tmp_path: Path, wish: BaseException
):
    """Such an exception used to end the agent's thread, and whoever waited for the run waited for ever."""

    def ask(question: object) -> bool:
        raise wish

    with agent(tmp_path, approval={"shell": "ask"}, ask=ask) as opened:
        ended = [event for event in opened.stream_sync("run touch a.txt") if isinstance(event, ToolEnded)]
        assert [event.status for event in ended] == ["denied"]
        assert opened.run_sync("say hello").ok
    assert not (tmp_path / "a.txt").exists()


def test_whoever_waits_for_a_task_that_leaves_is_told_and_the_agent_goes_on(tmp_path: Path):
    async def leave() -> None:
        raise SystemExit(3)

    with agent(tmp_path) as opened:
        with pytest.raises(SystemExit):
            opened.sync(leave())
        assert opened.run_sync("say hello").ok
