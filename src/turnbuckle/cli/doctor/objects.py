"""What `turnbuckle doctor` finds out about the object store: it is tried as a run would use it."""

import secrets
from collections.abc import Mapping

from turnbuckle.cli.doctor.finding import Finding
from turnbuckle.errors import ConfigError
from turnbuckle.objects.opening import open_objects
from turnbuckle.objects.port import ObjectStoreError, object_key
from turnbuckle.objects.settings import ObjectSettings

_ABOUT = "object store"
_COUNTED = 100_000
_TRIAL = b"turnbuckle doctor was here\n"


async def check_objects(settings: ObjectSettings, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """One object is stored, read, found in the list, and deleted."""
    try:
        store = open_objects(settings, environment)
    except ConfigError as error:
        return (Finding("wrong", _ABOUT, str(error), "Correct the settings under [objects]."),)
    if store is None:
        return ()
    key = object_key(f"doctor-{secrets.token_hex(6)}", "items", "trial")
    try:
        await store.put(key, _TRIAL)
        whole = await store.get(key, len(_TRIAL)) == _TRIAL
        count = size = 0
        is_listed = False
        async for row in store.listed():
            is_listed = is_listed or row.key == key
            count, size = count + 1, size + row.size
            if count >= _COUNTED:
                break
        await store.delete([key])
    except ObjectStoreError as error:
        fix = (
            "Large values stay in the journal meanwhile; those that are in the store cannot be read."
            if error.passes
            else "Correct objects.store, its endpoint, region and keys, or what these may do: put, get, "
            "list and delete."
        )
        return (Finding("wrong", _ABOUT, str(error), fix),)
    finally:
        await store.close()
    if not whole or not (is_listed or count >= _COUNTED):
        words = f"{store.shown} does not give back what it was given"
        return (Finding("wrong", _ABOUT, words, "Use another store: this one loses objects."),)
    more = "more than " if count >= _COUNTED else ""
    many = f"{more}{count - 1:,} objects, {size / 1e6:.1f} MB"
    return (Finding("ok", _ABOUT, f"{store.shown} stores, lists and deletes; it has {many}"),)
