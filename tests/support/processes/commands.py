"""The `turnbuckle` command as a real process, and a provider for it that lives in a thread of the test."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from support.processes.fork_server import ForkedProcess, ForkRequest, fork_server

import turnbuckle
from turnbuckle.config import load
from turnbuckle.journal.port import StreamQuery
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.journal.tail import read_all
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.runs import READING
from turnbuckle.trust import TrustStore, accept_data
from turnbuckle.turn.facts import Fact, decode
from turnbuckle.vocab.ids import ProtocolName, RunId, SessionId
from turnbuckle.vocab.messages import Message

SOURCE = str(Path(turnbuckle.__file__).parent.parent)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TURNBUCKLE_")}
ENVIRONMENT = {**CLEAN, "PYTHONPATH": SOURCE, "COLUMNS": "80", "NO_PROXY": "127.0.0.1"}
PATIENCE = 100.0
"""Far longer than anything takes that a test waits for, also where something else has the machine."""


class Ran(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str


def start(
    folder: Path,
    *arguments: str,
    stderr: IO[str] | None = None,
    before: tuple[str, ...] = (),
    **environment: str,
) -> "subprocess.Popen[str] | ForkedProcess":
    """Start the command in a folder. Its errors go into a pipe, or into a file. `before` are words in front of it."""
    if not before and all(name.startswith("TURNBUCKLE_") for name in environment):
        order = ForkRequest([*arguments], str(folder), {**ENVIRONMENT, **environment})
        return fork_server(os.getpid()).start(order, None if stderr is None else stderr.fileno())
    return subprocess.Popen(
        [*before, sys.executable, "-m", "turnbuckle.cli.main", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr or subprocess.PIPE,
        text=True,
    )


def command(folder: Path, *arguments: str, **environment: str) -> Ran:
    """Run the command in a folder to its end."""
    with start(folder, *arguments, **environment) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode is not None
    return Ran(process.returncode, out, err)


def facts_of(folder: Path) -> list[Fact]:
    """All facts of the latest run, from the journal."""

    async def read() -> list[Fact]:
        reader = SqliteReader(folder / ".turnbuckle")
        latest = (await reader.streams(StreamQuery(kind="run"), limit=1))[0].name
        facts = [decode(item.data) async for items in read_all(reader, latest) for item in items]
        await reader.close()
        return facts

    return asyncio.run(read())


def history_of(folder: Path, run: RunId, session: SessionId) -> tuple[Message, ...]:
    """The conversation as it stands behind a run."""

    async def read() -> tuple[Message, ...]:
        reader = SqliteReader(folder / ".turnbuckle")
        conversation = await Conversations(reader, READING).until(run, session)
        await reader.close()
        return conversation.messages

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
    assert ready.wait(PATIENCE)
    loop, stopped = stops[0]
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(PATIENCE)


def accept(folder: Path) -> None:
    """The settings of a folder are somebody's own, and so is what lies in its data folder."""
    file = folder / "turnbuckle.toml"
    loaded = load(file, folder=folder, environment={})
    TrustStore().accept(file, loaded.digest)
    accept_data(loaded)


def configure(folder: Path, url: str, protocol: ProtocolName = "openai_chat", more: str = "") -> None:
    """Settings with one route to the provider."""
    route = f'[[routes]]\nname = "lab"\nprotocol = "{protocol}"\nbase_url = "{url}/v1"\napi_key = "any"\nmodel = "m"\n'
    (folder / "turnbuckle.toml").write_text(f"{more}\n{route}")
