"""A relay between a journal and its Postgres, that can lose what one of them says, cut the line, or pose as a pooler."""

import asyncio
import tempfile
from pathlib import Path

_PORT = 5432


class Relay:
    """Listens in a folder of its own as a server would, and hands everything on to the one in `target`.

    `deaf`: answers of the server are lost from here on. `pools`: the server's processes are called by other numbers, as
    a pooler calls them."""

    def __init__(self, target: Path, *, pools: bool = False) -> None:
        self.deaf = False
        self.swallowed = asyncio.Event()
        self.folder = Path(tempfile.mkdtemp(prefix="tbrelay-", dir="/tmp"))
        self._target = target
        self._pools = pools
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> "Relay":
        self._server = await asyncio.start_unix_server(self._serve, str(self.folder / f".s.PGSQL.{_PORT}"))
        return self

    def cut(self) -> None:
        """Every connection ends in the middle of whatever is said."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        (self.folder / f".s.PGSQL.{_PORT}").unlink(missing_ok=True)
        self.folder.rmdir()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(str(self._target / f".s.PGSQL.{_PORT}"))
        self._writers |= {writer, back}
        for task in (
            asyncio.ensure_future(self._hand_on(reader, back, answers=False)),
            asyncio.ensure_future(self._hand_on(there, writer, answers=True)),
        ):
            self._tasks.add(task)

    async def _hand_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        while data := await source.read(1 << 16):
            if answers and self.deaf:
                self.swallowed.set()
                continue
            if answers and self._pools and (at := data.find(b"K\0\0\0\x0c")) >= 0:
                data = data[: at + 5] + b"\0\0\0\x01" + data[at + 9 :]
            target.write(data)
        target.close()
