"""The quotas of owners in the database, for all nodes together.

A beginning is one exchange: a function of the database locks the row of the owner, counts, and gives the
slot, so two nodes never give the last one twice. What is only told (slots that are held, costs, slots that
are given back) is gathered, and goes out with the node's next look; a slot whose run has ended does not
count any more, told or not. The commits are relaxed: a database that crashes may forget the last half second.
"""

import asyncio
import time
from collections.abc import Callable

from turnbuckle.journal.postgres import rows
from turnbuckle.journal.postgres.grace import GracePeriod
from turnbuckle.journal.postgres.links import Connection, DatabaseLink, again
from turnbuckle.journal.quotas import DAY, Admission, QuotaUse, TakenRequests

_SLACK = 0.5  # of a request: sums of fractions are never exact
_MOST = 1 << 30  # requests: what the database counts with has 31 bits
_UNSETTLED = "unsettled"
_TRIES, _MOMENT = 60, 0.05
"""How often, and after how many seconds, it is asked again what a run that has just ended has cost."""
_LATE = 30.0
"""Seconds in which an exchange that was broken off may still take effect: no lock is waited for so long."""
_FORGOTTEN = 7  # days after which nobody asks what a run that was left has cost
_DAY = "coalesce({}::int, floor(extract(epoch FROM clock_timestamp()) / 86400)::int)"
_TAKE = "SELECT * FROM take_requests($1, $2, $3, $4, $5, $6)"
_ADMIT = f"SELECT * FROM admit_run($1, $2, $3, $4, $5, {_DAY.format('$6')}, {rows.grace('$7')}, $8)"
_USE = f"SELECT * FROM quota_used($1, '', {_DAY.format('$2')}, {rows.grace('$3')})"
_HOLD = f"""
INSERT INTO slot(run, owner, node, day)
SELECT run, owner, $3, {_DAY.format("$4")}
FROM unnest($1::text[], $2::text[]) AS given(run, owner) ORDER BY run
ON CONFLICT (run) DO UPDATE SET node = excluded.node, queued = ''"""
_QUEUE = """
UPDATE slot s SET node = 0, queued = given.session FROM unnest($1::text[], $2::text[]) AS given(run, session)
WHERE s.run = given.run AND s.node = $3"""
_STRAYS = "SELECT run FROM slot WHERE node = $1 AND run <> ALL($2::text[]) ORDER BY run LIMIT 1000"
_SPEND = """
UPDATE slot s SET cost = given.cost FROM unnest($1::text[], $2::float8[]) AS given(run, cost)
WHERE s.run = given.run AND s.node = $3"""
_PARK = "UPDATE slot SET node = 0 WHERE run = ANY($1::text[]) AND node = $2 AND cost > 0"
_GONE = f"""
WITH gone AS (DELETE FROM slot WHERE run = ANY($1::text[]) AND node = $2 RETURNING *),
sums AS (
    SELECT owner, day, sum(cost) AS cost FROM gone
    WHERE day = {_DAY.format("$3")} AND cost > 0 GROUP BY owner, day ORDER BY owner)
INSERT INTO quota(owner, day, cost) SELECT owner, day, cost FROM sums ON CONFLICT (owner) DO UPDATE
SET day = excluded.day,
    cost = excluded.cost + CASE WHEN quota.day = excluded.day THEN quota.cost ELSE 0 END
WHERE quota.day <= excluded.day"""
_ABANDONED = f"""
SELECT s.run FROM slot s LEFT JOIN stream t ON t.name = s.run
WHERE coalesce(t.status, 'gone') NOT IN ('', 'running')
AND NOT (s.queued <> '' AND t.name IS NULL
    AND EXISTS(SELECT FROM stream p WHERE p.name = s.queued AND p.status = 'active'))
AND s.node <> $3 AND s.node NOT IN (SELECT node FROM living({rows.grace("$1")})) ORDER BY s.run LIMIT $2"""
_FORGET_SLOTS = f"""
DELETE FROM slot WHERE day < {_DAY.format("$1")} - {_FORGOTTEN}
AND node NOT IN (SELECT node FROM living({rows.grace("$2")}))"""
_FORGET_OWNERS = f"""
DELETE FROM quota q WHERE q.day < {_DAY.format("$1")} AND q.full_at < extract(epoch FROM clock_timestamp())
AND NOT EXISTS(SELECT FROM slot s WHERE s.owner = q.owner)"""


class _SlotNews:
    """What is to be told of one run."""

    __slots__ = ("cost", "ended", "holder", "queued", "released")

    def __init__(self) -> None:
        self.holder = ""
        self.queued = ""
        self.cost: float | None = None
        self.released = False
        self.ended = False


class PostgresQuotas:
    """The quotas, as the node of this number sees them. `wall` says which day it is, if it is not the
    database that does; `due` asks for a look at once."""

    in_memory = False

    def __init__(
        self,
        link: DatabaseLink,
        number: int,
        grace: GracePeriod,
        wall: Callable[[], float | None],
        due: Callable[[], None],
    ) -> None:
        self._link = link
        self._number = number
        self._grace = grace
        self._wall = wall
        self._due = due
        self._told: dict[str, _SlotNews] = {}
        self._telling: dict[str, _SlotNews] = {}
        self._mine: set[str] = set()
        """Runs that have a slot here, or may have one by now."""
        self._strays_until = 0.0
        self._flushing = asyncio.Lock()

    async def take(self, owner: str, per_minute: int, wanted: int, back: int = 0) -> TakenRequests:
        async with self._link.use() as connection:
            asked = (min(number, _MOST) for number in (per_minute, wanted, back))
            row = await connection.fetchrow(_TAKE, owner, *asked, _SLACK, self._wall())
        return TakenRequests(*row)

    async def admit(self, owner: str, run: str, most: int, money: float) -> Admission:
        given = (owner, run, self._number, most, money, self._today(), self._grace.seconds)

        async def ask(waits: bool) -> Admission | None:
            async with self._link.use() as connection:
                row = await connection.fetchrow(_ADMIT, *given, waits)
            return None if row[0] == _UNSETTLED else Admission(*row)

        async def ask_until_settled() -> Admission:
            if money:
                await self.flush()
                for _ in range(_TRIES):
                    if (admission := await again(lambda: ask(True))) is not None:
                        return admission
                    await asyncio.sleep(_MOMENT)
            admission = await again(lambda: ask(False))
            assert admission is not None
            return admission

        if run in self._mine:
            return await ask_until_settled()
        self._mine.add(run)
        try:
            admission = await ask_until_settled()
        except asyncio.CancelledError:
            self._mine.discard(run)
            self._strays_until = time.monotonic() + _LATE  # the database may still give it the slot
            raise
        if admission.verdict != "admitted":
            self._mine.discard(run)
        return admission

    def hold(self, owner: str, run: str) -> None:
        told = self._told.setdefault(run, _SlotNews())
        told.holder, told.queued, told.released, told.ended = owner, "", False, False
        self._mine.add(run)

    def queue(self, run: str, session: str) -> None:
        told = self._told.setdefault(run, _SlotNews())
        told.queued, told.released, told.ended = session, False, False
        self._mine.discard(run)

    def spend(self, run: str, cost: float) -> None:
        self._told.setdefault(run, _SlotNews()).cost = cost

    def release(self, run: str, *, ended: bool) -> None:
        told = self._told.setdefault(run, _SlotNews())
        told.released, told.ended, told.queued = True, ended, ""
        self._mine.discard(run)
        if told.cost:
            self._due()  # others may wait for it

    async def use(self, owner: str) -> QuotaUse:
        await self.flush()
        async with self._link.use() as connection:
            row = await connection.fetchrow(_USE, owner, self._today(), self._grace.seconds)
        return QuotaUse(*row)

    async def abandoned(self, limit: int = 100) -> list[str]:
        async with self._link.use() as connection:
            found = await connection.fetch(_ABANDONED, self._grace.seconds, limit, self._number)
        return [row[0] for row in found]

    async def settle(self, run: str, cost: float | None) -> None:
        async def change() -> None:
            async with self._link.use() as connection, connection.transaction():
                held = await connection.fetchval("SELECT node FROM slot WHERE run = $1 FOR UPDATE", run)
                if held is not None:
                    if cost is not None:
                        await connection.execute(_SPEND, [run], [cost], held)
                    await connection.execute(_GONE, [run], held, self._today())

        await again(change)

    async def flush(self) -> None:
        """Tell what is to be told. Raises StorageError, and keeps it."""
        async with self._flushing:
            told, self._told = self._told, {}
            strays = time.monotonic() < self._strays_until
            if not told and not strays:
                return

            async def change() -> None:
                async with self._link.use() as connection, connection.transaction():
                    await self._write(connection, told)
                    if strays:
                        await self._take_back_strays(connection)

            self._telling = told
            try:
                await again(change)
            except BaseException:
                self._told = _later(told, self._told)
                raise
            finally:
                self._telling = {}

    async def _take_back_strays(self, connection: Connection) -> None:
        """Slots of runs that never began: whoever asked for them had left when the database gave them. Nobody
        else asks over this connection meanwhile, so a slot that nobody here knows is one of those."""
        known = [*self._mine, *self._told, *self._telling]
        strays = [row[0] for row in await connection.fetch(_STRAYS, self._number, known)]
        if strays:
            await connection.execute(_GONE, strays, self._number, self._today())

    async def tidy(self) -> None:
        """Forget owners who have used nothing today, and runs that were left long ago and never went on."""
        async with self._link.use() as connection:
            await self._take_back_strays(connection)
            await connection.execute(_FORGET_SLOTS, self._today(), self._grace.seconds)
            await connection.execute(_FORGET_OWNERS, self._today())

    async def _write(self, connection: Connection, told: dict[str, _SlotNews]) -> None:
        held = [(run, one.holder) for run, one in told.items() if one.holder]
        costs = [(run, one.cost) for run, one in told.items() if one.cost is not None]
        queued = [(run, one.queued) for run, one in told.items() if one.queued]
        left = [run for run, one in told.items() if one.released and not one.ended]
        gone = [run for run, one in told.items() if one.released]
        if held:
            await connection.execute(
                _HOLD, [run for run, _ in held], [owner for _, owner in held], self._number, self._today()
            )
        if costs:
            runs, sums = [run for run, _ in costs], [cost for _, cost in costs]
            await connection.execute(_SPEND, runs, sums, self._number)
        if queued:
            await connection.execute(
                _QUEUE, [run for run, _ in queued], [session for _, session in queued], self._number
            )
        if left:
            await connection.execute(_PARK, left, self._number)
        if gone:
            await connection.execute(_GONE, gone, self._number, self._today())

    def _today(self) -> int | None:
        """None: the database knows."""
        wall = self._wall()
        return None if wall is None else int(wall // DAY)


def _later(first: dict[str, _SlotNews], then: dict[str, _SlotNews]) -> dict[str, _SlotNews]:
    """Both, where what was told later counts."""
    for run, one in then.items():
        known = first.setdefault(run, one)
        if known is not one:
            known.holder = one.holder or known.holder
            known.cost = known.cost if one.cost is None else one.cost
            known.queued = one.queued or ("" if one.holder or one.released else known.queued)
            known.released = one.released or (known.released and not (one.holder or one.queued))
            known.ended = one.ended or (known.ended and known.released)
    return first
