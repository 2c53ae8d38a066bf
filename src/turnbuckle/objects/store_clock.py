"""What time it is by the clock that a store dates its objects with. No other clock says how old they are."""

from contextlib import suppress

from turnbuckle.objects.port import ObjectMissing, ObjectStore, StoreAway

CLOCK = "_turnbuckle/clock"
"""An object that is put, and taken away, to see its date."""
_TRIES = 5


async def time_of_store(store: ObjectStore) -> float:
    """Raises ObjectStoreError."""
    for _ in range(_TRIES):  # another node that looks at the same moment may take it away
        with suppress(ObjectMissing):  # and its folder
            await store.put(CLOCK, b"")
        beside = store.listed(f"{CLOCK.rpartition('/')[0]}/")
        dated = [row.modified async for row in beside if row.key == CLOCK]
        await store.delete([CLOCK])
        if dated:
            return dated[0]
    raise StoreAway(f"{store.shown} does not list what was just put there")
