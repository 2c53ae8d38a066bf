"""A journal around another one: everything is handed on, and whoever extends it changes what it must."""

from collections.abc import Sequence

from turnbuckle.journal.port import (
    EVERY_STREAM,
    READ_LIMIT,
    SEARCH_LIMIT,
    Changes,
    Claim,
    Grade,
    Held,
    IndexUpdate,
    Item,
    Journal,
    Landed,
    Merge,
    SearchPage,
    SearchPlace,
    StreamQuery,
    StreamRow,
    Take,
    Trouble,
)


class WrappedJournal:
    """A journal that does what the one inside does."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def read(self, stream: str, after: int = 0, limit: int = READ_LIMIT) -> list[Item]:
        return await self._journal.read(stream, after, limit)

    async def head(self, stream: str) -> int:
        return await self._journal.head(stream)

    async def wait(self, stream: str, after: int, take: Take | None = None) -> None:
        await self._journal.wait(stream, after, take)

    async def streams(
        self, wanted: StreamQuery = EVERY_STREAM, after: tuple[float, str] | None = None, limit: int = 50
    ) -> list[StreamRow]:
        return await self._journal.streams(wanted, after, limit)

    async def search(
        self,
        words: str,
        wanted: StreamQuery = EVERY_STREAM,
        limit: int = SEARCH_LIMIT,
        after: SearchPlace | None = None,
    ) -> SearchPage:
        return await self._journal.search(words, wanted, limit, after)

    async def append(
        self,
        stream: str,
        items: Sequence[bytes],
        *,
        after: int,
        epoch: int,
        grade: Grade,
        note: IndexUpdate | None = None,
    ) -> int:
        return await self._journal.append(stream, items, after=after, epoch=epoch, grade=grade, note=note)

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        return False  # whoever extends it sees every append

    async def claim(self, stream: str, owner: str, seconds: float, *, begins: bool = False) -> Claim | Held:
        return await self._journal.claim(stream, owner, seconds, begins=begins)

    async def renew(self, claim: Claim, seconds: float) -> bool:
        return await self._journal.renew(claim, seconds)

    async def release(self, claim: Claim) -> None:
        await self._journal.release(claim)

    def still_mine(self, claim: Claim) -> bool:
        return self._journal.still_mine(claim)

    async def note(self, stream: str, note: IndexUpdate) -> None:
        await self._journal.note(stream, note)

    async def merge(self, stream: str, merges: Sequence[Merge]) -> bool:
        return await self._journal.merge(stream, merges)

    async def drop(self, stream: str) -> bool:
        return await self._journal.drop(stream)

    async def look(self) -> None:
        await self._journal.look()

    def trouble(self) -> Trouble | None:
        return self._journal.trouble()

    async def change_all(self, changes: Changes) -> bool:
        return await self._journal.change_all(changes)

    async def close(self) -> None:
        await self._journal.close()
