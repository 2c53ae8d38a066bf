"""Every defence that docs/threats.md names has a test that exists and tests something."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/threats.md").read_text("utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| attacker")]


@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_tests_that_are_there(row: str):
    named = re.findall(r"`(tests/[\w/]+\.py)`", row.rsplit("|", 2)[1])
    assert named
    for path in named:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        assert any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body)
