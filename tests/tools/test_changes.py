"""What tools do to files: shown before, told after, kept to be undone, and not done to a file that nobody has seen."""

import asyncio
from pathlib import Path

import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.tools.changes import kept_in
from turnbuckle.tools.restore import RunFiles
from turnbuckle.tools.spec import ToolError
from turnbuckle.turn.consent import written
from turnbuckle.vocab.file_change import LARGEST, FileChange, mark_of, touched

CALLS = {
    "write_file": {"path": "a.txt", "content": "one\nnew\n"},
    "append_file": {"path": "a.txt", "content": "new\n"},
    "edit_file": {"path": "a.txt", "old": "two", "new": "new"},
}


def preview(box: Toolbox, name: str, **arguments: str) -> FileChange:
    found = asyncio.run(box.dispatcher.preview(box.call(name, **arguments), box.context))
    assert found is not None
    return found


@pytest.mark.requirement("H9")
@pytest.mark.parametrize("name", CALLS)
def test_what_is_shown_before_is_what_is_done_and_told_after(name: str, tmp_path: Path):
    box = Toolbox(tmp_path)
    (box.workspace / "a.txt").write_text("one\ntwo\n")
    shown = preview(box, name, **CALLS[name])
    assert "+new" in shown.diff
    assert (box.workspace / "a.txt").read_text() == "one\ntwo\n"
    (told,) = box.do(name, **CALLS[name]).changes
    assert (told.path, told.diff, told.before, told.after) == ("a.txt", shown.diff, shown.before, shown.after)
    assert told.kept
    assert mark_of((box.workspace / "a.txt").read_bytes()) == told.after


@pytest.mark.requirement("H9")
def test_a_look_ahead_makes_no_folder_and_says_what_would_fail(tmp_path: Path):
    box = Toolbox(tmp_path)
    new = preview(box, "write_file", path="deep/down/a.txt", content="x\n")
    assert (new.path, new.before, new.diff) == ("deep/down/a.txt", "", "@@ -0,0 +1 @@\n+x")
    assert not list(box.workspace.iterdir())
    assert "it would fail" in preview(box, "edit_file", path="a.txt", old="x", new="y").note
    assert "it would fail" in preview(box, "write_file", path="../out", content="x").note
    (box.workspace / "a.txt").write_text("one\n")
    assert "does not occur" in preview(box, "edit_file", path="a.txt", old="x", new="y").note
    assert preview(box, "write_file", path="a.txt", content="one\n").note == "nothing changes"
    (box.workspace / "b").write_bytes(b"\0\1")
    assert (
        preview(box, "write_file", path="b", content="x").note == "not a text: 2 bytes before, 1 bytes after"
    )


@pytest.mark.requirement("H9")
@pytest.mark.parametrize("name", CALLS)
def test_a_file_that_changed_after_the_yes_is_not_written(name: str, tmp_path: Path):
    box = Toolbox(tmp_path)
    file = box.workspace / "a.txt"
    file.write_text("one\ntwo\n")
    seen = preview(box, name, **CALLS[name]).before
    file.write_text("one\ntwo\nthree\n")
    outcome = box.with_settings(seen=(seen,)).do(name, **CALLS[name])
    assert outcome.status == "failed"
    assert "has changed since the user allowed this" in outcome.text
    assert (file.read_text(), outcome.changes) == ("one\ntwo\nthree\n", ())
    file.write_text("one\ntwo\n")
    assert box.do(name, **CALLS[name]).ok


@pytest.mark.requirement("H9")
def test_two_calls_that_were_allowed_together_both_change_the_file(tmp_path: Path):
    box = Toolbox(tmp_path)
    (box.workspace / "a.txt").write_text("one\ntwo\n")
    seen = mark_of(b"one\ntwo\n")
    box.with_settings(seen=(seen,))
    assert box.do("edit_file", path="a.txt", old="one", new="1").ok
    assert box.do("edit_file", path="a.txt", old="two", new="2").ok
    assert (box.workspace / "a.txt").read_text() == "1\n2\n"


@pytest.mark.requirement("H9")
def test_what_is_too_large_is_changed_and_not_kept(tmp_path: Path):
    box = Toolbox(tmp_path)
    (box.workspace / "a.txt").write_bytes(b"x" * (LARGEST + 1))
    (told,) = box.do("append_file", path="a.txt", content="y").changes
    assert (told.diff, told.kept) == ("", False)
    assert "too large" in told.note
    with pytest.raises(ToolError, match="not kept"):
        RunFiles(box.context).undo(touched([told])[0], "k")


@pytest.mark.requirement("H9")
def test_a_secret_of_the_settings_is_in_no_diff(tmp_path: Path):
    box = Toolbox(tmp_path, secrets=frozenset({"hunter2-hunter2"}))
    (box.workspace / "a.env").write_text("KEY=hunter2-hunter2\n")
    (told,) = box.do("append_file", path="a.env", content="B=1\n").changes
    assert "hunter2" not in told.diff
    assert "+B=1" in told.diff


@pytest.mark.requirement("H9")
def test_undo_brings_back_what_was_there_and_leaves_alone_what_somebody_changed_since(tmp_path: Path):
    box = Toolbox(tmp_path)
    file, new = box.workspace / "a.txt", box.workspace / "deep" / "b.txt"
    file.write_text("one\n")
    changes = [
        *box.do("append_file", path="a.txt", content="two\n").changes,
        *box.do("write_file", path="deep/b.txt", content="x\n").changes,
        *box.do("edit_file", path="a.txt", old="two", new="three").changes,
    ]
    files = RunFiles(box.context)
    first, second = touched(changes)
    assert files.whole_diff(first).diff == "@@ -1 +1,2 @@\n one\n+three"
    assert files.undo(first, "k1")
    assert file.read_text() == "one\n"
    assert not files.undo(first, "k1")
    new.write_text("mine\n")
    with pytest.raises(ToolError, match="has changed since the run"):
        files.undo(second, "k2")
    assert new.read_text() == "mine\n"
    new.write_text("x\n")
    assert files.undo(second, "k2")
    assert not new.exists()


@pytest.mark.requirement("H9")
def test_what_is_kept_is_for_its_owner_alone_and_no_model_can_read_it(tmp_path: Path):
    box = Toolbox(tmp_path, run="r1").with_settings(data=tmp_path / "workspace" / ".turnbuckle")
    (told,) = box.do("write_file", path="a.txt", content="x\n").changes
    kept = kept_in(box.context.data, "r1")
    assert [entry.name for entry in kept.iterdir()] == [told.after]
    assert kept.stat().st_mode & 0o077 == 0
    assert not box.do("read_file", path=f".turnbuckle/changes/r1/{told.after}").ok
    damaged = kept / told.after
    damaged.write_text("y\n")
    assert RunFiles(box.context).whole_diff(touched([told])[0]).note


@pytest.mark.requirement("H9")
def test_a_draft_is_saved_to_a_new_file_only(tmp_path: Path):
    files = RunFiles((box := Toolbox(tmp_path)).context)
    assert files.save("deep/a.txt", "half a file", "k")
    assert not files.save("deep/a.txt", "half a file", "k")
    with pytest.raises(ToolError, match="is there already"):
        files.save("deep/a.txt", "another", "k")
    with pytest.raises(ToolError, match="protected"):
        files.save(".git/config", "x", "k")
    assert (box.workspace / "deep" / "a.txt").read_text() == "half a file"


@pytest.mark.requirement("H9")
def test_a_draft_is_not_saved_where_the_settings_deny_to_write(tmp_path: Path):
    """Whoever asks for it over HTTP chooses the path; a rule that only asks is answered by that wish."""
    rules = written({"write_file:closed/*": "deny", "write_file:asked/*": "ask"})
    files = RunFiles((box := Toolbox(tmp_path, consent=rules)).context)
    (box.workspace / "closed").mkdir()
    (box.workspace / "way").symlink_to("closed")
    for path in ("closed/a.txt", "way/a.txt", "asked/../closed/a.txt"):
        with pytest.raises(ToolError, match="do not allow"):
            files.save(path, "x", "k")
    assert not list((box.workspace / "closed").iterdir())
    assert files.save("asked/a.txt", "x", "k")
