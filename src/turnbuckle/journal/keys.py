"""API keys as they are stored: never the key itself, only its hash."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

KEYS_CHANGED = "keys"
"""The name of the memo by which nodes hear that keys were made or revoked."""


class Key(Struct, frozen=True):
    """One key, without the key. Revoked ones are kept, so that their ids are never given again."""

    id: str
    name: str
    owner: str
    hash: str
    created: float
    revoked: float | None = None


class StoredKeys(Protocol):
    """The keys of a store that several nodes share. Raises StorageError."""

    async def listed(self) -> Sequence[Key]:
        """All that were ever made, the first one first."""
        ...

    async def add(self, key: Key, most: int) -> bool:
        """Store a key. False if there are as many as `most` already."""
        ...

    async def revoke(self, key: str, now: float) -> Key | None:
        """Make a key worthless; one that is revoked stays as it is. None if there is none of this id."""
        ...

    async def close(self) -> None: ...
