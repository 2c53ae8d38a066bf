"""Where a page ended, as text that clients hand back without looking inside."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TypeVar

import msgspec
from msgspec import Struct

from turnbuckle.errors import InvalidValue

T = TypeVar("T")


class RowPlace(Struct, frozen=True, array_like=True):
    """The place of a row in a list, in whatever order."""

    at: float
    name: str

    @property
    def pair(self) -> tuple[float, str]:
        return (self.at, self.name)


def cursor(place: object) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_at(text: str, kind: type[T]) -> T | None:
    """The place that a cursor stands for; None for an empty one. Raises InvalidValue."""
    if not text:
        return None
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=kind)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise InvalidValue("after must be what an earlier page gave as next", "after") from None


def row_place_at(text: str) -> tuple[float, str] | None:
    """The same for a list of rows."""
    place = place_at(text, RowPlace)
    return None if place is None else place.pair
