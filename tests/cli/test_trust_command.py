"""`turnbuckle trust`, and what commands do with settings that nobody has accepted."""

import json
import os
import pty
import select
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.cli.main import main
from turnbuckle.config import load
from turnbuckle.trust import is_trusted

CODE = "from pathlib import Path\n\nPath('ran').touch()\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "turnbuckle.toml").write_text('[tools]\nmodules = ["evil.py"]\n')
    (folder / "evil.py").write_text(CODE)
    return folder


def run(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


COMMANDS = [
    ("run", "hello"),
    ("serve", "--port", "0"),
    ("chat",),
    ("sessions", "list"),
    ("runs", "resume"),
    ("drafts", "list"),
    ("keys", "create", "me"),
    ("processes", "list"),
    ("doctor", "--online"),
    ("doctor", "--compact"),
]


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_a_terminal_a_command_refuses_and_says_what_to_do(
    command: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(*command) == 2
    told = capsys.readouterr().err
    assert "nobody has accepted it" in told
    assert "tools.modules" in told
    assert "turnbuckle trust" in told
    assert "--config" in told
    assert not (here / "ran").exists()


@pytest.mark.requirement("R10")
def test_the_doctor_tells_of_it_and_runs_none_of_it(here: Path, capsys: pytest.CaptureFixture[str]):
    assert run("doctor", "--json") == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["about"] for one in findings if one["level"] == "wrong"] == ["trust"]
    assert not (here / "ran").exists()


@pytest.mark.requirement("R10")
def test_what_was_accepted_is_used_until_it_changes(here: Path, capsys: pytest.CaptureFixture[str]):
    assert run("trust") == 2  # nobody is there to ask
    assert "--yes" in capsys.readouterr().err
    assert run("trust", "--yes") == 0
    assert "evil.py" in capsys.readouterr().err
    assert run("trust", "--list") == 0
    assert str(here / "turnbuckle.toml") in capsys.readouterr().out
    assert run("run", "hello") == 2  # the module has no tool: it was loaded
    assert (here / "ran").exists()
    (here / "turnbuckle.toml").write_text('[tools]\nmodules = ["other.py"]\n')
    capsys.readouterr()
    assert run("run", "hello") == 2
    assert "nobody has accepted it" in capsys.readouterr().err
    assert run("trust", "--yes", str(here)) == 0
    assert run("trust", "--remove", str(here / "turnbuckle.toml")) == 0
    assert not is_trusted(load(environment={}))
    assert run("trust", "--remove") == 2
    assert run("trust", "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.requirement("R10")
def test_a_file_that_is_named_or_written_here_needs_no_yes(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    (here / "turnbuckle.toml").unlink()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdef")
    wanted = ("--provider", "openai", "--model", "m", "--no-test", "--yes")
    assert run("init", *wanted) == 0, capsys.readouterr().err
    assert is_trusted(load(environment={}))
    (here / "turnbuckle.toml").write_text(
        '[[routes]]\nprotocol = "rehearsal"\n[tools]\nprivate_addresses = true'
    )
    assert run("run", "--config", "turnbuckle.toml", "hello") == 0
    assert run("run", "hello") == 2


@pytest.mark.requirement("R10")
def test_a_file_that_can_do_nothing_needs_no_yes(here: Path, capsys: pytest.CaptureFixture[str]):
    (here / "turnbuckle.toml").write_text("[turn]\nmax_calls = 3\n")
    assert run("run", "hello") == 0
    assert run("trust") == 0
    assert "can do no harm" in capsys.readouterr().err


class Person:
    """Somebody at a terminal who types the same answer, again and again, once a question is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        self._keys, theirs = pty.openpty()
        self.stdin, self.stderr = os.fdopen(os.dup(theirs)), os.fdopen(theirs, "w")
        monkeypatch.setattr(sys, "stdin", self.stdin)
        monkeypatch.setattr(sys, "stderr", self.stderr)
        self._answer = answer.encode() + b"\n"
        self.shown = b""
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._sit)

    def __enter__(self) -> "Person":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stderr.flush()
        self._left.set()
        self._thread.join()
        for file in (self.stdin, self.stderr):
            file.close()
        os.close(self._keys)

    def _sit(self) -> None:
        while not self._left.is_set() or select.select([self._keys], [], [], 0)[0]:
            if select.select([self._keys], [], [], 0.05)[0]:
                self.shown += os.read(self._keys, 10_000)
            if self.asked and not self._left.is_set():
                os.write(self._keys, self._answer)

    @property
    def asked(self) -> bool:
        return b"[y/N]" in self.shown


@pytest.mark.requirement("R10", "R11")
@pytest.mark.parametrize("answer, begun", [("y", True), ("n", False), ("", False), ("yes please", False)])
def test_on_a_terminal_it_is_shown_and_asked_about_once(
    answer: str, begun: bool, here: Path, monkeypatch: pytest.MonkeyPatch
):
    (here / "turnbuckle.toml").write_text('[tools]\nmodules = ["evil\\u202e\\u001b[2K.py"]\n')
    (here / "evil\u202e\x1b[2K.py").write_text(CODE)
    with monkeypatch.context() as patched, Person(patched, answer) as person:
        assert run("run", "hello") == 2  # refused, or the module has no tool
    assert b"evil\\u202e\\u001b[2K.py" in person.shown
    assert b"\x1b" not in person.shown
    assert person.asked
    assert (here / "ran").exists() is begun
    assert is_trusted(load(environment={})) is begun
    with monkeypatch.context() as patched, Person(patched, "n") as person:
        assert run("run", "hello") == 2
    assert person.asked is not begun
