"""Any program that is started through the port of the sandbox is kept in its place, not only a shell: here a server of
tools that speaks JSON-RPC as MCP has it, and whose tools try to leave."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from support.tools.sandbox_attack import MECHANISMS, SECRET, Attack, tools_for

from turnbuckle.call.clock import SystemClock
from turnbuckle.tools.process import CommandEnd, run_command
from turnbuckle.tools.sandbox.choose import SandboxRules, choose
from turnbuckle.tools.sandbox.files import visible
from turnbuckle.tools.sandbox.port import SandboxJob

pytestmark = [pytest.mark.process, pytest.mark.requirement("R7")]

SERVER = """
import json, os, socket, sys

def read(path): return open(path).read()
def write(path): open(path, "w").write("mine"); return "written"
def connect(port): socket.create_connection(("127.0.0.1", int(port)), 5); return "connected"
def variable(name): return os.environ.get(name, "unset")
def child(path): return os.popen(f"cat {path} 2>&1").read()

TOOLS = {"read": read, "write": write, "connect": connect, "variable": variable, "child": child}
for line in open("requests.jsonl"):
    asked = json.loads(line)
    if asked["method"] == "tools/list":
        result = {"tools": [{"name": name} for name in TOOLS]}
    elif asked["method"] == "tools/call":
        try:
            text = TOOLS[asked["params"]["name"]](asked["params"]["arguments"])
        except OSError as error:
            text = "refused: " + type(error).__name__
        result = {"content": [{"type": "text", "text": text}]}
    else:
        result = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "hostile"}, "capabilities": {"tools": {}}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def served(attack: Attack, requests: list[dict[str, Any]]) -> tuple[CommandEnd, list[dict[str, Any]]]:
    """Start the server as anything but a shell would, ask it, and give its end and its answers."""
    (attack.workspace / "server.py").write_text(SERVER)
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **one}) for number, one in enumerate(requests)]
    (attack.workspace / "requests.jsonl").write_text("\n".join(lines) + "\n")
    where = os.path.realpath(attack.workspace)
    seen = visible(
        attack.workspace,
        attack.data,
        attack.environment,
        prefixes=(sys.prefix, sys.base_prefix),
        is_root=os.getuid() == 0,
    )
    sandbox = choose(SandboxRules("strict", seen), tools_for(attack.mechanism))
    program = (sys.executable, "-I", "-S", "server.py")
    launch = sandbox.launch(SandboxJob(program, where, attack.environment, session="s"))
    heard = bytearray()

    async def main() -> CommandEnd:
        folder = os.open(where, os.O_RDONLY)
        try:
            return await run_command(
                launch.argv,
                folder=folder,
                environment=launch.environment,
                heard=heard.extend,
                clock=SystemClock(),
                plan=launch.plan,
            )
        finally:
            os.close(folder)

    ended = asyncio.run(main())
    return ended, [json.loads(line)["result"] for line in heard.decode().splitlines()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_server_of_tools_is_kept_in_its_place_as_a_command_is(tmp_path: Path, mechanism: str):
    attack = Attack(tmp_path, mechanism)
    key = attack.home / ".ssh/id"
    with socket.create_server(("127.0.0.1", 0)) as outside:
        ended, answers = served(
            attack,
            [
                {"method": "initialize"},
                {"method": "tools/list"},
                call("write", "note.txt"),
                call("read", str(key)),
                call("read", str(attack.data / "journal.db")),
                call("child", str(key)),
                call("write", str(attack.home / "new")),
                call("connect", str(outside.getsockname()[1])),
            ],
        )
    assert ended.code == 0
    assert answers[0]["serverInfo"] == {"name": "hostile"}
    assert [tool["name"] for tool in answers[1]["tools"]] == ["read", "write", "connect", "variable", "child"]
    said = [answer["content"][0]["text"] for answer in answers[2:]]
    assert said[0] == "written"
    assert (attack.workspace / "note.txt").read_text() == "mine"
    assert SECRET not in str(said)
    assert [text.partition(":")[0] for text in (*said[1:3], said[5])] == ["refused"] * 3
    assert not (attack.home / "new").exists()  # if anything was written, then into a home of its own
