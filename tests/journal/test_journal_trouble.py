"""A store that fails is told apart by what is wrong with it, and notices that its folder is gone."""

import asyncio
import errno
import os
import resource
import shutil
import sqlite3
from pathlib import Path

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import (
    MAX_ITEM,
    Append,
    Changes,
    Claim,
    Damaged,
    FolderGone,
    Grade,
    IndexUpdate,
    InUse,
    OutOfFiles,
    ReadOnly,
    StorageError,
    StorageFailed,
    StorageFull,
    TooLarge,
)
from turnbuckle.journal.sqlite.database import connect, translated
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.journal.sqlite.journal import SqliteJournal


async def filled(folder: Path, streams: int = 3) -> SqliteJournal:
    journal = SqliteJournal(folder)
    for number in range(streams):
        claim = await journal.claim(f"run{number}", "one", 60)
        assert isinstance(claim, Claim)
        await journal.append(f"run{number}", [b"x" * 5000] * 20, after=0, epoch=0, grade=Grade.SYNCED)
        await journal.release(claim)
    return journal


async def error_of(work) -> StorageError | None:
    try:
        await work
    except StorageError as error:
        return error
    return None


def sqlite_error(code: int, name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


ERRORS = {
    "a full disk": (sqlite_error(sqlite3.SQLITE_FULL, "SQLITE_FULL"), StorageFull, "full"),
    "no room, said by the system": (OSError(errno.ENOSPC, "no"), StorageFull, "full"),
    "a quota": (OSError(errno.EDQUOT, "no"), StorageFull, "full"),
    "a file that may not be written": (
        sqlite_error(sqlite3.SQLITE_READONLY, "SQLITE_READONLY"),
        ReadOnly,
        "read_only",
    ),
    "a disk that is mounted for reading": (OSError(errno.EROFS, "no"), ReadOnly, "read_only"),
    "too many open files": (OSError(errno.EMFILE, "no"), OutOfFiles, "out_of_files"),
    "an error of the disk": (sqlite_error(sqlite3.SQLITE_IOERR, "SQLITE_IOERR"), StorageFailed, "failed"),
    "pages that are damaged": (sqlite_error(sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"), Damaged, "damaged"),
    "what nobody knows": (RuntimeError("?"), StorageFailed, "failed"),
}


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("name", ERRORS)
def test_every_error_of_the_store_has_the_name_of_its_fault(name):
    error, kind, fault = ERRORS[name]
    found = translated(error)
    assert (type(found), found.fault) == (kind, fault)


def gone(folder: Path) -> None:
    shutil.rmtree(folder)


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder: Path) -> None:
    moved(folder)
    shutil.copytree(folder.with_name("elsewhere"), folder)


def file_replaced(folder: Path) -> None:
    (folder / "other").write_bytes((folder / DATABASE).read_bytes())
    os.replace(folder / "other", folder / DATABASE)


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("accident", [gone, moved, replaced, file_replaced], ids=lambda one: one.__name__)
def test_a_folder_that_is_gone_takes_nothing(accident, tmp_path):
    async def main():
        journal = await filled(tmp_path / "data")
        claim = await journal.claim("run9", "one", 60)
        assert isinstance(claim, Claim)
        accident(tmp_path / "data")
        errors = [
            await error_of(doing)
            for doing in (
                journal.append("run9", [b"a"], after=0, epoch=claim.epoch, grade=Grade.SYNCED),
                journal.append("run9", [b"a"], after=0, epoch=claim.epoch, grade=Grade.FLUSHED),
                journal.change_all(Changes(appends=[Append("run9", (b"a",), 0, claim.epoch)])),
                journal.note("run9", IndexUpdate(title="another")),
                journal.claim("run10", "one", 60),
                journal.drop("run0"),
                journal.look(),
            )
        ]
        trouble = journal.trouble()
        await journal.close()
        return {type(error) for error in errors}, trouble.fault

    assert asyncio.run(main()) == ({FolderGone}, "gone")


@pytest.mark.requirement("E10")
def test_a_folder_that_comes_back_is_used_again(tmp_path):
    async def main():
        journal = await filled(tmp_path / "data")
        claim = await journal.claim("run9", "one", 60)
        assert isinstance(claim, Claim)
        moved(tmp_path / "data")
        failed = await error_of(journal.append("run9", [b"a"], after=0, epoch=0, grade=Grade.SYNCED))
        before = journal.trouble()
        (tmp_path / "elsewhere").rename(tmp_path / "data")
        head = await journal.append("run9", [b"a"], after=0, epoch=0, grade=Grade.SYNCED)
        await journal.look()
        after = journal.trouble()
        await journal.close()
        return type(failed), before.fault, head, after

    assert asyncio.run(main()) == (FolderGone, "gone", 1, None)


def zeroed(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.write(bytes(size))


def torn(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def rows_changed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for at in range(8192, len(data) - 20, 512):
        if data[at : at + 8] == b"xxxxxxxx":
            data[at] = ord("y")
    file.write_bytes(data)


@pytest.mark.requirement("E10", "E8")
@pytest.mark.parametrize("damage", [zeroed, torn, rows_changed], ids=lambda one: one.__name__)
def test_damage_on_the_disk_is_seen_by_a_look_although_the_memory_is_sound(damage, tmp_path):
    async def main():
        await (await filled(tmp_path)).close()
        journal = SqliteJournal(tmp_path)
        await journal.read("run0")
        await journal.look()
        before = journal.trouble()
        damage(tmp_path / DATABASE)
        found = await error_of(journal.look())
        trouble = journal.trouble()
        with_cause = trouble is not None and trouble.fault
        return before, type(found), with_cause

    assert asyncio.run(main()) == (None, Damaged, "damaged")


@pytest.mark.requirement("E10")
def test_a_look_at_a_sound_journal_finds_nothing_whatever_was_merged_or_is_only_in_the_log(tmp_path):
    async def main():
        journal = await filled(tmp_path, streams=30)
        await journal.note("run3", IndexUpdate(title="a title"))
        for _ in range(20):
            await journal.look()
        assert await journal.drop("run29")
        await journal.look()
        found = journal.trouble()
        await journal.close()
        return found

    assert asyncio.run(main()) is None


@pytest.mark.requirement("E10")
def test_a_process_that_may_open_no_more_files_says_so(tmp_path):
    async def main():
        journal = await filled(tmp_path)
        await journal.look()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            found = await error_of(journal.look())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await journal.look()
        await journal.close()
        return type(found)

    assert asyncio.run(main()) is OutOfFiles


@pytest.mark.requirement("E10")
def test_a_second_writer_is_told_that_the_journal_is_in_use(tmp_path):
    async def main():
        journal = await filled(tmp_path)
        try:
            SqliteJournal(tmp_path)
        except StorageError as error:
            return type(error), error.fault
        finally:
            await journal.close()

    assert asyncio.run(main()) == (InUse, "in_use")


@pytest.mark.requirement("E10")
def test_an_item_that_is_too_large_is_an_error_of_its_own_and_no_trouble_of_the_store(tmp_path):
    async def main(journal):
        claim = await journal.claim("run", "one", 60)
        with pytest.raises(TooLarge, match=str(MAX_ITEM + 1)):
            await journal.append("run", [bytes(MAX_ITEM + 1)], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        found = journal.trouble()
        await journal.close()
        return found

    assert asyncio.run(main(MemoryJournal())) is None


class Narrow:
    """A connection to a disk on which nothing more fits, for a while."""

    def __init__(self, inner):
        self.inner, self.full, self.said = inner, False, []

    def execute(self, sql, values=()):
        self.said.append(sql)
        if self.full and sql.startswith("INSERT INTO item"):
            raise sqlite_error(sqlite3.SQLITE_FULL, "SQLITE_FULL")
        return self.inner.execute(sql, values)

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.requirement("E10")
def test_a_full_disk_makes_the_log_be_folded_into_the_file_so_that_its_room_is_used_again(tmp_path):
    opened = []

    def narrow(file, *, read_only=False):
        made = Narrow(connect(file, read_only=read_only))
        opened.append(made)
        return made

    async def main():
        journal = SqliteJournal(tmp_path, connect=narrow)
        claim = await journal.claim("run", "one", 60)
        opened[0].full = True
        failed = await error_of(journal.append("run", [b"a"], after=0, epoch=claim.epoch, grade=Grade.SYNCED))
        opened[0].full = False
        before = len(opened[0].said)
        head = await journal.append("run", [b"a"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
        said = opened[0].said[before - 1 :]
        await journal.close()
        return type(failed), head, any("wal_checkpoint(PASSIVE)" in sql for sql in said)

    assert asyncio.run(main()) == (StorageFull, 1, True)
