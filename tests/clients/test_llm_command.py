"""The `llm` command, as somebody types it."""

import os
from pathlib import Path

import pytest
from support.clients.client_harness import ClientHarness, new_key, prompt
from support.clients.client_scenarios import CUT_AT, NARRATION, NOTE, SUNNY, WRITTEN
from support.processes.commands import ENVIRONMENT, PATIENCE, Ran
from support.processes.fork_server import ForkRequest, fork_server

from turnbuckle.lab.cases.whole import ANSWER

pytestmark = pytest.mark.process

WAYS = {"stream": (), "plain": ("--no-stream",), "responses": ("--responses",)}
WEATHER = """
def get_weather(city: str) -> str:
    "The weather of a city."
    return f"sunny in {city}"
"""


def llm(folder: Path, harness: ClientHarness, *arguments: str) -> Ran:
    """The command with a home of its own, so that it finds nobody's keys and keeps nothing."""
    words = ["openai", "endpoint", harness.base_url, "--key", "any", *arguments]
    order = ForkRequest(words, str(folder), {**ENVIRONMENT, "LLM_USER_PATH": str(folder)})
    with fork_server(os.getpid(), "llm").start(order) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode is not None
    return Ran(process.returncode, out, err)


@pytest.mark.requirement("F10")
@pytest.mark.parametrize("way, scenario", [*((way, "happy") for way in WAYS), ("stream", "stall")])
def test_llm_prints_the_whole_answer(tmp_path: Path, clients: ClientHarness, way: str, scenario: str):
    ran = llm(tmp_path, clients, "-m", "agent", *WAYS[way], prompt(scenario, new_key()))
    assert (ran.code, ran.out) == (0, f"{ANSWER}\n"), ran.err


@pytest.mark.requirement("F10")
@pytest.mark.parametrize("way", ["stream", "responses"])
def test_llm_leaves_the_servers_tools_to_the_server(tmp_path: Path, clients: ClientHarness, way: str):
    """C18."""
    key = new_key()
    ran = llm(tmp_path, clients, "-m", "agent", *WAYS[way], prompt("tool", key))
    between = "" if way == "responses" else "\n\n"
    assert (ran.code, ran.out) == (0, f"{NARRATION}{between}{WRITTEN}\n"), ran.err
    assert clients.note(key) == NOTE
    assert len(clients.upstream(key)) == 3


@pytest.mark.requirement("F10", "F11")
@pytest.mark.parametrize("way", ["stream", "responses"])
def test_llm_runs_its_own_tool(tmp_path: Path, clients: ClientHarness, way: str):
    asked = prompt("cut-weather", new_key())
    ran = llm(tmp_path, clients, "-m", "lab", *WAYS[way], "--functions", WEATHER, "--td", asked)
    assert (ran.code, ran.out) == (0, f"{SUNNY}\n"), ran.err
    assert ran.err.count("Tool call: get_weather") == 1


@pytest.mark.requirement("F10", "C6")
@pytest.mark.parametrize("way", WAYS)
def test_llm_fails_when_the_turn_failed(tmp_path: Path, clients: ClientHarness, way: str):
    ran = llm(tmp_path, clients, "-m", "agent", *WAYS[way], prompt("refused", new_key()))
    assert ran.code == 1
    assert "the provider does not know this key" in ran.err


@pytest.mark.requirement("F10", "C6")
@pytest.mark.parametrize("way", ["stream", "responses"])
def test_llm_shows_that_an_answer_was_never_finished(tmp_path: Path, clients: ClientHarness, way: str):
    ran = llm(tmp_path, clients, "-m", "agent", *WAYS[way], prompt("dies", new_key()))
    assert ran.out.startswith(ANSWER[:CUT_AT])
    assert "[Not finished: " in ran.out


@pytest.mark.requirement("F1", "F10")
def test_llm_lists_the_agent_and_the_routes(tmp_path: Path, clients: ClientHarness):
    ran = llm(tmp_path, clients, "--models")
    assert (ran.code, ran.out.split()) == (0, ["agent", "lab"]), ran.err
