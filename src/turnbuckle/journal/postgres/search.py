"""Finding streams by words.

Theory of operation: that of `sqlite.search`, with another index. One word of the question leads; texts in
which it stands are looked at from the newest on, until enough streams are found or the most were looked at.
The index has the words of a text as we take it apart (`words`), and not as the database would: so it never
misses a text, and what it gives is decided by the same rules as everywhere. Scripts without spaces have no
words in the index; there the texts themselves are looked through.
"""

from collections.abc import AsyncIterator
from typing import Any

from turnbuckle.journal.finding import (
    MOST_LOOKED,
    MOST_PLACES,
    MOST_TEXTS,
    StreamFinder,
    like_pattern,
)
from turnbuckle.journal.port import SearchHit, SearchPage, SearchPlace, StreamQuery, StreamRow
from turnbuckle.journal.postgres.links import Connection
from turnbuckle.journal.postgres.rows import COLUMNS, LONGEST_LEXEME, Conditions, stream_row
from turnbuckle.journal.words import Question, questions

_CHUNK = 200
_INDEXED = (
    "SELECT id, stream FROM word WHERE lexemes @@ $1::text::tsquery AND id < $2 ORDER BY id DESC LIMIT $3"
)
_LOOKED_THROUGH = """
SELECT id, stream FROM word WHERE id >= $4 AND id < $2 AND text ILIKE $1 ORDER BY id DESC LIMIT $3"""
_TEXTS = "SELECT stream, id, text FROM word WHERE stream = ANY($1::bigint[]) AND id <= $2 ORDER BY id DESC"

_Place = tuple[int, int]


async def find(
    connection: Connection,
    words: str,
    wanted: StreamQuery,
    limit: int,
    after: SearchPlace | None,
    *,
    now: float | None,
    grace: float,
) -> SearchPage:
    """The streams that have every word."""
    asked = questions(words)
    if not asked or Conditions(wanted, now, grace).is_never:
        return SearchPage([])
    if after is None:
        newest = int(await connection.fetchval("SELECT coalesce(max(id), 0) FROM word"))
        after = SearchPlace(newest + 1, newest)
    looking = _PostgresFinder(connection, asked, wanted, after, (now, grace))
    hits: list[SearchHit] = []
    count = 0
    async for chunk in looking.chunks():
        await looking.load([stream for _, stream in chunk])
        for place, stream in chunk:
            count += 1
            if (hit := looking.at(place, stream)) is not None:
                hits.append(hit)
            if len(hits) >= max(limit, 1) or looking.count >= MOST_LOOKED or count >= MOST_PLACES:
                return SearchPage(hits, SearchPlace(place, after.newest))
    return SearchPage(hits, looking.rest)


class _PostgresFinder(StreamFinder):
    def __init__(
        self,
        connection: Connection,
        asked: list[Question],
        wanted: StreamQuery,
        after: SearchPlace,
        moment: tuple[float | None, float],
    ) -> None:
        super().__init__(asked, after)
        self._connection = connection
        self._wanted = wanted
        self._moment = moment
        self._rows: dict[int, StreamRow] = {}
        self._words: dict[int, list[tuple[int, str]]] = {}

    async def load(self, streams: list[int]) -> None:
        """The rows and texts of these streams, unless they are settled already."""
        self._rows, self._words = {}, {}
        unseen = list({stream for stream in streams if stream not in self._seen})
        conditions = Conditions(self._wanted, *self._moment)
        conditions.also(f"s.id = ANY({conditions.add(unseen)}::bigint[])")
        sql = f"SELECT id, {COLUMNS} FROM stream s WHERE {conditions.text}"
        for key, *row in await self._connection.fetch(sql, *conditions.values):
            self._rows[key] = stream_row(row)
        for stream, place, text in await self._connection.fetch(_TEXTS, list(self._rows), self._after.newest):
            self._words.setdefault(stream, []).append((place, text))

    def _row(self, stream: int) -> StreamRow | None:
        return self._rows.get(stream)

    def _texts(self, stream: int) -> list[tuple[int, str]]:
        return self._words.get(stream, [])

    async def chunks(self) -> AsyncIterator[list[_Place]]:
        """Texts in which the leading word may stand and their streams, from the newest on."""
        sql, first, more = self._query()
        below = self._after.below
        while True:
            found = await self._connection.fetch(sql, first, below, _CHUNK, *more)
            if found:
                yield [(place, stream) for place, stream in found]
                below = found[-1][0]
            if len(found) < _CHUNK:
                return

    def _query(self) -> tuple[str, Any, list[Any]]:
        """A statement for the next texts, its first value, and those behind the third."""
        lead = self._lead
        if self._wanted.name or self._wanted.parent:  # one stream or the children of one: their texts are few
            field = "name" if self._wanted.name else "parent"
            sql = f"""SELECT w.id, w.stream FROM stream s JOIN word w ON w.stream = s.id
                WHERE s.{field} = $1 AND s.{field} <> '' AND w.id < $2 ORDER BY w.id DESC LIMIT $3"""
            return sql, self._wanted.name or self._wanted.parent, []
        if lead.is_unspaced or not any(lead.phrase):
            lowest = max(self._after.below - MOST_TEXTS, 0)
            self.rest = SearchPlace(lowest, self._after.newest) if lowest else None
            return _LOOKED_THROUGH, like_pattern(lead.word), [lowest]
        return _INDEXED, _lexeme_query(lead), []


def _lexeme_query(lead: Question) -> str:
    """Words are letters and numbers, so none of them has a sign with a meaning."""
    *whole, last = [word[:LONGEST_LEXEME] for word in lead.phrase if word]
    may_begin = lead.may_begin or len(lead.phrase[-1]) > LONGEST_LEXEME
    return " & ".join([*(f"'{word}'" for word in whole), f"'{last}'{':*' if may_begin else ''}"])
