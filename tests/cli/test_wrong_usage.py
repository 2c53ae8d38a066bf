"""A command line that cannot be meant: one line that says what is wrong, and the exit code 2."""

import io
import sys
from pathlib import Path

import pytest

from turnbuckle.cli import trust as trust_command
from turnbuckle.cli.main import main


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return int(left.value.code or 0)


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "arguments, told",
    [
        (
            "sesions list",
            'Unknown command "sesions". Did you mean "sessions"? `turnbuckle --help` lists what there is.',
        ),
        (
            "doctor extra",
            "turnbuckle doctor does not take extra. `turnbuckle doctor --help` lists what there is.",
        ),
        (
            "sessions list --limit many",
            '--limit: "many" is not a whole number. `turnbuckle sessions list --help` lists what there is.',
        ),
        ("keys create", "NAME is missing. `turnbuckle keys create --help` lists what there is."),
        ("run --session", "--session needs a value. `turnbuckle run --help` lists what there is."),
        ("run say --fo", "there is no option --fo; `turnbuckle run --help` lists them"),
        ("run - and -", "stdin can be read only once: give one -"),
        ("runs show nope", "no runs yet"),
    ],
)
def test_what_is_wrong_is_one_plain_line(
    arguments: str,
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    assert capsys.readouterr().err == f"turnbuckle: {told}\n"


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert run("run", "say", "hi") == 0
    capsys.readouterr()
    return tmp_path


@pytest.mark.requirement("H13")
def test_a_run_that_is_not_there_is_wrong_usage_and_not_a_run_that_failed(
    used: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("runs", "show", "nope") == 2
    assert "there is no run nope" in capsys.readouterr().err


@pytest.mark.requirement("H13")
@pytest.mark.parametrize("listed", ["runs", "sessions"])
def test_that_there_is_more_is_said_below_the_list(
    listed: str, used: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stderr", sys.stdout)  # as on a terminal
    assert run(listed, "list", "--limit", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "say hi" in lines[0]
    assert lines[-1].startswith("there may be more: --after ")


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "command",
    ["sessions list", "sessions search say hi", "sessions show", "runs list", "runs show", "drafts list"],
)
def test_what_only_looks_asks_nobody_whose_folder_it_is(
    command: str, used: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(used / "of-somebody-else"))
    monkeypatch.setattr(trust_command, "is_attended", lambda: True)

    def asks(question: str) -> bool:
        raise AssertionError(question)

    monkeypatch.setattr(trust_command, "says_yes", asks)
    assert run(*command.split()) == 0


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "arguments, task",
    [
        (("-",), "piped words\n"),
        (("Review this:", "-"), "Review this:\n\npiped words\n"),
        (("-", "now"), "piped words\n\n\nnow"),
    ],
)
def test_a_dash_is_what_comes_from_stdin_alone_or_among_words(
    arguments: tuple[str, ...],
    task: str,
    used: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("piped words\n"))
    run("run", "--session", "piped", *arguments)
    capsys.readouterr()
    assert run("sessions", "show", "piped") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " ".join(task.split()) in shown
