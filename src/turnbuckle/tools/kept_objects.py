"""Files that tools leave for a run, in a store that every node reaches: whole outputs, and contents of
changed files.

They are written on this machine first. When the call is over, and before its result is stored, they go to the
store; so a run that goes on at another node finds what its results speak of. What could not be stored is
tried again with the next sweep (`catch_up`). A file that is asked for and not here is brought from the store,
and then lies here as if it had been made here.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from turnbuckle.objects.port import (
    ObjectMissing,
    ObjectStore,
    ObjectStoreError,
    object_key,
    prefix_of,
)
from turnbuckle.tools.private import private_folder

log = logging.getLogger("turnbuckle.objects")

KeptArea = Literal["kept", "changes"]
AREAS: tuple[KeptArea, ...] = ("kept", "changes")
RESTS = 15.0
"""Seconds in which a store that failed is not asked to take anything."""
_NAMED = re.compile(
    r"(?:^|/)kept/(?P<run>[A-Za-z0-9][\w.-]{0,127})/(?P<name>[\w-]{1,40}-[0-9a-f]{12}\.txt)\b"
)
_RUN = re.compile(r"(?:^|/)kept/+(?P<run>[A-Za-z0-9][\w.-]{0,127})")
_LOOKED_AT = 20_000  # characters of one argument in which names are looked for
_MOST_NAMED = 20


def kept_names(text: str) -> Iterator[tuple[str, str]]:
    """The runs and names of whole outputs that a text speaks of, wherever their node keeps them."""
    for found, _ in zip(_NAMED.finditer(text[:_LOOKED_AT]), range(_MOST_NAMED), strict=False):
        yield found["run"], found["name"]


def kept_runs(arguments: Mapping[str, Any]) -> set[str]:
    """The runs whose whole outputs the arguments of a call may speak of."""
    runs: set[str] = set()
    for text in arguments.values():
        if isinstance(text, str):
            named = zip(_RUN.finditer(text[:_LOOKED_AT]), range(_MOST_NAMED), strict=False)
            runs.update(found["run"] for found, _ in named)
    return runs


class KeptObjects:
    """The files of all runs of one node, in the folder `data`."""

    def __init__(
        self, store: ObjectStore, data: Path, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._data = data
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._rests_until = 0.0

    async def stored(self, run: str, files: Iterable[tuple[KeptArea, str]]) -> bool:
        """Store what a call has left. False if that did not work: then it is here alone."""
        for area, name in files:
            if self._monotonic() < self._rests_until:
                return False
            try:
                await self._store.put_file(object_key(run, area, name), self._data / area / run / name)
            except (ObjectStoreError, OSError) as error:
                self._rests_until = self._monotonic() + RESTS
                log.warning("what the run %s keeps is on this machine alone: %s", run, error)
                return False
        return True

    async def bring(self, run: str, area: KeptArea, name: str) -> bool:
        """Have a file here. False if it is neither here nor in the store. Raises ObjectStoreError."""
        file = self._data / area / run / name
        if file.exists():
            return True
        try:
            private_folder(file.parent, self._data)
            await self._store.get_file(object_key(run, area, name), file)
        except ObjectMissing:
            with suppress(OSError):  # others of the run are there
                file.parent.rmdir()
            return False
        except OSError as error:
            log.warning("%s cannot be brought here: %s", file.name, error)
            return False
        return True

    async def bring_named(self, arguments: Mapping[str, Any], may_read: Callable[[str], bool]) -> None:
        """Have here what the arguments of a call speak of, if it may be read. Raises ObjectStoreError."""
        for text in arguments.values():
            for run, name in kept_names(text) if isinstance(text, str) else ():
                if may_read(run):
                    await self.bring(run, "kept", name)

    def bring_now(self, run: str, area: KeptArea, name: str) -> bool:
        """The same as `bring`, from another thread than that of the loop."""
        return asyncio.run_coroutine_threadsafe(self.bring(run, area, name), self._loop).result()

    async def catch_up(self) -> int:
        """Store what could not be stored when it was made. Returns how many files. Raises
        ObjectStoreError."""
        count = 0
        for area in AREAS:
            for run, names in (await asyncio.to_thread(_files_in, self._data / area)).items():
                there = {row.key async for row in self._store.listed(prefix_of(run))}
                missing = [(area, name) for name in names if object_key(run, area, name) not in there]
                if missing and await self.stored(run, missing):
                    count += len(missing)
        return count


def _files_in(folder: Path) -> dict[str, list[str]]:
    """By runs: the names of their files."""
    if not folder.is_dir():
        return {}
    return {
        run.name: sorted(file.name for file in os.scandir(run) if file.is_file())
        for run in os.scandir(folder)
        if run.is_dir()
    }
