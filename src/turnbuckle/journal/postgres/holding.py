"""What a process knows of the streams that it holds: where each ends, its newest items, and what of them the
database may still lose.

After a failed batch nobody knows whether it was stored after all: the connection may have broken behind the
commit. And a database that crashed has lost the last of what was not sure, which readers have seen; this
process still has it (`unsure`), and stores it again under the same numbers: as soon as the database is back,
and before anything else is stored. So the next append to such a stream first asks where it ends, and is told
of a conflict if that is further than its writer thinks.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from turnbuckle.journal.address import Address
from turnbuckle.journal.checks import check_size
from turnbuckle.journal.hot import HotTails
from turnbuckle.journal.live import NO_EPOCH, Live
from turnbuckle.journal.port import (
    EPOCH_BITS,
    EVERY_STREAM,
    READ_LIMIT,
    Claim,
    Fenced,
    Grade,
    Item,
    JournalError,
    StorageError,
    StorageSlow,
    StreamQuery,
    StreamRow,
    Trouble,
    next_seq,
)
from turnbuckle.journal.postgres import rows
from turnbuckle.journal.postgres.committer import LaneCommitter, PendingWork, nothing
from turnbuckle.journal.postgres.hints import GONE, read_hint
from turnbuckle.journal.postgres.links import DatabaseLink
from turnbuckle.journal.postgres.reader import Clocks, PostgresReader
from turnbuckle.journal.postgres.unsure import UnsureItems
from turnbuckle.vocab.recent import Recent

log = logging.getLogger("turnbuckle.journal")
SLOW = 2.0
"""Seconds after which a database that does not answer is told as trouble."""
_MOST_LOST = 1000


class HoldingReader(PostgresReader):
    """Reads what it holds from memory, and everything else from the database."""

    def __init__(self, address: Address, clocks: Clocks, node: int) -> None:
        super().__init__(address, clocks, node)
        self._node = node
        self._live: dict[str, Live] = {}
        self._doubted: set[str] = set()
        self._claiming: set[str] = set()
        self._least_epochs: Recent[str, int] = Recent(_MOST_LOST)
        """Of streams that were lost. If the database lost the claim, it must not give its number again, since
        readers have seen items with it."""
        self._finding = asyncio.Lock()
        self._hot = HotTails()
        self._unsure = UnsureItems(clocks.monotonic)
        self._relaxed = DatabaseLink(address, relaxed=True, node=node, grace=self._grace)
        self._sure = DatabaseLink(address, node=node, grace=self._grace)
        self._prompt = [self._relaxed, self._sure, self._reading]
        """The connections on which nothing takes long."""
        self._committer = LaneCommitter(self._relaxed, self._sure, self._channel, self._book.note, node)
        self.listener.own = lambda: self._relaxed.pid
        self.listener.back = self._look_after_unsure
        self._mending: asyncio.Task[None] | None = None

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        self._check_open()
        if (live := self._known(stream)) is not None:
            if (hot := self._hot.read(stream, after, limit)) is not None:
                return hot
            if live.head <= after:
                return []
        return await super().read(stream, after, limit)

    async def _look_up(self, stream: str) -> tuple[int, int, int] | None:
        self._check_open()
        if (live := self._known(stream)) is not None:
            return live.key, live.epoch, live.head
        return await super()._look_up(stream)

    def _known(self, stream: str) -> Live | None:
        """A stream that nobody else can have changed: it is held here, and the claim has not run out."""
        live = self._live.get(stream)
        if live is None or stream in self._doubted or self._clocks.monotonic() >= live.until:
            return None
        return live

    def trouble(self) -> Trouble | None:
        return self._book.trouble or self._slowness()

    def _slowness(self) -> Trouble | None:
        """An exchange with the database that takes longer than any of ours: a line that hangs, a lock."""
        since = min((link.since for link in self._prompt if link.since is not None), default=None)
        if since is None or time.time() - since < SLOW:
            return None
        return Trouble(StorageSlow.fault, f"the database at {self.address.shown} does not answer", since)

    def _heard(self, stream: str, told: msgspec.Raw) -> None:
        live = self._live.get(stream)
        if live is None:
            super()._heard(stream, told)
            return
        seq, _, _ = read_hint(told)
        if seq == GONE:
            self._forget(stream)
        else:
            self._lose_to(stream, seq >> EPOCH_BITS)

    def _lose_to(self, stream: str, epoch: int) -> None:
        """Somebody has claimed a stream. It is lost here if it was held here before that."""
        live = self._live.get(stream)
        if live is not None and epoch > live.epoch and stream not in self._claiming:
            self._lose(live)

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        found = await super().streams(wanted, after, limit)
        for row in found:
            self._lose_to(row.name, row.epoch)
        return found

    def _live_of(self, claim: Claim) -> Live | None:
        live = self._live.get(claim.stream)
        return live if live is not None and live.is_newest(claim.epoch) else None

    async def _writable(self, stream: str, epoch: int) -> Live:
        """What is known of a stream that this process holds. Raises Fenced if it does not."""
        self._check_open()
        live = self._live.get(stream)
        if live is None:
            found = await self._look_up(stream)
            raise Fenced(stream, epoch, NO_EPOCH if found is None else found[1])
        if stream in self._doubted:
            await self._find_out(live)
        return live

    def _look_after_unsure(self) -> None:
        """The database may have crashed, and have lost what readers have seen."""
        if self._mending is None or self._mending.done():
            self._mending = asyncio.ensure_future(self._mend_unsure())

    async def _mend_unsure(self) -> None:
        for name in self._unsure.streams():
            live = self._live.get(name)
            if live is None or live.on_its_way:
                continue  # whoever stores something is told of the gap, and fills it first
            self._doubted.add(name)
            with suppress(JournalError):  # it stays in doubt, and the next append finds out
                await self._find_out(live)

    async def _stop_mending(self) -> None:
        if self._mending is not None:
            self._mending.cancel()
            await asyncio.wait([self._mending])

    async def _find_out(self, live: Live) -> None:
        """What became of a batch that failed, or of a stream whose end the database has lost."""
        async with self._finding:
            if live.name not in self._doubted:
                return
            found = await self._group.stands(live.name)
            if found is None or found[1] != live.epoch:
                self._lose(live)
                return
            head = found[2]
            lost = self._unsure.behind(live.name, head)
            if lost and lost[0][1] == next_seq(head, live.epoch) and lost[-1][1] == live.head:
                await self._store_again(live, head, lost)
                head = live.head
            self._doubted.discard(live.name)
            if head != live.head:
                self._hot.forget(live.name)
            live.head = live.tail = head
            self._waiters.wake(live.name)

    async def _store_again(self, live: Live, head: int, lost: list[rows.ItemRow]) -> None:
        """The database was told these, and readers have seen them, but it has crashed since."""
        fences = {live.key: (live.epoch, head)}
        work = PendingWork([live.name], Grade.SYNCED, nothing, fences=fences, items=lost)
        await self._committer.enqueue(work)
        self._unsure.sure(live.name)
        log.warning(
            "the database had lost the end of %s, %d items; they are stored again", live.name, len(lost)
        )

    async def _is_mended(self, live: Live, after: int) -> bool:
        """Whether a stream ends where its writer thinks, after all."""
        if self._live.get(live.name) is not live or live.on_its_way:
            return False
        self._doubted.add(live.name)
        await self._find_out(live)
        return live.tail == after

    def _checked(self, live: Live, items: Sequence[bytes], after: int, epoch: int) -> list[rows.ItemRow]:
        """The rows of an append. Raises what speaks against it."""
        if refusal := live.refusal(after, epoch):
            raise refusal
        check_size(items)
        seq = next_seq(live.tail, epoch)
        return [(live.key, seq + at, bytes(data)) for at, data in enumerate(items)]

    def _begin(self, key: int, claim: Claim, until: float) -> None:
        """This process holds a stream from here on."""
        live = self._live.setdefault(claim.stream, Live(claim.stream, key))
        live.key, live.epoch, live.holder, live.until = key, claim.epoch, claim.owner, until
        live.head = live.tail = claim.head
        live.unsure = True
        self._doubted.discard(claim.stream)
        self._unsure.forget(claim.stream)
        self._hot.forget(claim.stream)

    def _accept(self, live: Live, new: list[rows.ItemRow]) -> None:
        """These are on their way to the store."""
        if new:
            live.tail = new[-1][1]
        live.on_its_way += 1

    def _settle(
        self, live: Live, new: list[rows.ItemRow], error: Exception | None, grade: Grade = Grade.FLUSHED
    ) -> None:
        """They are stored, or not, or nobody knows."""
        live.on_its_way -= 1
        if error is not None:
            live.tail = live.head
            if isinstance(error, Fenced) and error.epoch == live.epoch:
                self._lose(live)
            elif isinstance(error, StorageError):
                self._doubted.add(live.name)
        elif grade is Grade.SYNCED:
            self._unsure.sure(live.name, new)
        else:
            self._unsure.add(live.name, new)
        if error is None and new:
            before, items = live.head, [Item(seq, data) for _, seq, data in new]
            if live.holder:
                self._hot.add(live.name, before, items)
            else:  # it was released meanwhile
                self._hot.forget(live.name)
            live.head = new[-1][1]
            self._waiters.hand(live.name, before, items)
        self._forget_if_idle(live)

    def _settle_one(self, live: Live, row: rows.ItemRow, error: Exception | None) -> None:
        """The same for one item of which nobody waits to hear, as nearly always."""
        if error is not None or not live.holder:
            self._settle(live, [row], error)
            return
        live.on_its_way -= 1
        _, seq, data = row
        before, item = live.head, Item(seq, data)
        self._unsure.add_one(live.name, row)
        self._hot.add_one(live.name, before, item)
        live.head = seq
        self._waiters.hand(live.name, before, (item,))

    def _lose(self, live: Live) -> None:
        """Somebody else holds it now, or the database has lost the claim."""
        self._least_epochs[live.name] = live.epoch + 1
        live.let_go()
        self._forget_if_idle(live)
        self._waiters.wake(live.name)

    def _forget(self, stream: str) -> None:
        """The stream is gone."""
        self._live.pop(stream, None)
        self._unsure.forget(stream)
        self._doubted.discard(stream)
        self._hot.forget(stream)
        self._waiters.gone(stream)

    def _forget_if_idle(self, live: Live) -> None:
        if not live.holder and not live.on_its_way and self._live.get(live.name) is live:
            del self._live[live.name]
            self._unsure.forget(live.name)
            self._doubted.discard(live.name)
            self._hot.forget(live.name)
