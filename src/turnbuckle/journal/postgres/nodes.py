"""Nodes on one database: questions to whoever holds a stream, work that nobody holds, and who is there.

Each node looks around every quarter of a second, and at once when it is called by a notification: for
questions about streams that it holds, for answers to its own, and for work. A call is only a hint. Who lives
is known by the locks that processes hold (`listener`), so a node that died is missed with the next look.

Nothing of this must be sure: a question that a crash of the database lost is one whose answer never came.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from turnbuckle.journal.address import read_address
from turnbuckle.journal.nodes import PINNED, NodeReply, NodeRow, NodeState, NodeTimeout, Perform, Unheld
from turnbuckle.journal.port import Closed, JournalError, StorageError, StreamRow
from turnbuckle.journal.postgres import rows
from turnbuckle.journal.postgres.gossip import MEMO, PostgresGossip
from turnbuckle.journal.postgres.grace import GracePeriod
from turnbuckle.journal.postgres.keys import PostgresKeys
from turnbuckle.journal.postgres.links import Connection, DatabaseLink
from turnbuckle.journal.postgres.listener import CALLS
from turnbuckle.journal.postgres.notifier import Notifier
from turnbuckle.journal.postgres.quotas import PostgresQuotas
from turnbuckle.journal.postgres.rules import PostgresRules
from turnbuckle.journal.postgres.schema import version_of

LOOK = 0.25
"""Seconds between two looks if nobody calls."""
PATIENCE = 30.0
"""How long an answer is waited for. Nothing that is asked for takes longer but on a machine that stands
still."""
_GLANCE = 1.0  # the same where one answer of several may be missing
_OLD = 600.0  # seconds after which a question is nobody's
_TIDY_EVERY = 60.0
_TELL_EVERY = 1.0
_MOST = 100  # questions in one look
_WORK = "work"
_SINCE = 4  # the format of the tables that has nodes with labels
_SHARED = ("run", "running"), ("session", "active")

log = logging.getLogger("turnbuckle.nodes")


def _living(grace: str) -> str:
    return f"(SELECT node FROM living({rows.grace(grace)}))"


_NOW = "extract(epoch FROM clock_timestamp())::float8"
_HOLDERS = f"""
SELECT s.name, s.node FROM stream s
WHERE (s.name = $1 OR s.name = (SELECT r.parent FROM stream r WHERE r.name = $1 AND r.parent <> ''))
AND s.holder <> '' AND s.until > {_NOW} AND s.node <> $2 AND s.node IN {_living("$3")}
ORDER BY (s.name = $1) DESC LIMIT 1"""
_PUT = f"""
WITH holder AS MATERIALIZED ({_HOLDERS}),
put AS (
    INSERT INTO question(stream, asker, asked, data) SELECT name, $2, {_NOW}, $4 FROM holder RETURNING id)
SELECT put.id, CASE WHEN $5 <> '' THEN pg_notify($5, holder.node::text)::text END FROM put, holder"""
_PUT_ALL = f"""
WITH put AS (
    INSERT INTO question(stream, node, asker, asked, data)
    SELECT '', n.number, $1, {_NOW}, $3 FROM node n
    WHERE n.number <> $1 AND n.number IN {_living("$2")} RETURNING id, node)
SELECT put.id, n.name, CASE WHEN $4 <> '' THEN pg_notify($4, put.node::text)::text END
FROM put JOIN node n ON n.number = put.node ORDER BY n.name"""
_TAKE = f"""
UPDATE question SET taken = $1 WHERE id = ANY(ARRAY(
    SELECT q.id FROM question q LEFT JOIN stream s ON s.name = q.stream
    WHERE q.answer IS NULL AND q.taken <> $1
    AND (q.taken = 0 OR q.taken NOT IN {_living("$2")})
    AND (q.node = $1 OR (q.node = 0 AND s.node = $1 AND s.holder <> '' AND s.until > {_NOW}))
    ORDER BY q.id LIMIT {_MOST} FOR UPDATE OF q SKIP LOCKED))
RETURNING id, asker, data"""
_ANSWER = (
    "WITH told AS (UPDATE question SET answer = $2 WHERE id = $1 RETURNING asker) "
    "SELECT CASE WHEN $3 <> '' THEN pg_notify($3, asker::text)::text END FROM told"
)
_JOURNAL_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"""
_ANSWERS = "DELETE FROM question WHERE asker = $1 AND answer IS NOT NULL RETURNING id, answer"
_WITHDRAW = f"""
DELETE FROM question q WHERE q.id = $1 AND q.answer IS NULL
AND (q.taken = 0 OR q.taken NOT IN {_living("$2")})
AND (q.node = 0 OR q.node NOT IN {_living("$2")})
AND NOT EXISTS(SELECT FROM stream s WHERE s.name = q.stream AND s.holder <> '' AND s.until > {_NOW}
    AND s.node <> $3 AND s.node IN {_living("$2")})
RETURNING q.id"""
_FORGET = "DELETE FROM question WHERE id = $1 AND taken = 0"  # who asks for it again must not get it twice
_UNHELD = f"""
WITH alive AS MATERIALIZED {_living("$1")}
SELECT {rows.COLUMNS} FROM stream
WHERE kind = $2 AND status = $3 AND name <> ALL($5::text[])
AND (holder = '' OR until <= {_NOW} OR node NOT IN (SELECT node FROM alive))
AND NOT EXISTS(SELECT FROM stream p
    WHERE p.name = '{PINNED}:' || CASE WHEN stream.kind = 'run' THEN stream.parent ELSE stream.name END
    AND NOT string_to_array(p.status, ' ') <@ $6::text[])
ORDER BY updated, name LIMIT $4"""
_TELL = f"""
INSERT INTO node(number, name, version, since, runs, most, lag, labels)
VALUES($1, $2, $3, {_NOW}, $4, $5, $6, $7)
ON CONFLICT (number) DO UPDATE SET runs = excluded.runs, most = excluded.most, lag = excluded.lag"""
_LISTED = f"""
SELECT number, name, version, since, runs, most, lag, number = $2, labels FROM node
WHERE number IN {_living("$1")} ORDER BY since, number"""
_TIDY_QUESTIONS = f"DELETE FROM question WHERE asked < {_NOW} - {_OLD}"
_TIDY_NODES = f"DELETE FROM node WHERE number NOT IN {_living('$1')}"
_COUNT_UNHELD = f"""
WITH alive AS MATERIALIZED {_living("$1")}
SELECT count(DISTINCT CASE WHEN kind = 'run' THEN parent ELSE name END) FROM stream
WHERE ((kind = 'run' AND status = 'running') OR (kind = 'session' AND status = 'active'))
AND (holder = '' OR until <= {_NOW} OR node NOT IN (SELECT node FROM alive))"""
_TIDY_PINS = f"""
DELETE FROM stream p WHERE p.kind = '{PINNED}' AND p.updated < {_NOW} - {_OLD}
AND NOT EXISTS(SELECT FROM stream s WHERE s.name = p.parent)
AND NOT EXISTS(SELECT FROM stream s WHERE s.parent = p.parent AND s.parent <> '' AND s.kind = 'run')"""


class PostgresNodes:
    """This process as one of the nodes. `number` is the one that it is known by."""

    def __init__(
        self,
        link: DatabaseLink,
        number: int,
        channel: str,
        grace: GracePeriod,
        wall: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._link = link
        self._number = number
        self._notifier = Notifier(channel + CALLS)
        self._grace = grace
        self._due = asyncio.Event()
        self.quotas = PostgresQuotas(link, number, grace, wall, self._due.set)
        self.gossip = PostgresGossip(link, number, self._notifier)
        self.keys = PostgresKeys(link, self._notifier)
        self.rules = PostgresRules(link)
        self._with_each_look: list[Callable[[], Awaitable[None]]] = [self.quotas.flush]
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self._early: dict[int, bytes] = {}
        self._doing: set[asyncio.Task[None]] = set()
        self._calls = False
        self._is_open = True
        self._task: asyncio.Task[None] | None = None
        self._about: tuple[str, str, Callable[[], NodeState]] = ("", "", NodeState)
        self._perform: Perform | None = None
        self._look_for_work: Callable[[], None] = lambda: None
        self._lag = 0.0
        self.told: Callable[[StorageError | None], None] = lambda error: None
        """Hears of every look whether it came through."""

    def called(self, payload: str) -> None:
        """Another node calls somebody: this one, or all for work. That does not wait for what this one is
        about to ask."""
        if payload == _WORK:
            self._look_for_work()
        elif payload in (MEMO, str(self._number)):
            self._due.set()

    def with_each_look(self, call: Callable[[], Awaitable[None]]) -> None:
        self._with_each_look.append(call)

    async def join(
        self,
        name: str,
        version: str,
        state: Callable[[], NodeState],
        perform: Perform,
        look: Callable[[], None],
    ) -> None:
        self._about = (name, version, state)
        self._perform = perform
        self._look_for_work = look
        await self._tell()
        self._task = asyncio.create_task(self._keep_looking(), name="nodes")

    async def leave(self) -> None:
        self._perform = None
        if self._doing:
            await asyncio.wait(self._doing)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        with contextlib.suppress(JournalError):  # it is missed with the next look of the others
            await self.quotas.flush()
            async with self._link.use() as connection:
                await connection.execute("DELETE FROM node WHERE number = $1", self._number)
            await self._call_for_work()

    # Asking

    async def ask(self, stream: str, data: bytes) -> bytes | None:
        async def put_question(channel: str) -> Any:
            async with self._link.use() as connection:
                return await connection.fetchrow(
                    _PUT, stream, self._number, self._grace.seconds, data, channel
                )

        put = await self._notifier.perform(put_question)
        if put is None:
            return None
        return await self._answer_to(int(put[0]), PATIENCE)

    async def ask_all(self, data: bytes, *, patient: bool = False) -> list[NodeReply]:
        async def put_questions(channel: str) -> Any:
            async with self._link.use() as connection:
                return await connection.fetch(_PUT_ALL, self._number, self._grace.seconds, data, channel)

        put = await self._notifier.perform(put_questions)
        given = await asyncio.gather(
            *(self._answer_to(int(number), PATIENCE if patient else _GLANCE) for number, _, _ in put),
            return_exceptions=True,
        )
        return [
            NodeReply(name, one if isinstance(one, bytes) else None)
            for (_, name, _), one in zip(put, given, strict=True)
            if one is not None  # the others died meanwhile
        ]

    async def _answer_to(self, number: int, patience: float) -> bytes | None:
        answer: asyncio.Future[bytes]
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        if number in self._early:
            answer.set_result(self._early.pop(number))
        until = time.monotonic() + patience
        try:
            while not answer.done():
                await asyncio.wait([answer], timeout=LOOK)
                if answer.done():
                    break
                if await self._is_withdrawn(number):
                    return None
                if not answer.done() and time.monotonic() > until:  # that look may have found it
                    async with self._link.use() as connection:
                        await connection.execute(_FORGET, number)
                    raise NodeTimeout("the node that has it does not answer; try again")
            return answer.result()
        finally:
            del self._asked[number]

    async def _is_withdrawn(self, number: int) -> bool:
        """Whether nobody is left who could answer, so that nobody will."""
        async with self._link.use() as connection:
            await self._collect(connection)
            if self._asked[number].done():
                return False
            return await connection.fetchval(_WITHDRAW, number, self._grace.seconds, self._number) is not None

    # Looking around

    async def unheld(self, limit: int, but: Collection[str] = (), labels: Collection[str] = ()) -> Unheld:
        found: list[list[StreamRow]] = []
        async with self._link.use() as connection:
            for kind, status in _SHARED:
                got = await connection.fetch(
                    _UNHELD, self._grace.seconds, kind, status, limit, list(but), list(labels)
                )
                found.append([rows.stream_row(row) for row in got])
        return Unheld(*found)

    async def count_unheld(self) -> int:
        async with self._link.use() as connection:
            return int(await connection.fetchval(_COUNT_UNHELD, self._grace.seconds))

    async def journal_bytes(self) -> int:
        async with self._link.use() as connection:
            return int(await connection.fetchval(_JOURNAL_BYTES))

    def call(self) -> None:
        if not self._calls:
            self._calls = True
            task = asyncio.create_task(self._call_now(), name="call for work")
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    async def _call_now(self) -> None:
        try:
            await self._call_for_work()
        except (Closed, StorageError) as error:  # the others look by themselves soon
            log.debug("the other nodes cannot be called now: %s", error)
        finally:
            self._calls = False

    async def listed(self) -> Sequence[NodeRow]:
        async with self._link.use() as connection:
            found = await connection.fetch(_LISTED, self._grace.seconds, self._number)
        return [replace(NodeRow(*row[0:8]), labels=tuple(row[8].split())) for row in found]

    async def _keep_looking(self) -> None:
        told = tidied = time.monotonic()
        while True:
            before = time.monotonic()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):  # wait_for may swallow that it is cancelled
                    await self._due.wait()
            self._due.clear()
            now = time.monotonic()
            self._lag = max(now - before - LOOK, 0.0)
            try:
                self._look_for_work()  # first, since somebody may have called for it
                await self._look()
                await self._share()
                if now - told >= _TELL_EVERY:
                    told = now
                    await self._tell()
                if now - tidied >= _TIDY_EVERY:
                    tidied = now
                    await self.tidy()
                self.told(None)
            except Closed:
                return
            except StorageError as error:
                log.debug("the other nodes cannot be asked now: %s", error)  # the journal tells it louder
                self.told(error)
                await asyncio.sleep(LOOK)
            except Exception as mistake:  # a node that does not look around would keep all others waiting
                log.exception("looking around failed: %r", mistake)
                await asyncio.sleep(LOOK)

    async def _look(self) -> None:
        async with self._link.use() as connection:
            if self._asked:
                await self._collect(connection)
            taken = await connection.fetch(_TAKE, self._number, self._grace.seconds) if self._perform else []
        for number, asker, data in taken:
            task = asyncio.create_task(self._do(int(number), bytes(data)), name=f"question of {asker}")
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    async def _call_for_work(self) -> None:
        async def notify(channel: str) -> None:
            if channel:
                async with self._link.use() as connection:
                    self._calls = False  # whoever calls from here on calls again
                    await connection.execute("SELECT pg_notify($1, $2)", channel, _WORK)

        await self._notifier.perform(notify)

    async def _share(self) -> None:
        for call in self._with_each_look:
            try:
                await call()
            except Closed:
                raise
            except StorageError as error:
                log.debug("what nodes know together is behind: %s", error)
            except Exception as mistake:  # the others of them are not to suffer from it
                log.exception("something that is done with each look failed: %r", mistake)

    async def _collect(self, connection: Connection) -> None:
        for number, answer in await connection.fetch(_ANSWERS, self._number):
            waiting = self._asked.get(int(number))
            if waiting is None:
                self._early[int(number)] = bytes(answer)  # it is put, and about to be waited for
                while len(self._early) > _MOST:
                    del self._early[next(iter(self._early))]
            elif not waiting.done():
                waiting.set_result(bytes(answer))

    async def _do(self, number: int, data: bytes) -> None:
        if self._perform is None:
            return
        answer = await self._perform(data)

        async def give_answer(channel: str) -> None:
            async with self._link.use() as connection:
                await connection.execute(_ANSWER, number, answer, channel)

        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                await self._notifier.perform(give_answer)
                return
            except Closed:
                return
            except StorageError as error:
                log.warning("an answer to another node cannot be given now: %s", error)
            await asyncio.sleep(LOOK)

    async def _tell(self) -> None:
        name, version, state = self._about
        now = state()
        async with self._link.use() as connection:
            told = (now.runs, now.most, self._lag, " ".join(now.labels))
            await connection.execute(_TELL, self._number, name, version, *told)

    async def tidy(self) -> None:
        """Sweep away the nodes that are gone, and what nobody waits for any more."""
        async with self._link.use() as connection:
            await connection.execute(_TIDY_QUESTIONS)
            await connection.execute(_TIDY_NODES, self._grace.seconds)
            await connection.execute(_TIDY_PINS)
        await self.quotas.tidy()
        await self.gossip.tidy()


async def list_nodes(place: str) -> Sequence[NodeRow]:
    """All that live, for somebody who is none of them."""
    address = read_address(place)
    link = DatabaseLink(address)
    try:
        async with link.use() as connection:
            if await version_of(connection, address) < _SINCE:
                return []
        return await PostgresNodes(link, 0, "", GracePeriod()).listed()
    finally:
        await link.close()
