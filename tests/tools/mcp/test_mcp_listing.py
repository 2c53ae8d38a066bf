"""Names, descriptions and schemas of a stranger are checked and capped before a model reads them."""

import contextlib
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from turnbuckle.tools.mcp.listing import (
    DESCRIPTION_CAP,
    MOST_TOOLS,
    SERVER_NAME,
    Listing,
    listing_of,
    offered_name,
    read_page,
    written_out,
)
from turnbuckle.tools.mcp.messages import (
    LineSplitter,
    UnaskedBudget,
    Unreadable,
    agreed_version,
    read_message,
)
from turnbuckle.tools.mcp.results import read_result
from turnbuckle.tools.schema import ForeignShape, Misfit

pytestmark = pytest.mark.requirement("M1", "M2")


def listed(*tools: Any, wanted: tuple[str, ...] = ()) -> Listing:
    return listing_of("notes", [Raw(json.dumps(tool).encode()) for tool in tools], wanted)


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def test_tools_are_offered_under_the_name_of_their_server_in_its_order():
    found = listed(named("b"), named("a.b/c"), named("x" * 80))
    names = [tool.offered for tool in found.tools]
    assert names[:2] == ["mcp__notes__b", "mcp__notes__a_b_c"]
    assert all(len(name) <= 64 for name in names)
    assert len(set(names)) == 3


def test_two_names_that_look_alike_stay_two():
    found = listed(named("a.b"), named("a/b"))
    assert len({tool.offered for tool in found.tools}) == 2
    assert [tool.name for tool in found.tools] == ["a.b", "a/b"]


def test_descriptions_are_capped_and_hide_nothing():
    found = listed(named("a", description="x\u202ey\x1b[2J" + "z" * 9000))
    assert found.tools[0].description.startswith(r"x\u202ey\x1b[2J")
    assert len(found.tools[0].description) < DESCRIPTION_CAP + 40
    inner = {"type": "object", "properties": {"p": {"type": "string", "description": "\u202e" * 5000}}}
    told = listed({"name": "a", "inputSchema": inner}).tools[0].told
    assert "\u202e" not in json.dumps(told, ensure_ascii=False)


@pytest.mark.parametrize(
    "tool",
    [
        {"name": ""},
        {"name": 7},
        [],
        named("a", inputSchema={"type": "array"}),
        named("a", inputSchema=[]),
        named("a", inputSchema={"type": "object", "x": "y" * 40_000}),
        named("a", inputSchema={"$ref": "https://elsewhere.example/schema"}),
        named("a", inputSchema={"$ref": "#/not/there"}),
        named("a", inputSchema={"properties": {str(number): {} for number in range(3000)}}),
    ],
)
def test_one_bad_tool_is_left_out_with_a_reason_and_the_others_stay(tool: Any):
    found = listed(named("good"), tool)
    assert [one.name for one in found.tools] == ["good"]
    assert found.left_out


def test_a_schema_as_deep_as_it_is_long_is_refused():
    deep: Any = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    assert listed(named("a", inputSchema=deep)).tools == ()


def test_references_that_multiply_are_refused_and_one_to_itself_ends():
    doubling = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(30)}
    bomb = {"type": "object", "$defs": {**doubling, "d30": {}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    assert listed(named("a", inputSchema=bomb)).tools == ()
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    whole = written_out(
        {"type": "object", "$defs": {"node": node}, "properties": {"a": {"$ref": "#/$defs/node"}}}
    )
    assert whole["properties"]["a"]["properties"]["next"] == {}
    assert "$defs" not in whole


def test_arguments_may_be_called_like_words_of_schemas():
    whole = written_out(
        {"type": "object", "properties": {"$ref": {"type": "string"}, "definitions": {"type": "null"}}}
    )
    assert set(whole["properties"]) == {"$ref", "definitions"}


def test_providers_are_told_no_alternatives_at_the_top_and_arguments_are_checked_by_them():
    schema = {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}
    tool = listed(named("a", inputSchema=schema)).tools[0]
    assert "anyOf" not in tool.told
    with pytest.raises(Misfit):
        ForeignShape(tool.checked, told=tool.told).read({})


def test_one_argument_with_an_odd_name_does_not_make_providers_refuse_every_request():
    properties = {"$top": {"type": "integer"}, "_top": {}, "sort by": {}, "a.b-c": {}, "n" * 70: {}, "日": {}}
    schema = {"properties": properties, "required": ["$top"], "additionalProperties": False}
    tool = listed(named("a", inputSchema=schema)).tools[0]
    names = list(tool.told["properties"])
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in names)
    assert len(set(names)) == len(properties)
    assert names[1:4] == ["_top", "sort_by", "a.b-c"]
    taken = ForeignShape(tool.checked, told=tool.told).read(dict.fromkeys(names, 1))
    assert list(tool.arguments(taken)) == list(properties)
    with pytest.raises(Misfit):
        ForeignShape(tool.checked, told=tool.told).read({"_top": 1})


def test_odd_names_that_stand_elsewhere_too_cost_the_tool_alone():
    schema = {"properties": {"$top": {}}, "anyOf": [{"required": ["$top"]}]}
    found = listed(named("a", inputSchema=schema), named("b"))
    assert [tool.name for tool in found.tools] == ["b"]
    assert "names of its arguments" in found.left_out[0]


def test_providers_are_told_what_is_in_every_list():
    inner = {"type": ["array", "null"], "description": "any"}
    schema = {"properties": {"a": {"type": "array"}, "b": {"type": "array", "items": inner}, "type": {}}}
    tool = listed(named("a", inputSchema=schema)).tools[0]
    assert tool.told["properties"]["a"] == {"type": "array", "items": {}}
    assert tool.told["properties"]["b"]["items"] == {**inner, "items": {}}
    assert "items" not in tool.checked["properties"]["a"]


def test_a_pattern_that_would_take_for_ever_ends():
    shape = ForeignShape(
        {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(?=x)(x+x+)+y$"}}}
    )
    with pytest.raises(Misfit):
        shape.read({"a": "x" * 200})


def test_a_check_that_would_hold_up_everybody_is_refused():
    shape = ForeignShape({"type": "object", "properties": {"a": {"items": {"allOf": [{}] * 1000}}}})
    with pytest.raises(Misfit, match="too much"):
        shape.read({"a": [0] * 100_000})


def test_too_many_tools_are_cut_and_the_way_out_is_named():
    found = listed(*(named(f"t{number}") for number in range(150)))
    assert len(found.tools) == MOST_TOOLS
    assert "tools.mcp.notes.tools" in found.left_out[0]
    chosen = listed(*(named(f"t{number}") for number in range(150)), wanted=("t149", "gone"))
    assert [tool.name for tool in chosen.tools] == ["t149"]
    assert chosen.left_out == ("there is no tool 'gone'",)


def test_what_a_server_says_of_its_tools_says_only_whether_they_may_run_again():
    found = listed(
        named("r", annotations={"readOnlyHint": True}),
        named("i", annotations={"idempotentHint": True}),
        named("n", annotations={"destructiveHint": False}),
    )
    assert [tool.effect for tool in found.tools] == ["read", "idempotent", "write"]


@pytest.mark.parametrize(
    "name, fits",
    [
        ("a", True),
        ("my-notes_2", True),
        ("a__b", False),
        ("_a", False),
        ("a_", False),
        ("a" * 25, False),
        ("a.b", False),
        ("", False),
    ],
)
def test_names_of_servers(name: str, fits: bool):
    assert bool(SERVER_NAME.fullmatch(name)) == fits


def test_an_offered_name_is_the_same_each_time():
    assert offered_name("notes", "x" * 99) == offered_name("notes", "x" * 99)


def test_lines_come_whole_wherever_they_were_split():
    data = b'{"a":1}\r\n\n{"b":2}\n{"c"'
    for size in range(1, len(data) + 1):
        splitter = LineSplitter()
        lines = [line for at in range(0, len(data), size) for line in splitter.add(data[at : at + size])]
        assert lines == [b'{"a":1}', b'{"b":2}']
    with pytest.raises(Unreadable):
        LineSplitter(10).add(b"x" * 11)


def test_a_server_that_notes_something_now_and_then_may_do_so_for_years():
    budget = UnaskedBudget(0.0)
    assert not any(budget.spend(1000, float(second)) for second in range(200_000))
    assert any(budget.spend(1000, 200_000.0) for _ in range(30_000))


@pytest.mark.parametrize("schema", [{"type": "object", "properties": {"a": {"type": "nonsense"}}}])
def test_a_schema_that_is_none_raises(schema: dict[str, Any]):
    with pytest.raises(ValueError):
        ForeignShape(msgspec.json.decode(msgspec.json.encode(schema)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                "type properties items $ref $defs content text data resource uri tools name inputSchema annotations "
                "description isError structuredContent id method result error params message code".split()
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.requirement("M2")
@settings(max_examples=40)
@given(VALUES)
def test_whatever_a_server_sends_is_read_or_refused_in_words(value: Any):
    line = msgspec.json.encode(value)
    for read in (read_message, read_result, read_page, agreed_version):
        with contextlib.suppress(Unreadable):
            read(line)
    found = listing_of("notes", [Raw(line), Raw(msgspec.json.encode({"name": "t", "inputSchema": value}))])
    for tool in found.tools:
        assert len(tool.offered) <= 64
        with contextlib.suppress(ValueError):
            ForeignShape(tool.checked, told=tool.told)


@pytest.mark.requirement("M2")
@given(st.binary(max_size=100))
def test_bytes_that_are_nothing_are_refused_in_words(data: bytes):
    for read in (read_message, read_result, read_page, agreed_version):
        try:
            words = str(read(data))
        except Unreadable as error:
            words = str(error)
        assert words
