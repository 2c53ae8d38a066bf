"""`kill -9` of a program that embeds an agent, and what its next life makes of it."""

import asyncio
import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.agents.open_agent import outcome_of
from support.processes.commands import ENVIRONMENT

from turnbuckle import Notice, ToolBegun, ToolEnded

PROGRAM = Path(__file__).with_name("killed_program.py")
_spec = importlib.util.spec_from_file_location("killed_program", PROGRAM)
program = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(program)


def killed(folder: Path, task: str, fault: str) -> None:
    """The first life of the program."""
    command = [sys.executable, str(PROGRAM), str(folder), task]
    ended = subprocess.run(
        command,
        env={**ENVIRONMENT, "TURNBUCKLE_FAULT": fault},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.process
@pytest.mark.requirement("D3", "E2", "G5")
@pytest.mark.parametrize(
    "tool, point, status",
    [
        ("ring_bell", "before-tool", "unknown"),
        ("ring_bell", "after-tool", "unknown"),
        ("save", "before-tool", "finished"),  # its probe looks: it was not done, so it is done now
        ("save", "after-tool", "finished"),  # its probe looks: it was done, so it is not done again
    ],
)
def test_a_program_that_died_in_a_tool_resumes_and_tells_the_truth_about_it(
    tmp_path: Path, tool: str, point: str, status: str
):
    killed(tmp_path, f"call {tool} with {{}}", f"{point}:{tool}:1")

    async def second_life():
        async with program.made(tmp_path) as agent:
            (run,) = await agent.resume()
            return [event async for event in agent.follow(run)]

    events = asyncio.run(second_life())
    assert outcome_of(events) == "completed"
    assert [event.tool for event in events if isinstance(event, ToolBegun)][:1] == [tool]
    assert [event.status for event in events if isinstance(event, ToolEnded)] == [status]
    assert any(isinstance(event, Notice) and "process died" in event.text for event in events)
    for effect in ("bell.txt", "saves.txt"):
        file = tmp_path / effect
        assert not file.exists() or len(file.read_text().splitlines()) == 1
    assert (tmp_path / "saved.txt").exists() == (tool == "save")


@pytest.mark.process
@pytest.mark.requirement("E2", "F6")
def test_the_same_task_with_the_same_key_goes_on_where_the_killed_program_was(tmp_path: Path):
    task = "write a.txt with 20 lines"
    killed(tmp_path, task, "after-append:ToolFinished:1")
    with program.made(tmp_path) as agent:
        result = agent.run_sync(task, session="work", key="job 1")
        assert result.ok
        assert result.tool_calls == 1
        assert agent.run_sync(task, session="work", key="job 1") == result
        assert len(agent.sync(agent.sessions.messages("work"))) == len(result.messages)
