"""The file tools, on real files."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.tools.atomic import replaced
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.confine import place_of
from turnbuckle.tools.spec import ToolError


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path)


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.requirement("D7")
def test_the_built_in_tools_are_these_with_these_arguments():
    assert {one.name: list(one.spec.parameters["properties"]) for one in BUILT_IN} == {
        "read_file": ["path", "start", "lines"],
        "write_file": ["path", "content"],
        "append_file": ["path", "content"],
        "edit_file": ["path", "old", "new"],
        "list_files": ["path", "pattern"],
        "search_files": ["pattern", "path"],
        "shell": ["command", "cwd", "timeout", "background", "network"],
        "read_process": ["id", "after", "wait"],
        "stop_process": ["id"],
        "fetch_url": ["url"],
        "ask_user": ["question"],
        "recall": ["query"],
    }


@pytest.mark.requirement("D3")
def test_each_built_in_tool_declares_what_it_does_to_the_world():
    effects = {one.name: (one.effect, one.probe is not None) for one in BUILT_IN if one.effect != "read"}
    assert effects == {
        "write_file": ("idempotent", True),
        "append_file": ("write", True),
        "edit_file": ("write", True),
        "shell": ("write", False),
        "stop_process": ("idempotent", False),
    }


@pytest.mark.requirement("B8")
def test_only_whole_texts_may_be_drafted():
    drafted = {one.name: one.draftable for one in BUILT_IN if one.draftable}
    assert drafted == {"write_file": "content", "append_file": "content"}


@pytest.mark.requirement("D7")
def test_a_written_file_reads_back_the_same(box: Toolbox):
    content = "första\r\nzweite\n\ttab  \nno end"
    assert box.do("write_file", path="deep/er/a.txt", content=content).status == "finished"
    assert box.do("read_file", path="deep/er/a.txt").text == content
    assert (box.workspace / "deep/er/a.txt").read_bytes() == content.encode()


@pytest.mark.requirement("D7")
def test_writing_leaves_nothing_but_the_file(box: Toolbox):
    box.do("write_file", path="a.txt", content="one")
    box.do("append_file", path="a.txt", content=" two")
    box.do("edit_file", path="a.txt", old="one", new="1")
    assert files_of(box.workspace) == ["a.txt"]
    assert (box.workspace / "a.txt").read_text() == "1 two"


def test_replacing_a_file_keeps_its_mode(box: Toolbox):
    script = box.workspace / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    box.do("write_file", path="run.sh", content="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_read_only_file_stays_as_it_is(box: Toolbox):
    (box.workspace / "a.txt").write_text("old")
    (box.workspace / "a.txt").chmod(0o444)
    assert "read-only" in box.do("write_file", path="a.txt", content="new").text
    assert (box.workspace / "a.txt").read_text() == "old"


@pytest.mark.requirement("D7")
def test_a_reader_sees_the_old_file_or_the_new_one_and_never_a_part(box: Toolbox):
    (box.workspace / "a.txt").write_text("old")
    with (box.workspace / "a.txt").open() as reader:
        box.do("write_file", path="a.txt", content="new")
        assert reader.read() == "old"


@pytest.mark.requirement("D7")
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(box: Toolbox):
    (box.workspace / "a.txt").write_text("old")
    (box.data / "writes").write_text("a file where the folder of notes should be")
    outcome = box.do("write_file", path="a.txt", content="new")
    assert outcome.status == "failed"
    assert "is as it was" in outcome.text
    assert files_of(box.workspace) == ["a.txt"]
    assert (box.workspace / "a.txt").read_text() == "old"


@pytest.mark.parametrize("name", ["write_file", "append_file"])
def test_a_folder_is_not_written_over(box: Toolbox, name: str):
    (box.workspace / "src").mkdir()
    for path in ("src", "."):
        assert "is a folder" in box.do(name, path=path, content="x").text
    assert files_of(box.workspace) == ["src"]


def test_appending_makes_the_file_if_it_is_not_there(box: Toolbox):
    box.do("append_file", path="log.txt", content="one\n")
    box.do("append_file", path="log.txt", content="two\n")
    assert (box.workspace / "log.txt").read_text() == "one\ntwo\n"


def test_half_a_surrogate_pair_is_written_as_a_question_mark(box: Toolbox):
    assert box.do("write_file", path="a.txt", content="x\ud83dy").status == "finished"
    assert (box.workspace / "a.txt").read_text() == "x?y"


# After a crash


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("write_file", {"content": "new"}),
        ("append_file", {"content": "new"}),
        ("edit_file", {"old": "old", "new": "old old"}),
    ],
)
def test_the_probe_knows_what_was_done(box: Toolbox, name: str, arguments: dict[str, str]):
    (box.workspace / "a.txt").write_text("old")
    context = box.with_settings(key="run:crashed").context
    assert replaced(context, "a.txt") == "not_done"
    assert box.do(name, path="a.txt", **arguments).status == "finished"
    assert replaced(context, "a.txt") == "done"
    os.replace(box.workspace / "a.txt", box.workspace / "b.txt")
    (box.workspace / "a.txt").write_text("somebody else's")
    assert replaced(context, "a.txt") == "unknown"


@pytest.mark.requirement("D3")
def test_a_write_that_stopped_before_its_rename_was_not_done(box: Toolbox):
    context = box.with_settings(key="run:crashed").context
    box.do("append_file", path="a.txt", content="new")
    (temporary,) = (f".turnbuckle-{note.name}.tmp" for note in (box.data / "writes").iterdir())
    os.rename(box.workspace / "a.txt", box.workspace / temporary)  # as if the process had died just before
    (box.workspace / "a.txt").write_text("old")
    assert replaced(context, "a.txt") == "not_done"
    box.do("append_file", path="a.txt", content=" new")
    assert files_of(box.workspace) == ["a.txt"]
    assert (box.workspace / "a.txt").read_text() == "old new"


# Reading


def test_lines_can_be_read_in_parts(box: Toolbox):
    (box.workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    assert box.do("read_file", path="a.txt", start=3, lines=2).text == (
        "line 3\nline 4\n[lines 3 to 4 of 10; go on with start=5]"
    )
    assert box.do("read_file", path="a.txt", start=10).text == "line 10\n[lines 10 to 10 of 10]"


def test_a_long_file_is_read_to_its_end_by_following_the_hints(tmp_path: Path):
    box = Toolbox(tmp_path, output_cap=1000)
    lines = [f"line {number}" for number in range(300)]
    (box.workspace / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        outcome = box.do("read_file", path="a.txt", start=len(seen) + 1)
        assert len(outcome.text) <= 1000
        assert outcome.kept_at is None
        *shown, hint = outcome.text.split("\n")
        assert hint.startswith("[lines")
        seen += shown
    assert seen == lines


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"path": "missing.txt"}, "No such file"),
        ({"path": "reedme.md"}, "readme.md"),
        ({"path": "src"}, "is a folder"),
        ({"path": "image.png"}, "not a text"),
        ({"path": "pipe"}, "not a plain file"),
        ({"path": "readme.md", "start": 9}, "has 1 lines"),
        ({"path": "readme.md", "start": -1}, "from 1"),
        ({"path": "readme.md/x"}, "not a folder"),
        ({"path": ""}, "empty"),
        ({"path": "a\0b"}, "NUL"),
    ],
)
def test_what_can_not_be_read_is_explained(box: Toolbox, arguments: dict[str, object], words: str):
    (box.workspace / "src").mkdir()
    (box.workspace / "readme.md").write_text("hello\n")
    (box.workspace / "image.png").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(box.workspace / "pipe")
    outcome = box.do("read_file", **arguments)
    assert outcome.status == "failed"
    assert words in outcome.text


def test_an_empty_file_and_a_very_long_line_are_told_as_such(box: Toolbox):
    (box.workspace / "empty").write_text("")
    (box.workspace / "long").write_text("x" * 100_000)
    assert box.do("read_file", path="empty").text == "[the file is empty]"
    assert box.do("read_file", path="long").text.endswith(
        "[line 1 of 1 is cut here: it has 100,000 characters]"
    )


# Editing


@pytest.mark.requirement("D7")
def test_an_edit_needs_exactly_one_place(box: Toolbox):
    file = box.workspace / "a.py"
    file.write_text("def one():\n    return 1\n\ndef two():\n    return 1\n")
    twice = box.do("edit_file", path="a.py", old="return 1", new="return 2")
    assert twice.status == "failed"
    assert "2 times" in twice.text
    assert "lines 2, 5" in twice.text
    never = box.do("edit_file", path="a.py", old="def on():\n    return 1", new="x")
    assert "does not occur" in never.text
    assert "1: def one():" in never.text
    once = box.do("edit_file", path="a.py", old="two():\n    return 1", new="two():\n    return 2")
    assert once.text == "Changed a.py, line 4."
    assert file.read_text() == "def one():\n    return 1\n\ndef two():\n    return 2\n"


def test_places_that_overlap_count_as_two(box: Toolbox):
    (box.workspace / "a.txt").write_text("aaa")
    assert "2 times" in box.do("edit_file", path="a.txt", old="aa", new="b").text


def test_an_edit_follows_the_line_breaks_of_the_file(box: Toolbox):
    file = box.workspace / "a.txt"
    file.write_bytes(b"one\r\ntwo\r\nthree\r\n")
    box.do("edit_file", path="a.txt", old="one\ntwo", new="1\n2")
    assert file.read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize("old, new, words", [("", "x", "empty"), ("same", "same", "the same")])
def test_an_edit_without_a_meaning_is_refused(box: Toolbox, old: str, new: str, words: str):
    (box.workspace / "a.txt").write_text("same")
    assert words in box.do("edit_file", path="a.txt", old=old, new=new).text


def test_a_file_that_is_not_utf8_is_not_edited(box: Toolbox):
    (box.workspace / "a.txt").write_bytes(b"caf\xe9 one")
    assert "not UTF-8" in box.do("edit_file", path="a.txt", old="one", new="two").text
    assert (box.workspace / "a.txt").read_bytes() == b"caf\xe9 one"


# Listing


def test_a_folder_is_listed_with_sizes_and_links(box: Toolbox):
    (box.workspace / "src").mkdir()
    (box.workspace / "a.txt").write_text("12345")
    (box.workspace / "link").symlink_to("a.txt")
    assert box.do("list_files").text == "a.txt (5 bytes)\nlink -> a.txt\nsrc/"
    assert box.do("list_files", path="src").text == "The folder is empty."


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("*.py", ["a.py", "src/b.py", "src/deep/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/c.py"]),
        ("**/deep/*", ["src/deep/c.py", "src/deep/d.md"]),
        ("**", ["a.py", "src/b.py", "src/deep/c.py", "src/deep/d.md"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("*.rs", ["No file fits."]),
    ],
)
def test_patterns_find_files_in_all_folders(box: Toolbox, pattern: str, found: list[str]):
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/deep/d.md", ".git/x.py", "node_modules/y.py"):
        (box.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (box.workspace / path).write_text("")
    assert box.do("list_files", pattern=pattern).text.split("\n") == found


def test_a_long_list_is_cut_and_says_so(box: Toolbox):
    for number in range(1001):
        (box.workspace / f"{number:04}").touch()
    lines = box.do("list_files").text.split("\n")
    assert len(lines) == 1001
    assert lines[-1].startswith("[there are more")


def test_walks_leave_no_file_open(box: Toolbox):
    (box.workspace / "a/b").mkdir(parents=True)
    before = len(os.listdir("/dev/fd"))
    for path in ("a/b/c", "a/../a/b", "../x", "a/x/y"):
        with suppress(ToolError), place_of(box.context, path):
            assert len(os.listdir("/dev/fd")) > before
    assert len(os.listdir("/dev/fd")) == before
