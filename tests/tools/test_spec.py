"""Tools from functions."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import pytest
from msgspec import Struct

from turnbuckle.tools.registry import FINISH_CALL_SPEC, Registry
from turnbuckle.tools.schema import ForeignShape, Misfit
from turnbuckle.tools.spec import Tool, ToolContext, foreign_tool, tool
from turnbuckle.vocab.tooling import is_internal


class Point(Struct):
    x: int


@tool(effect="read", timeout=10)
def sample(
    path: Annotated[str, "Where."],
    context: ToolContext,
    count: int = 3,
    mode: Literal["fast", "slow"] = "fast",
    limit: int | None = None,
) -> str:
    """Do something
    useful.

    More about it that the model need not read.
    """
    return f"{path} {count} {mode} {limit} {context.run}"


def simple(name: str) -> Tool:
    @tool(effect="read", name=name)
    def nothing() -> None:
        """Do nothing."""

    return nothing


@pytest.mark.requirement("D7")
def test_the_types_of_a_function_become_its_schema():
    assert sample.spec.description == "Do something useful."
    assert sample.spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "count": {"type": "integer", "default": 3},
            "mode": {"enum": ["fast", "slow"], "default": "fast"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_left_out_arguments_get_their_defaults():
    assert sample.shape.read({"path": "a"}) == {"path": "a", "count": 3, "mode": "fast", "limit": None}


def test_nested_values_arrive_as_what_the_function_asks_for():
    @tool(effect="read")
    def place(points: list[Point]) -> int:
        """Place points."""
        return len(points)

    assert place.shape.read({"points": [{"x": 1}]}) == {"points": [Point(1)]}
    assert "Point" in place.spec.parameters["$defs"]


@pytest.mark.requirement("D1")
@pytest.mark.parametrize(
    "arguments, word",
    [
        ({}, "path"),
        ({"path": 5}, "path"),
        ({"path": None}, "path"),
        ({"path": "a", "count": "3"}, "count"),
        ({"path": "a", "count": 3.5}, "count"),
        ({"path": "a", "count": True}, "count"),
        ({"path": "a", "mode": "medium"}, "mode"),
        ({"path": "a", "colour": "red"}, "colour"),
        ({"path": "a", "context": {}}, "context"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(arguments: dict[str, Any], word: str):
    with pytest.raises(Misfit, match=word):
        sample.shape.read(arguments)


def test_an_unknown_argument_is_answered_with_the_known_ones():
    with pytest.raises(Misfit, match="path, count, mode, limit"):
        sample.shape.read({"path": "a", "colour": "red"})


def no_words(path: str) -> None: ...


def no_type(path) -> None:
    """Do it."""


def star(*paths: str) -> None:
    """Do it."""


def sound(path: str, size: int) -> None:
    """Do it."""


@pytest.mark.parametrize(
    "function, settings",
    [
        (no_words, {}),
        (lambda path: None, {}),
        (no_type, {}),
        (star, {}),
        (sound, {"draftable": "content"}),
        (sound, {"draftable": "size"}),
        (sound, {"guarded": ("force",)}),
    ],
)
def test_a_faulty_declaration_fails_at_once(function: Any, settings: dict[str, Any]):
    with pytest.raises(TypeError, match=function.__name__):
        tool(effect="write", **settings)(function)


FOREIGN = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 2}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.requirement("D1")
@pytest.mark.parametrize(
    "arguments", [{}, {"city": "x"}, {"city": "Rome", "days": "2"}, {"city": "Rome", "z": 1}]
)
def test_a_foreign_schema_is_checked_as_strictly(arguments: dict[str, Any]):
    with pytest.raises(Misfit):
        ForeignShape(FOREIGN).read(arguments)


def test_arguments_that_fit_a_foreign_schema_pass_unchanged():
    assert ForeignShape(FOREIGN).read({"city": "Rome", "days": 2}) == {"city": "Rome", "days": 2}


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:1/schema"}])
def test_a_foreign_schema_that_is_none_or_points_elsewhere_is_refused(schema: dict[str, Any]):
    async def call(arguments: dict[str, Any], context: ToolContext) -> None: ...

    with pytest.raises(ValueError):
        foreign_tool("weather", "Tell the weather.", schema, call)


def test_a_tool_is_still_the_function_that_it_was_made_of():
    assert simple("a")() is None

    @tool(effect="read")
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    assert (double(4), double(number=5)) == (8, 10)

    async def call(arguments: dict[str, Any], context: ToolContext) -> None: ...

    with pytest.raises(TypeError, match="weather was not made of a function"):
        foreign_tool("weather", "Tell the weather.", FOREIGN, call)()


@pytest.mark.requirement("B8")
def test_finish_call_is_always_the_last_tool_in_the_list():
    assert Registry().specs == (FINISH_CALL_SPEC,)
    assert [spec.name for spec in Registry([simple("a"), simple("b")]).specs] == ["a", "b", "finish_call"]


def test_finish_call_asks_for_the_anchor_before_the_long_text():
    assert list(FINISH_CALL_SPEC.parameters["properties"]) == [
        "draft",
        "after",
        "rest",
        "more",
        "also",
        "reading",
    ]


@pytest.mark.requirement("D1")
@pytest.mark.parametrize("names", [["a", "a"], ["finish_call"], ["read file"], [""], ["x" * 65]])
def test_names_that_could_be_confused_are_refused(names: list[str]):
    with pytest.raises(ValueError):
        Registry(
            [
                simple(name) if name else Tool("", "", sample.shape, sample.invoke, True, "read")
                for name in names
            ]
        )


@pytest.mark.requirement("D1")
@pytest.mark.parametrize(
    "name", ["read_File", "readfile", " read_file", "read_file ", "functions.read_file", "READ_FILE"]
)
def test_a_name_that_is_almost_right_finds_nothing_but_a_hint(name: str):
    registry = Registry([simple("read_file"), simple("shell")])
    assert registry.get(name) is None
    assert "read_file" in registry.unknown(name)


def test_tools_with_a_leading_underscore_are_internal():
    assert is_internal("_note")
    assert not is_internal("read_file")


def test_the_registry_knows_what_may_be_drafted_and_what_is_guarded():
    @tool(effect="write", draftable="text", guarded=("force",))
    def put(text: str, force: bool = False) -> None:
        """Put it there."""

    registry = Registry([put, sample])
    assert (registry.draftable("put"), registry.draftable("sample"), registry.draftable("nobody")) == (
        "text",
        None,
        None,
    )
    assert (registry.guarded("put"), registry.guarded("nobody")) == ({"force"}, frozenset())


def test_an_effect_that_nobody_knows_is_refused_at_once():
    with pytest.raises(TypeError, match="effect='red' is not one of read, idempotent, write"):
        tool(effect="red")  # type: ignore[call-overload]


@pytest.mark.requirement("H14")
def test_a_bare_decorator_makes_a_tool_that_is_never_repeated():
    @tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}."

    assert (greet.name, greet.effect, greet.description) == ("greet", "write", "Greet somebody.")
    assert greet.spec.parameters["required"] == ["name"]
    assert greet("Ann") == "Hello, Ann."
    with pytest.raises(TypeError, match="needs a docstring"):
        tool(lambda: None)


@pytest.mark.requirement("H14")
def test_a_generator_is_refused_with_what_to_use_instead():
    with pytest.raises(TypeError, match=r"count is a generator.*ToolContext\.publish"):

        @tool
        def count() -> Iterator[str]:
            """Count."""
            yield "one"

    with pytest.raises(TypeError, match="slowly is a generator"):

        @tool
        async def slowly() -> AsyncIterator[str]:
            """Count slowly."""
            yield "one"


def test_a_missing_argument_is_said_in_a_sentence():
    @tool
    def greet(name: str) -> str:
        """Greet somebody."""
        return name

    with pytest.raises(Misfit, match=r"^The call lacks the required argument `name`$"):
        greet.shape.read({})
