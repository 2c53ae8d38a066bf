"""A folder with settings, a server process on it, and a provider behind it, for tests that are not coroutines: those that
drive a browser or a terminal. The server keeps its port when it is started again, since pages come back to an address,
and nobody else can have it meanwhile.

The provider answers from a thread. What it says is a function of its request, and it can wait at a `gate` (see
live_server) until the test opens it: so "in the middle of a stream" is a place, and not a matter of speed.
"""

import asyncio
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.processes.commands import accept, in_thread, start
from support.processes.fork_server import ForkedProcess
from support.processes.reserved_port import reserved_port
from support.server.live_server import Gates, Model, settings_text

from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case

PATIENCE = 100.0
"""Far longer than anything here takes, so that what hangs is told as what it is."""
_LOOK = 0.05
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def until(holds: Callable[[], Any], told: Callable[[], object] = lambda: "") -> Any:
    """Wait until something holds that nobody announces, and give what it gave; `told` is shown if it never does."""
    never = threading.Event()
    for _ in range(int(PATIENCE / _LOOK)):
        if found := holds():
            return found
        never.wait(_LOOK)
    raise AssertionError(f"that never happened; instead: {told()}")


class RequestRefused(Exception):
    """The server's refusal of a request."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode('utf-8', 'replace')}")
        self.status = status


class ServedFolder:
    """`start` the server as often as you like. Its log is kept for whoever looks into a failure."""

    def __init__(self, folder: Path, port: int, settings: str = "", key: str = "") -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.key = key
        self.behind: ThreadedLab
        self._port = port
        self._process: subprocess.Popen[str] | ForkedProcess | None = None
        (folder / "turnbuckle.toml").write_text(settings or 'workspace = "work"\n')
        accept(folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def start(self, **environment: str) -> "ServedFolder":
        """Returns when it listens."""
        with (self.folder / "server.log").open("a") as log:
            self._process = start(self.folder, "serve", "--port", str(self._port), stderr=log, **environment)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("Turnbuckle listens on "):
                return self
        raise AssertionError(f"the server ended with {self._process.wait()}: {self.log}")

    def kill(self) -> None:
        """What `kill -9` does."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=PATIENCE)

    def stop(self) -> int:
        """Stop it in good order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=PATIENCE)
        return self._process.wait()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request with a JSON answer. Raises Asked for a refusal."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else msgspec.json.encode(body)
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with _direct.open(request, timeout=PATIENCE) as answer:
                return msgspec.json.decode(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise RequestRefused(error.code, error.read()) from None

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def begin(self, text: str, **more: Any) -> str:
        """Begin a run that nobody reads, and give its id."""
        return str(self.ask("POST", "/v1/runs", {"input": text, **more})["id"])

    def say(self, session: str, text: str) -> str:
        """Say something in a session, and give the id of the run that answers."""
        return str(self.ask("POST", f"/v1/sessions/{session}/messages", {"input": text})["id"])

    def run(self, run: str) -> dict[str, Any]:
        """A run as it stands."""
        return dict(self.get(f"/v1/runs/{run}"))

    def ended(self, run: str) -> dict[str, Any]:
        """Wait for a run's end, and give it as it stands then."""
        until(lambda: self.run(run)["outcome"] is not None, lambda: self.run(run))
        return self.run(run)


class ThreadedLab:
    """The provider behind a server, and its gates."""

    def __init__(self, provider: Provider, gates: Gates, loop: asyncio.AbstractEventLoop) -> None:
        self.provider = provider
        self._gates = gates
        self._loop = loop

    @property
    def url(self) -> str:
        return self.provider.url

    def open(self, number: int) -> None:
        self._loop.call_soon_threadsafe(self._gates.open, number)

    def asked(self, count: int) -> None:
        """Wait until it was asked so often."""
        until(lambda: len(self.provider.requests) >= count, lambda: len(self.provider.requests))


@contextmanager
def lab_in_thread(model: Model) -> Iterator[ThreadedLab]:
    """A provider that says what the model says, in a thread of its own."""
    gates = Gates()
    made = Provider(Case("scenario", "what the test wants", ((model,),)), clock=gates)
    with in_thread(made) as loop:
        yield ThreadedLab(made, gates, loop)


def lab_settings(url: str, **settings: Any) -> str:
    """The settings of a server in front of that provider."""
    return settings_text(url, **{"gap": 60, **settings})


def versioned(folder: Path) -> None:
    """Make a folder a git work tree, as a project is: changes of files are not asked about there."""
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


@contextmanager
def served(folder: Path, settings: str = "", key: str = "", **environment: str) -> Iterator[ServedFolder]:
    """A server that is gone when the block ends, whatever happens in it."""
    versioned(folder)
    with reserved_port() as port:
        made = ServedFolder(folder, port, settings, key)
        try:
            yield made.start(**environment)
        finally:
            made.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ServedFolder]]:
    """Start a server in the test's folder. It is gone when the test ends, after those who look at it."""
    with ExitStack() as stack:

        def start(
            settings: str = "", *, model: Model | None = None, key: str = "", **more: Any
        ) -> ServedFolder:
            """With a `model` there is a provider behind it that says what the model says, and `more` are settings; else
            `more` is the environment."""
            if model is None:
                return stack.enter_context(served(tmp_path, settings, key, **more))
            behind = stack.enter_context(lab_in_thread(model))
            server = stack.enter_context(served(tmp_path, lab_settings(behind.url, **more), key))
            server.behind = behind
            return server

        yield start
