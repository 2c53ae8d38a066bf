"""API keys: in the data folder, or in a database for all nodes. A key is shown once, when it is made; what is
kept is its hash.

A key is 256 random bits, so a plain SHA-256 hides it: there is nothing to guess, and looking one up costs a
hash and not a tenth of a second. The file changes by a rename, under a lock, so that the command line can
make and revoke keys while a server runs; the server looks at the file's stamp with every request. Revoked
keys stay in the file, so that their ids are never given again, and so that revoking the last key locks the
server instead of opening it.

Keys in a database are read when a server starts, when it hears that they have changed, and every minute
besides. A node hears of a change by a notification, and looks for one every quarter of a second. While the
database is away the keys that were good last are good.
"""

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from turnbuckle.errors import ConfigError
from turnbuckle.journal.keys import KEYS_CHANGED, Key, StoredKeys
from turnbuckle.runtime.gossip import News

FILE = "keys.json"
LOCK = "keys.lock"
PREFIX = "tb-"
OWNER = "owner"
"""Who owns a key of which nothing else is said, in the file or in the settings."""
MOST_KEYS = 10_000  # all are held in memory; whoever needs more keeps them somewhere else
_READ_EVERY = 60.0  # seconds; should a memo ever be missed
_NAME = re.compile(r"[\w .@:/+-]{1,100}")
_OWNER = re.compile(r"[A-Za-z0-9._-]{1,64}")


class _KeysInFile(Struct, frozen=True):
    version: int = 1
    keys: tuple[Key, ...] = ()


def hash_of(token: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def new_key(name: str, owner: str, now: float) -> tuple[Key, str]:
    """A key to be stored, and the key itself, which nobody can tell again. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError("a key's name has 1 to 100 letters, digits, spaces or any of . @ : / + - _")
    if not _OWNER.fullmatch(owner):
        raise ConfigError("an owner's name has 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    token = PREFIX + secrets.token_urlsafe(32)
    return Key(f"key_{secrets.token_hex(6)}", name, owner, hash_of(token), now), token


class KnownKeys(Protocol):
    """What a server asks of its keys. Raises ConfigError if they cannot be read."""

    def keys(self) -> tuple[Key, ...]:
        """All keys that were ever made."""
        ...

    def find(self, hashed: str) -> Key | None:
        """The key with this hash, if it is a good one at this moment."""
        ...


class KeyRing:
    """The keys of one node: those that all nodes have, and those in its own folder."""

    prefix = KEYS_CHANGED

    def __init__(self, file: "KeyFile", stored: StoredKeys, now: Callable[[], float]) -> None:
        self._file = file
        self._stored = stored
        self._now = now
        self._shared: tuple[Key, ...] = ()
        self._by_hash: dict[str, Key] = {}
        self._due_at = 0.0

    def keys(self) -> tuple[Key, ...]:
        return (*self._shared, *self._file.keys())

    def find(self, hashed: str) -> Key | None:
        key = self._by_hash.get(hashed)
        if key is not None:
            return None if key.revoked is not None else key
        return self._file.find(hashed)

    async def refresh(self) -> None:
        """Read them. Raises StorageError."""
        self._due_at = self._now() + _READ_EVERY
        try:
            self._shared = tuple(await self._stored.listed())
        except BaseException:
            self._due_at = 0.0  # a revocation that was heard of does not wait for a minute
            raise
        self._by_hash = {key.hash: key for key in self._shared}

    async def look(self) -> None:
        """Read them if they may have changed."""
        if self._now() >= self._due_at:
            await self.refresh()

    def hear(self, name: str, data: bytes, age: float) -> None:
        self._due_at = 0.0

    def news(self) -> Iterator[News]:
        return iter(())  # whoever changes them tells it

    def told(self, news: News) -> None:
        """Nothing was."""


class KeyFile:
    """The keys of one data folder. Raises ConfigError if the file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / FILE
        self._looked_at = str(self._path)  # with every request, and a `Path` makes a text of itself each time
        self._stamp: tuple[int, int, int] | None = None
        self._keys: tuple[Key, ...] = ()
        self._by_hash: dict[str, Key] = {}

    def keys(self) -> tuple[Key, ...]:
        """All keys that were ever made, the first one first."""
        self._refresh()
        return self._keys

    def find(self, hashed: str) -> Key | None:
        """The key with this hash, if it is a good one at this moment."""
        self._refresh()
        key = self._by_hash.get(hashed)
        return None if key is None or key.revoked is not None else key

    def create(self, name: str, owner: str, now: float) -> tuple[Key, str]:
        """Make a key. What is returned with it is the key itself, which nobody can tell again."""
        key, token = new_key(name, owner, now)
        with self._changing() as keys:
            if len(keys) >= MOST_KEYS:
                raise ConfigError(
                    f"there are {MOST_KEYS} keys already, which is the most that the file takes"
                )
            self._write((*keys, key))
        return key, token

    def revoke(self, key: str, now: float) -> Key:
        """Make a key worthless. One that is revoked stays as it is."""
        with self._changing() as keys:
            known = next((each for each in keys if each.id == key), None)
            if known is None:
                raise ConfigError(f"there is no key {key}; `turnbuckle keys list` shows them all")
            if known.revoked is None:
                known = msgspec.structs.replace(known, revoked=now)
                self._write(tuple(known if each.id == key else each for each in keys))
            return known

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._looked_at)
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except FileNotFoundError:
            if self._keys or self._stamp is not None:
                self._take((), None)
            return
        except OSError as error:
            raise self._unusable(error.strerror) from None
        if stamp != self._stamp:
            self._take(self._read(), stamp)

    def _take(self, keys: tuple[Key, ...], stamp: tuple[int, int, int] | None) -> None:
        self._keys, self._stamp = keys, stamp
        self._by_hash = {key.hash: key for key in keys}

    def _read(self) -> tuple[Key, ...]:
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_KeysInFile)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise self._unusable(error.strerror) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._unusable(str(error)) from None
        if kept.version != 1:
            raise self._unusable("a newer version wrote it")
        return kept.keys

    @contextmanager
    def _changing(self) -> Iterator[tuple[Key, ...]]:
        """The keys as they are, while nobody else changes them."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error.strerror) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._read()
        finally:
            os.close(lock)

    def _write(self, keys: tuple[Key, ...]) -> None:
        beside = self._path.with_suffix(".new")
        try:
            beside.unlink(missing_ok=True)
            opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(_KeysInFile(keys=keys))))
                file.flush()
                os.fsync(file.fileno())
            os.rename(beside, self._path)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unusable(error.strerror) from None

    def _unusable(self, why: str | None) -> ConfigError:
        return ConfigError(f"{self._path} cannot be used: {why}")
