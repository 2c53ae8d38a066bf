"""The writing body: one of several processes on one database.

Who may append is decided by the database: a claim raises the stream's epoch in its row, and every append is
checked against it under a lock on that row. So a process that was stalled, or cut off, and thinks that it
holds a claim, stores nothing. Where the streams end that this process holds is known here (`live`), so that
appends can be sent ahead.

A claim is good until it runs out by the clock of the database, and only as long as the process behind it
lives: each has a number of its own, and its connections hold a lock on it (`links`). For a few seconds after
the database itself was started no process counts as dead, since all of them have lost their locks.
"""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from turnbuckle.journal.address import Address, read_address
from turnbuckle.journal.checks import check_distinct, merge_fault
from turnbuckle.journal.live import Live
from turnbuckle.journal.port import (
    READ_BYTES,
    Changes,
    Claim,
    Conflict,
    Grade,
    Held,
    IndexUpdate,
    Landed,
    Merge,
    StorageError,
    StorageFailed,
    next_seq,
)
from turnbuckle.journal.postgres import rows
from turnbuckle.journal.postgres.committer import PendingWord, PendingWork, heard_of, nothing
from turnbuckle.journal.postgres.hints import GONE, Hint, hint_of
from turnbuckle.journal.postgres.holding import HoldingReader
from turnbuckle.journal.postgres.links import Connection, DatabaseLink, check_server
from turnbuckle.journal.postgres.nodes import PostgresNodes
from turnbuckle.journal.postgres.reader import Clocks
from turnbuckle.journal.postgres.schema import bring_up_to_date
from turnbuckle.journal.trouble import PROBE, PROBED


class PostgresJournal(HoldingReader):
    """The journal in a database. Made by `open_postgres`."""

    def __init__(self, address: Address, clocks: Clocks) -> None:
        super().__init__(address, clocks, secrets.randbits(62) | 1 << 61)
        self._calling = DatabaseLink(address, relaxed=True, node=self._node, grace=self._grace)
        self._prompt.append(self._calling)
        self.nodes = PostgresNodes(self._calling, self._node, self._channel, self._grace, clocks.wall)
        self.nodes.told = self._note_look
        self.nodes.with_each_look(self._look_whether_trouble_is_over)

    # Writing

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        live = await self._writable(stream, epoch)
        try:
            return await self._append(live, items, after, epoch, grade, note)
        except Conflict as conflict:
            if conflict.head >= after or not await self._is_mended(live, after):
                raise
        return await self._append(live, items, after, epoch, grade, note)

    async def _append(
        self,
        live: Live,
        items: Sequence[bytes],
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None,
    ) -> int:
        new = self._checked(live, items, after, epoch)
        wall = self._clocks.wall()
        if live.unsure or self._unsure.is_full(live.name):
            grade = Grade.SYNCED

        async def act(connection: Connection) -> None:
            if note is not None:
                await rows.write_note(connection, live.name, note, wall, makes=False)

        work = PendingWork(
            [live.name],
            grade,
            lambda error, _: self._settle(live, new, error, grade),
            fences={live.key: (epoch, after)},
            items=new,
            act=None if note is None else act,
        )
        work.hints = {live.name: hint_of(after, new)} if new else {}
        self._accept(live, new)
        await self._committer.enqueue(work)
        if new and live.epoch == epoch:
            live.unsure = False
        return new[-1][1] if new else after

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        live = None if self._closed or len(item) > READ_BYTES else self._live.get(stream)
        if live is None or live.unsure or stream in self._doubted or self._unsure.is_full(stream):
            return False
        if live.refusal(after, epoch) is not None:
            return False
        seq = next_seq(after, epoch)
        row = live.key, seq, item

        def settle(error: Exception | None, _: object) -> None:
            self._settle_one(live, row, error)
            told = error if error is None or isinstance(error, StorageError) else StorageFailed(str(error))
            landed(seq, told)

        live.tail = seq
        live.on_its_way += 1
        self._committer.post(PendingWord(stream, row, epoch, after, settle))
        return True

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        self._check_open()
        wall, now, begun = self._clocks.wall(), self._clocks.leases(), self._clocks.monotonic()

        async def act(connection: Connection) -> tuple[int, Claim] | Held:
            found = await rows.take_claim(
                connection,
                stream,
                owner,
                seconds,
                node=self._node,
                is_left=stream not in self._live and stream not in self._claiming,
                moment=(wall, now, self._grace.seconds),
                least=self._least_epochs.get(stream, 0),
            )
            if not isinstance(found, Held):
                self._claiming.add(stream)
            return found

        def settle(error: Exception | None, found: tuple[int, Claim] | Held | None) -> None:
            self._claiming.discard(stream)
            if error is None and isinstance(found, tuple):
                key, claim = found
                self._begin(key, claim, begun + seconds)
                if work.done is not None and work.done.cancelled():  # nobody is left to hold it
                    self._let_go(self._live[stream]).add_done_callback(heard_of)

        work = PendingWork([stream], Grade.FLUSHED, settle, act=act)
        found = await self._committer.enqueue(work)
        return found if isinstance(found, Held) else found[1]

    async def renew(self, claim: Claim, seconds: float) -> bool:
        self._check_open()
        live = self._live_of(claim)
        if live is None:
            return False
        begun, now = self._clocks.monotonic(), self._clocks.leases()

        async def act(connection: Connection) -> bool:
            given = now, [live.key], [claim.epoch], [seconds], self._node
            found = await connection.fetch(rows.RENEW, *given)
            return bool(found)

        def settle(error: Exception | None, renewed: bool | None) -> None:
            if error is None and self._live_of(claim) is live:
                if renewed:
                    live.until = begun + seconds
                else:
                    self._lose(live)

        return bool(
            await self._committer.enqueue(PendingWork([claim.stream], Grade.FLUSHED, settle, act=act))
        )

    async def release(self, claim: Claim) -> None:
        self._check_open()
        live = self._live_of(claim)
        if live is not None:
            await self._let_go(live)

    def _let_go(self, live: Live) -> asyncio.Future[Any]:
        epoch = live.epoch
        live.let_go()
        live.on_its_way += 1

        async def act(connection: Connection) -> None:
            await connection.execute(rows.RELEASE, live.key, epoch, self._node)

        def settle(error: Exception | None, _: object) -> None:
            self._settle(live, [], error)

        work = PendingWork([live.name], Grade.FLUSHED, settle, act=act)
        return self._committer.enqueue(work, follows=True)

    def still_mine(self, claim: Claim) -> bool:
        live = self._live_of(claim)
        return not self._closed and live is not None and self._clocks.monotonic() < live.until

    async def note(self, stream: str, note: IndexUpdate) -> None:
        self._check_open()
        wall = self._clocks.wall()

        async def act(connection: Connection) -> None:
            await rows.write_note(connection, stream, note, wall, makes=True)

        await self._committer.enqueue(PendingWork([stream], Grade.FLUSHED, nothing, act=act))

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        self._check_open()
        now = self._clocks.leases()

        async def act(connection: Connection) -> bool:
            found = await connection.fetch(rows.IS_FREE, [stream], now, self._grace.seconds)
            if not found or not found[0][1]:
                return False
            if fault := merge_fault(merges):
                raise ValueError(fault)
            await rows.write_merges(connection, found[0][0], stream, merges)
            return True

        def settle(error: Exception | None, _: object) -> None:
            self._hot.forget(stream)

        return bool(
            await self._committer.enqueue(PendingWork([stream], Grade.SYNCED, settle, act=act, alone=True))
        )

    async def drop(self, stream: str) -> bool:
        return await self._look_up(stream) is not None and await self.change_all(Changes(drops=[stream]))

    async def change_all(self, changes: Changes) -> bool:
        self._check_open()
        check_distinct(changes)
        for _ in changes.appends:  # each may have lost its end
            try:
                return await self._change_all(changes)
            except Conflict as conflict:
                live = self._live.get(conflict.stream)
                if live is None or conflict.head >= conflict.after:
                    raise
                if not await self._is_mended(live, conflict.after):
                    raise
        return await self._change_all(changes)

    async def _change_all(self, changes: Changes) -> bool:
        wall, now = self._clocks.wall(), self._clocks.leases()
        lives = [await self._writable(one.stream, one.epoch) for one in changes.appends]
        parts = [
            (live, self._checked(live, one.items, one.after, one.epoch))
            for live, one in zip(lives, changes.appends, strict=True)
        ]
        noted = [*((one.stream, one.note) for one in changes.appends if one.note is not None), *changes.notes]

        async def act(connection: Connection) -> bool:
            found = await connection.fetch(rows.IS_FREE, list(changes.drops), now, self._grace.seconds)
            if not all(free for _, free in found):
                raise rows.NotFree
            for name, note in noted:
                await rows.write_note(connection, name, note, wall, makes=False)
            await rows.write_drops(connection, [key for key, _ in found])
            return True

        def settle(error: Exception | None, _: object) -> None:
            for live, new in parts:
                self._settle(live, new, error, Grade.SYNCED)
            for name in changes.drops if error is None else ():
                self._forget(name)

        work = PendingWork(
            check_distinct(changes),
            Grade.SYNCED,
            settle,
            fences={
                live.key: (one.epoch, one.after) for live, one in zip(lives, changes.appends, strict=True)
            },
            items=[row for _, new in parts for row in new],
            act=act,
            alone=True,
        )
        work.hints = {live.name: hint_of(live.tail, new) for live, new in parts if new}
        work.hints |= dict.fromkeys(changes.drops, Hint(GONE))
        for live, new in parts:
            self._accept(live, new)
        try:
            await self._committer.enqueue(work)
        except rows.NotFree:
            return False
        with suppress(StorageError):  # they are gone; what is left of them is deleted with the next start
            await self.sweep()
        return True

    async def sweep(self) -> None:
        """Delete what is left of streams that were dropped."""
        for (key,) in await self._ask(lambda connection: connection.fetch("SELECT stream FROM dropped")):
            is_left = True
            while is_left:
                async with self._reading.use() as connection:
                    is_left = await rows.sweep_some(connection, key)

    def _note_look(self, error: StorageError | None) -> None:
        """A node that only waits for others to write knows of trouble by its looks alone."""
        if error is None:
            self._book.read()
        else:
            self._book.unread(error)

    async def _look_whether_trouble_is_over(self) -> None:
        """A node that has nothing to store would tell its readers for ever of what is long over."""
        if self._book.is_failing and self._committer.is_idle:
            await self.note(PROBE, PROBED)

    async def open(self) -> bool:
        """Connect, bring the tables up to date, and be seen by the others. Raises JournalError."""
        async with self._reading.use() as connection:
            await check_server(connection, self.address)
            await bring_up_to_date(connection, self.address)
        await self.listener.open()
        await self.sweep()
        return True

    async def _finish(self) -> None:
        self._hot.clear()
        await self._stop_mending()
        await self._committer.close()
        for link in (self._calling, self._relaxed, self._sure):
            await link.close()

    def abort(self) -> None:
        """End as a process does that dies: nothing is finished, nothing is given back."""
        self._closed = True
        self._waiters.close()
        self._committer.abort()
        self.listener.abort()
        for link in self.links.values():
            link.drop()

    @property
    def links(self) -> dict[str, DatabaseLink]:
        """The connections that this process works with."""
        return {
            "relaxed": self._relaxed,
            "sure": self._sure,
            "reading": self._reading,
            "searching": self._searching,
            "calling": self._calling,
        }


async def open_postgres(
    place: str, clocks: Clocks | None = None, *, alone: bool = False, beside: bool = False
) -> PostgresJournal:
    """The journal at an address; `alone`, or as a node `beside` others. Raises ValueError for an address that
    is none, and JournalError: InUse if another process is there that does not go with that."""
    journal = PostgresJournal(read_address(place), clocks or Clocks())
    journal.listener.alone, journal.listener.beside = alone, beside
    journal.listener.called = journal.nodes.called if beside else None
    try:
        await journal.open()
    except BaseException:
        await journal.close()
        raise
    return journal
