"""Requirement ids and tests are tied both ways."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from requirements import DUE, REQUIREMENTS

TESTS = Path(__file__).parent


def named_ids(tree: ast.AST) -> Iterator[str]:
    """The ids in the `pytest.mark.requirement(...)` decorators of the test functions of one file."""
    for node in functions_of(tree):
        if node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if (
                    isinstance(decorator, ast.Call)
                    and ast.unparse(decorator.func) == "pytest.mark.requirement"
                ):
                    yield from (ast.literal_eval(argument) for argument in decorator.args)


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those in which pytest looks for tests: in the file, its classes and conditions, and not inside of others."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.stmt):
            yield from functions_of(node)


@cache
def ids_by_file() -> dict[str, set[str]]:
    files = sorted(TESTS.rglob("test_*.py"))
    return {
        str(file.relative_to(TESTS)): set(named_ids(ast.parse(file.read_text("utf-8")))) for file in files
    }


def test_every_due_requirement_is_named_by_a_test():
    named = set().union(*ids_by_file().values())
    assert sorted(DUE - named) == []


def test_every_id_that_a_test_names_is_a_requirement():
    unknown = {
        file: sorted(ids - REQUIREMENTS.keys())
        for file, ids in ids_by_file().items()
        if ids - REQUIREMENTS.keys()
    }
    assert unknown == {}


def test_every_due_id_is_a_requirement():
    assert sorted(DUE - REQUIREMENTS.keys()) == []


def test_ids_are_found_on_plain_and_async_tests_and_nowhere_else():
    source = """
@pytest.mark.requirement("A1", "B1")
@pytest.mark.parametrize("n", [1])
def test_one(n): ...

class TestGroup:
    @pytest.mark.requirement("C1")
    async def test_two(self): ...

@pytest.mark.requirement("D1")
def not_a_test(): ...

@pytest.mark.realtime
def test_three(): ...
"""
    assert sorted(named_ids(ast.parse(source))) == ["A1", "B1", "C1"]
