"""What the pages name exists: tests, files, headings, metrics, settings, commands."""

import ast
import re
from pathlib import Path

import pytest
from tidy import ROOT

from turnbuckle.cli.main import app

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
PLACE = re.compile(r"`((?:\w+/)+(?:\w+\.py)?)`")
LINK = re.compile(r"\]\(([^)\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
METRIC = re.compile(
    r"\b(turnbuckle_[a-z_]+(?:_total|_seconds|_active|_readers|_dropped)|turnbuckle_readers)\b"
)
SHOWN = re.compile(r"^(?: {4}|`)?\$? ?(?:\S*/bin/)?turnbuckle ([a-z]+)\b", re.MULTILINE)


def page_name(page: object) -> str | None:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else None


def anchors(page: Path) -> set[str]:
    """The anchors that readers of a page give to its headings."""
    plain = FENCE.sub("", page.read_text("utf-8"))
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in HEADING.findall(plain))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_into_a_page_leads_to_a_heading(page: Path):
    links = LINK.findall(FENCE.sub("", page.read_text("utf-8")))
    lost = [
        f"{file}#{anchor}"
        for file, anchor in links
        if anchor not in anchors(page.parent / file if file else page)
    ]
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_test_that_a_page_names_exists(page: Path):
    for file, name in TEST.findall(page.read_text("utf-8")):
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        there = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert not name or name in there, f"{file}::{name}"


def test_every_promise_has_a_place_in_the_code_and_a_proof():
    text = (ROOT / "docs/survival.md").read_text("utf-8")
    promises = re.split(r"^### \d+\. ", text.partition("\n## A crash")[0], flags=re.MULTILINE)[1:]
    assert len(promises) == 10
    for promise in promises:
        where, proof = promise.partition("**Where:**")[2].split("**Proof:**")
        places = PLACE.findall(where)
        assert places
        assert [place for place in places if not (ROOT / "src/turnbuckle" / place).exists()] == []
        assert all(name for _, name in TEST.findall(proof))
        assert len(TEST.findall(proof)) >= 2


@pytest.mark.parametrize("page", ["docs/operations.md", "docs/survival.md", "docs/security.md"])
def test_every_metric_that_a_page_names_is_one(page: str):
    known = set(
        re.findall(r"^\| `(turnbuckle_\w+)` \|", (ROOT / "docs/metrics.md").read_text("utf-8"), re.MULTILINE)
    )
    assert set(METRIC.findall((ROOT / page).read_text("utf-8"))) - known == set()


@pytest.mark.parametrize(
    "page",
    ["docs/operations.md", "docs/survival.md", "docs/security.md", "docs/concepts.md", "docs/sessions.md"],
)
def test_every_setting_that_a_page_names_is_one(page: str):
    reference = (ROOT / "docs/configuration.md").read_text("utf-8")
    known = set(re.findall(r"^\| `([\w.]+)`<br>", reference, re.MULTILINE))
    tables = {key.partition(".")[0] for key in known}
    named = {
        name
        for name in re.findall(r"`(\w+\.\w+)(?: = [^`]*)?`", (ROOT / page).read_text("utf-8"))
        if name.partition(".")[0] in tables and not name.endswith((".py", ".md", ".toml"))
    }
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_that_a_page_shows_is_one(page: Path):
    known = {name for name in app if not name.startswith("-")}
    assert set(SHOWN.findall(page.read_text("utf-8"))) - known == set()


def test_the_index_leads_to_every_page():
    index = (ROOT / "docs/README.md").read_text("utf-8")
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\)", index))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages - linked == set()


RECIPES = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Ten changes")[2]
TO_COME = {"gateway/"}
"""What a recipe says is not there yet."""


def _of_recipe(place: str) -> Path | None:
    """A file or folder that a recipe names. Files of a face are named as they are called in each of them."""
    folders = (ROOT / "src/turnbuckle", ROOT, ROOT / "src/turnbuckle/server/faces/chat")
    return next((folder / place for folder in folders if (folder / place).exists()), None)


def test_every_file_that_a_recipe_names_exists():
    named = set(re.findall(r"`((?:[\w.-]+/)+|(?:[\w.-]+/)*[\w-]+\.(?:py|md|toml))`", RECIPES))
    assert len(named) > 50
    assert {place for place in named if _of_recipe(place) is None} == TO_COME


def test_every_name_that_a_recipe_gives_a_file_for_stands_in_that_file():
    beside = re.findall(r"`([A-Za-z_]+)`(?:,[^`(]*)? \(`([\w/]+\.py)`", RECIPES)
    both = re.findall(r"`([A-Za-z_]+)`(?: and `([A-Za-z_]+)`)? in `([\w/]+\.py)`", RECIPES)
    named = {*beside, *((name, file) for one, other, file in both for name in (one, other) if name)}
    assert len(named) > 10
    for name, file in named:
        where = _of_recipe(file)
        assert where is not None
        assert re.search(rf"\b{name}\b", where.read_text("utf-8")), f"{name} is not in {file}"
