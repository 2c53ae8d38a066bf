"""What the pages ask a reader to type works, and what they say was recorded is still what the commands print."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from pages import scorecard
from pages.recording import FOLDER, RECORDINGS, SCORECARD, Paper, alike, recorded
from support.docs.shell_blocks import blocks_of, fits, tried
from support.processes.served_folder import served
from tidy import ROOT

from turnbuckle.lab.cases import CASES

PAGES = [
    page for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))] if blocks_of(page)
]


def test_the_page_of_operations_has_commands_that_can_be_tried():
    assert "operations.md" in [page.name for page in PAGES]


@pytest.mark.process
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path):
    with ExitStack() as stack:
        server = None
        for block in blocks_of(page):
            if block.beside and server is None:
                server = stack.enter_context(served(tmp_path))
                server.ended(server.begin("write first.txt with 30 lines and cut"))
            elif not block.beside and server is not None:
                assert server.stop() == 0
                server = None
            ran = tried(block.code, tmp_path, **({"AT": server.url} if server else {}))
            assert ran.returncode == 0, f"{page.name}:{block.line}: {ran.stderr}"
            assert block.output is None or fits(block.output, ran.stdout), (
                f"{page.name}:{block.line}: {ran.stdout}"
            )


@pytest.mark.process
def test_a_restored_backup_has_what_was_there(tmp_path: Path):
    """The blocks of the page itself, and then a look: the run is there, and the session goes on."""
    page = ROOT / "docs/operations.md"
    with served(tmp_path) as server:
        run = server.begin("write first.txt with 30 lines", session="work")
        server.ended(run)
        for block in blocks_of(page):
            if block.beside:
                assert tried(block.code, tmp_path).returncode == 0
        after = server.begin("write second.txt", session="work")
        server.ended(after)
        server.stop()
    restore = next(block for block in blocks_of(page) if not block.beside)
    listed = tried(restore.code, tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert run in listed.stdout
    assert after not in listed.stdout
    assert tried('turnbuckle run --session work "read first.txt"', tmp_path).returncode == 0


@pytest.mark.process
@pytest.mark.realtime
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_is_still_what_a_terminal_shows(name: str):
    assert alike(recorded(RECORDINGS[name])) == alike((FOLDER / f"{name}.txt").read_text("utf-8")), (
        "make recordings"
    )


@pytest.mark.parametrize("group", scorecard.GROUPS)
def test_the_scorecard_is_still_what_comes_of_every_case(group: str):
    kept = [row for row in scorecard.read((FOLDER / SCORECARD).read_text("utf-8")) if row.group == group]
    assert scorecard.rows_of(group) == kept, "make recordings"


def test_every_case_of_the_lab_is_on_the_scorecard_once():
    kept = scorecard.read((FOLDER / SCORECARD).read_text("utf-8"))
    assert sorted(row.case for row in kept) == sorted(case.name for case in CASES)


def test_only_ids_seconds_and_guesses_may_differ_between_recordings():
    one = "run r20261116-053531-19d200c9f5d5, m\nafter 3.2 s, about 1,175 tokens, 9,528 characters\n"
    other = "run r20271116-053531-29d200c9f5d5, m\nafter 12 s, about 176 tokens, 9,528 characters\n"
    assert alike(one) == alike(other)
    assert alike(one) != alike(one.replace("9,528", "9,529"))


@pytest.mark.parametrize(
    "written, seen",
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("\x1b[2mwaiting\x1b[0m\r\x1b[Kdone\r\n", ["done"]),
        ("half\n\rwaiting\r\x1b[K\x1b[A\x1b[5G a line\r\n", ["half a line"]),
        ("\x1b[36m→ tool\x1b[0m\r\n\r\n", ["→ tool"]),
        ("abc\b\bX\r\n", ["aXc"]),
    ],
)
def test_what_a_terminal_was_told_to_take_back_is_not_recorded(written: str, seen: list[str]):
    paper = Paper()
    paper.feed(written)
    assert paper.lines() == seen


@pytest.mark.parametrize(
    "pattern, text, does",
    [
        ("a\n", "a\n", True),
        ("run r…, m\n", "run r1, m\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz\n", True),
        ("a\n", "b\n", False),
    ],
)
def test_dots_in_an_output_stand_for_anything(pattern: str, text: str, does: bool):
    assert fits(pattern, text) == does
