"""`turnbuckle doctor` tells one fault of the store from another."""

import asyncio
import errno
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from turnbuckle.cli.doctor.store import cause_of, check_store
from turnbuckle.cli.main import main
from turnbuckle.journal.port import MAX_ITEM, Claim, Grade, IndexUpdate, StorageError
from turnbuckle.journal.sqlite.database import translated
from turnbuckle.journal.sqlite.folder import DATABASE, MENDED
from turnbuckle.journal.sqlite.journal import SqliteJournal


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert run("run", "write a.txt") == 0
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def rows_changed(file: Path) -> None:
    database = sqlite3.connect(file)
    with database:
        database.execute("UPDATE item SET data = x'00' WHERE seq = (SELECT max(seq) - 1 FROM item)")
    database.close()


def zeroed(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def torn(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 3 * 4096)


def made_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def half_mended(file: Path) -> None:
    """A mend that died after its one step."""
    os.replace(file, file.with_name(MENDED))


@pytest.mark.requirement("E10", "E8")
@pytest.mark.parametrize(
    "accident, code, words",
    [
        (rows_changed, 1, "the checksum does not fit"),
        (zeroed, 1, "is not a database"),
        (torn, 1, "its end is torn off"),
        (made_a_folder, 1, "is not a file"),
        (half_mended, 0, "sound: 2 streams"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_doctor_tells_damage_of_one_kind_from_that_of_another(accident, code, words, here, capsys):
    accident(here / ".turnbuckle" / DATABASE)
    capsys.readouterr()
    assert run("doctor") == code
    told = capsys.readouterr()
    assert words in told.out + told.err
    assert "run turnbuckle doctor)" not in told.err  # nobody is sent where he is


@pytest.mark.requirement("E8", "E12")
@pytest.mark.parametrize("pages", [1, 3, 8])
def test_a_torn_journal_is_mended_to_what_is_left(pages, here, capsys):
    file = here / ".turnbuckle" / DATABASE
    os.truncate(file, file.stat().st_size - pages * 4096)
    assert run("doctor", "--mend") == 0
    assert "the old file is kept" in capsys.readouterr().out
    assert run("doctor") == 0
    assert run("run", "write b.txt") == 0


@pytest.mark.requirement("E10")
def test_the_doctor_names_who_has_the_journal(here, capsys):
    journal = SqliteJournal(here / ".turnbuckle")
    capsys.readouterr()
    assert run("doctor", "--mend") == 1
    assert f"process {os.getpid()} already writes" in capsys.readouterr().err
    asyncio.run(journal.close())


NO_ROOM, NO_WRITE, NO_FILES = (OSError(number, "no") for number in (errno.ENOSPC, errno.EROFS, errno.EMFILE))


@pytest.mark.requirement("E10")
def test_what_keeps_the_doctor_from_looking_is_told_with_what_helps():
    told = [cause_of(translated(error)) for error in (NO_ROOM, NO_WRITE, NO_FILES)]
    told.append(cause_of(StorageError("something else")))
    assert [words.partition("(")[2].partition(":")[0] for words in told] == [
        "full",
        "read_only",
        "out_of_files",
        "failed",
    ]
    assert len(set(told)) == len(told)


async def large(folder: Path) -> None:
    journal = SqliteJournal(folder)
    for name, size in (("small", 1000), ("half", MAX_ITEM // 2 + 1000), ("full", MAX_ITEM - 1000)):
        claim = await journal.claim(f"r-{name}", "one", 60)
        assert isinstance(claim, Claim)
        note = IndexUpdate(kind="run", parent=f"s-{name}")
        await journal.append(f"r-{name}", [bytes(size)], after=0, epoch=0, grade=Grade.SYNCED, note=note)
        await journal.release(claim)
    await journal.close()


@pytest.mark.requirement("E10")
def test_conversations_that_will_soon_be_too_large_are_named(tmp_path):
    assert list(check_store(tmp_path)) == []
    asyncio.run(large(tmp_path))
    found = list(check_store(tmp_path))
    assert [(one.level, one.what.split()[0]) for one in found] == [("wrong", "s-full"), ("note", "s-half")]
    assert all("/new" in one.fix for one in found)


HOLDS = """
import sys
from pathlib import Path
from turnbuckle.journal.sqlite.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
files = [open("/dev/null") for _ in range(60)]
print("there", flush=True)
sys.stdin.read()
"""


@pytest.mark.requirement("E10")
@pytest.mark.process
@pytest.mark.parametrize("most, wrong", [(70, True), (1000, False)])
def test_a_server_that_can_open_no_more_files_is_named(most, wrong, here):
    folder = here / ".turnbuckle"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLDS, str(folder)]
    with subprocess.Popen(command, env=path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, most))
        found = [one.about for one in check_store(folder) if one.level == "wrong"]
        process.communicate(b"")
    assert found == (["open files"] if wrong else [])
