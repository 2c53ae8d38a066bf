"""A connection pooler between us and the database is refused with words: one that is imitated, and pgbouncer itself where
it is installed."""

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from support.postgres.pooler import IGNORED, pgbouncer, pooled
from support.postgres.server import address_by, new_schema, shared_server, socket_in
from support.processes.folder_in_memory import short_folder

from turnbuckle.journal.port import StorageFailed
from turnbuckle.journal.postgres.journal import open_postgres
from turnbuckle.lab.network import NetworkProxy


def other_numbers(data):
    """A pooler calls the server's processes by numbers of its own."""
    at = data.find(b"K\0\0\0\x0c")
    return data if at < 0 else data[: at + 5] + b"\0\0\0\x01" + data[at + 9 :]


def no_settings(data):
    """And pgbouncer takes only few settings of a session, unless it is told to ignore the others."""
    if not data.startswith(b"R"):
        return data
    words = b"SFATAL\0C08P01\0Munsupported startup parameter: search_path\0\0"
    return b"E" + (len(words) + 4).to_bytes(4, "big") + words


@asynccontextmanager
async def imitated(changed: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    async with NetworkProxy(socket_in(shared_server().folder), changed=changed) as line:
        yield address_by(line, new_schema())


@asynccontextmanager
async def real(program: str, mode: str, ignored: str) -> AsyncIterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="tbpb-", dir=short_folder()) as folder,
        pooled(program, shared_server().folder, Path(folder), mode=mode, ignored=ignored) as place,
    ):
        yield place


Pooler = Callable[[], AbstractAsyncContextManager[str]]
POOLERS: dict[str, Pooler] = {
    "it has numbers of its own": functools.partial(imitated, other_numbers),
    "it takes no settings": functools.partial(imitated, no_settings),
}
if (program := pgbouncer()) is not None:
    POOLERS |= {
        f"pgbouncer, by {mode}, {told}": functools.partial(real, program, mode, ignored)
        for mode in ("transaction", "session")
        for told, ignored in (("as it comes", ""), ("told to ignore settings", IGNORED))
    }


@pytest.mark.requirement("K1")
@pytest.mark.parametrize("pooler", POOLERS)
def test_a_pooler_is_refused_with_words(pooler):
    async def main():
        async with POOLERS[pooler]() as place:
            with pytest.raises(StorageFailed, match=r"pooler.*name the database server itself"):
                await open_postgres(place)
            return True

    assert asyncio.run(asyncio.wait_for(main(), 100))
