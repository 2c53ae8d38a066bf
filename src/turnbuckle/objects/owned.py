"""A store that belongs to one journal.

Whoever sweeps deletes what its own journal does not know. Two journals in one bucket would delete each
other's values. So the first that writes leaves its mark in the store, and whoever has another mark writes and
deletes nothing. Reading needs no mark.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path

from turnbuckle.objects.port import ObjectMissing, ObjectRow, ObjectStore, StoreRefused

OWNER = "_turnbuckle/journal"
"""The object that says whose the others are. No stream has objects there, so no sweep takes it."""
_LONGEST = 1000
_ANOTHERS = (
    "the objects in {} belong to another journal: give this one a prefix or a folder of its own in "
    "objects.store. If they are its own, since it was restored from an old copy, delete the object {} there"
)


class OwnedObjects:
    """`mark` gives the mark of the journal, and is asked when something is first written. It raises
    ObjectStoreError."""

    def __init__(self, store: ObjectStore, mark: Callable[[], Awaitable[str]]) -> None:
        self._store = store
        self._mark = mark
        self._is_ours = False

    @property
    def shown(self) -> str:
        return self._store.shown

    async def put(self, key: str, data: bytes) -> None:
        await self._require_ours()
        await self._store.put(key, data)

    async def put_file(self, key: str, file: Path) -> None:
        await self._require_ours()
        await self._store.put_file(key, file)

    async def get(self, key: str, most: int) -> bytes:
        return await self._store.get(key, most)

    async def get_file(self, key: str, file: Path) -> None:
        await self._store.get_file(key, file)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._require_ours()
        await self._store.delete(keys)

    def listed(self, prefix: str = "") -> AsyncGenerator[ObjectRow, None]:
        return self._store.listed(prefix)

    async def tidy(self, before: float) -> None:
        await self._store.tidy(before)

    async def close(self) -> None:
        await self._store.close()

    async def _require_ours(self) -> None:
        if self._is_ours:
            return
        mine = (await self._mark()).encode()
        try:
            found = await self._store.get(OWNER, _LONGEST)
        except ObjectMissing:
            await self._store.put(OWNER, mine)
            found = await self._store.get(OWNER, _LONGEST)
        if found != mine:
            raise StoreRefused(_ANOTHERS.format(self.shown, OWNER))
        self._is_ours = True
