"""What nodes tell each other that none of them must remember: small values by name, the last one of each.

Who changes a value says which version of it they knew, so nobody overwrites what they have not seen. A value
comes with its age by one clock, that of the store, since no two machines' clocks are the same.
"""

from typing import Protocol

from msgspec import Struct


class Memo(Struct, frozen=True):
    """One value. `age` is how many seconds ago it was told."""

    name: str
    version: int
    data: bytes
    age: float


class Gossip(Protocol):
    """The values of all nodes, as one of them sees them. Raises StorageError."""

    async def heard(self) -> list[Memo]:
        """What others have told since this was asked last; at first all that there is. The same may come
        twice."""
        ...

    async def tell(self, name: str, data: bytes, after: int, *, urgent: bool = False) -> int:
        """Tell a value to the others, who hear of it within a quarter of a second, or at once if it is
        `urgent`. `after` is the version that is known here, 0 if none is. Gives the new version, and 0 if
        somebody told another one meanwhile."""
        ...
