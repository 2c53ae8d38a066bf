"""What a stored item is checked by: its bytes, its number, its stream, and for how many numbers it stands."""

from zlib import crc32

_SPREAD = 2654435761  # keeps the sums of equal items in neighbouring streams apart
_SPANS = 2246822519  # and those of items that stand for so many others
SUM_BITS = 32
SUM_MASK = 0xFFFFFFFF


def seed(key: int) -> int:
    """What the checksum of a stream's items begins with, without their number. The sum of an item that
    stands for no other is the CRC of its bytes from this and its number on."""
    return key * _SPREAD


def checksum(key: int, seq: int, data: bytes, span: int = 0) -> int:
    """`span` is how many numbers before its own an item stands for."""
    return crc32(data, (key * _SPREAD + seq + span * _SPANS) & SUM_MASK) | span << SUM_BITS
