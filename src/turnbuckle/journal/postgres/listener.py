"""One connection on which this process listens to the others.

As every connection by which this process changes something it holds a lock on the process's own number
(`links.connect`). When the process dies the database lets go of all of them at once, and everybody knows that
what it held is free. Hints are only hints: whoever waits looks again when the connection was lost and is
back, and every few seconds besides.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import msgspec

from turnbuckle.journal.address import Address
from turnbuckle.journal.port import InUse, StorageError
from turnbuckle.journal.postgres.errors import ERRORS, translated
from turnbuckle.journal.postgres.grace import GracePeriod
from turnbuckle.journal.postgres.hints import read_page
from turnbuckle.journal.postgres.links import Connection, connect, lock_alone, pid_of, writer_of

POLL_SECONDS = 5.0
CALLS = "_nodes"
"""Behind the name of the channel: the one on which nodes call each other."""
_TRIES, _TRIES_PAUSE = 100, 0.05
_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0)

log = logging.getLogger("turnbuckle.journal")

Heard = Callable[[str, msgspec.Raw], None]


class Listener:
    """`heard` is told of a stream that another process changed, `looked` that anything may have changed."""

    def __init__(
        self, address: Address, node: int, channel: str, heard: Heard, looked: Callable[[], None]
    ) -> None:
        self._address = address
        self._node = node
        self._channel = channel
        self._heard = heard
        self._looked = looked
        self._sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._connection: Connection = None
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self.grace = GracePeriod()
        self.alone = False
        """Whether no other process may write beside this one."""
        self.beside = False
        """Whether this one writes beside others, and so keeps those out that must be alone."""
        self.called: Callable[[str], None] | None = None
        """Told what nodes call to each other."""
        self.back: Callable[[], None] = lambda: None
        """Told that the connection was lost and is there again, perhaps to a database that lost something."""
        self.own: Callable[[], int] = lambda: 0
        """The server's process behind the connection that sends our own hints."""

    @property
    def pid(self) -> int:
        """The server's process behind the connection; 0 if there is none."""
        return pid_of(self._connection)

    async def open(self) -> None:
        """Raises JournalError."""
        try:
            await self._connect()
            if self.alone or self.beside:
                await self._lock_alone()
        except ERRORS as error:
            raise translated(error, self._address.shown) from error
        self._task = asyncio.ensure_future(self._keep())

    async def _lock_alone(self) -> None:
        for _ in range(_TRIES):
            if await lock_alone(self._connection, self._address, shared=self.beside):
                return
            await self._sleep(_TRIES_PAUSE)  # a process that was killed is noticed after some milliseconds
        who = await writer_of(self._connection, self._address)
        told = f"process {who}" if who else "another process"
        raise InUse(f"{told} already writes to the journal at {self._address.shown}; stop it, or use another")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._connection is not None:
            with contextlib.suppress(*ERRORS):
                await self._connection.close(timeout=1)

    def abort(self) -> None:
        """Let go without a word, as a process does that dies."""
        if self._task is not None:
            self._task.cancel()
        if self._connection is not None:
            self._connection.terminate()

    async def _connect(self) -> None:
        connection = await connect(self._address, lasting=True, node=self._node)
        try:
            await connection.add_listener(self._channel, self._on_hint)
            if self.called is not None:
                await connection.add_listener(self._channel + CALLS, self._on_call)
        except BaseException:
            connection.terminate()
            raise
        self._lost.clear()
        connection.add_termination_listener(self._on_loss)
        self._connection = connection

    async def _keep(self) -> None:
        failed = 0
        while True:
            if not failed and not self._connection.is_closed():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):  # wait_for may swallow that it is cancelled
                        await self._lost.wait()
            else:
                await self._sleep(_PAUSES[min(failed, len(_PAUSES) - 1)])
            try:
                await self._look()
                failed = 0
            except (*ERRORS, StorageError):
                failed += 1
                self._connection.terminate()
            except Exception as mistake:  # without this task nobody would hear of anything any more
                failed += 1
                log.exception("listening to other processes failed: %r", mistake)

    async def _look(self) -> None:
        """See to it that the connection is there, and that nobody waits for what was missed."""
        if was_closed := self._connection.is_closed():
            await self._connect()
            if self.alone or self.beside:
                # Claims are fenced by themselves; this is for those who start meanwhile.
                await lock_alone(self._connection, self._address, shared=self.beside)
        else:
            await self._connection.execute("SELECT 1")
        if was_closed:
            self.grace.run_out()
            self.back()
        self._looked()

    def _on_loss(self, _: object) -> None:
        self.grace.begin()
        self._lost.set()

    def _on_hint(self, _: object, pid: int, __: str, payload: object) -> None:
        if pid == self.own():
            return
        try:
            for stream, told in read_page(str(payload)).items():
                self._heard(stream, told)
        except msgspec.DecodeError:
            self._looked()  # nobody knows what it says, and anything may have changed

    def _on_call(self, _: object, __: int, ___: str, payload: object) -> None:
        if self.called is not None:
            self.called(str(payload))
