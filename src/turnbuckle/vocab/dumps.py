"""What the rows of a dump stand for: `xxd`, `hexdump` and `od` show a file as numbers or single characters.

A secret in such a file is not there as a text, but it is there, over several rows. Rows that follow each
other are read back to bytes, each row with its place. Numbers of two and four bytes are read in both orders,
since `hexdump` and `od -x` show them as the machine holds them. `od` counts in octal by itself, `xxd -b` in
bits. Everything is in lower case.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_WORD = rb"(?:[0-9a-f]{8}|[0-9a-f]{4}|[0-9a-f]{2})"
_NUMBERS = re.compile(
    rb"[ \t]*(?:[0-9a-f]{6,16}:?[ \t]+)?(" + _WORD + rb"(?:[ \t]{1,2}" + _WORD + rb")*)(?![^\s|])"
)
_OCTAL = re.compile(rb"[ \t]*[0-7]{6,16}((?:[ \t]+[0-7]{3})+|(?:[ \t]+[0-7]{6})+)\s*$")
_BITS = re.compile(rb"[01]{8}")
_CHARACTERS = re.compile(rb"[ \t]*[0-9a-f]{6,16}((?: {3}[!-~]| {2}\\[0abfnrtv]| {4}| [0-7]{3})+)\s*$")
_ROW = re.compile(
    rb"^[ \t]*(?:[0-9a-f]{6,16}:?[ \t]+[0-9a-f]{2}|[0-9a-f]{2}(?: [0-9a-f]{2}){3}|[0-9a-f]{6,16} {2,64}\S)",
    re.MULTILINE,
)
_BEGUN = re.compile(
    rb"[ \t]*(?:[0-9a-f]{0,16}:?$|[0-9a-f]{6,16}:?[ \t]|[0-9a-f]{2}(?: [0-9a-f]{2})*(?: [0-9a-f]?)?$|"
    rb"[0-9a-f]{2}(?: [0-9a-f]{2}){3})"
)
_LONGEST_ROW = 2000
_HALF = 8  # bytes behind which `hexdump -C` leaves a wider gap


class Row(NamedTuple):
    """A row from `start` to `end`, and the bytes that it may stand for."""

    start: int
    end: int
    readings: tuple[bytes, bytes]


def spans(data: bytes, find: Callable[[bytes], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """The rows in which `find` finds something that they stand for."""
    found: list[tuple[int, int]] = []
    if _ROW.search(data) is None:
        return found
    for rows in _runs(data):
        for reading in (0, 1):
            whole = b"".join(row.readings[reading] for row in rows)
            for left, right in find(whole):
                found.append((_row_at(rows, left, reading).start, _row_at(rows, right - 1, reading).end))
    return found


def begun(data: bytes, begun_in: Callable[[bytes], int]) -> int:
    """How many bytes at the end of a text are rows that may go on to be something that `begun_in` knows the
    beginning of. A last row that is not whole yet belongs to them."""
    line = data.rfind(b"\n") + 1
    if line < len(data) and not _BEGUN.match(data, line):
        return 0
    last: list[Row] = []
    for rows in _runs(data[:line]) if _ROW.search(data, 0, line) else ():
        last = rows
    held = 0
    if last and last[-1].end == line - 1:
        for reading in (0, 1):
            whole = b"".join(row.readings[reading] for row in last)
            if count := begun_in(whole):
                held = max(held, len(data) - _row_at(last, len(whole) - count, reading).start)
    return held


def open_row(data: bytes) -> int:
    """How many bytes at the end of a text are the beginning of a row."""
    line = data.rfind(b"\n") + 1
    return len(data) - line if _BEGUN.match(data, line) else 0


def _runs(data: bytes) -> Iterator[list[Row]]:
    """Rows that follow each other without anything between."""
    rows: list[Row] = []
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        readings = _readings(data[start:end]) if end - start < _LONGEST_ROW else None
        if readings is not None:
            rows.append(Row(start, end, readings))
        elif rows:
            yield rows
            rows = []
        start = end + 1
    if rows:
        yield rows


def _readings(line: bytes) -> tuple[bytes, bytes] | None:
    if octal := _OCTAL.match(line):
        return _octal(octal[1].split())
    if shown := _CHARACTERS.match(line):
        cells = [shown[1][at : at + 4].strip() for at in range(0, len(shown[1]), 4)]
        text = b"".join(cell if len(cell) == 1 else b" " if not cell else b"\n" for cell in cells)
        return text, text
    numbers = _NUMBERS.match(line)
    if numbers is None:
        return None
    plain, turned = b"", b""
    words = re.findall(rb"([0-9a-f]+)([ \t]*)", numbers[1])
    in_bits = all(_BITS.fullmatch(word) for word, _ in words)
    for word, gap in words:
        value = bytes([int(word, 2)]) if in_bits else bytes.fromhex(word.decode())
        plain, turned = plain + value, turned + value[::-1]
        if len(gap) > 1 and len(plain) != _HALF:  # behind it stands the same as characters
            break
    return plain.lower(), turned.lower()


def _octal(words: list[bytes]) -> tuple[bytes, bytes] | None:
    """Bytes of three digits, or words of two bytes and six digits."""
    size = 1 if len(words[0]) == 3 else 2
    values = [int(word, 8) for word in words]
    if max(values) >= 1 << (8 * size):
        return None
    plain = b"".join(value.to_bytes(size, "big") for value in values)
    turned = b"".join(value.to_bytes(size, "little") for value in values)
    return plain.lower(), turned.lower()


def _row_at(rows: list[Row], place: int, reading: int) -> Row:
    for row in rows:
        place -= len(row.readings[reading])
        if place < 0:
            return row
    return rows[-1]
