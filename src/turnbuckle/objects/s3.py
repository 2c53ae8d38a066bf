"""Objects in any store that speaks the protocol of S3, through `obstore`.

The client retries what a retry can change, within our limit of time; what it says of a failure is cut down to
status and code, since answers of a store can repeat parts of a request.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from turnbuckle.objects.port import (
    ObjectMissing,
    ObjectRow,
    ObjectStoreError,
    StoreAway,
    StoreFull,
    StoreRefused,
)
from turnbuckle.objects.settings import S3Address

T = TypeVar("T")

_BYTES_A_SECOND = 1 << 20
"""What a line must bring at least: so much longer may a large object take."""
_LARGEST = 64 << 20
_PIECE = 1 << 20
_RETRIES = 2
_CODE = re.compile(r"<Code>\s*(\w{1,60})\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_KIND = re.compile(r"\bkind: (\w{1,30})")
_WORDS = {"Connect": "it cannot be reached", "Timeout": "it did not answer in time"}


class S3Objects:
    """A bucket, or what is below a prefix of it."""

    def __init__(self, address: S3Address, timeout: float) -> None:
        self._shown = address.shown
        self._timeout = timeout
        limit = timedelta(seconds=timeout)
        named = {
            "endpoint": address.endpoint,
            "region": address.region,
            "access_key_id": address.access_key,
            "secret_access_key": address.secret_key,
            "session_token": address.session_token,
        }
        self._store = S3Store(
            address.bucket,
            prefix=address.prefix or None,
            config={name: value for name, value in named.items() if value},  # type: ignore[arg-type]  # a subset
            client_options={
                "allow_http": address.endpoint.startswith("http://"),
                "connect_timeout": limit,
                "timeout": f"{int(client_seconds(timeout) * 1000)}ms",
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": limit},
            virtual_hosted_style_request=False,
        )

    @property
    def shown(self) -> str:
        return self._shown

    async def put(self, key: str, data: bytes) -> None:
        await self._do(key, lambda: obstore.put_async(self._store, key, data), len(data))

    async def put_file(self, key: str, file: Path) -> None:
        size = (await asyncio.to_thread(file.stat)).st_size
        await self._do(key, lambda: obstore.put_async(self._store, key, file), size)

    async def get(self, key: str, most: int) -> bytes:
        async def read() -> bytes:
            found = await obstore.get_async(self._store, key)
            if found.meta["size"] > most:
                raise StoreRefused(
                    f"the object {key} in {self.shown} has {found.meta['size']} bytes, and not {most}"
                )
            return bytes(await found.bytes_async())

        return await self._do(key, read, most)

    async def get_file(self, key: str, file: Path) -> None:
        pending = file.with_name(f".pending-{secrets.token_hex(6)}")

        async def read() -> None:
            found = await obstore.get_async(self._store, key)
            with await asyncio.to_thread(pending.open, "xb") as opened:
                pending.chmod(0o600)
                async for piece in found.stream(min_chunk_size=_PIECE):
                    await asyncio.to_thread(opened.write, memoryview(piece))

        try:
            await self._do(key, read, _LARGEST)
            pending.replace(file)
        finally:
            pending.unlink(missing_ok=True)

    async def delete(self, keys: Sequence[str]) -> None:
        if keys:
            try:
                await self._do(keys[0], lambda: obstore.delete_async(self._store, list(keys)), 0)
            except ObjectMissing:
                return

    async def listed(self, prefix: str = "") -> AsyncGenerator[ObjectRow, None]:
        pages = obstore.list(self._store, prefix.rstrip("/") or None)
        while (page := await self._do(prefix, lambda: anext(pages, None), 0)) is not None:
            for found in page:
                yield ObjectRow(found["path"], found["size"], found["last_modified"].timestamp())

    async def tidy(self, before: float) -> None:
        """Parts of uploads that broke off are not objects; a rule of the bucket removes them."""

    async def close(self) -> None:
        """The client lets go of its connections by itself."""

    async def _do(self, key: str, work: Callable[[], Awaitable[T]], size: int) -> T:
        seconds = seconds_for(size, self._timeout)
        try:
            async with asyncio.timeout(seconds):
                return await work()
        except TimeoutError:
            raise StoreAway(
                f"the object store {self.shown} did not answer within {seconds:.0f} seconds"
            ) from None
        except FileNotFoundError as error:
            raise self._missing(key, str(error)) from None
        except (BaseError, OSError) as error:
            raise self._told(error) from None

    def _missing(self, key: str, text: str) -> ObjectStoreError:
        if _code(text) == "NoSuchBucket":
            return StoreRefused(f"the object store {self.shown}: there is no such bucket")
        return ObjectMissing(f"there is no object {key} in {self.shown}")

    def _told(self, error: Exception) -> ObjectStoreError:
        text = str(error)
        status, code, kind = _found(_STATUS, text), _code(text), _found(_KIND, text)
        words = ", ".join(filter(None, (f"status {status}" if status else "", code))) or _WORDS.get(kind, "")
        why = f"the object store {self.shown}: {words or 'the request failed'}"
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in ("400", "401", "403"):
            return StoreRefused(f"{why}; are its keys, region and bucket right?")
        if code == "NoSuchBucket":
            return StoreRefused(f"{why}: there is no such bucket")
        return StoreFull(why) if status == "507" or "QuotaExceeded" in code else StoreAway(why)


def seconds_for(size: int, timeout: float) -> float:
    """How long something with so many bytes may take."""
    return timeout + size / _BYTES_A_SECOND


def client_seconds(timeout: float) -> float:
    """The client's own limit is the same for all requests, and has to let the largest body through."""
    return seconds_for(_LARGEST, timeout)


def _code(text: str) -> str:
    return _found(_CODE, text)


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""
