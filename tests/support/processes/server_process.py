"""`turnbuckle serve` as a process of its own, on a folder that outlives it, in front of a provider that lives in the
test's loop. It can be killed, asked to stop, and started again."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.processes.commands import accept, start
from support.processes.fork_server import ForkedProcess
from support.server.live_server import (
    PATIENCE,
    ApiClient,
    LabProvider,
    Model,
    lab_provider,
    place_in,
    run,
    settings_text,
)


class ServerProcess(ApiClient):
    """One server; `start` it again as often as you like. Its log is kept for whoever looks into a failure."""

    def __init__(self, folder: Path, behind: LabProvider, **settings: Any) -> None:
        super().__init__(0)
        self.folder = folder
        self.behind = behind
        self.work.mkdir()
        self.place = settings.pop("place", "") or place_in(folder)
        (folder / "turnbuckle.toml").write_text(settings_text(behind.lab.url, data=self.place, **settings))
        accept(folder)
        self._process: subprocess.Popen[str] | ForkedProcess | None = None

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    async def start(self, *before: str, **environment: str) -> None:
        """Returns when it listens. `before` are words in front of the command."""
        with (self.folder / "server.log").open("a") as log:
            self._process = await asyncio.to_thread(
                start, self.folder, "serve", "--port", "0", stderr=log, before=before, **environment
            )
        stdout = self._process.stdout
        assert stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await asyncio.to_thread(stdout.readline)
        assert line.startswith("Turnbuckle listens on http://127.0.0.1:"), self.log
        self.port = int(line.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def kill(self) -> None:
        """What `kill -9` does."""
        self.signal(signal.SIGKILL)
        assert await self.wait() == -signal.SIGKILL

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Its exit code, when it has one."""
        assert self._process is not None
        await asyncio.to_thread(self._process.communicate, timeout=PATIENCE)
        assert self._process.returncode is not None
        return self._process.returncode

    async def stop(self) -> int:
        """Stop it in good order."""
        self.signal(signal.SIGTERM)
        return await self.wait()

    async def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            await self.kill()


@asynccontextmanager
async def server_process(folder: Path, behind: LabProvider, **settings: Any) -> AsyncIterator[ServerProcess]:
    """A server that is gone when the block ends, whatever happens in it."""
    made = ServerProcess(folder, behind, **settings)
    try:
        yield made
    finally:
        await made.close()


def run_process_scenario(
    scenario: Callable[[ServerProcess], Awaitable[Any]], folder: Path, model: Model, **settings: Any
) -> Any:
    """Run a scenario with a server process that is not yet started, and give what the scenario gives."""

    async def main() -> Any:
        async with lab_provider(model) as behind, server_process(folder, behind, **settings) as server:
            return await scenario(server)

    return run(main())
