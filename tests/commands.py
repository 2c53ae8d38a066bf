"""The `turnbuckle` command as a real process, and a provider for it that lives in a thread of the test."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

import turnbuckle
from turnbuckle.journal.port import Wanted
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case
from turnbuckle.turn.facts import Fact, decode
from turnbuckle.vocab.ids import Protocol

SOURCE = str(Path(turnbuckle.__file__).parent.parent)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TURNBUCKLE_")}
ENVIRONMENT = {**CLEAN, "PYTHONPATH": SOURCE, "COLUMNS": "80", "NO_PROXY": "127.0.0.1"}


class Ran(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str


def start(folder: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """Start the command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "turnbuckle.cli.main", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(folder: Path, *arguments: str, **environment: str) -> Ran:
    """Run the command in a folder to its end."""
    with start(folder, *arguments, **environment) as process:
        out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def facts_of(folder: Path) -> list[Fact]:
    """All facts of the latest run, from the journal."""

    async def read() -> list[Fact]:
        reader = SqliteReader(folder / ".turnbuckle")
        latest = (await reader.streams(Wanted(kind="run"), limit=1))[0].name
        facts = [decode(item.data) async for items in read_all(reader, latest) for item in items]
        await reader.close()
        return facts

    return asyncio.run(read())


@contextmanager
def provider(case: Case | str) -> Iterator[Provider]:
    """A provider that answers from another thread while the test waits for its processes."""
    made = Provider(case)
    with in_thread(made):
        yield made


@contextmanager
def in_thread(made: Provider) -> Iterator[asyncio.AbstractEventLoop]:
    """A provider at work in a thread of its own, and the loop of that thread."""
    ready = threading.Event()
    stops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stopped = asyncio.Event()
        async with made:
            stops.append((asyncio.get_running_loop(), stopped))
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    loop, stopped = stops[0]
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)


def configure(folder: Path, url: str, protocol: Protocol = "openai_chat", more: str = "") -> None:
    """Settings with one route to the provider."""
    route = f'[[routes]]\nname = "lab"\nprotocol = "{protocol}"\nbase_url = "{url}/v1"\napi_key = "any"\nmodel = "m"\n'
    (folder / "turnbuckle.toml").write_text(f"{more}\n{route}")
