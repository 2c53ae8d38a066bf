"""A data folder that came along with a folder: somebody else's runs and keys are not taken for one's own."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from turnbuckle import Agent
from turnbuckle.cli import trust as trust_command
from turnbuckle.cli.main import main
from turnbuckle.config import load
from turnbuckle.errors import NotTrusted
from turnbuckle.trust import MARK, TrustStore, is_data_ours

pytestmark = pytest.mark.requirement("R10")

DATA = ".turnbuckle"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def clone(here: Path) -> Path:
    """A folder with the data of a session that somebody else has made, with their mark."""
    assert run("run", "write a.txt with hello", "--session", "theirs") == 0
    shutil.rmtree(here.parent / "state")
    (here / "a.txt").unlink(missing_ok=True)
    assert (here / DATA / "journal.db").exists()
    return here


def run(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def test_the_folder_that_a_command_makes_is_known_to_the_next_one(here: Path):
    assert run("run", "hello") == 0
    assert (here / DATA / MARK).stat().st_mode & 0o777 == 0o600
    assert run("run", "hello") == 0
    assert run("keys", "create", "me") == 0


def test_making_a_key_first_is_as_good(here: Path):
    assert run("keys", "create", "me") == 0
    assert run("run", "hello") == 0


@pytest.mark.parametrize(
    "command",
    [
        ("run", "hello"),
        ("run", "hello", "--session", "theirs"),
        ("chat",),
        ("serve", "--port", "0"),
        ("runs", "resume"),
        ("keys", "create", "me"),
        ("clients", "codex", "--new-key"),
    ],
    ids=" ".join,
)
def test_without_a_terminal_nothing_that_lies_in_it_is_used(
    command: tuple[str, ...], clone: Path, capsys: pytest.CaptureFixture[str]
):
    before = sorted(file.name for file in (clone / DATA).iterdir())
    assert run(*command) == 2
    told = capsys.readouterr().err
    assert "was not made by you on this machine" in told
    assert "turnbuckle trust" in told
    assert sorted(file.name for file in (clone / DATA).iterdir()) == before


def test_an_agent_refuses_it_too_unless_it_is_named(clone: Path):
    with pytest.raises(NotTrusted, match="was not made by you"), Agent(model="rehearsal") as agent:
        agent.run_sync("hello")
    with Agent(model="rehearsal", data=clone / DATA) as agent:
        assert agent.run_sync("hello").text


def test_it_can_be_looked_at(clone: Path, capsys: pytest.CaptureFixture[str]):
    assert run("sessions", "list") == 0
    assert "theirs" in capsys.readouterr().out
    assert run("doctor", "--json") == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [one["about"] for one in findings if one["level"] == "wrong"] == ["data folder"]


def test_what_is_accepted_is_used_from_then_on(clone: Path, capsys: pytest.CaptureFixture[str]):
    assert run("trust") == 2
    assert "--yes" in capsys.readouterr().err
    assert run("trust", "--yes") == 0
    assert "journal.db" in capsys.readouterr().err
    assert run("run", "hello") == 0
    assert run("trust", "--list") == 0
    assert str(clone / DATA) in capsys.readouterr().out
    assert run("trust", "--remove", DATA) == 0
    assert run("run", "hello") == 2


def test_to_accept_another_folder_accepts_what_lies_there_and_nothing_here(
    clone: Path, monkeypatch: pytest.MonkeyPatch
):
    other = clone.parent / "other"
    shutil.copytree(clone, other)
    (other / "turnbuckle.toml").write_text('workspace = "."\n')
    assert run("trust", str(other), "--yes") == 0
    assert run("run", "hello") == 2
    monkeypatch.chdir(other)
    assert run("run", "hello") == 0


def test_on_a_terminal_it_is_shown_and_asked_about_once(
    clone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trust_command, "is_attended", lambda: True)
    answers = iter([False, True])
    monkeypatch.setattr(trust_command, "says_yes", lambda _: next(answers))
    assert run("run", "hello") == 2
    assert "journal.db" in capsys.readouterr().err
    assert run("run", "hello") == 0
    assert run("run", "hello") == 0


def test_the_mark_of_another_place_says_nothing(clone: Path):
    assert run("trust", "--yes") == 0
    shutil.move(clone / DATA, clone / "kept")
    assert run("run", "hello") == 0  # a new one
    mark = (clone / DATA / MARK).read_bytes()
    shutil.rmtree(clone / DATA)
    shutil.move(clone / "kept", clone / DATA)
    assert run("run", "hello") == 2  # at a known place, with a mark that is not the known one
    (clone / DATA / MARK).write_bytes(mark[:-1])
    assert run("run", "hello") == 2
    (clone / DATA / MARK).unlink()
    (clone / DATA / MARK).symlink_to("/etc/hostname")
    assert run("run", "hello") == 2


def test_a_file_that_was_found_cannot_point_to_the_data_of_somebody_else(clone: Path):
    (clone / DATA).rename(clone / "notes")
    (clone / "turnbuckle.toml").write_text('data = "notes"\n')
    assert not is_data_ours(load(environment={}))
    assert is_data_ours(load(clone / "turnbuckle.toml", environment={}))
    assert is_data_ours(load(environment={"TURNBUCKLE_DATA": "notes"}))


def test_where_nothing_can_be_remembered_nothing_is_asked(clone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    assert not TrustStore().can_remember
    assert run("run", "hello") == 0


def test_a_folder_that_was_made_under_a_named_file_is_ours_without_that_name(here: Path):
    (here / "turnbuckle.toml").write_text("")
    assert run("run", "say hi", "--config", "turnbuckle.toml") == 0
    assert (here / DATA / "journal.db").exists()
    assert run("run", "say hi") == 0
