"""What a store of objects promises. Bodies: `memory`, `folder`, `s3`. Whoever uses one knows only this file.

An object is a name and bytes. It is there whole, or not at all: what a broken upload leaves behind is seen by
nobody. Putting the same name again replaces it. Names are made by `object_key`: the stream that an object
belongs to, what it is there, and its own name. So all that a stream has is below one prefix, and goes with
it.

Nothing waits without a limit. What a caller must expect is raised as one of these:

    ObjectStoreError
    ├── ObjectMissing     there is no such object
    ├── StoreAway         it did not answer, or not in time; the same may work later
    ├── StoreFull         no room; works again when there is some
    └── StoreRefused      wrong keys, no such bucket, not allowed: somebody must repair the settings
"""

import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

Area = Literal["items", "kept", "changes"]
"""What an object is to its stream: a large value of the journal, a whole output of a tool, or a content of a
file that was changed."""
LONGEST_NAME = 200
"""Characters of a stream's name. One that is longer has no objects."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEX = "="


class ObjectStoreError(Exception):
    """The root of the tree that is drawn above. `passes`: whether the same may work later by itself."""

    passes = False


class ObjectMissing(ObjectStoreError):
    """There is no object of that name."""


class StoreAway(ObjectStoreError):
    """The store did not answer, or not in time."""

    passes = True


class StoreFull(ObjectStoreError):
    """There is no room."""

    passes = True


class StoreRefused(ObjectStoreError):
    """The store does not want to do it for us."""


class ObjectRow(Struct, frozen=True):
    """One object in a list. `modified` is told by the clock of the store."""

    key: str
    size: int
    modified: float


class ObjectStore(Protocol):
    """A store. Every method raises ObjectStoreError."""

    @property
    def shown(self) -> str:
        """Where it is, for people, without anything secret."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Store an object, as a whole, in place of one of the same name."""
        ...

    async def put_file(self, key: str, file: Path) -> None:
        """The same with the content of a file."""
        ...

    async def get(self, key: str, most: int) -> bytes:
        """The bytes of an object. One with more than `most` is refused."""
        ...

    async def get_file(self, key: str, file: Path) -> None:
        """The bytes of an object into a file, which appears whole or not at all."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects. Those that are not there are no error."""
        ...

    def listed(self, prefix: str = "") -> AsyncGenerator[ObjectRow, None]:
        """All objects whose names begin with a prefix of whole steps, in any order."""
        ...

    async def tidy(self, before: float) -> None:
        """Remove what uploads left behind that broke off before this moment."""
        ...

    async def close(self) -> None:
        """Let go of connections. May be called again."""
        ...


def object_key(stream: str, area: Area, name: str) -> str:
    """Where something of a stream lies."""
    return f"{prefix_of(stream)}{area}/{_step(name)}"


def prefix_of(stream: str) -> str:
    """What the names of all objects of a stream begin with."""
    return f"{_step(stream)}/"


def stream_of(key: str) -> str:
    """The stream that an object belongs to; empty if we did not make that name."""
    step, _, rest = key.partition("/")
    if not rest:
        return ""
    if not step.startswith(_HEX):
        return step
    try:
        return bytes.fromhex(step[1:]).decode()
    except ValueError:
        return ""


def area_of(key: str) -> str:
    """What an object is to its stream; empty if we did not make that name."""
    parts = key.split("/")
    return parts[1] if len(parts) == 3 else ""


def _step(name: str) -> str:
    """A name as a step of a path that every store takes as it is."""
    if _PLAIN.fullmatch(name):
        return name
    return _HEX + name.encode("utf-8", "surrogatepass").hex()
