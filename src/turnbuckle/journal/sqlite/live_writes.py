"""What is on its way to the store, and what is known of its streams meanwhile."""

from collections.abc import Callable

from turnbuckle.journal.hot import HotTails
from turnbuckle.journal.live import NO_EPOCH, Live, LiveClaims, Waiters
from turnbuckle.journal.port import Claim, Grade, Item, Landed, StorageError
from turnbuckle.journal.sqlite import rows
from turnbuckle.journal.sqlite.committer import Committer, LoneItem, PendingWrite


class Burst(LoneItem):
    """One item that is not waited for, and who is told when it has landed."""

    __slots__ = ("_journal", "_landed")

    def __init__(self, live: Live, row: rows.ItemRow, journal: "LiveWrites", landed: Landed) -> None:
        self.live = live
        self.row = row
        self.size = 64 + len(row[3])
        self._journal = journal
        self._landed = landed

    def settle(self, error: StorageError | None) -> None:
        seq = self.row[1]
        self._journal.settle_one(self.live, seq, self.row[3], error)
        self._landed(seq, error)


class LiveWrites(LiveClaims):
    """The writing half of a journal in a folder."""

    _live: dict[str, Live]
    _hot: HotTails
    _waiters: Waiters
    _committer: Committer
    _wall: Callable[[], float]
    _last_key: int
    _unlisted: dict[str, PendingWrite | None]
    """New streams whose claim is not in the index, and what will put it there; None if that is on its way."""

    def _live_named(self, stream: str) -> Live | None:
        return self._live.get(stream)

    def _claim_soon(self, live: Live, claim: Claim) -> None:
        """The claim of a stream that begins is stored with its first items: in one transaction, or not at
        all, however many passes of the loop lie between them. Nobody waits for it but who lists streams."""

        def settle(error: StorageError | None) -> None:
            self._unlisted.pop(live.name, None)
            if error is not None and live.is_newest(claim.epoch):
                live.let_go()
            self._settle(live, [], error, makes=True)

        live.unsure = False  # whoever begins it says how sure that must be
        live.key = self._last_key = self._last_key + 1
        row = rows.make_stream(live.key, live.name, claim.epoch, self._wall(), claim.owner)
        self._accept(live, [])
        self._unlisted[live.name] = PendingWrite((live,), Grade.FLUSHED, [], [row], settle)

    def _take_claim(self, stream: str) -> PendingWrite | None:
        """The claim of a new stream, if it waits for its first items, which bring it along."""
        work = self._unlisted.get(stream)
        if work is not None:
            self._unlisted[stream] = None
        return work

    def _store_claim(self, stream: str) -> None:
        """Put the claim of a new stream on its way, if it waits for its first items."""
        if (work := self._take_claim(stream)) is not None:
            self._committer.add(work)

    async def _commit_row(
        self, live: Live, grade: Grade, change: Callable[[int, float], list[rows.Statement]], size: int = 0
    ) -> None:
        """Change the stream's row in the index, and make it first if there is none."""
        now = self._wall()
        if live.key:
            await self._commit(live, grade, [], change(live.key, now), size=size)
            return
        self._last_key += 1
        live.key = self._last_key
        statements = [rows.make_stream(live.key, live.name, NO_EPOCH, now), *change(live.key, now)]
        await self._commit(live, grade, [], statements, makes=True, size=size)

    async def _commit(
        self,
        live: Live,
        grade: Grade,
        new: list[rows.ItemRow],
        statements: list[rows.Statement],
        *,
        makes: bool = False,
        size: int = 0,
        claim: PendingWrite | None = None,
    ) -> None:
        """Store, and keep `live` true to what was stored. From here on the stream is known until it is
        idle. The statements may do what a `claim` of the same stream was to do."""
        self._check_open()
        self._accept(live, new)

        def settle(error: StorageError | None) -> None:
            if claim is not None:
                claim.settle(error)
            self._settle(live, new, error, makes=makes)

        work = PendingWrite((live,), grade, new, statements, settle)
        work.size = max(work.size, size)
        if self._unlisted:
            self._store_claim(live.name)
        await self._committer.commit(work)

    def _accept(self, live: Live, new: list[rows.ItemRow]) -> None:
        """These are on their way to the store."""
        if new:
            live.tail = new[-1][1]
        live.on_its_way += 1
        if live.key:
            self._live[live.name] = live

    def _settle(
        self, live: Live, new: list[rows.ItemRow], error: StorageError | None, *, makes: bool = False
    ) -> None:
        """They are stored, or not."""
        live.on_its_way -= 1
        if error is not None:
            live.tail = live.head
            if makes:
                live.key = 0
        elif new:
            before, items = live.head, [Item(seq, data) for _, seq, _, data in new]
            if live.holder:
                self._hot.add(live.name, before, items)
            else:  # it was released meanwhile
                self._hot.forget(live.name)
            live.head = items[-1].seq
            self._waiters.hand(live.name, before, items)
        self._forget_if_idle(live)

    def settle_one(self, live: Live, seq: int, data: bytes, error: StorageError | None) -> None:
        """The same for one item of a stream whose claim was held when it was accepted."""
        if error is not None or not live.holder:
            self._settle(live, [(live.key, seq, 0, data)], error)
            return
        live.on_its_way -= 1
        before, item = live.head, Item(seq, data)
        self._hot.add_one(live.name, before, item)
        live.head = seq
        self._waiters.hand(live.name, before, (item,))

    def _forget_if_idle(self, live: Live) -> None:
        """A stream that nobody writes is read from the store when it is asked for, so memory does not
        grow."""
        if not live.holder and not live.on_its_way and self._live.get(live.name) is live:
            del self._live[live.name]
            self._hot.forget(live.name)
