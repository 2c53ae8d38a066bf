"""Many readers, few queries: whoever asks while a query is under way is answered by the next one, all
together.

A hint that a stream has grown wakes everybody who follows it, and fifty streams grow at once. Each of their
readers would ask by itself, one behind the other on one connection; so they are gathered. There is no
timer: one who is alone is asked for at once. Nothing is kept, so every answer is what the database says at
that moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from turnbuckle.journal.port import READ_BYTES, Item, JournalError, StorageFailed
from turnbuckle.journal.postgres.links import Connection
from turnbuckle.journal.words import kept

MOST_TOGETHER = 64
_SMALLEST_PAGE = 64 << 10
_LARGEST = 1 << 62
_ITEMS = """
SELECT w.number, i.seq, i.data
FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w(name, after, number)
JOIN stream s ON s.name = w.name
CROSS JOIN LATERAL (SELECT seq, data FROM (
    SELECT seq, data, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
    FROM item WHERE stream = s.id AND seq > w.after ORDER BY seq LIMIT $3) AS page WHERE before < $4) AS i
ORDER BY 1, 2"""
_STANDS = """
SELECT w.number, s.id, s.epoch, (SELECT coalesce(max(seq), 0) FROM item WHERE stream = s.id)
FROM unnest($1::text[]) WITH ORDINALITY AS w(name, number) JOIN stream s ON s.name = w.name"""

Ask = Callable[[Callable[[Connection], Awaitable[Any]]], Awaitable[Any]]
Place = tuple[int, int, int]
"""The key, the newest epoch and the head of a stream."""


def clamped(number: int) -> int:
    """A number that the database takes, whatever somebody's cursor says."""
    return min(max(number, 0), _LARGEST)


class _Question:
    __slots__ = ("after", "answer", "limit", "name")

    def __init__(self, name: str, after: int = 0, limit: int = 0) -> None:
        self.name = name
        self.after = after
        self.limit = limit
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class GroupReads:
    """`ask` puts a question to the database."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: list[_Question] = []
        self._task: asyncio.Task[None] | None = None

    async def items(self, name: str, after: int, limit: int) -> list[Item]:
        """The next items of a stream."""
        if name != kept(name):  # no stream has such a name, and nobody else's question may fail with this one
            return []
        found: list[Item] = await self._put(_Question(name, clamped(after), max(clamped(limit), 1)))
        return found

    async def stands(self, name: str) -> Place | None:
        """Where a stream stands; None if there is none."""
        found: Place | None = await self._put(_Question(name)) if name == kept(name) else None
        return found

    async def _put(self, question: _Question) -> Any:
        self._waiting.append(question)
        if self._task is None:
            self._task = asyncio.ensure_future(self._work())
        return await question.answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                limit = self._waiting[0].limit
                group = [one for one in self._waiting if one.limit == limit][:MOST_TOGETHER]
                self._waiting = [one for one in self._waiting if one not in group]
                await self._answer([one for one in group if not one.answer.done()], limit)
        finally:
            self._task = None

    async def _answer(self, group: Sequence[_Question], limit: int) -> None:
        if not group:
            return
        try:
            found = await self._ask(_items_of(group, limit) if limit else _stands_of(group))
        except Exception as failure:  # whatever it is, those who wait must hear of it
            error = failure
            if not isinstance(failure, JournalError):
                error = StorageFailed(f"the journal's own mistake: {failure!r}")
                error.__cause__ = failure
            for one in group:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        for one, answer in zip(group, found, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)


def _items_of(group: Sequence[_Question], limit: int) -> Callable[[Connection], Awaitable[list[list[Item]]]]:
    async def ask(connection: Connection) -> list[list[Item]]:
        most = max(READ_BYTES // len(group), _SMALLEST_PAGE)
        names, afters = [one.name for one in group], [one.after for one in group]
        answers: list[list[Item]] = [[] for _ in group]
        for number, seq, data in await connection.fetch(_ITEMS, names, afters, limit, most):
            answers[number - 1].append(Item(seq, data))
        return answers

    return ask


def _stands_of(group: Sequence[_Question]) -> Callable[[Connection], Awaitable[list[Place | None]]]:
    async def ask(connection: Connection) -> list[Place | None]:
        answers: list[Place | None] = [None] * len(group)
        for number, key, epoch, head in await connection.fetch(_STANDS, [one.name for one in group]):
            answers[number - 1] = (key, epoch, head)
        return answers

    return ask
