"""From the journal to a client. This is the only module that sends a run to anybody, in any dialect.

The reader pulls: a page of items after its cursor becomes frames, which are sent before the next page is
read. So a client that does not read costs one page and what the connection buffers, whatever the run does.
What arrives while a send waits is in the next page, as one send. When there is nothing to read, the reader
waits for the journal and for nothing else; signs of life come from `pulse`, and `line` ends the wait when the
client leaves. While it waits, the journal hands it what was just stored, and frames leave from there, without
a wake-up of this reader; one that would have to wait for its client wakes up and pulls.

A plain request is a reader, too: `collect` folds the run to its end and sends nothing.

How a stream ends says what happened. The dialect wrote its last frame: the body ends properly. The server
lets go: the dialect's farewell, then a proper end. Anything else, such as a client that does not read or an
error of ours: the connection is cut without an end, so that no client can take what it has for the whole.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

from turnbuckle.journal.port import (
    EPOCH_BITS,
    Closed,
    Gone,
    Item,
    JournalError,
    StorageError,
    StorageFailed,
    Trouble,
)
from turnbuckle.journal.port import Reader as Journal
from turnbuckle.runtime.log import pause
from turnbuckle.server.http.client_connection import ClientConnection, ClientGone, Interrupted, Presence
from turnbuckle.server.http.exchange import Dialect, Problem, Streaming
from turnbuckle.server.http.problems import fault_problem, storage_problem
from turnbuckle.server.streaming.disconnect import DisconnectPolicy
from turnbuckle.server.streaming.first_word import FirstWord
from turnbuckle.server.streaming.heartbeat import Heartbeat, Send, WaitingReader
from turnbuckle.service import store_words
from turnbuckle.vocab.ids import RunId

PAGE = 512
"""Items in one read, once it is known that they are small."""
FIRST = 16
FILL = 64 * 1024
"""Bytes of items that become frames at once, unless one item alone is larger. A slow reader costs about as
much as what its connection buffers anyway, however large the items are."""
LARGE = 1 << 18  # bytes sent at once, after which others get a turn

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),  # nginx and its relatives would hold frames back
)

End = Literal["ended", "left", "interrupted", "cut"]

log = logging.getLogger("turnbuckle.server")


class Fold(Protocol):
    """Whatever takes a run's items and knows when the run is over. Every dialect is one."""

    @property
    def ended(self) -> bool: ...

    def take(self, items: Sequence[Item]) -> object: ...


class Audience(Protocol):
    """Whoever counts readers."""

    def reader_came(self) -> None: ...

    def reader_left(self, *, dropped: bool = False) -> None: ...


class RunStreamer:
    """Reads runs to clients. `disconnect` is told who reads, `audience` how many."""

    def __init__(
        self,
        journal: Journal,
        heartbeat: Heartbeat,
        disconnect: DisconnectPolicy,
        audience: Audience | None = None,
        hold: float = 0.0,
    ) -> None:
        """`hold`: for how many seconds a stream waits for its first word before its status goes out."""
        self._hold = hold
        self._audience = audience
        self._reads: dict[RunId, set[Presence]] = {}
        self._lost: dict[RunId, StorageError] = {}
        self._journal = journal
        self._heartbeat = heartbeat
        self._disconnect = disconnect

    async def perform(
        self,
        streaming: Streaming,
        line: ClientConnection,
        send: Send,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> End:
        """Answer with a stream, and say how it ended."""
        run, dialect = streaming.run, streaming.dialect
        presence = Presence(line)
        reader = WaitingReader(line, send, dialect, presence, run)
        tail = _RunReader(self._journal, run, streaming.after, dialect, self._heartbeat.in_trouble, reader)
        self._disconnect.enter(run, streaming.on_disconnect)
        if self._audience is not None:
            self._audience.reader_came()
        end: End = "cut"
        why: Exception | None = None
        try:
            with presence, self._reading(run, presence):
                self._heartbeat.add(presence, reader)
                await send(
                    {"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *headers]}
                )
                tail.begin(dialect.open())
                await self._follow(tail)
            end = "ended"
        except ClientGone:
            end = "cut" if line.dropped else "left"
        except Gone:
            log.warning("run %s was deleted while a client read it", run)
        except (Interrupted, Closed, StorageError) as error:
            why = error
            if not reader.sending:  # else frames are lost with the send, and nothing may follow a gap
                end = await self._let_go(tail, error)
        except Exception as error:  # headers are out: there is no other way left to say so than to hang up
            log.error("a reader of run %s was dropped", run, exc_info=error)
        finally:
            self._heartbeat.remove(presence, reader)
            self._leave(run, streaming.on_disconnect, ended=end == "ended" or why is not None)
            if self._audience is not None:
                self._audience.reader_left(dropped=end == "cut")
        if end == "ended" or (end == "interrupted" and line.clear):
            farewell = self._farewell(dialect, run, why) if end == "interrupted" else b""
            last = tail.last_frames() + farewell
            await send({"type": "http.response.body", "body": last, "more_body": False})
        elif end != "left":
            self._why(run, why)  # it is told to nobody, and not kept for later readers
            line.abort()
        return end

    async def collect(
        self, run: RunId, fold: Fold, line: ClientConnection, *, after: int = 0, on_disconnect: str = "detach"
    ) -> None:
        """Fold a run to its end. Raises ClientGone if the client leaves, and Problem if the server lets go of
        it, or the store keeps it waiting for too long."""
        presence = Presence(line)
        troubles: list[Trouble] = []

        def give_up(trouble: Trouble) -> None:
            troubles.append(trouble)
            presence.interrupt()

        tail = _RunReader(self._journal, run, after, fold, self._heartbeat.in_trouble)
        self._disconnect.enter(run, on_disconnect)
        stays = False
        try:
            with presence, self._reading(run, presence):
                self._heartbeat.add(presence, gives_up=give_up)
                await self._follow(tail)
            stays = True
        except (Interrupted, Closed, StorageError) as error:
            stays = True
            if await self._let_go(tail, error) == "interrupted":
                if troubles:
                    stays = False  # it is sent away without its answer
                    raise fault_problem(troubles[0].fault, run) from None
                failed = self._why(run, error)
                raise _interrupted(run) if failed is None else storage_problem(failed, run) from None
        finally:
            self._heartbeat.remove(presence)
            self._leave(run, on_disconnect, ended=stays)

    def give_up(self, run: RunId, error: Exception) -> None:
        """The run has no end, and nobody can go on with it. Whoever reads it is told so."""
        failed = error if isinstance(error, StorageError) else StorageFailed(str(error))
        for presence in self._reads.get(run, ()):
            self._lost[run] = failed
            presence.interrupt()

    @contextmanager
    def _reading(self, run: RunId, presence: Presence) -> Iterator[None]:
        self._reads.setdefault(run, set()).add(presence)
        try:
            yield
        finally:
            self._reads[run].discard(presence)
            if not self._reads[run]:
                del self._reads[run]

    def _why(self, run: RunId, error: Exception | None) -> StorageError | None:
        """What is wrong with the store, if that is why a reader is let go of."""
        fault = error if isinstance(error, StorageError) else self._lost.get(run)
        if run not in self._reads:
            self._lost.pop(run, None)
        return fault

    def _farewell(self, dialect: Dialect, run: RunId, why: Exception | None) -> bytes:
        failed = self._why(run, why)
        if failed is None:
            return dialect.interrupted()
        return dialect.interrupted(store_words.words(failed.fault), store_words.code(failed.fault))

    async def first_word(
        self, run: RunId, line: ClientConnection, *, after: int = 0, on_disconnect: str = "detach"
    ) -> FirstWord:
        """Wait a moment for the first word of a run. One that has failed without any has nothing to stream,
        and the status of the answer can say so. Raises ClientGone if the client leaves meanwhile."""
        first = FirstWord()
        if not self._hold:
            return first
        await asyncio.sleep(0)  # in which the model is asked; all else can be done while that thinks
        presence = Presence(line)
        self._disconnect.enter(run, on_disconnect)
        stays = True
        timer: asyncio.TimerHandle | None = None
        try:
            with presence:
                timer = asyncio.get_running_loop().call_later(self._hold, presence.interrupt)
                self._heartbeat.add(presence)
                await self._follow(_RunReader(self._journal, run, after, first, self._heartbeat.in_trouble))
        except ClientGone:
            stays = False
            raise
        except (Interrupted, JournalError):
            pass  # the stream itself tells what there is to tell
        finally:
            if timer is not None:
                timer.cancel()
            self._heartbeat.remove(presence)
            self._leave(run, on_disconnect, ended=stays)
        return first

    async def _follow(self, tail: "_RunReader") -> None:
        if self._heartbeat.over:
            raise Interrupted
        await tail.follow()

    async def _let_go(self, tail: "_RunReader", why: Exception) -> End:
        """What has come to its end in the meantime is still told: only a run that goes on can be
        interrupted."""
        if not isinstance(why, Interrupted) or isinstance(why, WordsLost):
            log.error("run %s cannot be read on: %s", tail.run, why)
            return "interrupted"
        try:
            await tail.catch_up()
        except (JournalError, WordsLost) as error:
            log.error("run %s cannot be read on: %s", tail.run, error)
        return "ended" if tail.fold.ended else "interrupted"

    def _leave(self, run: RunId, policy: str, *, ended: bool) -> None:
        # Once the server lets go of everybody, a client that leaves does not stop its run.
        self._disconnect.leave(run, policy, ended=ended or self._heartbeat.over)


class WordsLost(Interrupted):
    """A client was told what is not stored any more. It is to come back, and be told what is."""


class _RunReader:
    """One reader's way along a run. Without `reader` the frames are for nobody, as for a plain request.
    `in_trouble`: whether all who wait are told what the store suffers from."""

    __slots__ = ("_after", "_in_trouble", "_journal", "_limit", "_more", "_reader", "_unsent", "fold", "run")

    def __init__(
        self,
        journal: Journal,
        run: RunId,
        after: int,
        fold: Fold,
        in_trouble: Callable[[], bool],
        reader: WaitingReader | None = None,
    ) -> None:
        self._journal = journal
        self._in_trouble = in_trouble
        self.run = run
        self._after = after
        self._limit = FIRST
        self._more = False  # whether the last page was full; if not, the wait says what has come since
        self._unsent = b""  # frames that go with the next ones, or wait for a client that is slow
        self.fold = fold
        self._reader = reader

    def begin(self, opening: bytes) -> None:
        """These frames come before all others, in one piece with the first of them if that is at hand. A
        store that has to be waited for does not keep them."""
        if opening:
            self._keep(opening)
            asyncio.get_running_loop().call_soon(self._push_kept)

    def _push_kept(self) -> None:
        reader = self._reader
        if self._unsent and reader is not None and reader.push(self._unsent):
            self._unsent, reader.is_behind = b"", False

    def last_frames(self) -> bytes:
        """What is left to be sent when the run has ended: it goes in one piece with the end of the answer."""
        frames, self._unsent = self._unsent, b""
        return frames

    async def follow(self) -> None:
        """To the end of the run, whenever that is. A store that cannot be read now is waited for: whoever
        keeps readers alive tells them so, and may let go of them meanwhile."""
        tries = 0
        while not self.fold.ended:
            try:
                await self._page()
                tries = 0
                if not (self._more or self.fold.ended):
                    await self._journal.wait(self.run, self._after, self._take)
            except StorageError as error:
                if not error.passes or not self._in_trouble():
                    raise
                if not tries:
                    log.warning("a reader of the run %s waits for the store: %s", self.run, error)
                await self._flush()
                await asyncio.sleep(pause(tries))
                tries += 1
        await self._flush_if_slow()

    async def catch_up(self) -> None:
        """To the end of what is stored."""
        await self._flush()
        while not self.fold.ended and await self._page():
            pass
        await self._flush_if_slow()

    def _is_elsewhere(self, items: Sequence[Item]) -> bool:
        """Whether these are by another process than all that this reader has."""
        return self._after > 0 and items[0].seq >> EPOCH_BITS != self._after >> EPOCH_BITS

    async def _is_kept(self) -> bool:
        """Whether the last of what this reader has is still there. A store that is not of this machine may
        lose the last words, together with the process that said them."""
        kept = await self._journal.read(self.run, self._after - 1, 1)
        return bool(kept) and kept[0].seq == self._after

    def _take(self, items: Sequence[Item]) -> bool:
        """What was just stored, behind all that this reader has. Whoever stored it waits meanwhile."""
        after, last = self._after, items[-1]
        if len(items) == 1:
            if len(last.data) > FILL:
                return False
        elif len(items) > FIRST or sum([len(item.data) for item in items]) > FILL:
            return False
        if after > 0 and items[0].seq >> EPOCH_BITS != after >> EPOCH_BITS:  # as `_is_elsewhere` says
            return False
        frames = self.fold.take(items)
        self._after = last.seq
        reader, ended = self._reader, self.fold.ended
        if frames and reader is not None and isinstance(frames, bytes) and (ended or not reader.push(frames)):
            self._keep(frames)
            return False
        return not ended

    def _keep(self, frames: bytes) -> None:
        if frames and self._reader is not None:
            self._unsent += frames
            self._reader.is_behind = True

    async def _flush(self, more: bytes = b"") -> None:
        frames, self._unsent = self._unsent + more, b""
        if frames and self._reader is not None:
            await self._reader.write(frames)

    async def _flush_if_slow(self) -> None:
        """The last frames go with the end of the answer. Only a client that must be waited for is sent them
        before that, while somebody looks whether it leaves or reads nothing."""
        if self._unsent and self._reader is not None and not self._reader.line.clear:
            await self._flush()

    async def _page(self) -> bool:
        limit = self._limit
        items = self._fitting(await self._journal.read(self.run, self._after, limit))
        if items and self._is_elsewhere(items) and not await self._is_kept():
            raise WordsLost(f"the last of what was told of the run {self.run} is lost")
        if not items:
            self._more = False
            await self._flush()
            return False
        self._after = items[-1].seq
        much = self._more = len(items) >= min(limit, self._limit)
        frames = self.fold.take(items)
        del items  # while the send waits, only the frames are kept
        if isinstance(frames, bytes):
            if self.fold.ended:
                self._keep(frames)
                return True
            much = much or len(frames) >= LARGE
            await self._flush(frames)
        if much:
            await asyncio.sleep(0)  # a long replay must not hold up those who read live
        return True

    def _fitting(self, items: list[Item]) -> list[Item]:
        """As many of them as may become frames at once. Of large items less are read the next time."""
        size = 0
        for count, item in enumerate(items):
            size += len(item.data)
            if size > FILL and count:
                self._limit = count
                return items[:count]
        if size < FILL // 2:
            self._limit = min(2 * self._limit, PAGE)
        return items


def _interrupted(run: RunId) -> Problem:
    return Problem(
        503,
        f"the server stops before the end of the run {run}; it is kept and goes on when the server is back: "
        f"GET /v1/runs/{run}",
        code="interrupted",
        should_retry=False,
        headers=(("x-turnbuckle-run", run),),
    )
