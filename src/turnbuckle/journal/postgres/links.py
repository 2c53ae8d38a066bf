"""Connections that are made when they are needed, and made again after they broke.

A link is one connection that one task uses at a time. What goes wrong on it is raised as an error of the
journal, and a connection that may be broken is thrown away: the next use makes another, to whichever server
the address leads by then. A database that fails over is found again in this way.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from turnbuckle.journal.address import Address
from turnbuckle.journal.port import Closed, JournalError, StorageFailed
from turnbuckle.journal.postgres.errors import (
    ERRORS,
    TRANSIENT,
    code_of,
    is_refused,
    is_worth_asking_again,
    translated,
)
from turnbuckle.journal.postgres.grace import GracePeriod

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 30.0
IDLE_MILLISECONDS = 10_000
"""After which the database ends a change that a process left in the middle. One that stands still would hold
its rows, and with them everybody who wants them, for as long as it stands."""
LOCK_MILLISECONDS = 5000  # longer locks are told as trouble, and waited out by trying again
READ_PATIENCE = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 2.0, 2.0)
"""Pauses after which a read is tried again whose connection broke: a restart takes seconds."""
_PROBE_AFTER, _PROBE_EVERY, _PROBES = 10, 5, 3
_UNHEARD_MILLISECONDS = (_PROBE_AFTER + _PROBE_EVERY * _PROBES) * 1000
_KEEPALIVE = {
    "tcp_keepalives_idle": str(_PROBE_AFTER),
    "tcp_keepalives_interval": str(_PROBE_EVERY),
    "tcp_keepalives_count": str(_PROBES),
    "tcp_user_timeout": str(_UNHEARD_MILLISECONDS),
}
"""So that the server notices within half a minute that a machine is gone, or that a process does not read,
and lets go of what it held."""
_OUR_KEEPALIVE = {
    "TCP_KEEPIDLE": _PROBE_AFTER,
    "TCP_KEEPINTVL": _PROBE_EVERY,
    "TCP_KEEPCNT": _PROBES,
    "TCP_USER_TIMEOUT": _UNHEARD_MILLISECONDS,
}
"""The same for our side. An idle connection that a router has forgotten is found out before it is used."""
_TRIES = 8
_NAME = "turnbuckle, process "
_ALONE = "turnbuckle writes "
_WRITER = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended($1, 0) LIMIT 1"""
_TIMELINE = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint"
"""How often a standby has taken the place of this database's primary, counted from one."""
_EPOCHS_OF_ONE, _MOST_TIMELINES = 1 << 12, 1 << 9
"""Together they are below 2**21, so that the numbers of items stay exact in JavaScript."""
_POOLER = (
    "{shown} leads to a connection pooler. Turnbuckle keeps a few connections of its own, with locks and "
    "notifications that a pooler would mix up: name the database server itself"
)

Connection = Any
"""Of the driver, which has no types."""
T = TypeVar("T")


def channel_of(address: Address) -> str:
    """On which the processes of a journal call each other. With `listener.CALLS` behind it it has at most 63
    signs: the database refuses to notify anybody by a longer name."""
    schema = address.schema
    return f"turnbuckle_{schema if len(schema) <= 46 else sha256(schema.encode()).hexdigest()[:40]}"


class KeptAlive(asyncpg.Connection):  # type: ignore[misc]
    """The kernel finds out that the other side is gone, where it can. The driver has no setting for it."""

    first_epoch = 0
    """A standby may not have received the last claims of the primary whose place it took. Claims that it
    gives have numbers from here on, so that none is given twice."""

    def __init__(self, protocol: Any, transport: asyncio.Transport, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        made = transport.get_extra_info("socket")
        if made is None or made.family not in (socket.AF_INET, socket.AF_INET6):
            return
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OUR_KEEPALIVE.items():
            if hasattr(socket, name):  # not every system has each of them
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class DatabaseLink:
    """One connection. `relaxed` commits do not wait for the disk. As long as it lasts the process with the
    number `node` lives."""

    def __init__(
        self,
        address: Address,
        *,
        relaxed: bool = False,
        node: int = 0,
        grace: GracePeriod | None = None,
    ) -> None:
        self._address = address
        self._relaxed = relaxed
        self._node = node
        self._grace = grace
        self._broke = False
        self._connection: Connection = None
        self._turn = asyncio.Lock()
        self._closed = False
        self._since: float | None = None

    @property
    def since(self) -> float | None:
        """The time at which the exchange began that is under way; None if there is none."""
        return self._since

    @property
    def pid(self) -> int:
        """The server's process behind this connection; 0 if there is none."""
        return pid_of(self._connection)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        """The connection, for one task at a time. Raises JournalError for all that the database does."""
        async with self._turn:
            if self._closed:
                raise Closed("the journal is closed")
            self._since = time.time()
            try:
                if self._connection is None or self._connection.is_closed():
                    await self._connect()
                yield self._connection
            except ERRORS as error:
                if not is_refused(error):
                    self._broke = self._connection is not None
                    self.drop()
                raise translated(error, self._address.shown) from error
            except BaseException as error:
                if not isinstance(error, JournalError | ValueError):  # cancelled in the middle of an exchange
                    self.drop()
                raise
            finally:
                self._since = None

    async def _connect(self) -> None:
        broke = self._broke or self._connection is not None
        self._connection = await connect(self._address, relaxed=self._relaxed, node=self._node)
        if broke and self._grace is not None:
            self._grace.run_out()
        self._broke = False

    def drop(self) -> None:
        """Forget the connection, and end it without a word."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def close(self) -> None:
        self._closed = True
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(*ERRORS):
                    await connection.close(timeout=1)


def pid_of(connection: Connection) -> int:
    """The server's process behind a connection; 0 if there is none."""
    return 0 if connection is None or connection.is_closed() else int(connection.get_server_pid())


async def connect(
    address: Address, *, relaxed: bool = False, lasting: bool = False, node: int = 0
) -> Connection:
    """A new connection. What the address itself sets comes before what we would set. One that is `lasting` is
    told of other people's changes: it never waits for an answer for long.

    A `node` is alive as long as it has one of its connections: each holds a lock on its number. The lock is
    shared, since the database may not know yet that an earlier connection is gone."""
    settings = {
        "application_name": f"{_NAME}{os.getpid()}",
        "search_path": address.written_schema,
        "lock_timeout": str(LOCK_MILLISECONDS),
        "idle_in_transaction_session_timeout": str(IDLE_MILLISECONDS),
        "synchronous_commit": "off" if relaxed else "on",
        "client_min_messages": "error",
        **_KEEPALIVE,
    }
    given = dict(parse_qsl(urlsplit(address.url).query))
    try:
        made = await asyncpg.connect(
            address.url,
            timeout=CONNECT_SECONDS,
            command_timeout=CONNECT_SECONDS if lasting else COMMAND_SECONDS,
            server_settings={name: value for name, value in settings.items() if name not in given},
            target_session_attrs=None if "target_session_attrs" in given else "read-write",
            connection_class=KeptAlive,
        )
    except asyncpg.PostgresError as error:
        if "unsupported startup parameter" in str(error):
            raise StorageFailed(_POOLER.format(shown=address.shown)) from error
        raise
    if node:
        try:
            await made.execute("SELECT pg_advisory_lock_shared($1)", node)
            made.first_epoch = await _first_epoch(made)
        except BaseException:
            made.terminate()
            raise
    return made


async def _first_epoch(connection: Connection) -> int:
    try:
        timeline = await connection.fetchval(_TIMELINE)
    except asyncpg.PostgresError:  # a service that does not show its log, and may not have any
        return 0
    return int(min(timeline - 1, _MOST_TIMELINES - 1)) * _EPOCHS_OF_ONE


async def check_server(connection: Connection, address: Address) -> None:
    """Raises StorageFailed if a journal cannot be kept on this server."""
    pid, encoding, version = await connection.fetchrow(
        "SELECT pg_backend_pid(), current_setting('server_encoding'), "
        "current_setting('server_version_num')::int"
    )
    if pid != connection.get_server_pid():
        raise StorageFailed(_POOLER.format(shown=address.shown))
    if encoding != "UTF8":
        raise StorageFailed(
            f"the database at {address.shown} has the encoding {encoding}: make one with UTF8"
        )
    if version < 130000:
        raise StorageFailed(f"the database at {address.shown} is Postgres {version // 10000}: 13 is needed")


async def lock_alone(connection: Connection, address: Address, *, shared: bool = False) -> bool:
    """Be the only process that writes, for as long as the connection lasts; or, `shared`, one of several.
    False if another one is alone, or is there."""
    sql = f"SELECT pg_try_advisory_lock{'_shared' if shared else ''}(hashtextextended($1, 0))"
    return bool(await connection.fetchval(sql, _ALONE + address.schema))


async def writer_of(connection: Connection, address: Address) -> str:
    """The process that is the only one that writes; empty if there is none."""
    name = await connection.fetchval(_WRITER, _ALONE + address.schema)
    return (name or "").removeprefix(_NAME)


async def patiently(
    link: DatabaseLink,
    ask: Callable[[Connection], Awaitable[T]],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """The answer to something that changes nothing. If the connection breaks it is asked again for some
    seconds."""
    for pause in READ_PATIENCE:
        try:
            async with link.use() as connection:
                return await ask(connection)
        except StorageFailed as error:
            if not is_worth_asking_again(error.__cause__ or error):
                raise
        await sleep(pause)
    async with link.use() as connection:
        return await ask(connection)


async def again(change: Callable[[], Awaitable[T]]) -> T:
    """What a change gives. Two changes that were in each other's way are tried again, some times."""
    for _ in range(_TRIES - 1):
        try:
            return await change()
        except StorageFailed as error:
            if code_of(error.__cause__ or error) not in TRANSIENT:
                raise
    return await change()
