"""Anthropic's own programs unchanged in front of the server: its SDKs, Claude Code, and the SDK that drives that."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
from support.clients.client_harness import (
    CLIENTS,
    NODE,
    NODE_PACKAGES,
    ClientHarness,
    Server,
    new_key,
    prompt,
)
from support.clients.client_scenarios import CUT_AT, LONG, SUNNY
from support.clients.coding_model import COMMAND, CUT_AFTER, DONE, EDITED, CodingModel
from support.clients.coding_model import LONG as FILE
from support.processes.commands import CLEAN, PATIENCE, provider

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT

pytestmark = pytest.mark.process

SETTINGS = """
workspace = "work"
data = "data"

[server]
port = 0
noop = 0.2

[[routes]]
name = "lab"
protocol = "anthropic"
base_url = "{url}/v1"
api_key = "any"
model = "m"
stall = {{ gap = 2.5 }}
"""
TASK = "Write big.txt, edit it, and double it."
ALLOWED = f"Bash({COMMAND})"


def asked(scene: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt(scene, new_key())}]
    return {"model": "lab", "max_tokens": 9000, "messages": messages, **more}


def text_of(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


@pytest.fixture
def client(clients: ClientHarness) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=clients.url, api_key="any", max_retries=0) as made:
        yield made


@pytest.mark.requirement("J2")
def test_the_python_sdk_reads_answers_streams_and_signs_of_life(client: anthropic.Anthropic):
    assert text_of(client.messages.create(**asked("happy"))) == ANSWER
    with client.messages.stream(**asked("stall")) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert streamed == text_of(final) == ANSWER
    assert [block.type for block in final.content] == ["thinking", "text"]
    assert final.content[0].thinking == THOUGHT
    assert final.stop_reason == "end_turn"
    unfinished = client.messages.create(**asked("dies"))
    assert unfinished.stop_reason == "max_tokens"
    assert text_of(unfinished).startswith(ANSWER[:CUT_AT])


@pytest.mark.requirement("J2")
def test_the_python_sdk_runs_tools_with_whole_calls_though_every_stream_dies(client: anthropic.Anthropic):
    kept: list[str] = []

    @anthropic.beta_tool
    def keep_text(text: str) -> str:
        """Keep a text."""
        kept.append(text)
        return "kept"

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        kept.append(city)
        return "sunny"

    runner = client.beta.messages.tool_runner(**asked("long"), tools=[keep_text])
    assert text_of(runner.until_done()) == "It is kept."
    streaming = client.beta.messages.tool_runner(**asked("cut-weather"), tools=[get_weather], stream=True)
    *_, last = [stream.get_final_message() for stream in streaming]
    assert text_of(last) == SUNNY
    assert kept == [LONG, "Oslo"]


@pytest.mark.requirement("J2")
def test_the_python_sdk_counts_tokens_lists_models_and_raises_its_own_errors(client: anthropic.Anthropic):
    counted = client.messages.count_tokens(model="lab", messages=[{"role": "user", "content": "hello " * 80}])
    assert counted.input_tokens > 50
    assert [model.id for model in client.models.list()] == ["agent", "lab"]
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(**asked("happy", model="gone"))
    assert caught.value.body["error"]["type"] == "not_found_error"
    assert caught.value.request_id == caught.value.body["request_id"]
    with pytest.raises(anthropic.APIStatusError) as failed:
        client.messages.create(**asked("refused"))
    assert (failed.value.status_code, failed.value.body["error"]["type"]) == (502, "api_error")


@pytest.mark.requirement("J2")
def test_the_node_sdk_answers_streams_runs_tools_and_counts(clients: ClientHarness):
    if not NODE_PACKAGES.exists():
        pytest.fail(
            "the Node clients are not there: scripts/set-up-clients fetches them, and needs a network", False
        )
    prompts = {scene: prompt(scene, new_key()) for scene in ("happy", "stall", "long")}
    job = json.dumps({"url": clients.url, "prompts": prompts})
    script = CLIENTS / "node" / "with_anthropic.mjs"
    ran = subprocess.run([NODE, script, job], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert (seen["plain"], seen["streamed"], seen["stop"]) == (ANSWER, ANSWER, "end_turn")
    assert (seen["kept"], seen["last"]) == ([LONG], "It is kept.")
    assert seen["count"] > 0
    assert seen["models"] == ["agent", "lab"]
    assert seen["refused"] == ["NotFoundError", 404, "not_found_error"]


def claude() -> Path:
    """The program, as npm fetched it for this machine."""
    found = sorted((NODE_PACKAGES / "@anthropic-ai").glob("claude-code-*/claude"))
    if not found:
        pytest.fail("Claude Code is not there: scripts/set-up-clients fetches it, and needs a network", False)
    return found[0]


def home(folder: Path, url: str) -> dict[str, str]:
    """What Claude Code needs to work here, and to talk to nobody else."""
    return {
        "PATH": CLEAN["PATH"],
        "HOME": str(folder / "home"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "any",
        "ANTHROPIC_MODEL": "lab",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "lab",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


@pytest.fixture
def coding(tmp_path: Path) -> Iterator[tuple[CodingModel, Path, str]]:
    """A model that codes, the folder it works in, and the server between."""
    folder = tmp_path / "repo"
    folder.mkdir()
    model = CodingModel(folder)
    served = tmp_path / "served"
    served.mkdir()
    with provider(model.case()) as lab:
        server = Server(served, SETTINGS.format(url=lab.url))
        yield model, folder, server.url
        assert server.stop() == 0, server.log.read_text()


def check_task(model: CodingModel, folder: Path) -> None:
    """Everything is there, whole, and was done once."""
    assert (folder / "big.txt").read_text() == EDITED
    assert (folder / "twice.txt").read_text() == EDITED
    assert sorted(path.name for path in folder.iterdir()) == ["big.txt", "twice.txt"]
    # Each piece of the file was generated about once, and every other step twice: broken, then whole.
    assert len(model.seen) <= len(FILE) // CUT_AFTER + 3 + 6


@pytest.mark.requirement("J2")
def test_claude_code_writes_edits_and_runs_though_every_way_breaks(
    coding: tuple[CodingModel, Path, str], tmp_path: Path
):
    model, folder, url = coding
    command = [str(claude()), "-p", TASK, "--output-format", "json", "--permission-mode", "acceptEdits", "--allowedTools", ALLOWED]  # fmt: skip
    ran = subprocess.run(
        command,
        cwd=folder,
        env=home(tmp_path, url),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads(ran.stdout)
    assert (result["is_error"], result["result"]) == (False, DONE)
    check_task(model, folder)


@pytest.mark.requirement("J2")
def test_the_agent_sdk_does_the_same(coding: tuple[CodingModel, Path, str], tmp_path: Path):
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query  # noqa: PLC0415 - half a second for one test

    model, folder, url = coding

    async def main() -> ResultMessage:
        options = ClaudeAgentOptions(
            cwd=folder,
            cli_path=claude(),
            env=home(tmp_path, url),
            permission_mode="acceptEdits",
            allowed_tools=[ALLOWED],
            setting_sources=[],
        )
        async with asyncio.timeout(PATIENCE):
            seen = [message async for message in query(prompt=TASK, options=options)]
        assert isinstance(seen[-1], ResultMessage)
        return seen[-1]

    result = asyncio.run(main())
    assert (result.is_error, result.result) == (False, DONE)
    check_task(model, folder)
