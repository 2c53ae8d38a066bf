"""Several runs that change one file at the same time."""

import asyncio
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.tools import write_process
from support.tools.toolbox import Toolbox

from turnbuckle.tools import atomic, file_locks
from turnbuckle.tools.confine import place_of
from turnbuckle.tools.spec import ToolContext, ToolError
from turnbuckle.tools.workspace import write_text
from turnbuckle.vocab.tooling import ToolOutcome

CHANGES = 20


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path)


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def of_run(box: Toolbox, run: str) -> ToolContext:
    return replace(box.context, run=run)


async def at_once(box: Toolbox, calls: list[tuple[str, str, dict[str, Any]]]) -> list[ToolOutcome]:
    made = [(box.call(tool, **given), of_run(box, run)) for run, tool, given in calls]
    return await asyncio.gather(*(box.dispatcher.run(call, context) for call, context in made))


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("tool", ["append_file", "edit_file"])
@pytest.mark.parametrize("paths", [("a.txt", "a.txt"), ("a.txt", "link"), ("sub/../a.txt", "folder/a.txt")])
def test_two_runs_that_change_one_file_lose_no_change_that_they_report(
    box, tool: str, paths: tuple[str, str]
):
    (box.workspace / "sub").mkdir()
    (box.workspace / "a.txt").write_text(
        "".join(f"[{run}:{one}]\n" for run in "AB" for one in range(CHANGES))
    )
    (box.workspace / "link").symlink_to("a.txt")
    (box.workspace / "folder").symlink_to(".")
    calls = [
        (run, tool, {"path": path, **write_process.arguments(tool, run, number)})
        for number in range(CHANGES)
        for run, path in zip("AB", paths, strict=True)
    ]
    outcomes = asyncio.run(at_once(box, calls))
    assert [one.status for one in outcomes] == ["finished"] * len(calls)
    text = (box.workspace / "a.txt").read_text()
    assert [
        f"<{run}:{one}>" for run in "AB" for one in range(CHANGES) if text.count(f"<{run}:{one}>") != 1
    ] == []
    assert names_in(box.workspace) == ["a.txt", "folder", "link", "sub"]
    assert file_locks.in_use() == 0


@pytest.mark.requirement("D9")
@pytest.mark.process
@pytest.mark.parametrize("tool", ["append_file", "edit_file"])
def test_two_processes_that_change_one_file_lose_no_change_that_they_report(box, tmp_path: Path, tool: str):
    (box.workspace / "a.txt").write_text(
        "".join(f"[{run}:{one}]\n" for run in "AB" for one in range(CHANGES))
    )
    paths = os.pathsep.join(sys.path)
    writers = [
        subprocess.Popen(
            [sys.executable, write_process.__file__, str(tmp_path), run, tool, str(CHANGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        for run in "AB"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [line for writer in writers for line in writer.communicate(timeout=100)[0].splitlines()]
    text = (box.workspace / "a.txt").read_text()
    assert len(said) == 2 * CHANGES
    assert [line for line in said if text.count(line) != 1] == []
    assert names_in(box.workspace) == ["a.txt"]


@pytest.mark.requirement("D9")
def test_two_first_writes_of_one_file_are_not_both_told_as_new(box):
    calls = [(run, "write_file", {"path": "a.txt", "content": run}) for run in "ABCD"]
    outcomes = asyncio.run(at_once(box, calls))
    assert sorted(one.text.split()[0] for one in outcomes) == ["Replaced", "Replaced", "Replaced", "Wrote"]


class Meddler:
    """Somebody outside who changes the file at a chosen moment: when a change of ours is written, but not yet there."""

    def __init__(self, act: Callable[[], None], times: int) -> None:
        self._act = act
        self._left = times

    def __call__(self, *_: object) -> None:
        if self._left:
            self._left -= 1
            self._act()


def in_place(file: Path) -> None:
    """Another text of the same length, in the same file."""
    with file.open("r+") as opened:
        opened.write("OTHER")


def appended(file: Path) -> None:
    with file.open("a") as opened:
        opened.write("more\n")


def replaced(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("OTHER place\n")
    new.replace(file)


def removed(file: Path) -> None:
    file.unlink()


def in_place_with_its_old_times(file: Path) -> None:
    """As a quick writer does on a disk whose clock is coarse."""
    before = file.stat()
    in_place(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("meddle", [in_place, appended, replaced, in_place_with_its_old_times])
@pytest.mark.parametrize("tool", ["append_file", "edit_file"])
def test_what_another_program_wrote_meanwhile_is_kept(
    box, monkeypatch, tool: str, meddle: Callable[[Path], None]
):
    file = box.workspace / "a.txt"
    file.write_text("there! place\n")
    meddler = Meddler(lambda: meddle(file), times=1)
    monkeypatch.setattr(atomic, "write_note", seen_by(meddler, atomic.write_note))
    given = {"old": "place", "new": "PLACE"} if tool == "edit_file" else {"content": "added\n"}
    assert box.do(tool, path="a.txt", **given).status == "finished"
    text = file.read_text()
    assert ("more" if meddle is appended else "OTHER") in text
    assert ("PLACE" if tool == "edit_file" else "added") in text
    assert names_in(box.workspace) == ["a.txt"]


@pytest.mark.requirement("D9")
@pytest.mark.parametrize("tool", ["append_file", "edit_file"])
def test_a_file_that_never_holds_still_is_an_honest_failure(box, monkeypatch, tool: str):
    file = box.workspace / "a.txt"
    file.write_text("place\n")
    monkeypatch.setattr(
        atomic, "write_note", seen_by(Meddler(lambda: appended(file), 1000), atomic.write_note)
    )
    given = {"old": "place", "new": "PLACE"} if tool == "edit_file" else {"content": "added\n"}
    outcome = box.do(tool, path="a.txt", **given)
    assert outcome.status == "failed"
    assert "nothing was changed" in outcome.text
    assert "added" not in file.read_text()
    assert "PLACE" not in file.read_text()
    assert names_in(box.workspace) == ["a.txt"]
    assert file_locks.in_use() == 0


@pytest.mark.requirement("D9")
def test_an_edit_of_a_file_that_went_away_meanwhile_does_not_bring_it_back(box, monkeypatch):
    file = box.workspace / "a.txt"
    file.write_text("place\n")
    monkeypatch.setattr(atomic, "write_note", seen_by(Meddler(lambda: removed(file), 1), atomic.write_note))
    assert box.do("edit_file", path="a.txt", old="place", new="PLACE").status == "failed"
    assert names_in(box.workspace) == []


def seen_by(meddler: Meddler, function: Callable[..., None]) -> Callable[..., None]:
    def both(*given: Any) -> None:
        function(*given)
        meddler()

    return both


@pytest.mark.requirement("D9")
def test_a_file_with_two_names_is_parted_and_that_is_told(box):
    (box.workspace / "a.txt").write_text("old\n")
    os.link(box.workspace / "a.txt", box.workspace / "b.txt")
    outcome = box.do("append_file", path="a.txt", content="new\n")
    assert "other names" in outcome.text
    assert (box.workspace / "a.txt").read_text() == "old\nnew\n"
    assert (box.workspace / "b.txt").read_text() == "old\n"
    assert "other names" not in box.do("append_file", path="a.txt", content="more\n").text


def test_names_that_differ_in_case_alone_have_one_lock(box):
    (box.workspace / "A.txt").write_text("")
    with place_of(box.context, "A.TXT") as loud, place_of(box.context, "a.txt") as quiet:
        assert file_locks.key_of(loud) == file_locks.key_of(quiet)


@pytest.mark.requirement("D9")
def test_a_writer_that_is_stopped_while_it_waits_for_another_changes_nothing(box):
    (box.workspace / "a.txt").write_text("old")

    async def scenario() -> ToolOutcome:
        stop = asyncio.Event()
        with place_of(box.context, "a.txt") as place, file_locks.locked(place, threading.Event()):
            context = replace(box.context, stop=stop)
            waiting = asyncio.create_task(
                box.dispatcher.run(box.call("append_file", path="a.txt", content="x"), context)
            )
            while file_locks.in_use(waiting=True) < 2:
                await asyncio.sleep(0)
            stop.set()
            return await waiting

    outcome = asyncio.run(scenario())
    assert outcome.status in ("failed", "killed")
    assert outcome.survivors == ()
    assert (box.workspace / "a.txt").read_text() == "old"
    assert file_locks.in_use() == 0


def test_a_lock_that_another_program_does_not_give_back_is_told(box, monkeypatch):
    monkeypatch.setattr(file_locks, "PATIENCE", 0.05)
    other = os.open(box.workspace, os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        outcome = box.do("write_file", path="a.txt", content="x")
    finally:
        os.close(other)
    assert outcome.status == "failed"
    assert "another program" in outcome.text
    assert names_in(box.workspace) == []
    assert box.do("write_file", path="a.txt", content="x").status == "finished"


def test_own_tools_write_under_the_same_lock(box, monkeypatch):
    monkeypatch.setattr(file_locks, "PATIENCE", 0.05)
    with (
        place_of(box.context, "a.txt") as place,
        file_locks.locked(place, threading.Event()),
        pytest.raises(ToolError, match="nothing was changed"),
    ):
        write_text(replace(box.context, key="k"), "a.txt", "x")
    write_text(replace(box.context, key="k"), "a.txt", "x")
    assert (box.workspace / "a.txt").read_text() == "x"
