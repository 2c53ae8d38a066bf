"""The floor: bytes from one socket to the other, unread. What a server in Python must cost at least.

python benchmarks/peers/splice.py PORT PROVIDER_PORT
"""

import asyncio
import sys
from typing import cast

import uvloop


class End(asyncio.Protocol):
    """One end of a joined pair."""

    def __init__(self, provider: int | None) -> None:
        self.provider = provider
        self.other: End | None = None
        self.transport: asyncio.Transport | None = None
        self.early: list[bytes] = []
        self.dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        if self.provider is not None:
            self.dialling = asyncio.create_task(self.dial(self.provider))

    async def dial(self, provider: int) -> None:
        _, far = await asyncio.get_running_loop().create_connection(lambda: End(None), "127.0.0.1", provider)
        far.other, self.other = self, far
        for data in self.early:
            far.data_received_from(data)
        self.early.clear()

    def data_received_from(self, data: bytes) -> None:
        if self.transport:
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self.other:
            self.other.data_received_from(data)
        else:
            self.early.append(data)

    def pause_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self.other and self.other.transport:
            self.other.transport.close()


async def main(port: int, provider: int) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: End(provider), "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
