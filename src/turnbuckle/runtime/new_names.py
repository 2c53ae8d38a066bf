"""Ids, and the chance in them. It is fetched from the system in larger pieces: a few bytes cost as much as
a thousand. Never for keys: what waits here could be read in a dump of this process."""

import os
import time
from functools import lru_cache

_PIECE = 1024
_waiting = b""
_taken = 0


def chance(size: int) -> str:
    """So many bytes of chance, in hex."""
    global _waiting, _taken  # noqa: PLW0603 - one supply for the process
    if _taken + size > len(_waiting):
        _waiting, _taken = os.urandom(max(_PIECE, size)), 0
    begin = _taken
    _taken += size
    return _waiting[begin:_taken].hex()


def new_name(kind: str) -> str:
    """A new id: it sorts by time, and so much of it is chance that no two of one second are ever alike."""
    return f"{kind}{_second(int(time.time()))}-{chance(6)}"


@lru_cache(1)
def _second(now: int) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))


def _forget() -> None:
    """Another process must not give the same ids."""
    global _waiting  # noqa: PLW0603
    _waiting = b""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
