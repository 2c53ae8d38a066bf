"""One place where a journal's address becomes a journal: a folder, or a database.

What a database needs is imported only when one is named, since its driver is an extra of the package.
A journal in a folder is written by one process at a time, and so is a database unless all of them serve:
those are nodes. The folder of what stays on this machine has a lock that says which process it belongs to.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from turnbuckle.errors import ConfigError
from turnbuckle.journal.address import is_database, read_address
from turnbuckle.journal.keys import StoredKeys
from turnbuckle.journal.moving import Moved, RawReading, RawWriting, move
from turnbuckle.journal.nodes import NodeRow, Nodes
from turnbuckle.journal.port import InUse, Journal, Landed, Reader
from turnbuckle.journal.report import JournalReport
from turnbuckle.journal.rules import StoredRules
from turnbuckle.journal.sqlite import doctor
from turnbuckle.journal.sqlite.folder import FolderLock, holds_journal
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.journal.sqlite.raw import RawSqliteTarget, open_source
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.wrapped import WrappedJournal

Sharing = Literal["alone", "node", "worker"]
"""Whether a process has a journal to itself, or is one of the nodes on a database; a worker shares its folder
as well, which its parent has locked."""
_EXTRA = "data names a Postgres database, and its driver is not installed: pip install 'turnbuckle[postgres]'"


class JournalReader(Reader, Protocol):
    """A journal to look at, also beside a living process."""

    @property
    def writer(self) -> str:
        """The process that writes to the journal at this moment; empty if there is none, or nobody knows."""
        ...


class _LockedJournal(WrappedJournal):
    """A journal in a database, and the lock of the folder beside it."""

    def __init__(self, journal: Journal, lock: FolderLock) -> None:
        super().__init__(journal)
        self._lock = lock

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        return self._journal.append_soon(stream, item, after=after, epoch=epoch, landed=landed)

    async def close(self) -> None:
        await super().close()
        self._lock.release()


async def open_journal(place: str, folder: Path) -> Journal:
    """The journal at a place, to write. `folder` is that of the files beside a database. Raises ConfigError,
    InUse if another process has it, and StorageError."""
    return (await open_as_node(place, folder, "alone"))[0]


async def open_as_node(
    place: str, folder: Path, sharing: Sharing = "node"
) -> tuple[Journal, Nodes | None, StoredRules | None]:
    """The same for a process that serves, and so may be one of several on a database, with the rules that are
    stored there; there are no nodes and no such rules on a folder."""
    if not is_database(place):
        return SqliteJournal(Path(place)), None, None
    with _database(place):
        from turnbuckle.journal.postgres.journal import open_postgres
    lock, beside = None if sharing == "worker" else _lock_of_files(folder), sharing != "alone"
    try:
        journal = await open_postgres(place, alone=not beside, beside=beside)
        kept = journal if lock is None else _LockedJournal(journal, lock)
        return kept, journal.nodes if beside else None, journal.nodes.rules
    except BaseException:
        if lock is not None:
            lock.release()
        raise


def _lock_of_files(folder: Path) -> FolderLock:
    try:
        return FolderLock(folder)
    except InUse as error:
        who = str(error).partition(" already ")[0]
        raise InUse(f"{who} already uses {folder}; stop it, or set `files` to another folder") from error


async def open_journal_reader(place: str) -> JournalReader | None:
    """The journal at a place, to look at; None if there is none yet. Raises ConfigError and StorageError."""
    if not is_database(place):
        return SqliteReader(Path(place)) if holds_journal(Path(place)) else None
    with _database(place):
        from turnbuckle.journal.postgres.reader import open_postgres_reader
    return await open_postgres_reader(place)


async def nodes_at(place: str) -> Sequence[NodeRow] | None:
    """The processes that serve a journal, also while nobody does; None if it is in a folder. Raises
    ConfigError and StorageError."""
    if not is_database(place):
        return None
    with _database(place):
        from turnbuckle.journal.postgres.nodes import list_nodes
    return await list_nodes(place)


async def keys_at(place: str, *, makes: bool = False) -> StoredKeys | None:
    """The API keys of a journal that several nodes may serve, to be closed; None if it is in a folder, or has
    no place for keys yet and none is to be made. Raises ConfigError and StorageError."""
    if not is_database(place):
        return None
    with _database(place):
        from turnbuckle.journal.postgres.keys import open_postgres_keys
    return await open_postgres_keys(place, makes=makes)


async def rules_at(place: str) -> StoredRules | None:
    """What people have allowed for good, in a database, to be closed; None if the journal is in a folder, or
    has no place for rules yet. Raises ConfigError and StorageError."""
    if not is_database(place):
        return None
    with _database(place):
        from turnbuckle.journal.postgres.rules import open_postgres_rules
    return await open_postgres_rules(place)


async def check_journal_at(place: str) -> JournalReport | None:
    """What a look at the whole journal finds; None if there is none yet. Raises ConfigError and
    StorageError."""
    if not is_database(place):
        return doctor.check(Path(place)) if holds_journal(Path(place)) else None
    with _database(place):
        from turnbuckle.journal.postgres.doctor import check
    return await check(place)


async def mend_journal_at(place: str) -> JournalReport | None:
    """Cut damage out of the journal. Raises ConfigError, InUse beside a living process, and StorageError."""
    if not is_database(place):
        return doctor.mend(Path(place)) if holds_journal(Path(place)) else None
    with _database(place):
        from turnbuckle.journal.postgres.doctor import mend
    return await mend(place)


async def move_journal(source: str, target: str, told: Callable[[Moved], None]) -> Moved:
    """Copy a journal to another place, compared item by item (`moving`). Raises ConfigError, InUse beside a
    living process, and StorageError."""
    if is_database(source):
        with _database(source):
            from turnbuckle.journal.postgres.raw import open_source as open_database
        reading: RawReading = await open_database(source)
    else:
        reading = open_source(Path(source))
    try:
        if is_database(target):
            with _database(target):
                from turnbuckle.journal.postgres.raw import open_target
            writing: RawWriting = await open_target(target)
        else:
            writing = RawSqliteTarget(Path(target))
        try:
            return await move(reading, writing, told)
        finally:
            await writing.close()
    finally:
        await reading.close()


@contextmanager
def _database(place: str) -> Iterator[None]:
    """What a database needs is imported inside. Raises ConfigError if it is not there, or the address is
    none."""
    try:
        read_address(place)
        yield
    except ValueError as error:
        raise ConfigError(f"data: {error}") from None
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise ConfigError(_EXTRA) from None
