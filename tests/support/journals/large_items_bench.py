"""A bench whose journal has every item in a store of objects."""

import math
from pathlib import Path

from support.journals.journal_benches import MemoryBench

from turnbuckle.journal.large_items import LargeItems, LargeItemsJournal
from turnbuckle.journal.port import Journal
from turnbuckle.objects.memory import MemoryObjects


class LargeItemsBench(MemoryBench):
    """The objects outlive a process, and what has more than a byte is large."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.objects = MemoryObjects(wall=self.time.wall)
        self._wrapped = self._around()

    @property
    def journal(self) -> Journal:
        return self._wrapped

    @property
    def large(self) -> LargeItemsJournal:
        return self._wrapped

    def _around(self) -> LargeItemsJournal:
        return LargeItemsJournal(self.memory, LargeItems(self.objects, 1, self.time.now), is_known=True)

    async def kill(self) -> None:
        await super().kill()
        self._wrapped = self._around()

    def fill(self) -> None:
        super().fill()
        self.objects.room = 0

    def make_room(self) -> None:
        super().make_room()
        self.objects.room = math.inf

    async def close(self) -> None:
        await self._wrapped.close()
