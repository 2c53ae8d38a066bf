"""What every protocol's value promises, whoever reads it."""

import ast
from pathlib import Path

import msgspec
import pytest

import turnbuckle
from turnbuckle.lab.provider import served_by
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, NamedTool, RunOptions, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS

every_protocol = pytest.mark.parametrize("name", PROTOCOL_NAMES)
SOURCE = Path(turnbuckle.__file__).parent
ASKED = ModelRequest(
    "m",
    (
        Message("system", (TextPart("be kind"),)),
        Message("user", (TextPart("look"),)),
        Message("assistant", (TextPart("Looking."), CallPart("call_1", "look", '{"at":1}'))),
        Message("tool", (ResultPart("call_1", (TextPart("seen"),)),)),
        Message("user", (TextPart("and?"),)),
    ),
    (ToolSpec("look", "Looks."),),
)


def test_every_name_has_a_value_and_every_value_its_name() -> None:
    assert set(PROTOCOLS) == set(PROTOCOL_NAMES)
    assert all(protocol.rules.protocol == name == protocol.name for name, protocol in PROTOCOLS.items())


@every_protocol
def test_a_protocol_has_only_quirks_that_exist(name: ProtocolName) -> None:
    assert PROTOCOLS[name].quirks <= set(Quirks.__struct_fields__)


def test_every_quirk_exists_in_some_protocol() -> None:
    assert {quirk for protocol in PROTOCOLS.values() for quirk in protocol.quirks} == set(
        Quirks.__struct_fields__
    )


@every_protocol
@pytest.mark.parametrize("stream", [True, False])
def test_what_is_asked_arrives_at_whoever_plays_the_provider(name: ProtocolName, stream: bool) -> None:
    protocol = PROTOCOLS[name]
    asked = msgspec.structs.replace(ASKED, stream=stream)
    served = served_by((protocol.base_path + protocol.endpoint(asked)).partition("?")[0])
    assert served is not None
    assert served[0] is protocol
    body = msgspec.json.decode(msgspec.json.encode(protocol.build(asked, Quirks())))
    told = {**body, **served[1]}
    assert (told["model"], told.get("stream", False)) == ("m", stream)
    received = protocol.read_request(told)
    results = [
        text_of(part.content)
        for message in received.messages
        for part in message.parts
        if isinstance(part, ResultPart)
    ]
    calls = [part for message in received.messages for part in message.parts if isinstance(part, CallPart)]
    assert results == ["seen"]
    assert [(call.name, msgspec.json.decode(call.arguments)) for call in calls] == [("look", {"at": 1})]
    assert text_of(received.messages[-1].parts) == "and?"
    assert [tool.name for tool in received.tools] == ["look"]


@every_protocol
@pytest.mark.parametrize("path", ["", "/", "/models", "/v1/models", "/v2/messages"])
def test_nobody_serves_a_path_of_no_protocol(name: ProtocolName, path: str) -> None:
    assert PROTOCOLS[name].serves(path) is None


@every_protocol
@pytest.mark.parametrize(
    "body", [{}, {"messages": 1, "input": {}, "tools": "x", "model": 3, "contents": [4]}]
)
def test_a_request_of_any_shape_is_read_and_never_refused(
    name: ProtocolName, body: dict[str, object]
) -> None:
    received = PROTOCOLS[name].read_request(body)
    assert (received.messages, received.tools) == ((), ())


def test_nobody_compares_a_protocols_name() -> None:
    """A name is a key of the registry and what a folder gives itself; anything else is asked of the value."""
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.relative_to(SOURCE).parts[0] != "wire"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Compare | ast.Match) and _names(node)
    ]
    assert found == []


def _names(node: ast.Compare | ast.Match) -> bool:
    """Whether a protocol's name stands on one side of a comparison, or in a case."""
    tried: list[ast.AST] = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    if isinstance(node, ast.Match):
        tried = [case.pattern for case in node.cases]
    constants = [inner for one in tried for inner in ast.walk(one) if isinstance(inner, ast.Constant)]
    return any(inner.value in PROTOCOL_NAMES for inner in constants)


SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
WISHES = [
    ("max_output_tokens", 7),
    ("temperature", 0.0),
    ("top_p", 0.5),
    ("stop", ("END",)),
    ("effort", "low"),
    ("response_format", {"type": "json_object"}),
    ("response_format", SCHEMA),
    ("parallel_calls", False),
    ("tool_choice", "none"),
    ("tool_choice", "required"),
    ("tool_choice", NamedTool("look")),
    ("strict", True),
]


@pytest.mark.requirement("I8")
@every_protocol
@pytest.mark.parametrize("quirks", [Quirks(), Quirks(sampling=True)], ids=["usual", "sampling"])
@pytest.mark.parametrize("wish, value", WISHES, ids=[f"{wish} {value}"[:40] for wish, value in WISHES])
def test_a_wish_is_in_the_request_or_the_protocol_says_that_it_is_not(
    name: ProtocolName, quirks: Quirks, wish: str, value: object
) -> None:
    protocol = PROTOCOLS[name]
    strict = (ToolSpec("look", "Looks.", strict=True),)
    given = {"tools": strict} if wish == "strict" else {wish: value}

    asked = msgspec.structs.replace(ASKED, **given)
    changed = protocol.build(asked, quirks) != protocol.build(ASKED, quirks)

    assert changed == (wish not in protocol.unsaid(RunOptions(**given), quirks))
