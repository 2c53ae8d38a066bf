"""The commands work on a journal in a database as on one in a folder, and never print its password."""

import asyncio
import os
import sys

import pytest
from support.postgres.server import shared_server

from turnbuckle.cli.main import main
from turnbuckle.journal.address import read_address
from turnbuckle.journal.opening import open_journal, open_journal_reader
from turnbuckle.journal.port import Claim, Grade, InUse

PASSWORD = "sw0rdfish-in-the-address"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder whose settings name a new database."""
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    place = shared_server().url().replace("tester@", f"tester:{PASSWORD}@")
    monkeypatch.setenv("TURNBUCKLE_DATA", place)
    return place


def run(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


@pytest.mark.requirement("K1", "R3")
def test_a_run_in_a_database_is_listed_shown_exported_and_imported(here, tmp_path, capsys):
    assert run("run", "say the harbour is green", "--session", "talk") == 0
    assert run("runs", "list") == 0
    assert "completed" in capsys.readouterr().out
    assert run("runs", "show") == 0
    assert "harbour" in capsys.readouterr().out
    assert run("sessions", "search", "harbour") == 0
    assert "talk" in capsys.readouterr().out
    assert run("sessions", "export", "talk", "talk.jsonl") == 0
    assert run("sessions", "import", "talk.jsonl", "--name", "again") == 0
    assert run("sessions", "list") == 0
    told = capsys.readouterr()
    assert "again" in told.out
    assert not (tmp_path / ".turnbuckle" / "journal.db").exists()
    assert PASSWORD not in told.out + told.err


@pytest.mark.requirement("K1", "R3")
def test_the_doctor_looks_at_a_database_and_mends_it(here, capsys):
    assert run("run", "say one two three four five") == 0
    capsys.readouterr()
    assert run("doctor") == 0
    told = capsys.readouterr().out
    assert "sound: " in told
    assert "journal: postgresql://tester:[secret]@/postgres" in told
    schema = read_address(here).schema
    shared_server().sql(f"DELETE FROM {schema}.item WHERE seq = 2")
    assert run("doctor", "--json") == 1
    assert run("doctor", "--compact") == 1
    assert run("doctor", "--mend") == 0
    mended = capsys.readouterr()
    assert "items are missing" in mended.out
    assert f"the table {schema}.cut" in mended.out
    assert int(shared_server().sql(f"SELECT count(*) FROM {schema}.cut")) > 0
    assert run("doctor", "--compact") == 0
    assert "sound: " in capsys.readouterr().out
    assert PASSWORD not in told + mended.out + mended.err


@pytest.mark.requirement("K1", "R3")
@pytest.mark.parametrize(
    "change, code, words",
    [
        (lambda place: place.replace("host=", "host=/nowhere"), 1, "cannot be reached"),
        (lambda place: place.split("&schema=")[0] + "&schema=a-b", 2, "data: the schema of a database"),
        (lambda place: place.replace("/postgres?", "/none?"), 1, 'database "none" does not exist'),
        (lambda place: place.replace("@/", "@here:port/"), 2, "data: the port of a database is a number"),
        (lambda place: place.replace("@/", "@[::1/"), 2, "data: Invalid IPv6 URL"),
    ],
    ids=[
        "nobody there",
        "a schema that is no word",
        "no such database",
        "a port that is no number",
        "half a host",
    ],
)
def test_an_address_that_leads_nowhere_is_told_in_words(change, code, words, here, monkeypatch, capsys):
    monkeypatch.setenv("TURNBUCKLE_DATA", change(here))
    for command in (("run", "say hello"), ("runs", "list"), ("doctor",), ("serve", "--port", "0")):
        expected = (
            1 if command[0] == "doctor" else code
        )  # what is wrong with the settings is one of its findings
        assert run(*command) == expected, command
        told = capsys.readouterr()
        assert words in told.out + told.err, command
        assert PASSWORD not in told.out + told.err


@pytest.mark.requirement("K1")
def test_without_the_driver_it_is_said_what_to_install(here, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("turnbuckle.journal.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for command in (("run", "say hello"), ("runs", "list"), ("doctor",)):
        assert run(*command) == 2
        assert "pip install 'turnbuckle[postgres]'" in capsys.readouterr().err


@pytest.mark.requirement("K1")
def test_one_process_at_a_time_writes_to_a_database_and_the_second_is_told_which(tmp_path):
    async def main():
        place = shared_server().url()
        first = await open_journal(place, tmp_path / "one")
        looking = await open_journal_reader(place)
        writer = looking.writer
        refused = []
        for folder in ("one", "two"):
            with pytest.raises(InUse) as caught:
                await open_journal(place, tmp_path / folder)
            refused.append(str(os.getpid()) in str(caught.value))
        claim = await first.claim("run", "one", 60)
        assert isinstance(claim, Claim)
        await first.append("run", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
        items = [item.data for item in await looking.read("run")]
        await looking.close()
        await first.close()
        second = await open_journal(place, tmp_path / "two")
        await second.close()
        return writer == str(os.getpid()), refused, items

    assert asyncio.run(main()) == (True, [True, True], [b"a"])
