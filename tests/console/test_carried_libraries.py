"""The libraries that the console carries: that they are what the page about them says, and keep to the page's policy."""

import hashlib
import re
from pathlib import Path

import pytest

CONSOLE = Path(__file__).parents[2] / "src" / "turnbuckle" / "console"
ROW = re.compile(r"^\| `(static/[\w.-]+)` .*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


def _carried() -> dict[str, str]:
    return dict(ROW.findall((CONSOLE / "THIRD_PARTY.md").read_text()))


@pytest.mark.requirement("H3")
def test_every_library_is_byte_for_byte_what_the_page_about_it_says():
    assert len(_carried()) == 2
    for name, wanted in _carried().items():
        assert hashlib.sha256((CONSOLE / name).read_bytes()).hexdigest() == wanted


@pytest.mark.requirement("F9")
def test_no_module_makes_code_or_markup_of_text():
    for module in sorted((CONSOLE / "static").glob("*.*js")):
        text = module.read_text()
        assert not re.search(r"\beval\(|\bnew Function\(|document\.write\(", text), module.name
        if f"static/{module.name}" not in _carried():
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\.setHTML", text), module.name
