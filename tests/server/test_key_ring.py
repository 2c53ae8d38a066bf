"""The keys of all nodes, as one of them has them in memory."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.port import StorageError
from turnbuckle.server.keys import KeyFile, KeyRing, hash_of, new_key


@pytest.mark.requirement("K7")
def test_a_revocation_is_read_with_the_next_look_if_the_database_was_away_at_the_first(tmp_path: Path):
    async def main():
        bench = await PostgresBench().open()
        try:
            async with asyncio.timeout(100):
                stored = bench.journal.nodes.keys
                key, token = new_key("n", "ann", 1.0)
                await stored.add(key, 9)
                ring = KeyRing(KeyFile(tmp_path), stored, lambda: 5.0)
                await ring.look()
                good = ring.find(hash_of(token))
                await stored.revoke(key.id, 2.0)
                ring.hear(ring.prefix, b"", 0.0)
                bench.server.sql(f"ALTER TABLE {bench.schema}.api_key RENAME TO away")
                with pytest.raises(StorageError):
                    await ring.look()
                bench.server.sql(f"ALTER TABLE {bench.schema}.away RENAME TO api_key")
                still = ring.find(hash_of(token))
                await ring.look()
                return (
                    good == still == key,
                    ring.find(hash_of(token)),
                    ring.keys() == (replace(key, revoked=2.0),),
                )
        finally:
            await bench.close()

    assert asyncio.run(main()) == (True, None, True)
