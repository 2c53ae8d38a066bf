"""`turnbuckle doctor`, as a person uses it."""

import json
import os
import sqlite3

import pytest
from support.processes.commands import command

from turnbuckle.cli.main import main
from turnbuckle.config import load
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.trust import accept_data


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def _tear(folder):
    """Change the stored bytes of one item, as a bad disk does."""
    database = sqlite3.connect(folder / ".turnbuckle" / DATABASE)
    with database:
        database.execute("UPDATE item SET data = x'00' WHERE seq = (SELECT max(seq) - 1 FROM item)")
    database.close()


def test_a_folder_without_a_journal_is_no_problem(here, capsys):
    assert _run("doctor") == 0
    assert "there is none yet" in capsys.readouterr().out


@pytest.mark.requirement("E8")
def test_a_sound_journal_is_called_sound(here, capsys):
    assert _run("run", "write a.txt") == 0
    capsys.readouterr()
    assert _run("doctor") == 0
    assert "sound: 2 streams" in capsys.readouterr().out


@pytest.mark.requirement("E8")
def test_damage_is_found_reported_cut_out_and_the_old_file_is_kept(here, capsys):
    assert _run("run", "write a.txt") == 0
    _tear(here)
    capsys.readouterr()
    assert _run("doctor") == 1
    told = capsys.readouterr().out
    assert "DAMAGED" in told
    assert "2 items lost" in told
    assert "turnbuckle doctor --mend" in told
    assert _run("doctor", "--mend") == 0
    assert "the old file is kept as" in capsys.readouterr().out
    assert _run("doctor") == 0
    assert "sound: 2 streams" in capsys.readouterr().out


@pytest.mark.requirement("E8", "H2")
def test_a_command_that_meets_damage_says_the_way_out(here, capsys):
    accept_data(load())
    (here / ".turnbuckle" / DATABASE).write_bytes(b"no database at all, whatever its name says" * 200)
    assert _run("run", "write a.txt") == 1
    assert "move it away, or put a backup in its place" in capsys.readouterr().err
    (here / ".turnbuckle" / DATABASE).unlink()
    assert _run("run", "write a.txt") == 0
    _tear(here)
    capsys.readouterr()
    assert _run("sessions", "show") == 1
    assert "turnbuckle doctor" in capsys.readouterr().err


def test_settings_are_shown_with_their_source(here, capsys, monkeypatch):
    (here / "turnbuckle.toml").write_text("[stall]\ngap = 7\n")
    monkeypatch.setenv("TURNBUCKLE_TURN__MAX_CALLS", "5")
    assert _run("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    values = {value["key"]: (value["value"], value["source"]) for value in found["settings"]}
    assert values["stall.gap"] == ("7.0", "turnbuckle.toml, line 2")
    assert values["turn.max_calls"][0] == "5"
    assert "TURNBUCKLE_TURN__MAX_CALLS" in values["turn.max_calls"][1]
    assert values["turn.max_seconds"] == ("3600.0", "default")
    assert (found["journal"], found["sound"]) == (None, True)


@pytest.mark.requirement("H2")
def test_it_tells_what_is_there_who_may_use_it_and_how_much_room_there_is(here, capsys):
    _run("run", "--session", "work", "hello")
    _run("keys", "create", "laptop")
    capsys.readouterr()
    assert _run("doctor") == 0
    told = capsys.readouterr().out
    assert "sessions: 1\n" in told
    assert "runs: 1 completed; 0 without an end\n" in told
    assert "keys: 1 made with `turnbuckle keys`, 0 in the settings\n" in told
    assert " GB free\n" in told
    assert _run("doctor", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["contents"] == {
        "sessions": 1,
        "waiting": 0,
        "runs": {"completed": 1},
        "unfinished": [],
        "writer": "",
    }
    assert found["keys"] == {"good": 1, "revoked": 0, "settings": 0}
    assert found["disk"]["data"] >= found["disk"]["journal"] > 0


@pytest.mark.process
@pytest.mark.requirement("G5", "H2")
def test_runs_without_an_end_are_named_with_the_way_out(here, capsys):
    died = command(here, "run", "write a.txt", TURNBUCKLE_FAULT="after-append:ToolStarted:1")
    assert died.code < 0
    assert _run("doctor") == 0
    told = capsys.readouterr().out
    assert "1 without an end" in told
    assert "write a.txt" in told
    assert "turnbuckle runs resume" in told


@pytest.mark.requirement("E8")
def test_compacting_merges_old_runs_gives_room_back_and_says_how_much(here, capsys, monkeypatch):
    _run("run", "--session", "work", "write a.txt with 3000 lines")
    shown = _shown(capsys)
    monkeypatch.setenv("TURNBUCKLE_SESSION__KEEP_DELTAS_DAYS", "0.0000000001")
    outputs = here / ".turnbuckle" / "kept" / "r-of-a-run-that-is-no-more"
    outputs.mkdir(parents=True)
    (outputs / "shell.txt").write_text("x" * 1000)
    assert _run("doctor", "--compact", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    compacted = found["compacted"]
    assert compacted["swept"]["merged"] == 1
    assert compacted["swept"]["items"] > 10
    assert compacted["swept"]["outputs"] == 1
    assert compacted["after"] < compacted["before"]
    assert found["sound"]
    assert not outputs.exists()
    assert _shown(capsys) == shown
    assert _run("doctor", "--compact") == 0
    assert "compacted: " in capsys.readouterr().out
    assert _run("run", "--continue", "read a.txt") == 0


@pytest.mark.requirement("E8")
def test_a_damaged_journal_is_mended_before_it_is_compacted(here, capsys):
    _run("run", "write a.txt")
    _tear(here)
    capsys.readouterr()
    assert _run("doctor", "--compact") == 1
    assert "turnbuckle doctor --mend comes first" in capsys.readouterr().err
    assert _run("doctor", "--mend", "--compact") == 0


def test_without_a_journal_there_is_nothing_to_compact(here, capsys):
    assert _run("doctor", "--compact") == 0
    assert not (here / ".turnbuckle").exists()


def _shown(capsys):
    capsys.readouterr()
    assert _run("sessions", "show", "work", "--json") == 0
    return json.loads(capsys.readouterr().out)
