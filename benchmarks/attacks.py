"""How long `/healthz` takes by the clock while the server is attacked: `python benchmarks/attacks.py`.

The attacks are those of the suite. The server, a bare server that only answers, and whoever asks both are
processes of their own. The bare server is asked at the same moments, so its column shows what the machine
itself had no time for; the first row shows both at rest.
"""

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.attacks import SERVER, TOOLS, attacks, hostile_model, hostile_pages, provoke

EVERY = 0.01
REST = 3.0
_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Prober:
    """Asks all the while, from a process of its own. `longest` gives the longest answer of each port since it
    was called last, in seconds."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports

    async def __aenter__(self) -> "Prober":
        words = [__file__, "--probe", *map(str, self._ports)]
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await self._process.wait()

    async def longest(self) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return [float(word) for word in (await self._process.stdout.readline()).split()]


def probe(ports: Sequence[int]) -> None:
    """The process of a prober: asks each port by turns, and tells when a line comes."""
    os.set_blocking(0, False)
    lines = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    longest = [0.0] * len(ports)
    while True:
        for place, line in enumerate(lines):
            began = time.monotonic()
            line.sendall(_REQUEST)
            if not line.recv(65536).startswith(b"HTTP/1.1 200"):
                raise SystemExit("something else than 200")
            longest[place] = max(longest[place], time.monotonic() - began)
        try:
            asked = os.read(0, 1)
        except BlockingIOError:
            asked = b""
        if asked:
            print(*longest, flush=True)
            longest = [0.0] * len(ports)
        time.sleep(EVERY)


async def bare() -> None:
    """A server that does nothing but answer. It prints its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_ANSWER)

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


async def measured(server: ServerProcess, only: Sequence[str]) -> None:
    provoke(server.work)
    await server.start()
    pipe = asyncio.subprocess.PIPE
    floor = await asyncio.create_subprocess_exec(sys.executable, __file__, "--bare", stdout=pipe)
    assert floor.stdout is not None
    try:
        port = int(await floor.stdout.readline())
        async with hostile_pages() as pages, Prober((server.port, port)) as prober:
            print("| attack | it took, s | longest `/healthz`, ms | a bare server meanwhile, ms |")
            print("|---|---|---|---|")
            await asyncio.sleep(0.5)
            await prober.longest()
            await asyncio.sleep(REST)
            _tell("none", REST, await prober.longest())
            for name, attack in attacks(pages).items():
                if only and not any(word in name for word in only):
                    continue
                began = time.monotonic()
                await attack(server)
                _tell(name, time.monotonic() - began, await prober.longest())
    finally:
        floor.kill()
        await floor.wait()


def _tell(name: str, seconds: float, longest: list[float]) -> None:
    print(f"| {name} | {seconds:.1f} | {longest[0] * 1e3:.0f} | {longest[1] * 1e3:.0f} |", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["--probe", *ports]:
            probe([int(port) for port in ports])
        case ["--bare"]:
            asyncio.run(bare())
        case only:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                run_process_scenario(
                    lambda server: measured(server, only), folder, hostile_model, tools=TOOLS, server=SERVER
                )


if __name__ == "__main__":
    main()
