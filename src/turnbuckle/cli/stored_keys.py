"""API keys for commands: in the data folder, or in the database that servers share.

A database has the keys of all nodes. Those in the folder beside it count at the node that has that folder,
and are listed and revoked, too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from turnbuckle.config import Loaded
from turnbuckle.errors import ConfigError
from turnbuckle.journal.address import is_database
from turnbuckle.journal.keys import Key, StoredKeys
from turnbuckle.journal.opening import keys_at
from turnbuckle.journal.port import JournalError
from turnbuckle.server.keys import MOST_KEYS, KeyFile, new_key

T = TypeVar("T")


def all_keys(loaded: Loaded) -> tuple[Key, ...]:
    """All keys that were ever made. Raises ConfigError."""
    kept = _file(loaded).keys()
    if not is_database(loaded.settings.data):
        return kept
    return (*(_in_database(loaded, lambda stored: stored.listed()) or ()), *kept)


def create_key(loaded: Loaded, name: str, owner: str) -> tuple[Key, str]:
    """Make a key. Gives it and the key itself, which nobody can tell again. Raises ConfigError."""
    if not is_database(loaded.settings.data):
        return _file(loaded).create(name, owner, time.time())
    key, token = new_key(name, owner, time.time())
    if not _in_database(loaded, lambda stored: stored.add(key, MOST_KEYS), makes=True):
        raise ConfigError(f"there are {MOST_KEYS} keys already, which is the most that there may be")
    return key, token


def revoke_key(loaded: Loaded, key: str) -> Key:
    """Make a key worthless. Raises ConfigError."""
    now = time.time()
    if is_database(loaded.settings.data):
        gone = _in_database(loaded, lambda stored: stored.revoke(key, now))
        if gone is not None:
            return gone
    return _file(loaded).revoke(key, now)


def _file(loaded: Loaded) -> KeyFile:
    return KeyFile(Path(loaded.settings.folder))


def _in_database(
    loaded: Loaded, act: Callable[[StoredKeys], Awaitable[T]], *, makes: bool = False
) -> T | None:
    async def main() -> T | None:
        stored = await keys_at(loaded.settings.data, makes=makes)
        if stored is None:
            return None
        try:
            return await act(stored)
        finally:
            await stored.close()

    try:
        return asyncio.run(main())
    except JournalError as error:
        raise ConfigError(f"the keys in the database cannot be used: {error}") from None
