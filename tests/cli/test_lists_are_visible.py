"""Nothing that a command prints commands the terminal, whoever said it."""

import io
import json
import os
import re
import sys
from pathlib import Path

import pytest

from turnbuckle.cli.main import main

EVIL = "\x1b]0;gone\x07\x9b2J\x7f\u202etxt.exe\u2066\u200b\U000e0041\u2028a\rb"
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\U000e0000-\U000e0fff]"
)


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), "utf-8")

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


class Ran:
    """A command on two terminals, and what stands there then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
        out, err = Terminal(), Terminal()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as caught:
                main(arguments)
        self.code, self.out, self.err = caught.value.code, out.text(), err.text()

    @property
    def steered(self) -> list[str]:
        return OBEYED.findall(re.sub(r"\x1b\[[0-9;]*[mKGA]|\r\x1b\[K", "", self.out + self.err))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.requirement("R11")
def test_no_list_and_no_answer_of_a_command_steers_the_terminal(here: Path, monkeypatch: pytest.MonkeyPatch):
    """A model, a tool and a user say it; every command that shows what they said is looked at."""
    ran = Ran(monkeypatch, "run", "--session", "work", f"think {EVIL}")
    assert ran.code == 0
    ran_too = Ran(monkeypatch, "run", "--reasoning", f"say {EVIL}")
    (here / f"a{EVIL.replace('/', '')}.txt").write_text(EVIL)
    listing = Ran(monkeypatch, "run", "--session", "work", "list files")
    shown = [ran, ran_too, listing]
    (run, *_) = json.loads(Ran(monkeypatch, "runs", "list", "--json").out)
    for command in (
        ("sessions", "list"),
        ("sessions", "show", "work"),
        ("sessions", "search", "txt"),
        ("sessions", "export", "work"),
        ("sessions", "rename", "work", f"name {EVIL}"),
        ("runs", "list"),
        ("runs", "show", run["id"]),
        ("drafts", "list"),
        ("keys", "list"),
        ("processes", "list"),
        ("doctor",),
    ):
        shown.append(Ran(monkeypatch, *command))
        if command[1:2] != ("export",):
            shown.append(Ran(monkeypatch, *command, "--json"))
    assert [one.steered for one in shown] == [[] for _ in shown]
    assert "\\x1b]0;gone\\x07" in shown[3].out  # and it can be seen


@pytest.mark.requirement("R11")
@pytest.mark.parametrize(
    "where", ["runs show", "sessions show", "drafts show", "sessions fork", "keys revoke", "run --route"]
)
def test_what_is_not_there_is_named_visibly(where: str, here: Path, monkeypatch: pytest.MonkeyPatch):
    Ran(monkeypatch, "run", "hello")
    refused = Ran(monkeypatch, *where.split(" "), EVIL, *(["hello"] if "--route" in where else []))
    assert refused.code
    assert refused.steered == []


@pytest.mark.requirement("R11")
def test_settings_that_cannot_be_read_are_told_visibly(here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "turnbuckle.toml").write_text('["\\u001b]0;x\\u0007"]\na = 1\n')
    for command in ("doctor", "run", "serve"):
        refused = Ran(monkeypatch, command, *(["x"] if command == "run" else []))
        assert refused.code
        assert refused.steered == []


def test_a_session_on_a_terminal_is_the_session_in_a_file(here: Path, monkeypatch: pytest.MonkeyPatch):
    Ran(monkeypatch, "run", "--session", "work", f"say {EVIL}")
    Ran(monkeypatch, "sessions", "export", "work", "file.jsonl")
    _, *shown = Ran(monkeypatch, "sessions", "export", "work").out.splitlines()  # the first has the time
    assert list(map(json.loads, shown)) == [
        json.loads(line) for line in (here / "file.jsonl").read_text("utf-8").split("\n")[1:] if line
    ]
