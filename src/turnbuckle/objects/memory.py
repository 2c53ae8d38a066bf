"""Objects in the memory of this process, for tests and simulated worlds; and the store of those who have
none."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from turnbuckle.objects.port import ObjectMissing, ObjectRow, StoreFull, StoreRefused


class MemoryObjects:
    """A store that forgets everything with its process."""

    shown = "memory"

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._objects: dict[str, tuple[bytes, float]] = {}
        self.room = math.inf
        """Bytes that may still be put."""

    async def put(self, key: str, data: bytes) -> None:
        if len(data) > self.room:
            raise StoreFull(f"there is no room in {self.shown}")
        self.room -= len(data)
        self._objects[key] = bytes(data), self._wall()

    async def put_file(self, key: str, file: Path) -> None:
        await self.put(key, await asyncio.to_thread(file.read_bytes))

    async def get(self, key: str, most: int) -> bytes:
        if key not in self._objects:
            raise ObjectMissing(f"there is no object {key} in {self.shown}")
        data = self._objects[key][0]
        if len(data) > most:
            raise StoreRefused(f"the object {key} in {self.shown} has {len(data)} bytes, and not {most}")
        return data

    async def get_file(self, key: str, file: Path) -> None:
        await asyncio.to_thread(file.write_bytes, await self.get(key, 1 << 62))

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._objects.pop(key, None)

    async def listed(self, prefix: str = "") -> AsyncGenerator[ObjectRow, None]:
        for key, (data, modified) in list(self._objects.items()):
            if key.startswith(prefix):
                yield ObjectRow(key, len(data), modified)

    async def tidy(self, before: float) -> None:
        """Nothing here is ever half stored."""

    async def close(self) -> None:
        """There is nothing to let go of."""


class NoObjects(MemoryObjects):
    """Where no store is set: nothing is there, but others may have one."""

    shown = "no store"

    async def get(self, key: str, most: int) -> bytes:
        raise StoreRefused(
            "this value is in an object store, and this server has none: set objects.store here as elsewhere"
        )
