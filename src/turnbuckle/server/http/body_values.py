"""How many values a JSON body holds, found out before it is decoded and a piece at a time.

Decoding makes an object of each value, so a few megabytes of `{},{},…` become a gigabyte and seconds in
which nobody else is served. A real request has few values and long strings. So values are counted first:
strings are passed over, commas and brackets outside of them are counted, and the count stops at its limit.
Whoever counts gets the event loop back after each piece. Nothing is judged here: what is not JSON is refused
by the decoder.
"""

import re
from collections.abc import Iterator

MOST_VALUES = 500_000
"""A conversation of 20,000 messages with parts and calls stays below half of it."""
SMALL = 1 << 20
"""A body of so many bytes is decoded at once, whatever is in it."""
_PIECE = 256 * 1024  # bytes of a string, and below the signs, that are read without a pause
_SIGNS = 20_000
_SIGN = re.compile(rb'["\[{,]')
_INSIDE = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_QUOTE = ord('"')


class TooManyValues(Exception):
    """The body holds more than it may."""


def counted(body: bytes, most: int = MOST_VALUES) -> Iterator[None]:
    """Count, and pause now and then by yielding. Raises TooManyValues."""
    place = values = signs = 0
    while place < len(body):
        sign = _SIGN.search(body, place, place + _PIECE)
        if sign is None:  # nothing but blanks, digits or what is not JSON at all
            place += _PIECE
            yield
            continue
        place = sign.end()
        signs += 1
        if signs % _SIGNS == 0:
            yield
        if body[sign.start()] != _QUOTE:
            values += 1
            if values > most:
                raise TooManyValues
            continue
        while place < len(body):
            inside = _INSIDE.match(body, place, place + _PIECE)
            assert inside is not None  # it also fits nothing at all
            place = inside.end()
            if body[place : place + 1] == b'"':
                place += 1
                break
            place += 2 if body[place : place + 1] == b"\\" else 0  # what stands behind it, torn by the piece
            yield
