"""The made parts of the pages are what the code says, and what they say of a setting holds."""

import json
import re
from pathlib import Path

import pytest
from pages import settings_part
from pages.__main__ import main, parts
from pages.parts import ROOT, filled, names_in
from pages.parts import pages as all_pages

from turnbuckle.config import load
from turnbuckle.errors import ConfigError

PARTS = parts()
WITH_PARTS = [page for page in all_pages() if names_in(page.read_text("utf-8"))]
ROWS = settings_part.rows()
BOUND = re.compile(r"(?:(?P<above>>|≥) (?P<least>\d+))|(?:from (?P<from>\d+) to (?P<to>\d+))")


def test_the_pages_of_settings_and_of_http_have_parts_that_are_made():
    made = {page.name: names_in(page.read_text("utf-8")) for page in WITH_PARTS}
    assert made["configuration.md"] == ["settings", "presets"]
    assert made["http.md"] == ["http"]


@pytest.mark.parametrize("page", WITH_PARTS, ids=lambda page: page.name)
def test_a_made_part_is_what_the_code_says(page: Path):
    text = page.read_text("utf-8")
    assert filled(text, PARTS) == text, "make reference"


def test_a_page_that_differs_is_told_and_written_again(tmp_path, capsys):
    old = (ROOT / "docs/configuration.md").read_text("utf-8")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "configuration.md"
    page.write_text(old.replace("8765", "1"))
    assert main(check=True, root=tmp_path) == 1
    assert capsys.readouterr().out == "docs/configuration.md is not what the code says: make reference\n"
    assert main(check=False, root=tmp_path) == 0
    assert page.read_text("utf-8") == old
    assert main(check=True, root=tmp_path) == 0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_setting_has_a_sentence_and_a_kind(row):
    assert row.about[0].isupper() or row.about[0] == "`"
    assert row.about.endswith(".")
    assert row.kind


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_the_variable_of_a_setting_sets_it(row, tmp_path):
    default = json.loads(row.default)
    if default is None:
        default = {"text": "a", "whole number": 1, "number": 1.5, "true or false": True}.get(
            row.kind.split(" ≥")[0].split(" >")[0]
        )
        default = default if default is not None else row.kind.partition("`")[2].partition("`")[0]
    written = default if isinstance(default, str) else json.dumps(default)
    loaded = load(folder=tmp_path, environment={row.variable: written})
    key = row.key.replace("routes.", "routes.0.").replace(".NAME.", ".name.")
    assert {value.key: value.source for value in loaded.explain()}[key] == f"environment, {row.variable}"


BOUNDED = [row for row in ROWS if BOUND.search(row.kind)]


@pytest.mark.parametrize("row", BOUNDED, ids=lambda row: row.key)
def test_a_value_beyond_the_bounds_of_a_setting_is_refused_and_one_at_them_is_not(row, tmp_path):
    found = BOUND.search(row.kind)
    assert found is not None
    least, most = int(found["least"] or found["from"]), found["to"]
    outside = [least if found["above"] == ">" else least - 1, *([int(most) + 1] if most else [])]
    inside = [least + 1 if found["above"] == ">" else least, *([int(most)] if most else [])]
    for value in outside:
        key = row.key.replace("routes.", r"routes\.0\.").replace(".NAME.", ".name.")
        with pytest.raises(ConfigError, match=key):
            load(folder=tmp_path, environment={row.variable: str(value)})
    for value in inside:
        load(folder=tmp_path, environment={row.variable: str(value)})


def test_all_settings_that_are_numbers_have_bounds():
    numbers = [row.key for row in ROWS if "number" in row.kind]
    assert set(numbers) == {row.key for row in BOUNDED}
