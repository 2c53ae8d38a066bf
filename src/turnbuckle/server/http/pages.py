"""Lists that are too long for one answer.

What comes while somebody turns pages moves nothing that is still to come. In the order of the last touch,
what is touched meanwhile moves to the front, past whoever reads; in the order of creation everything that was
there comes once, and so it does in a search, which shows what was there when its first page was asked for.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from turnbuckle.journal.port import StreamOrder, StreamRow
from turnbuckle.server.http.exchange import Query
from turnbuckle.server.http.openapi import Parameter
from turnbuckle.service.cursors import cursor

USUAL, MOST = 20, 100
LIST_ORDERS = ("updated", "created")
T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """One page. `next` is what the next one is asked for with. A page of a search may hold fewer than were
    asked for, even none, and have a `next`: it looked at as much as one page looks at."""

    data: Sequence[T]
    has_more: bool = False
    next: str | None = None
    object: Literal["list"] = "list"


class NodesPage(Page[T], Generic[T], frozen=True):
    """One page of what several nodes have. `missing_nodes` are those that did not answer: what they alone
    know is not in it."""

    missing_nodes: Sequence[str] = ()


def with_missing(made: Page[T], nodes: Sequence[str]) -> NodesPage[T]:
    """The same page, and which nodes it knows nothing of."""
    return NodesPage(made.data, made.has_more, made.next, missing_nodes=nodes)


LIMIT = Parameter(
    "limit", "How many at most.", schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}
)
SHORT_LIMIT = Parameter(
    "limit", "How many at most.", schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": MOST}
)
"""For lists that rarely fill a page."""
AFTER = Parameter("after", "Where the page before ended: its `next`.")
ORDER = Parameter(
    "order",
    "`updated`: what was touched last comes first. `created`: the newest come first, and whoever reads all "
    "pages gets everything once, whatever is touched meanwhile.",
    schema={"type": "string", "enum": list(LIST_ORDERS), "default": "updated"},
)


def limit_of(query: Query) -> int:
    return query.integer("limit", USUAL, least=1, most=MOST)


def part_of(items: Sequence[T], name: Callable[[T], str], query: Query) -> Page[T]:
    """A page of a list that is at hand as a whole. `after` is the name of the last one that was seen. If that
    one is gone the list begins again, so that nothing is missed."""
    limit, after = query.integer("limit", MOST, least=1, most=MOST), query.get("after", "")
    start = next((at + 1 for at, item in enumerate(items) if name(item) == after), 0) if after else 0
    shown = items[start : start + limit]
    return Page(shown, True, name(shown[-1])) if start + limit < len(items) else Page(shown)


def order_of(query: Query) -> StreamOrder:
    return "newest" if query.word("order", LIST_ORDERS, "updated") == "created" else "touched"


def page(
    rows: Sequence[StreamRow], shown: Sequence[T], limit: int, order: StreamOrder = "touched"
) -> Page[T]:
    """A page of the index. A full one may have another behind it."""
    if len(rows) < limit:
        return Page(shown)
    return Page(shown, True, cursor(rows[-1].place if order == "touched" else rows[-1].born))
