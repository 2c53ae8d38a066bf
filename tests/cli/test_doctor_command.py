"""`turnbuckle doctor`, as a person uses it."""

import json
import os
import sqlite3

import pytest

from turnbuckle.cli.main import main
from turnbuckle.journal.sqlite.folder import DATABASE


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
    assert "sound: 1 runs" in capsys.readouterr().out


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
    assert "sound: 1 runs" in capsys.readouterr().out


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
