"""The reading half: it changes nothing, and works beside any number of processes that write."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.journal.address import Address, read_address
from turnbuckle.journal.clock import lease_time
from turnbuckle.journal.live import Waiters
from turnbuckle.journal.port import (
    EVERY_STREAM,
    READ_LIMIT,
    SEARCH_LIMIT,
    Closed,
    Gone,
    Item,
    SearchPage,
    SearchPlace,
    StorageError,
    StreamQuery,
    StreamRow,
    Take,
)
from turnbuckle.journal.postgres import rows, search
from turnbuckle.journal.postgres.grace import GRACE, GracePeriod
from turnbuckle.journal.postgres.group_reads import GroupReads, clamped
from turnbuckle.journal.postgres.hints import GONE, read_hint
from turnbuckle.journal.postgres.links import (
    Connection,
    DatabaseLink,
    channel_of,
    check_server,
    patiently,
    writer_of,
)
from turnbuckle.journal.postgres.listener import Listener
from turnbuckle.journal.postgres.schema import version_of
from turnbuckle.journal.trouble import TroubleBook
from turnbuckle.journal.words import kept

T = TypeVar("T")


def _by_database() -> None:
    """The database has the clock."""


class Clocks(Struct, frozen=True):
    """Where the time comes from. `leases` and `wall` give None where the database is to be asked; `monotonic`
    is this process's own, by which it knows without asking that a claim is still good. `sleep` is between two
    tries to read."""

    monotonic: Callable[[], float] = lease_time
    leases: Callable[[], float | None] = _by_database
    wall: Callable[[], float | None] = _by_database
    grace: float = GRACE
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class PostgresReader:
    """A journal to look at. Made by `open_postgres_reader`. Without a `node` nobody sees that it is there."""

    def __init__(self, address: Address, clocks: Clocks, node: int = 0) -> None:
        self.address = address
        self._clocks = clocks
        self._grace = GracePeriod(clocks.grace, clocks.monotonic)
        self._book = TroubleBook(time.time)
        self._closed = False
        self._writer = ""
        self._waiters = Waiters()
        self._reading, self._searching = DatabaseLink(address), DatabaseLink(address)
        self._group = GroupReads(self._ask)
        self._channel = channel_of(address)
        self.listener = Listener(address, node, self._channel, self._heard, self._waiters.wake_all)
        self.listener.grace = self._grace

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        return await self._group.items(stream, after, limit)

    async def head(self, stream: str) -> int:
        found = await self._look_up(stream)
        return 0 if found is None else found[2]

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        while True:
            self._check_open()
            # First, so that nothing is missed while the database is asked.
            woken = self._waiters.join(stream, after, take)
            try:
                found = await self._look_up(stream)
                if found is None and after > 0:
                    raise Gone(f"stream {stream} is not there any more")
                if found is None or found[2] <= after:
                    await woken
                elif woken.done():
                    woken.result()  # what a taker raised is its own affair
                if take is not None or (found is not None and found[2] > after):
                    return
            finally:
                self._waiters.leave(stream, woken)

    async def _look_up(self, stream: str) -> tuple[int, int, int] | None:
        """The key, the epoch and the head of a stream."""
        self._check_open()
        return await self._group.stands(stream)

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        now, most = self._clocks.leases(), clamped(limit)
        place = None if after is None else (after[0], kept(after[1]))
        return await self._ask(
            lambda connection: rows.list_streams(
                connection, wanted, place, most, rows.Conditions(wanted, now, self._grace.seconds)
            )
        )

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        now, grace = self._clocks.leases(), self._grace.seconds
        if after is not None:
            after = SearchPlace(clamped(after.below), clamped(after.newest))
        return await self._ask(
            lambda connection: search.find(connection, words, wanted, limit, after, now=now, grace=grace),
            self._searching,
        )

    async def look(self) -> None:
        self._check_open()
        try:
            async with self._searching.use() as connection:  # others may be waiting for the one that reads
                await version_of(connection, self.address)
        except StorageError as error:
            self._check_open()
            self._book.unread(error)
            raise

    async def _ask(
        self, question: Callable[[Connection], Awaitable[T]], link: DatabaseLink | None = None
    ) -> T:
        self._check_open()
        try:
            found = await patiently(link or self._reading, question, self._clocks.sleep)
        except StorageError as error:
            self._check_open()
            self._book.unread(error)
            raise
        self._book.read()
        return found

    async def open(self) -> bool:
        """Whether there is anything to read. Raises JournalError."""
        async with self._reading.use() as connection:
            await check_server(connection, self.address)
            if not await version_of(connection, self.address):
                return False
            self._writer = await writer_of(connection, self.address)
        await self.listener.open()
        return True

    @property
    def writer(self) -> str:
        """The process that wrote to the journal when it was opened; empty if there was none."""
        return self._writer

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiters.close()
        await self._finish()
        await self.listener.close()
        await self._reading.close()
        await self._searching.close()

    async def _finish(self) -> None:
        """What is to be done before the connections are closed."""

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")

    def _heard(self, stream: str, told: msgspec.Raw) -> None:
        """A process says that a stream has grown, or is gone. Raises msgspec.DecodeError."""
        if stream not in self._waiters:
            return
        seq, before, items = read_hint(told)
        if seq == GONE:
            self._waiters.gone(stream)
        elif items:
            self._waiters.hand(stream, before, items)
        else:
            self._waiters.wake(stream)


async def open_postgres_reader(place: str, clocks: Clocks | None = None) -> PostgresReader | None:
    """None if there is no journal yet. Raises ValueError for an address that is none, and JournalError."""
    reader = PostgresReader(read_address(place), clocks or Clocks())
    try:
        there = await reader.open()
    except BaseException:
        await reader.close()
        raise
    if there:
        return reader
    await reader.close()
    return None
