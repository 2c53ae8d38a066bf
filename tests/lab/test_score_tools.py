"""Tools of unknown names are known by what they look like, in every protocol."""

from typing import Any

import msgspec
import pytest

from turnbuckle.lab.score.facts import SentResult
from turnbuckle.lab.score.tools import CLIENT_TOOLS, OfferedTool, handle, offered, results
from turnbuckle.lab.script import LabRequest
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName

S = {"type": "string"}


def tool(name: str, required: tuple[str, ...] = (), **properties: Any) -> OfferedTool:
    return OfferedTool(name, {"type": "object", "properties": properties, "required": list(required)})


READ = tool("read_file", ("path",), path=S)

FITTING = [
    ("write", tool("write_file", ("path", "content"), path=S, content=S), {"path": "p", "content": "c"}),
    (
        "write",
        tool("Write", ("file_path", "content"), file_path=S, content=S),
        {"file_path": "p", "content": "c"},
    ),
    ("write", tool("create_file", (), filename=S, text=S), {"filename": "p", "text": "c"}),
    (
        "write",
        tool(
            "write",
            ("mode", "force"),
            mode={"type": "string", "enum": ["w", "a"]},
            force={"type": "boolean"},
            path=S,
            content=S,
        ),
        {"mode": "w", "force": False, "path": "p", "content": "c"},
    ),
    ("append", tool("append_file", ("path", "content"), path=S, content=S), {"path": "p", "content": "c"}),
    ("command", tool("shell", ("command",), command=S, cwd=S), {"command": "c"}),
    (
        "command",
        tool("Bash", ("command", "description"), command=S, description=S),
        {"description": "score", "command": "c"},
    ),
    ("command", tool("run_terminal_cmd", ("cmd",), cmd=S), {"cmd": "c"}),
]
UNFIT = [
    ("write", tool("write_file", ("path", "content"), path=S, content={"type": "object"})),
    ("write", tool("write_file", ("content",), content=S)),
    ("write", tool("write_file", ("path", "content", "other"), path=S, content=S, other={"anyOf": [S]})),
    ("write", OfferedTool("write_file", {})),
    ("command", tool("shell", ("argv",), argv={"type": "array"})),
    ("command", READ),
]


@pytest.mark.parametrize("deed, given, arguments", FITTING)
def test_a_tool_is_found_by_its_name_and_its_schema(deed, given: OfferedTool, arguments: dict[str, Any]):
    found = handle([READ, given], deed)
    assert found is not None
    assert found.name == given.name
    made = found.arguments("c", "p" if found.path else "")
    assert made == arguments
    assert list(made)[-1] == found.content, "a cut must be in the content"


@pytest.mark.parametrize("deed, given", UNFIT)
def test_a_tool_whose_arguments_can_not_be_made_is_left_alone(deed, given: OfferedTool):
    assert handle([given], deed) is None


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_the_tools_of_a_request_are_read_in_every_protocol(protocol: ProtocolName):
    schema = {"type": "object", "properties": {"command": S}}
    spelt = {
        "openai_chat": {"type": "function", "function": {"name": "shell", "parameters": schema}},
        "openai_responses": {"type": "function", "name": "shell", "parameters": schema},
        "anthropic": {"name": "shell", "input_schema": schema},
        "gemini": {"functionDeclarations": [{"name": "shell", "parametersJsonSchema": schema}]},
    }
    body = {"tools": [spelt[protocol], {"type": "web_search"}, "?"]}
    assert offered(LabRequest(protocol, body=body)) == (OfferedTool("shell", schema),)


@pytest.mark.parametrize("body", [{}, {"tools": None}, {"tools": {}}])
def test_a_request_without_tools_offers_none(body):
    assert all(offered(LabRequest(protocol, body=body)) == () for protocol in PROTOCOL_NAMES)


RESULTS = {
    "openai_chat": {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ]
    },
    "openai_responses": {
        "input": [
            {"role": "user", "content": "go"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ]
    },
    "anthropic": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"text": "done"}]}],
            }
        ]
    },
    "gemini": {
        "contents": [
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": "done"}}}],
            }
        ]
    },
}


@pytest.mark.parametrize("protocol", RESULTS)
def test_the_results_of_a_request_are_read_in_every_protocol(protocol):
    assert results(LabRequest(protocol, body=RESULTS[protocol])) == (SentResult("c1", "done"),)


def test_the_client_brings_tools_that_can_be_used():
    tools = msgspec.json.decode(msgspec.json.encode(CLIENT_TOOLS))
    brought = offered(LabRequest("openai_chat", body={"tools": tools}))
    assert handle(brought, "write") is not None
    assert handle(brought, "command") is not None
