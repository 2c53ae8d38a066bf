"""Landlock by its system calls: from here on this process, and all that comes from it, reaches the named
folders and nothing else. Standard library only, and no compiled part.

What a kernel can restrict grows with its version (`abi`); what it does not know is left out here, and
`choose.py` says so. Rights go down a tree and cannot be taken back below, so nothing inside a folder that may
be written can be kept from being written.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICES = 1 << 13, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1
_MAKE_DEVICES = (1 << 6) | (1 << 11)
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICES
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
TRUNCATES, SCOPES = 3, 6
"""The versions from which on truncation, and signals to others, are seen."""


def abi() -> int:
    """What this kernel's Landlock knows; 0 if there is none."""
    return max(_syscall(_CREATE_RULESET, None, 0, _VERSION), 0)


def restrict(read: Iterable[str], write: Iterable[str], version: int) -> None:
    """Let this process read and run what lies in some folders, and change what lies in others, and see no
    other file. What is not there is left out. Raises OSError. Whoever calls this has given up new rights."""
    handled = _FIRST | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= TRUNCATES else 0)
    handled |= _DEVICES if version >= 5 else 0
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= SCOPES else 0
    size = 8 if version < 4 else 16 if version < SCOPES else 24
    ruleset = _checked(_syscall(_CREATE_RULESET, struct.pack("QQQ", handled, 0, scoped)[:size], size, 0))
    try:
        for path in read:
            _allow(ruleset, path, _EXECUTE | _READ | _LIST)
        for path in write:
            _allow(ruleset, path, handled & ~_MAKE_DEVICES & ~_DEVICES)
        _checked(_syscall(_RESTRICT_SELF, ruleset, 0, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there, or not ours to see, needs no right
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        _checked(_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_libc = ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: object) -> int:
    _libc.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *given))
