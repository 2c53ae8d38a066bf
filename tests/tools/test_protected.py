"""What a model cannot change in its workspace, and what it leaves readable to others: nothing."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.tools.confine import MAX_DEPTH
from turnbuckle.tools.modules import files_of
from turnbuckle.vocab.arguments import judge

WAYS = {
    "write_file": {"content": "x"},
    "append_file": {"content": "x"},
    "edit_file": {"old": "a", "new": "b"},
}
PATHS = [
    "turnbuckle.toml",
    "sub/turnbuckle.toml",
    "TurnBuckle.TOML",
    ".git/hooks/pre-commit",
    ".git/config",
    ".GIT/config",
    ".git",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    "a.code-workspace",
    ".bashrc",
    "home/.profile",
    ".envrc",
    ".ssh/authorized_keys",
    "__pycache__/my_tools.cpython-311.pyc",
    "my_tools.py",
    "sub/../turnbuckle.toml",
    "link/config",
    "alias",
]


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    box = Toolbox(tmp_path)
    box.with_settings(protected=frozenset({os.path.realpath(box.workspace / "my_tools.py")}))
    return box


@pytest.mark.requirement("R5")
@pytest.mark.parametrize("tool", WAYS)
@pytest.mark.parametrize("path", PATHS)
def test_what_decides_what_runs_later_cannot_be_changed(box: Toolbox, tool: str, path: str):
    for folder in ("sub", "home"):
        (box.workspace / folder).mkdir()
    (box.workspace / ".git").mkdir()
    (box.workspace / "link").symlink_to(".git")
    (box.workspace / "alias").symlink_to("turnbuckle.toml")
    before = sorted(box.workspace.rglob("*"))
    outcome = box.do(tool, path=path, **WAYS[tool])
    assert outcome.status == "failed"
    assert "is protected" in outcome.text or tool == "edit_file" or path == ".git"
    assert sorted(box.workspace.rglob("*")) == before


def test_it_can_be_read(box: Toolbox):
    (box.workspace / "turnbuckle.toml").write_text("[server]\n")
    assert box.do("read_file", path="turnbuckle.toml").text == "[server]\n"


@pytest.mark.requirement("R5")
def test_files_and_packages_of_own_tools_are_known():
    assert files_of(["/somewhere/my_tools.py"]) == ("/somewhere/my_tools.py",)
    assert files_of(["email.message"])[0].endswith("email")


@pytest.mark.requirement("R9")
def test_what_is_ours_is_closed_to_others_also_in_a_folder_that_was_there(box: Toolbox):
    for folder in (box.data, box.data / "kept", box.data / "writes"):
        folder.mkdir(mode=0o755, exist_ok=True)
    (box.data / "journal.db").touch(0o644)
    before = os.umask(0o022)
    try:

        async def main() -> None:
            await SqliteJournal(box.data).close()

        asyncio.run(main())
        box.with_settings(output_cap=300)
        box.do("write_file", path="a.txt", content="x")
        (box.workspace / "long.txt").write_text("x\n" * 1000)
        box.do("shell", command="cat long.txt")
    finally:
        os.umask(before)
    inside = list(box.data.rglob("*"))
    assert {path.name for path in inside} >= {"journal.db", "kept", "writes", "run"}
    assert [path for path in inside if path.stat().st_mode & 0o077] == []
    assert (box.workspace / "a.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.requirement("R9")
def test_a_replaced_file_never_shows_with_wider_rights_and_loses_another_users(
    box: Toolbox, monkeypatch: pytest.MonkeyPatch
):
    private = box.workspace / "private.txt"
    private.write_text("old")
    private.chmod(0o6700)
    opened: list[int] = []
    real_open = os.open

    def watched(path: str, flags: int, mode: int = 0o777, **more: int) -> int:
        handle = real_open(path, flags, mode, **more)
        if flags & os.O_EXCL:
            opened.append(os.fstat(handle).st_mode & 0o077)
        return handle

    monkeypatch.setattr(os, "open", watched)
    assert box.do("write_file", path="private.txt", content="new").status == "finished"
    assert opened == [0]
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.parametrize("tool", ["write_file", "append_file"])
def test_a_pipe_is_not_replaced(box: Toolbox, tool: str):
    os.mkfifo(box.workspace / "pipe")
    outcome = box.do(tool, path="pipe", content="x")
    assert (outcome.status, "not a plain file" in outcome.text) == ("failed", True)
    assert stat.S_ISFIFO((box.workspace / "pipe").stat().st_mode)


@pytest.mark.requirement("R12")
def test_folders_of_any_depth_are_listed_and_searched(box: Toolbox):
    here = os.open(box.workspace, os.O_RDONLY)
    for _ in range(6_000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (box.workspace / "d/a.txt").write_text("here")
    assert box.do("list_files", pattern="*.txt").text == "d/a.txt"
    assert "d/a.txt:1: here" in box.do("search_files", pattern="here").text
    outcome = box.do("write_file", path="d/" * 3_000 + "x", content="x")
    assert f"more than {MAX_DEPTH} folders" in outcome.text
    box.do("shell", command="rm -rf d", timeout=60)


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    "path", ["d/" * (MAX_DEPTH + 1) + "x", "new/" + "x" * 300, "new/" + "ä" * 200 + "/x"]
)
def test_a_file_that_cannot_be_written_leaves_no_folder_behind(path, box: Toolbox):
    before = sorted(box.workspace.iterdir())
    for tool, arguments in {"write_file": {"content": "x"}, "append_file": {"content": "x"}}.items():
        outcome = box.do(tool, path=path, **arguments)
        assert (outcome.status, "more than" in outcome.text or "too long" in outcome.text) == ("failed", True)
    assert sorted(box.workspace.iterdir()) == before


@pytest.mark.requirement("R11")
def test_a_line_break_in_a_name_begins_no_entry(box: Toolbox):
    (box.workspace / "a\nb (1 bytes)").write_text("here")
    (box.workspace / "c\u202egnp.exe").symlink_to("x\ny")
    assert box.do("list_files").text.split("\n") == [
        "a\\nb (1 bytes) (4 bytes)",
        "c\\u202egnp.exe -> x\\ny",
    ]
    assert box.do("list_files", pattern="a*").text == "a\\nb (1 bytes)"
    assert box.do("search_files", pattern="here").text.startswith("a\\nb (1 bytes):1: here")


def test_a_key_with_two_values_is_no_argument():
    assert judge('{"path": "a", "path": "b"}').status == "malformed"
    assert judge('{"a": {"path": 1, "path": 2}}').status == "malformed"
    assert judge('{"path": "a", "path": "a"}').value == {"path": "a"}
