"""The reading body: for a command that looks at the journal beside a living server, or when there is none.

It takes no lock and changes nothing. News come from another process, so it can only look again and again; the
question whether anything changed at all costs a few microseconds, and one asker serves everybody who waits
here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from turnbuckle.journal.live import Waiters
from turnbuckle.journal.port import (
    EVERY_STREAM,
    READ_LIMIT,
    SEARCH_LIMIT,
    Closed,
    Gone,
    Item,
    JournalError,
    SearchPage,
    SearchPlace,
    StreamQuery,
    StreamRow,
    Take,
)
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.database import connect, open_to_read, snapshot, storage_errors
from turnbuckle.journal.sqlite.folder import DATABASE, finish_mend_if_free, has_writer, writing_process
from turnbuckle.journal.sqlite.search import Search

POLL_SECONDS = 0.02


class SqliteReader:
    """A journal that can only be read. `sleep` waits between two looks."""

    def __init__(self, folder: Path, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        finish_mend_if_free(folder)
        self._reading = open_to_read(folder / DATABASE)
        self._search = Search(folder / DATABASE, connect)
        self._waiters = Waiters()
        self._asker: asyncio.Task[None] | None = None
        self._closed = False

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        with (
            storage_errors(stream),
            snapshot(self._reading),
        ):  # else a stream might be half deleted in between
            found = rows.find_stream(self._reading, stream)
            return [] if found is None else rows.read_items(self._reading, stream, found[0], after, limit)

    async def head(self, stream: str) -> int:
        self._check_open()
        with storage_errors(stream):
            found = rows.find_stream(self._reading, stream)
            return 0 if found is None else rows.find_head(self._reading, found[0])

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        version = self._version()
        while await self.head(stream) <= after:
            if after > 0 and not self._exists(stream):
                raise Gone(f"stream {stream} is not there any more")
            if self._asker is None or self._asker.done():
                self._asker = asyncio.create_task(self._ask(version))
            await self._waiters.wait(stream)
            version = self._version()

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        """As the port says. Beside a living writer nothing counts as orphaned, since only that one knows."""
        self._check_open()
        if wanted.orphaned and has_writer(self._folder):
            return []
        with storage_errors():
            return rows.list_streams(self._reading, wanted, after, limit)

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        self._check_open()
        if wanted.orphaned and has_writer(self._folder):
            return SearchPage([])
        return await self._search.find(words, wanted, limit, after)

    @property
    def writer(self) -> str:
        """The living process that writes to this journal; empty if there is none."""
        return writing_process(self._folder) if has_writer(self._folder) else ""

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiters.close()
        if self._asker is not None:
            self._asker.cancel()
            await asyncio.wait([self._asker])
        self._reading.close()
        await self._search.close()

    def _exists(self, stream: str) -> bool:
        with storage_errors(stream):
            return rows.find_stream(self._reading, stream) is not None

    async def _ask(self, version: int) -> None:
        """Look until something changed while somebody waits; then let everybody look for themselves."""
        try:
            while len(self._waiters):
                if (newest := self._version()) != version:
                    version = newest
                    self._waiters.wake_all()
                await self._sleep(POLL_SECONDS)
        except JournalError:
            self._waiters.wake_all()  # whoever waits asks by itself, and is told

    def _version(self) -> int:
        self._check_open()
        with storage_errors():
            return int(self._reading.execute("PRAGMA data_version").fetchone()[0])

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")
