"""Objects as files of a folder that all nodes see, such as a network share.

An object is written beside its place under a name that nobody looks at, brought to the disk, and then
renamed. The disk is asked in threads of our own that nobody waits for when the process ends: a share whose
server is gone answers no one, and must not take along what works.
"""

import asyncio
import errno
import os
import secrets
import shutil
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from turnbuckle.objects.port import (
    ObjectMissing,
    ObjectRow,
    ObjectStoreError,
    StoreAway,
    StoreFull,
    StoreRefused,
)

T = TypeVar("T")

_PENDING = ".pending-"
_MOST_AT_ONCE = 8
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class FolderObjects:
    """The folder must be there: a share that is not mounted must not become a folder of this machine."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self._folder = folder
        self._timeout = timeout
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)

    @property
    def shown(self) -> str:
        return str(self._folder)

    async def put(self, key: str, data: bytes) -> None:
        await self._do(lambda: self._write(key, lambda file: file.write_bytes(data)))

    async def put_file(self, key: str, file: Path) -> None:
        await self._do(lambda: self._write(key, lambda target: shutil.copyfile(file, target)))

    async def get(self, key: str, most: int) -> bytes:
        def read() -> bytes:
            with (self._folder / key).open("rb") as opened:
                return opened.read(most + 1)

        data = await self._do(read)
        if len(data) > most:
            raise StoreRefused(f"the object {key} in {self.shown} has more than {most} bytes")
        return data

    async def get_file(self, key: str, file: Path) -> None:
        def copy() -> None:
            pending = file.with_name(f"{_PENDING}{secrets.token_hex(6)}")
            try:
                shutil.copyfile(self._folder / key, pending)
                pending.chmod(0o600)
                pending.replace(file)
            finally:
                pending.unlink(missing_ok=True)

        await self._do(copy)

    async def delete(self, keys: Sequence[str]) -> None:
        def remove() -> None:
            for key in keys:
                file = self._folder / key
                file.unlink(missing_ok=True)
                for folder in (file.parent, file.parent.parent):
                    with suppress(OSError):  # something else is there
                        if folder != self._folder:
                            folder.rmdir()

        await self._do(remove)

    async def listed(self, prefix: str = "") -> AsyncGenerator[ObjectRow, None]:
        for row in await self._do(lambda: self._rows(prefix)):
            yield row

    async def tidy(self, before: float) -> None:
        def remove() -> None:
            for place, _, names in os.walk(self._folder):
                for name in names:
                    file = Path(place, name)
                    with suppress(FileNotFoundError):  # another node was quicker
                        if name.startswith(_PENDING) and file.stat().st_mtime < before:
                            file.unlink()

        await self._do(remove)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _write(self, key: str, fill: Callable[[Path], object]) -> None:
        file = self._folder / key
        if not self._folder.is_dir():
            raise StoreAway(f"the folder of the object store, {self.shown}, is not there")
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pending = file.with_name(f"{_PENDING}{secrets.token_hex(6)}")
        try:
            pending.touch(0o600)
            fill(pending)
            with pending.open("rb") as opened:
                os.fsync(opened.fileno())
            pending.replace(file)
        finally:
            pending.unlink(missing_ok=True)
        for folder in (file.parent, file.parent.parent, self._folder):
            opened_folder = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened_folder)
            finally:
                os.close(opened_folder)

    def _rows(self, prefix: str) -> list[ObjectRow]:
        if not self._folder.is_dir():
            raise StoreAway(f"the folder of the object store, {self.shown}, is not there")
        rows = []
        for place, _, names in os.walk(self._folder / prefix):
            for name in names:
                with suppress(FileNotFoundError):  # it went meanwhile
                    if not name.startswith(_PENDING):
                        found = os.stat(os.path.join(place, name))
                        key = os.path.relpath(os.path.join(place, name), self._folder)
                        rows.append(ObjectRow(key, found.st_size, found.st_mtime))
        return rows

    async def _do(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self._timeout):
                await self._room.acquire()
                return await _in_thread(work, self._room.release)
        except TimeoutError:
            raise StoreAway(
                f"the object store {self.shown} did not answer within {self._timeout:g} seconds"
            ) from None
        except FileNotFoundError as error:
            raise ObjectMissing(f"there is no such object in {self.shown}: {error.filename}") from None
        except OSError as error:
            raise self._told(error) from error

    def _told(self, error: OSError) -> ObjectStoreError:
        why = f"the object store {self.shown}: {error.strerror or error}"
        if error.errno in _FULL:
            return StoreFull(why)
        return StoreRefused(why) if error.errno in _REFUSED else StoreAway(why)


async def _in_thread(work: Callable[[], T], ended: Callable[[], None]) -> T:
    """Work in a thread that the end of the process does not wait for. `ended` is called when the thread is
    done, however long after its caller gave up: threads that a dead share holds must not become more."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        ended()
        if not done.done():
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # it is what the work gave
            else:
                done.set_exception(error)

    def run() -> None:
        result, fault = None, None
        try:
            result = work()
        except BaseException as error:
            fault = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, fault)

    try:
        threading.Thread(target=run, name="objects", daemon=True).start()
    except RuntimeError as error:  # the machine gives no more of them
        ended()
        raise OSError(errno.EAGAIN, str(error)) from error
    return await done
