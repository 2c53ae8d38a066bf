"""What all worker processes count, whichever of them is asked.

Prometheus asks the one address that they share, and any of them may answer. Each listens on a socket in a
private folder and tells its numbers to whoever connects. The one that was asked puts those of all together,
each with the number of its worker.
"""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

PATIENCE = 3.0
"""Seconds that a worker has to tell its numbers: more than it waits for a database that hangs. One that does
not is told as down."""
_LONGEST = 80  # bytes of a folder's name; the kernel takes 104 to 108 for the address of a socket
_MOST = 16 << 20
_UP = (
    "# HELP turnbuckle_worker_up 1 if the worker process told its numbers, 0 if it did not.\n"
    "# TYPE turnbuckle_worker_up gauge\n"
)

Numbers = Callable[[], Awaitable[bytes]]


class NumberSockets:
    """A socket for each worker, made by their parent, which keeps them while workers come and go."""

    def __init__(self, count: int) -> None:
        usual = tempfile.gettempdir()
        place = usual if len(os.fsencode(usual)) <= _LONGEST else "/tmp"  # noqa: S108
        self.folder = Path(tempfile.mkdtemp(prefix="turnbuckle-", dir=place))  # nobody else may look into it
        self._sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(count)]
        for worker, made in enumerate(self._sockets):
            made.bind(str(self._path(worker)))
            made.listen()
            made.setblocking(False)

    def close(self) -> None:
        for made in self._sockets:
            made.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def serve(self, worker: int, numbers: Numbers) -> asyncio.Server:
        """Tell the numbers of this worker to whoever asks."""

        async def tell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                writer.write(await numbers())
                await writer.drain()
            except ConnectionError:
                pass  # whoever asked did not wait for it
            finally:
                writer.close()

        own = self._sockets[worker].dup()
        if sys.version_info >= (3, 13):  # there a server takes its address with it, which the next one needs
            return await asyncio.start_unix_server(tell, sock=own, cleanup_socket=False)
        return await asyncio.start_unix_server(tell, sock=own)

    async def all(self, worker: int, own: bytes) -> bytes:
        """The numbers of this worker and of the others."""
        others = [each for each in range(len(self._sockets)) if each != worker]
        told = dict(zip(others, await asyncio.gather(*map(self._ask, others)), strict=True))
        return joined([own if each == worker else told[each] for each in range(len(self._sockets))])

    async def _ask(self, worker: int) -> bytes | None:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_unix_connection(str(self._path(worker)), limit=_MOST)
                try:
                    return await reader.read(-1) or None
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return None

    def _path(self, worker: int) -> Path:
        return self.folder / str(worker + 1)


def joined(pages: Sequence[bytes | None]) -> bytes:
    """Pages in the text format of Prometheus as one, each line with the worker that it is from."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for worker, page in enumerate(pages, 1):
        heads, lines = families.setdefault("", ([], []))
        for line in (page or b"").decode().splitlines():
            if line.startswith("# HELP "):
                heads, lines = families.setdefault(line.split(" ", 3)[2], ([], []))
                heads[:] = [line]
            elif line.startswith("#"):
                heads[1:] = [line]
            else:
                lines.append(_labelled(line, worker))
    ups = [
        f'turnbuckle_worker_up{{worker="{worker}"}} {int(page is not None)}'
        for worker, page in enumerate(pages, 1)
    ]
    rows = [line for heads, lines in families.values() for line in (*heads, *lines)]
    return (_UP + "\n".join((*ups, *rows)) + "\n").encode()


def _labelled(line: str, worker: int) -> str:
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{worker="{worker}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{worker="{worker}"}} {value}'
