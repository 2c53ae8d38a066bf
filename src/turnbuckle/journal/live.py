"""What a process knows of the streams it writes: who may append, where each stream ends, and who waits for
more.

`Live` is the truth about one stream as long as somebody in this process holds its claim. A body whose store
belongs to one process alone decides from it, without asking the store; only the epoch must be stored, so that
it is never given again. `head` is what is stored, `tail` what was accepted: between the two lies what is on
its way.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from turnbuckle.journal.port import Claim, Closed, Conflict, Fenced, Gone, Held, Item, JournalError, Take

NO_EPOCH = -1  # the stream was never claimed


class Live:
    """One stream. `key` is the body's own handle of it. `unsure`: nothing was stored under the newest epoch
    yet."""

    __slots__ = ("epoch", "head", "holder", "key", "name", "on_its_way", "tail", "unsure", "until")

    def __init__(self, name: str, key: int, epoch: int = NO_EPOCH, head: int = 0) -> None:
        self.name = name
        self.key = key
        self.epoch = epoch
        self.head = head
        self.tail = head
        self.holder = ""
        self.until = -math.inf
        self.on_its_way = 0
        self.unsure = False

    def held_by(self, now: float) -> Held | None:
        """Who holds the stream at this moment."""
        if not self.holder or now >= self.until:
            return None
        return Held(self.name, self.holder, self.until - now)

    def take(self, owner: str, until: float) -> Claim:
        """Begin the next epoch. Whoever held the stream before is fenced from here on."""
        self.epoch += 1
        self.unsure = True
        self.holder = owner
        self.until = until
        return Claim(self.name, owner, self.epoch, self.tail)

    def let_go(self) -> None:
        self.holder = ""
        self.until = -math.inf

    def is_newest(self, epoch: int) -> bool:
        return epoch == self.epoch and self.holder != ""

    def refusal(self, after: int, epoch: int) -> JournalError | None:
        """Why an append may not happen."""
        if not self.is_newest(epoch):
            return Fenced(self.name, epoch, self.epoch)
        if after != self.tail:
            return Conflict(self.name, after, self.tail)
        return None


class LiveClaims(ABC):
    """What a body decides by `Live` alone. It says itself what it knows of a stream."""

    _closed = False
    _monotonic: Callable[[], float]

    @abstractmethod
    def _live_named(self, stream: str) -> Live | None: ...

    async def renew(self, claim: Claim, seconds: float) -> bool:
        self._check_open()
        live = self._live_of(claim)
        if live is None:
            return False
        live.until = self._monotonic() + seconds
        return True

    def still_mine(self, claim: Claim) -> bool:
        live = self._live_of(claim)
        return not self._closed and live is not None and self._monotonic() < live.until

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the journal is closed")

    def _live_of(self, claim: Claim) -> Live | None:
        live = self._live_named(claim.stream)
        return live if live is not None and live.is_newest(claim.epoch) else None


class _Taker:
    """Who takes items where they are stored. `after` is the last that it has."""

    __slots__ = ("after", "take")

    def __init__(self, after: int, take: Take) -> None:
        self.after = after
        self.take = take


class Waiters:
    """Everybody who waits for a stream to grow. A wake-up says only: look again. Who brought a way to take
    items, and has all that came before them, is handed them where they were stored, and sleeps on."""

    def __init__(self) -> None:
        # In the order in which they came.
        self._waiting: dict[str, dict[asyncio.Future[None], _Taker | None]] = {}
        self._closed = False

    def __len__(self) -> int:
        return sum(len(some) for some in self._waiting.values())

    def __contains__(self, stream: str) -> bool:
        return stream in self._waiting

    async def wait(self, stream: str, after: int = 0, take: Take | None = None) -> None:
        woken = self.join(stream, after, take)
        try:
            await woken
        finally:
            self.leave(stream, woken)

    def join(self, stream: str, after: int = 0, take: Take | None = None) -> asyncio.Future[None]:
        """Wait from now on: what happens before the future is awaited is not missed. Leave afterwards."""
        if self._closed:
            raise Closed("the journal is closed")
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(stream, {})[woken] = None if take is None else _Taker(after, take)
        return woken

    def leave(self, stream: str, woken: asyncio.Future[None]) -> None:
        if woken.done() and not woken.cancelled():
            woken.exception()  # whoever left need not hear of it
        some = self._waiting.get(stream)
        if some is not None and woken in some:  # the wait was cancelled, or not needed
            del some[woken]
            if not some:
                del self._waiting[stream]

    def hand(self, stream: str, before: int, items: Sequence[Item]) -> None:
        """These items are stored, behind the item `before`. Who has some of them is handed the others. What a
        taker raises is its own affair."""
        some = self._waiting.get(stream)
        if some is None:
            return
        for woken, taker in tuple(some.items()):
            if woken.done() or (taker is not None and taker.after >= items[-1].seq):
                continue  # it has them all
            if taker is not None and before <= taker.after:
                has = taker.after
                try:
                    if taker.take(items if has == before else [one for one in items if one.seq > has]):
                        taker.after = items[-1].seq
                        continue
                except Exception as error:
                    is_odd = isinstance(error, StopIteration)  # which no future takes
                    woken.set_exception(RuntimeError(repr(error)) if is_odd else error)
                    continue
            woken.set_result(None)

    def wake(self, stream: str, error: JournalError | None = None) -> None:
        for woken in self._waiting.pop(stream, ()):
            if woken.done():
                continue
            if error is None:
                woken.set_result(None)
            else:
                woken.set_exception(error)

    def wake_all(self) -> None:
        for stream in list(self._waiting):
            self.wake(stream)

    def gone(self, stream: str) -> None:
        self.wake(stream, Gone(f"stream {stream} was dropped"))

    def close(self) -> None:
        self._closed = True
        for stream in list(self._waiting):
            self.wake(stream, Closed("the journal was closed"))
