"""The pages tell the truth: their examples run, and what they point to exists."""

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from msgspec.structs import fields
from tidy import ROOT

from turnbuckle.cli.exits import EXIT_CODES
from turnbuckle.config import load, routes_of
from turnbuckle.lab.cases import CASES
from turnbuckle.lab.script_text import STEPS, parse_case
from turnbuckle.settings import RouteSettings, Settings
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.vocab.quirks import Quirks

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)[^)]*\)")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
COMMAND = re.compile(r"(?:^ {4}|`)make ([a-z]+)\b", re.MULTILINE)
CASE_NAME = re.compile(r"(?:lab:|--case |x-lab-case: )([a-z][\w-]*)")
MODULE = re.compile(r"`((?:\w+/)*(?:\w+\.py|\w+/))`")


class Example(NamedTuple):
    page: Path
    line: int
    code: str
    output: str | None


def examples(page: Path) -> list[Example]:
    """The Python blocks of a page, each with the block of output that follows it, if any."""
    text = page.read_text("utf-8")
    blocks = [(match.group(1), match.group(2), match.start()) for match in FENCE.finditer(text)]
    found = []
    for (kind, code, at), (next_kind, output, _) in pairwise([*blocks, ("", "", 0)]):
        if kind == "python":
            found.append(
                Example(page, text.count("\n", 0, at) + 2, code, output if next_kind == "text" else None)
            )
    return found


def page_name(page: object) -> str | None:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else None


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=page_name)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path):
    names: dict[str, object] = {"__name__": "example"}
    for example in examples(page):
        printed = io.StringIO()
        padded = "\n" * (example.line - 1) + example.code  # so that a traceback names the page's own line
        with contextlib.redirect_stdout(printed):
            exec(compile(padded, str(page), "exec"), names)
        if example.output is not None:
            assert printed.getvalue() == example.output


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_of_a_page_leads_somewhere(page: Path):
    links = LINK.findall(FENCE.sub("", page.read_text("utf-8")))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_make_command_of_a_page_exists(page: Path):
    targets = set(TARGET.findall((ROOT / "Makefile").read_text("utf-8")))
    assert set(COMMAND.findall(page.read_text("utf-8"))) - targets == set()


def test_every_file_that_the_architecture_names_exists():
    named = set(MODULE.findall((ROOT / "docs/architecture.md").read_text("utf-8")))
    places = (ROOT / "src/turnbuckle", ROOT)
    assert named
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


def test_the_page_of_quirks_has_every_quirk_with_its_default():
    rows = re.findall(
        r"^\| `(\w+)` \| `(.*?)` \|", (ROOT / "docs/quirks.md").read_text("utf-8"), re.MULTILINE
    )
    assert rows == [(field.name, repr(field.default)) for field in fields(Quirks)]


def test_the_readme_shows_an_example_with_its_output():
    assert [example.output is not None for example in examples(ROOT / "README.md")] == [True]


def test_every_case_that_a_page_names_exists():
    known = {case.name for case in CASES}
    named = {name for page in PAGES for name in CASE_NAME.findall(page.read_text("utf-8"))}
    assert named
    assert named - known == set()


def test_the_page_of_the_lab_has_every_step_and_scripts_that_can_be_played():
    text = (ROOT / "docs/lab.md").read_text("utf-8")
    scripts = [code for kind, code in FENCE.findall(text) if kind == "toml"]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(STEPS)
    assert [len(parse_case(code).requests) for code in scripts] == [2]


def test_the_page_of_the_settings_has_every_setting_with_its_default():
    text = (ROOT / "docs/configuration.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)`<br>`\w+` \| `(.*?)` \|", text, re.MULTILINE))
    plain = msgspec.to_builtins(Settings())
    tables = {**plain, "routes": msgspec.structs.asdict(RouteSettings())}
    defaults = {}
    for key, value in tables.items():
        inside = (
            {f"{key}.{name}": inner for name, inner in value.items()}
            if isinstance(value, dict)
            else {key: value}
        )
        defaults.update({name: msgspec.json.encode(inner).decode() for name, inner in inside.items()})
    one = msgspec.structs.asdict(McpSettings())
    defaults.update({f"tools.mcp.NAME.{name}": msgspec.json.encode(one[name]).decode() for name in one})
    assert rows == defaults


def test_the_settings_that_a_page_shows_can_be_read(tmp_path: Path):
    shown = [
        code
        for page in ("README.md", "docs/configuration.md", "docs/operations.md", "docs/security.md")
        for kind, code in FENCE.findall((ROOT / page).read_text("utf-8"))
        if kind == "toml"
    ]
    assert len(shown) >= 4
    for code in shown:
        (tmp_path / "turnbuckle.toml").write_text(code)
        routes = routes_of(load(folder=tmp_path, environment={}).settings, {})
        assert bool(routes) == ("[[routes]]" in code)


def test_the_page_of_the_command_has_every_exit_code():
    rows = dict(re.findall(r"^\| `(\d+)` \| (\w+)", (ROOT / "docs/cli.md").read_text("utf-8"), re.MULTILINE))
    assert {str(code): kind for kind, code in EXIT_CODES.items()}.items() <= rows.items()
    assert set(rows) == {"0", "1", "2", "3", "4", "5", "130"}


def test_every_decision_has_a_number_of_its_own_which_its_title_has_too():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    titles = [page.read_text().removeprefix("# ").partition(".")[0] for page in pages]
    assert len(numbers) == len(set(numbers)) > 50
    assert titles == [str(number) for number in numbers]
