"""Searching files by a regular expression."""

from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.tools.builtin.search import search_files
from turnbuckle.tools.spec import Tool


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    box = Toolbox(tmp_path)
    (box.workspace / "src").mkdir()
    (box.workspace / "src/a.py").write_text("import os\nimport sys\n")
    (box.workspace / "b.txt").write_text("important\nnothing\n")
    return box


@pytest.mark.requirement("D7")
def test_lines_that_fit_are_shown_with_path_and_number(box: Toolbox):
    assert (
        box.do("search_files", pattern=r"^import\b").text == "src/a.py:1: import os\nsrc/a.py:2: import sys"
    )
    assert box.do("search_files", pattern="import").text.count("\n") == 2
    assert box.do("search_files", pattern="sys", path="src").text == "src/a.py:2: import sys"
    assert box.do("search_files", pattern="sys", path="src/a.py").text == "src/a.py:2: import sys"


def test_no_hit_is_told_with_the_number_of_files(box: Toolbox):
    assert box.do("search_files", pattern="zebra").text == "No line fits, in 2 files."


def test_what_is_not_text_or_is_huge_is_skipped_and_counted(box: Toolbox):
    (box.workspace / "image.png").write_bytes(b"\0import")
    (box.workspace / "huge.txt").write_bytes(b"import\n" * 1_000_000)
    (box.workspace / "link").symlink_to("b.txt")
    text = box.do("search_files", pattern="import").text
    assert text.endswith("[3 files were skipped: not text, or too large]")
    assert text.count("import") == 3


def test_too_many_hits_are_cut_and_told(box: Toolbox):
    (box.workspace / "many.txt").write_text("hit\n" * 500)
    lines = box.do("search_files", pattern="hit").text.split("\n")
    assert len(lines) == 201
    assert lines[-1].startswith("[more than 200")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{99999999999}"])
def test_a_pattern_that_is_none_is_explained(box: Toolbox, pattern: str):
    outcome = box.do("search_files", pattern=pattern)
    assert outcome.status == "failed"
    assert "not a regular expression" in outcome.text


def test_a_missing_path_is_told(box: Toolbox):
    assert "No such file" in box.do("search_files", pattern="a", path="nobody").text


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_a_pattern_that_takes_for_ever_is_killed_and_the_loop_stays_free(tmp_path: Path):
    quick = Tool(
        "search_files",
        "",
        search_files.shape,
        search_files.invoke,
        blocking=False,
        effect="read",
        timeout=0.5,
    )
    box = Toolbox(tmp_path, [quick])
    (box.workspace / "a.txt").write_text("a" * 60 + "!")
    assert box.do("search_files", pattern="(a+)+$").status == "timed_out"
