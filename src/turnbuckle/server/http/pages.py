"""Lists that are too long for one answer. A cursor is the place of the last row that was shown, as text that
clients hand back without looking inside. What is touched while somebody turns pages moves to the front of the
list."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.journal.port import StreamRow
from turnbuckle.server.http.exchange import Problem, Query
from turnbuckle.server.http.openapi import Parameter

USUAL, MOST = 20, 100
T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """One page. `next` is what the next one is asked for with."""

    data: Sequence[T]
    has_more: bool = False
    next: str | int | None = None
    object: Literal["list"] = "list"


LIMIT = Parameter(
    "limit", "How many at most.", schema={"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL}
)
AFTER = Parameter("after", "Where the page before ended: its `next`.")


def limit_of(query: Query) -> int:
    return query.integer("limit", USUAL, least=1, most=MOST)


def place_of(query: Query) -> tuple[float, str] | None:
    """The place behind which the page begins. Raises Problem."""
    text = query.get("after", "")
    if not text:
        return None
    try:
        updated, name = msgspec.json.decode(
            urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=tuple[float, str]
        )
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise Problem(400, "after must be what an earlier page gave as next", param="after") from None
    return updated, name


def page(rows: Sequence[StreamRow], shown: Sequence[T], limit: int) -> Page[T]:
    """A page of the index. A full one may have another behind it."""
    more = len(rows) >= limit
    return Page(shown, more, _cursor(rows[-1]) if more else None)


def _cursor(row: StreamRow) -> str:
    return urlsafe_b64encode(msgspec.json.encode(row.place)).decode().rstrip("=")
