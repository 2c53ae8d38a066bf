"""Runs by what they were: how they stand, their route, words, and when they began.

The index knows the status and the session of a run; its route stands in the run's end. So a page looks at a
bounded number of runs, and may hold fewer than were asked for: `next` leads on.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from turnbuckle.journal.port import Journal, SearchPlace, StreamQuery, StreamRow
from turnbuckle.service.cursors import cursor, place_at, row_place_at

LOOKED_AT = 1_000
"""Runs that one page looks at."""
LONGEST_WORDS = 400
_PAGE = 100
L = TypeVar("L")


class RunFilter(Struct, frozen=True):
    """What is wanted beside what the index knows; what is unset fits every run. `since` and `until` are about
    when it began."""

    words: str = ""
    route: str = ""
    since: float | None = None
    until: float | None = None

    @property
    def is_empty(self) -> bool:
        return self == RunFilter()

    def fits_times(self, row: StreamRow) -> bool:
        return (self.since is None or row.created >= self.since) and (
            self.until is None or row.created < self.until
        )


class FoundRuns(Struct, frozen=True):
    """The rows of a page, and where it ended; no `next`: there is nothing behind it."""

    rows: list[StreamRow]
    next: str = ""


async def find_runs(
    journal: Journal,
    wanted: StreamQuery,
    fits: RunFilter,
    route_of: Callable[[StreamRow], Awaitable[str]],
    after: str,
    limit: int,
) -> FoundRuns:
    """A page of runs. Raises InvalidValue for an `after` that no page gave."""
    looked = _searched if fits.words else _listed
    found: list[StreamRow] = []
    last = ""
    async for row, last in looked(journal, wanted, fits, after):
        if row is None or not fits.fits_times(row):
            continue
        if fits.route and await route_of(row) != fits.route:
            continue
        found.append(row)
        if len(found) >= limit:
            return FoundRuns(found, last)
    return FoundRuns(found, last)


async def _listed(
    journal: Journal, wanted: StreamQuery, fits: RunFilter, after: str
) -> AsyncIterator[tuple[StreamRow | None, str]]:
    """Rows in their order, each with the place behind it. A last one without a row says that it ended."""
    place = row_place_at(after)
    by_touch = wanted.order == "touched"
    for _ in range(LOOKED_AT // _PAGE):
        rows = await journal.streams(wanted, place, _PAGE)
        for row in rows:
            place = row.place if by_touch else row.born
            if fits.since is not None and place[0] < fits.since:  # nothing behind it began later
                yield None, ""
                return
            yield row, cursor(place)
        if len(rows) < _PAGE:
            yield None, ""
            return


async def _searched(
    journal: Journal, wanted: StreamQuery, fits: RunFilter, after: str
) -> AsyncIterator[tuple[StreamRow | None, str]]:
    """The same of runs in which the words stand, those first where they were said last."""
    place = place_at(after, SearchPlace)
    words = fits.words[:LONGEST_WORDS]
    for _ in range(LOOKED_AT // _PAGE):
        page = await journal.search(words, wanted, _PAGE, place)
        for hit in page.hits:
            yield hit.row, cursor(hit.place)
        place = page.next
        yield None, "" if place is None else cursor(place)
        if place is None:
            return
