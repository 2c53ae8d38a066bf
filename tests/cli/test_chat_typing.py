"""What is typed into a chat beside words: pastes, files of the workspace, and commands of the user's own."""

import asyncio
import os
from pathlib import Path

import pytest

from turnbuckle.cli.chat import workspace_files
from turnbuckle.cli.chat.own_commands import HEAD, TAIL, CommandRan, OwnCommands, shown
from turnbuckle.cli.chat.pastes import MOST, FoldedPastes
from turnbuckle.cli.chat.workspace_files import MOST_OFFERED, AttachedFiles, ChatFiles, typed_name
from turnbuckle.tools.spec import ToolError
from turnbuckle.turn.consent import written

LONG = "\n".join(f"line {number}" for number in range(120))


@pytest.mark.requirement("H13")
def test_a_long_paste_stands_in_the_line_as_a_sign_and_is_sent_whole():
    pastes = FoldedPastes()
    assert pastes.fold("two\nlines") == "two\nlines"
    assert pastes.fold("x" * 5_000) == "[pasted 5,000 characters]"
    sign = pastes.fold(LONG)
    assert sign == "[pasted 120 lines]"
    assert FoldedPastes().fold(f"{LONG}\n") == sign  # as an editor copies it
    other = pastes.fold(LONG.upper())
    assert other == "[pasted 120 lines #2]"
    assert pastes.fold(LONG) == sign
    line = f"why {sign} and {other}?"
    whole = f"why {LONG} and {LONG.upper()}?"
    assert pastes.unfolded(line) == whole
    assert pastes.folded(whole) == line
    assert pastes.sign_before(f"see {sign}") == sign
    assert pastes.sign_before("see this") == ""


@pytest.mark.requirement("H13")
@pytest.mark.parametrize("cut", [1, 5, 10])
def test_a_sign_that_was_edited_is_refused_instead_of_losing_what_was_pasted(cut):
    pastes = FoldedPastes()
    sign = pastes.fold(LONG)
    broken = f"look at {sign[:-1]}" if cut == 1 else f"look at {sign[:-cut]}s {sign}"
    assert pastes.unfolded(broken) is None or cut == 10
    assert pastes.unfolded("a line without it") == "a line without it"
    assert FoldedPastes().unfolded("[pasted 3 lines of text]") == "[pasted 3 lines of text]"


@pytest.mark.requirement("H13")
def test_only_so_many_pastes_are_remembered():
    pastes = FoldedPastes()
    first = pastes.fold(f"first\n{LONG}")
    for number in range(MOST):
        pastes.fold(f"{number}\n{LONG}")
    assert pastes.sign_before(first) == ""


@pytest.fixture
def workspace(tmp_path):
    for path in (
        "src/app.py",
        "src/deep/app_test.py",
        "docs/my notes.md",
        ".env",
        ".git/config",
        "secret.txt",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    for folder in ("node_modules/app", ".turnbuckle", "__pycache__"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "app.txt").write_text("x")
    (tmp_path / "turnbuckle.toml").write_text("")
    return tmp_path


def files_of(folder: Path) -> ChatFiles:
    return ChatFiles(folder, folder / ".turnbuckle", written({"read_file:secret*": "deny"}))


@pytest.mark.requirement("H13")
def test_names_are_offered_the_nearest_first_without_what_is_protected_or_denied(workspace):
    files = files_of(workspace)
    assert files.offered("app") == ["src/app.py", "src/deep/app_test.py"]
    assert files.offered("src/") == ["src/", "src/app.py", "src/deep/", "src/deep/app_test.py"]
    assert files.offered("") == [
        "docs/",
        "src/",
        "docs/my notes.md",
        "src/app.py",
        "src/deep/",
        "src/deep/app_test.py",
    ]
    assert files.offered("secret") == files.offered("toml") == files.offered(".git/c") == []
    assert files.offered(".e") == [".env"]


@pytest.mark.requirement("H13")
def test_a_listing_is_bounded(workspace, monkeypatch):
    for number in range(MOST_OFFERED + 20):
        (workspace / f"many{number}.txt").write_text("")
    assert len(files_of(workspace).offered("many")) == MOST_OFFERED
    monkeypatch.setattr(workspace_files, "MOST_SEEN", 3)
    assert len(files_of(workspace).offered("")) <= 3


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "typed, sent",
    [
        ("read @src/app.py, then stop", "read src/app.py, then stop"),
        ("read @src/app.py.", "read src/app.py."),
        ('read @"docs/my notes.md"', 'read "docs/my notes.md"'),
        ("what is in @src/?", "what is in src/?"),
        ("use @tool and mail me@example.org", "use @tool and mail me@example.org"),
        ("read @secret.txt", "read @secret.txt"),
        ("read @../other @/etc/hosts", "read @../other @/etc/hosts"),
        ("nothing here", "nothing here"),
    ],
)
def test_what_is_sent_is_the_path_of_a_file_that_is_there(typed, sent, workspace):
    assert files_of(workspace).named(typed) == sent


@pytest.mark.requirement("H13")
def test_to_a_server_the_content_of_a_file_is_sent_behind_the_message(workspace):
    files = AttachedFiles(workspace, workspace / ".turnbuckle", written({"read_file:secret*": "deny"}))
    (workspace / "src/app.py").write_text("print('```')\n")
    (workspace / "docs/my notes.md").write_text("no end")
    sent = files.named('compare @src/app.py, @"docs/my notes.md" and @src/app.py with @secret.txt')
    assert sent == (
        'compare src/app.py, "docs/my notes.md" and src/app.py with @secret.txt\n\n'
        "src/app.py:\n````\nprint('```')\n````\n\ndocs/my notes.md:\n```\nno end\n```"
    )
    assert files.offered("app") == ["src/app.py", "src/deep/app_test.py"]
    assert files.named("mail me@example.org") == "mail me@example.org"


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "name, why",
    [
        ("src/", "is a folder"),
        ("picture", "is not text"),
        ("latin", "is not text"),
        ("large", "more than 200,000 bytes"),
        ("out", "leads out of this folder"),
        ("pipe", "is not a file"),
        ("gone", "No such file"),
        ("harmless", "a rule denies"),
        (".turnbuckle/keys", "is in the data folder"),
    ],
)
def test_what_cannot_be_sent_to_a_server_is_refused_and_nothing_is_sent(
    name, why, workspace, tmp_path_factory
):
    other = tmp_path_factory.mktemp("other") / "hosts"
    other.write_text("elsewhere")
    (workspace / "picture").write_bytes(b"a\0b")
    (workspace / "latin").write_bytes("é".encode("latin-1"))
    (workspace / "large").write_bytes(b"x" * 200_001)
    (workspace / "out").symlink_to(other)
    (workspace / "gone").symlink_to(workspace / "nowhere")
    os.mkfifo(workspace / "pipe")
    (workspace / "harmless").symlink_to(workspace / "secret.txt")
    (workspace / ".turnbuckle").mkdir(exist_ok=True)
    (workspace / ".turnbuckle" / "keys").write_text("a key")
    files = AttachedFiles(workspace, workspace / ".turnbuckle", written({"read_file:secret*": "deny"}))
    with pytest.raises(ToolError, match=f"not sent: .*{why}"):
        files.named(f"read @src/app.py and @{name}")


@pytest.mark.parametrize(
    "before, typed",
    [("see @src/a", "src/a"), ("@", ""), ('see @"my no', "my no"), ("me@example", None), ("see @a b", None)],
)
def test_a_name_is_being_typed_behind_an_at_sign_that_begins_a_word(before, typed):
    assert typed_name(before) == typed


def ran(folder, *commands, **environment):
    own = OwnCommands(
        folder, lambda text: text.replace("hunter2", "[redacted]"), {"PATH": "/usr/bin:/bin", **environment}
    )

    async def play():
        return [await own.run(command) for command in commands]

    return own, asyncio.run(play())


@pytest.mark.process
@pytest.mark.requirement("H13")
def test_a_command_of_the_users_own_is_shown_and_told_to_the_model_only_when_it_is_shared(tmp_path):
    own, (first, _) = ran(tmp_path, "echo hi; pwd; exit 3", "echo '```'; echo hunter2")
    assert (first.code, first.output) == (3, f"hi\n{tmp_path}")
    assert shown(first).splitlines() == [
        "! echo hi; pwd; exit 3",
        "hi",
        str(tmp_path),
        "[exit code 3; /share sends this to the model]",
    ]
    told = own.message("what is this?")
    assert told.splitlines()[1:] == ["````", "```", "[redacted]", "````", "what is this?"]
    assert "hunter2" not in told


@pytest.mark.process
@pytest.mark.requirement("H13")
def test_a_command_of_the_users_own_has_no_input_and_can_be_stopped(tmp_path):
    own = OwnCommands(tmp_path, str, {"PATH": "/usr/bin:/bin"})
    assert not own.stop()
    with pytest.raises(ToolError, match="nothing to share yet"):
        own.message("")

    async def play():
        quick = await own.run("cat; echo read")
        running = asyncio.ensure_future(own.run("echo begun; exec sleep 1000"))
        while not own.running:
            await asyncio.sleep(0)
        own.stop()
        return quick, await running

    quick, stopped = asyncio.run(play())
    assert (quick.code, quick.output) == (0, "read")
    assert (stopped.code, stopped.end, own.running) == (None, "stopped", "")


@pytest.mark.process
@pytest.mark.requirement("H13", "R12")
def test_of_a_long_output_the_beginning_and_the_end_are_kept(tmp_path):
    _, (long,) = ran(tmp_path, "yes | head -c 300000; echo last")
    assert len(long.output) < HEAD + TAIL + 100
    assert long.output.endswith("last")
    assert "bytes …" in long.output
    assert "lines …" in shown(CommandRan("x", 0, "y\n" * 500))
