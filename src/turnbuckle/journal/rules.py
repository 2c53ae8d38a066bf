"""What people have allowed for good, in a store that several nodes share."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class StoredRule(Struct, frozen=True):
    """One rule of one owner. `data` is the rule itself, for whoever judges by it."""

    id: str
    owner: str
    at: float
    data: bytes


class StoredRules(Protocol):
    """The rules of all owners. Each is a row of its own, so nodes that add at once lose nothing. Raises
    StorageError."""

    async def listed(self, owner: str | None) -> Sequence[StoredRule]:
        """Those of an owner, or of all; the oldest first."""
        ...

    async def add(self, rules: Sequence[StoredRule], most: int) -> None:
        """Store them, all or none. One that is there already counts as given now. Of each owner the newest
        `most` are kept."""
        ...

    async def remove(self, rule: str, owner: str | None) -> StoredRule | None:
        """Take one away, if this owner has it; None stands for all owners. None if there is no such rule."""
        ...

    async def close(self) -> None: ...
