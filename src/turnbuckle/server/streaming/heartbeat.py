"""One heartbeat for all readers and all connections.

A silent stream looks dead to clients and to whatever lies between. So a reader that got nothing for
`keepalive` seconds gets a comment, and one that got no frame for `noop` seconds gets a frame that says
nothing, since some clients count only frames. One task looks at all readers about once a second: no reader
has a timer or a task of its own.

Where every frame has a number for clients to come back to, a frame that says nothing needs one too, and only
the journal can give it. There the heartbeat has no frame of its own: it tells `silent`, who may store that
the run waits, and the frame comes to every reader the usual way.

A beat is written from the heartbeat's task while the reader's own task waits for the journal. That is safe
because frames are only ever written whole, and because a beat is left out while the reader is in the middle
of a send, or when a send would have to wait: such a reader is not silent, it does not read. Those are for the
sweep, which hangs up on them.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

from turnbuckle.journal.port import JournalError, Trouble
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.http.client_connection import ClientConnection, Presence
from turnbuckle.server.http.exchange import Dialect
from turnbuckle.service.store_words import words
from turnbuckle.vocab.ids import RunId
from turnbuckle.wire.sse import comment

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
GiveUp = Callable[[Trouble], None]

NOT_WAITED_FOR = ("damaged", "unknown_format")
KEEPALIVE = b": keepalive\n\n"
STORAGE_NOTE = b": waiting for storage"
TICK = 0.5
"""The longest time between two looks. What is due is at most so much late."""
_PER_INTERVAL = 5  # looks in the shortest interval, so that short ones are kept about as well

_PATIENCE = 1.0  # seconds for a question that one reader alone needs
_NO_RUN = RunId("")

log = logging.getLogger("turnbuckle.server")


class Sweepable(Protocol):
    """A connection, for the sweep."""

    def sweep(self, now: float) -> bool: ...


class WaitingReader:
    """One client that reads a run. `presence` is where its task can be ended from outside."""

    __slots__ = (
        "_loop",
        "_send",
        "dialect",
        "framed",
        "heard",
        "is_behind",
        "line",
        "presence",
        "run",
        "sending",
        "sent",
        "told",
    )

    def __init__(
        self, line: ClientConnection, send: Send, dialect: Dialect, presence: Presence, run: RunId = _NO_RUN
    ) -> None:
        self.run = run
        self.line = line
        self.dialect = dialect
        self.presence = presence
        self.sending = False
        self.is_behind = False
        """Whether frames were drawn that are not sent yet. Nothing may overtake them."""
        self.told: float | None = None
        """The trouble of the store that it was last told of, by when that began."""
        self._send = send
        self._loop = asyncio.get_running_loop()
        self.sent = self.framed = self.heard = self._loop.time()
        """When it last got anything, when it last got a frame or there was none for it, and when it last got
        one."""

    def is_busy(self) -> bool:
        """Whether anything that is sent now would wait, or overtake."""
        return self.sending or self.is_behind or not self.line.clear

    async def write(self, frames: bytes) -> None:
        """Send whole frames. Waits while the client does not read."""
        self.sending = True
        await self._send({"type": "http.response.body", "body": frames, "more_body": True})
        self.sending = self.is_behind = False
        self.sent = self.framed = self.heard = self._loop.time()

    def push(self, frames: bytes) -> bool:
        """The same without a wait. False if there must be one: then nothing was sent, and they are to be
        written next."""
        if self.sending or not self.line.push(frames):
            self.is_behind = True
            return False
        self.sent = self.framed = self.heard = self._loop.time()
        return True

    async def comment(self) -> None:
        """Send a sign of life that is not a frame."""
        await self._send({"type": "http.response.body", "body": KEEPALIVE, "more_body": True})
        self.sent = self._loop.time()


class Heartbeat:
    """All readers and connections of a server."""

    def __init__(
        self,
        *,
        keepalive: float,
        noop: float,
        wall: Callable[[], float],
        trouble: Callable[[], Trouble | None] = lambda: None,
        silent: Callable[[RunId, float, float], None] = lambda run, seconds, now: None,
        stranded: Callable[[RunId], Awaitable[WaitingOn | None]] | None = None,
    ) -> None:
        """`trouble` tells what the store suffers from, which all readers wait for. `stranded` tells what a
        run waits for that no server may work on at this moment. `silent` is told that a
        reader of a run got no frame for so many seconds up to now, each `noop` seconds, where only the
        journal can give it one."""
        self._silent = silent
        self.stranded = stranded
        self._trouble = trouble
        self._keepalive = keepalive
        self._noop = noop
        self._wall = wall
        self._tick = min(TICK, keepalive / _PER_INTERVAL, noop / _PER_INTERVAL)
        self._readers: set[WaitingReader] = set()
        self._presences: dict[Presence, tuple[GiveUp | None, float]] = {}
        self._troubled: float | None = None  # since when the store was in trouble at every look
        self.over = False
        self.dropped = 0
        """How many clients were dropped because they did not read."""
        self.connections = 0
        """How many connections there were at the last look."""

    def __len__(self) -> int:
        """How many read at this moment, plain requests included."""
        return len(self._presences)

    def in_trouble(self) -> bool:
        """Whether the store suffers from something that passes, so that readers are told to wait."""
        trouble = self._trouble()
        return trouble is not None and trouble.fault not in NOT_WAITED_FOR

    def add(
        self, presence: Presence, reader: WaitingReader | None = None, gives_up: GiveUp | None = None
    ) -> None:
        """Somebody begins to read. A plain request has no reader to be kept alive: nothing can be told to it
        but an end, so `gives_up` is told of a store that has kept it waiting for `noop` seconds."""
        self._presences[presence] = (gives_up, asyncio.get_running_loop().time())
        if reader is not None:
            self._readers.add(reader)

    def remove(self, presence: Presence, reader: WaitingReader | None = None) -> None:
        self._presences.pop(presence, None)
        if reader is not None:
            self._readers.discard(reader)

    def interrupt_all(self) -> None:
        """Tell every client, and every later one, that the server lets go of it."""
        self.over = True
        for reader in self._readers:
            if reader.sending or not reader.line.clear:
                reader.line.abort()  # it would not read the farewell either, and frames on their way are lost
        for presence in list(self._presences):
            presence.interrupt()

    async def run(
        self, connections: Callable[[], Iterable[Sweepable]], each_tick: Callable[[], None]
    ) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._tick)
            now = loop.time()
            each_tick()
            all_connections = list(connections())
            self.connections = len(all_connections)
            for connection in all_connections:
                self.dropped += connection.sweep(now)
            self._end_waits(now)
            for reader in list(self._readers):
                await self._look_after(reader, now)

    def _end_waits(self, now: float) -> None:
        """A plain request does not wait for ever for a store that does not come back."""
        trouble = self._trouble()
        if trouble is None or trouble.fault in NOT_WAITED_FOR:
            self._troubled = None
            return
        if self._troubled is None:
            self._troubled = now
        for gives_up, came in list(self._presences.values()):
            if gives_up is not None and now - max(self._troubled, came) >= self._noop:
                gives_up(trouble)

    async def _look_after(self, reader: WaitingReader, now: float) -> None:
        if reader.is_busy():
            return
        try:
            if (trouble := self._trouble()) is not None and self._waits(trouble, reader, now):
                await self._tell(trouble, reader)
                return
            if now - reader.framed >= self._noop:
                waits = await self._is_stranded(reader.run)
                if reader.is_busy():
                    return  # it was told something meanwhile
                if waits is not None:
                    told = comment(f"waiting for {waits.detail}") + reader.dialect.beat(self._wall(), waits)
                    await reader.write(told)
                    return
                if beat := reader.dialect.beat(self._wall()):
                    await reader.write(beat)
                    return
                reader.framed += self._noop  # there is no such frame here, but perhaps a fact that makes one
                self._silent(reader.run, now - reader.heard, now)
            if now - reader.sent >= self._keepalive:
                await reader.comment()
        except Exception as error:  # one reader's trouble is not that of the others
            log.error("a reader was dropped: its heartbeat failed", exc_info=error)
            reader.line.abort()

    async def _is_stranded(self, run: RunId) -> WaitingOn | None:
        """Everybody waits for this beat, so it waits for no store."""
        if self.stranded is None or self.in_trouble():
            return None
        with contextlib.suppress(JournalError, TimeoutError):  # it is asked again with the next beat
            async with asyncio.timeout(_PATIENCE):
                return await self.stranded(run)
        return None

    def _waits(self, trouble: Trouble, reader: WaitingReader, now: float) -> bool:
        """Whether this reader is to hear of it now: at once, and then as often as of anything else. What is
        damaged keeps nobody waiting, who does not read it."""
        if trouble.fault in NOT_WAITED_FOR:
            return False
        return reader.told != trouble.since or now - reader.framed >= self._noop

    async def _tell(self, trouble: Trouble, reader: WaitingReader) -> None:
        reader.told = trouble.since
        text = words(trouble.fault)
        waits = WaitingOn("storage", text, trouble.since)
        await reader.write(comment(f"waiting for storage: {text}") + reader.dialect.beat(self._wall(), waits))
