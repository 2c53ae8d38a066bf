"""A store of objects that fails, lies or hangs when a test says so."""

import asyncio
from pathlib import Path

from turnbuckle.objects.memory import MemoryObjects
from turnbuckle.objects.port import ObjectStoreError


class FaultyObjects(MemoryObjects):
    """`fault` is raised by whatever is asked, `lie` is given in place of every object, and while `gate` is there
    uploads wait for it. `asked` counts uploads that were tried."""

    def __init__(self) -> None:
        super().__init__(wall=lambda: self.now)
        self.now = 1_000_000.0
        self.fault: ObjectStoreError | None = None
        self.lie: bytes | None = None
        self.gate: asyncio.Event | None = None
        self.asked = 0

    async def put(self, key: str, data: bytes) -> None:
        self.asked += 1
        self._fail()
        if self.gate is not None:
            await self.gate.wait()
        await super().put(key, data)

    async def get(self, key: str, most: int) -> bytes:
        self._fail()
        return await super().get(key, most) if self.lie is None else self.lie

    async def get_file(self, key: str, file: Path) -> None:
        self._fail()
        await super().get_file(key, file)

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault
