"""Reading that goes on: everything after a cursor, then whatever comes. One way for every journal and every
reader.

The reader pulls. One that does not ask for more costs nothing but its cursor, and one that comes back goes on
from the last number it saw. The stream's own items say when it has ended; this loop never does by itself.
"""

from collections.abc import AsyncGenerator

from turnbuckle.journal.port import READ_LIMIT, Item, Reader


async def tail(
    journal: Reader, stream: str, after: int = 0, limit: int = READ_LIMIT
) -> AsyncGenerator[list[Item]]:
    """Lists of items, none of them empty, in order and without gaps."""
    while True:
        items = await journal.read(stream, after, limit)
        if items:
            after = items[-1].seq
            yield items
        else:
            await journal.wait(stream, after)


async def read_all(journal: Reader, stream: str, after: int = 0) -> AsyncGenerator[list[Item]]:
    """Everything that is there at this moment, page by page."""
    while items := await journal.read(stream, after):
        after = items[-1].seq
        yield items


async def items_of(journal: Reader, stream: str) -> list[Item]:
    """All items of a stream at this moment, for streams that are known to be short."""
    return [item async for page in read_all(journal, stream) for item in page]
