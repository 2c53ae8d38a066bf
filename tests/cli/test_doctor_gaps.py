"""Runs that a mend could not save: their conversations go on with everything else."""

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


def run(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def lose(folder, text, *, keeps_row):
    """All items of the run that was asked this; and its row, if that is lost, too."""
    database = sqlite3.connect(folder / ".turnbuckle" / DATABASE)
    with database:
        (key,) = database.execute(
            "SELECT id FROM stream WHERE kind = 'run' AND title = ?", (text,)
        ).fetchone()
        database.execute("DELETE FROM item WHERE stream = ?", (key,))
        if not keeps_row:
            database.execute("DELETE FROM stream WHERE id = ?", (key,))
    database.close()


def shown(capsys, session):
    """Which of the messages are shown as what was said in a session."""
    capsys.readouterr()
    assert run("sessions", "show", session) == 0
    told = capsys.readouterr().out
    return [name for name in "ABCDE" if f"say {name}" in told]


@pytest.mark.requirement("E8", "E10", "G8")
@pytest.mark.parametrize("keeps_row", [True, False], ids=["its row is left", "its row is gone"])
@pytest.mark.parametrize("lost", ["A", "B", "C", "BC"])
def test_a_conversation_that_lost_runs_goes_on_once_it_is_mended(lost, keeps_row, here, capsys):
    for name in "ABCD":
        assert run("run", "--session", "work", f"say {name}") == 0
    assert run("sessions", "fork", "work", "--name", "fork") == 0
    for name in lost:
        lose(here, f"say {name}", keeps_row=keeps_row)
    capsys.readouterr()
    assert run("run", "--session", "work", "say too early") != 0
    assert "--mend" in capsys.readouterr().err
    for _ in range(2):
        assert run("doctor", "--mend") == 0
    for session in ("work", "fork"):
        assert run("run", "--session", session, "say E") == 0
        assert shown(capsys, session)[-2:] == ["D", "E"]
