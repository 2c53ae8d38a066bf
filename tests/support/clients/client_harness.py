"""Other people's clients in front of the real server, and the lab's provider behind it. Fixtures for tests/clients.

The clients live in two processes, one of Python and one of Node (tests/clients/python, tests/clients/node), that take
one job after the other. The server is a process too, with a real journal. All three last for the whole session of a
worker, since to start them costs more than all they do.
"""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from support.clients.client_scenarios import ScenarioModel, marks
from support.processes.commands import ENVIRONMENT, accept, provider, start

from turnbuckle.lab.provider import Provider, Received

CLIENTS = Path(__file__).parents[2] / "clients"
NODE_PACKAGES = CLIENTS / "node" / "node_modules"
NODE = Path(sys.executable).parent / "node"
PYTHON_CLIENTS = frozenset({"openai-python", "openai-python-async", "pydantic-ai", "openai-agents"})
PATIENCE = 100.0
AGENTS = frozenset({"pydantic-ai", "openai-agents"})
"""Clients that keep a history of their own and hold only the last message for the answer."""
OFFICIAL = frozenset({"openai-python", "openai-python-async", "openai-node"})
"""Clients that hand on all that was sent, also what only we send."""
_ALL_WAYS = ("plain", "stream", "helper")
_TWO_WAYS = ("plain", "stream")
_OFFICIAL = [(client, way) for client in sorted(OFFICIAL) for way in _ALL_WAYS]
_FRAMEWORKS = [
    (client, way) for client in ("pydantic-ai", "openai-agents", "ai-sdk-openai") for way in _TWO_WAYS
]
ON_CHAT = [*_OFFICIAL, *_FRAMEWORKS, *(("ai-sdk-compatible", way) for way in _TWO_WAYS)]
ON_RESPONSES = [*_OFFICIAL, *_FRAMEWORKS]
_QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "DO_NOT_TRACK": "1"}

SETTINGS = """
workspace = "work"
data = "data"

[server]
port = 0
hold_status = 0
keepalive = 0.2
noop = 0.3

[recovery]
stream_retries = 0

[[routes]]
name = "lab"
protocol = "openai_chat"
base_url = "{url}/v1"
api_key = "any"
model = "m"
# A stalled stream is silent for longer than the server is: every client sees its signs of life. A busy machine
# may be silent for a second.
stall = {{ gap = 2.5 }}
"""


class Failed(msgspec.Struct, frozen=True):
    """What a client raised or reported."""

    kind: str
    message: str
    status: int | None = None
    code: Any = None


class Seen(msgspec.Struct, frozen=True):
    """What a user of a client saw; the fields are told in tests/clients/python/seen.py."""

    text: str
    final: str | None
    reasoning: str
    calls: list[dict[str, str]]
    ran: list[str]
    shown: list[str]
    finish: str | None
    usage: dict[str, int] | None
    chunks: int
    numbers: list[int]
    outcome: str | None
    error: Failed | None
    key: str = ""


class Driver:
    """One process that runs clients."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, env={**ENVIRONMENT, **_QUIET}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._line()

    def carry_out(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(job).decode() + "\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE)

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"{self._process.args!r} ended with {self._process.wait()}"
        made: dict[str, Any] = msgspec.json.decode(line)
        return made


class ClientHarness:
    """A server with its provider, and whoever asks it."""

    def __init__(self, url: str, lab: Provider, work: Path) -> None:
        self.url = url
        self.base_url = f"{url}/v1"
        self.work = work
        self._lab = lab
        self._drivers: dict[str, Driver] = {}

    def ask(
        self,
        client: str,
        surface: str,
        way: str,
        scenario: str,
        *,
        model: str = "agent",
        tools: bool = False,
        **more: Any,
    ) -> Seen:
        """One turn by one client, or several if the client runs tools of its own."""
        key = more.pop("key", None) or new_key()
        job = {
            "client": client,
            "surface": surface,
            "way": way,
            "base_url": self.base_url,
            "api_key": "any",
            "model": model,
            "tools": tools,
            "prompt": prompt(scenario, key),
            **more,
        }
        return msgspec.convert({**self._driver(client).carry_out(job), "key": key}, Seen)

    def upstream(self, key: str) -> list[Received]:
        """The requests that the provider got because of one prompt."""
        return [
            request
            for request in tuple(self._lab.requests)
            if key in {mark[1] for mark in marks(request.body)}
        ]

    def note(self, key: str) -> str | None:
        """What the server's tool wrote for that prompt."""
        path = self.work / f"{key}.txt"
        return path.read_text() if path.exists() else None

    def close(self) -> None:
        for driver in self._drivers.values():
            driver.close()

    def _driver(self, client: str) -> Driver:
        language = "python" if client in PYTHON_CLIENTS else "node"
        if language not in self._drivers:
            self._drivers[language] = _python_driver() if language == "python" else _node_driver()
        return self._drivers[language]


def new_key() -> str:
    """A key that no other prompt has."""
    return uuid.uuid4().hex[:12]


def prompt(scenario: str, key: str) -> str:
    return f"scenario {scenario} {key}: What is a turnbuckle?"


def _python_driver() -> Driver:
    return Driver(sys.executable, "-W", "ignore", str(CLIENTS / "python" / "drive.py"))


def _node_driver() -> Driver:
    if not NODE.exists() or not NODE_PACKAGES.exists():
        pytest.fail(
            "the Node clients are not there: scripts/set-up-clients fetches them, and needs a network", False
        )
    return Driver(str(NODE), str(CLIENTS / "node" / "drive.mjs"))


class Server:
    """`turnbuckle serve` as a process. What it logs is kept for whoever looks into a failure."""

    def __init__(self, folder: Path, settings: str) -> None:
        (folder / "work").mkdir()
        (folder / "turnbuckle.toml").write_text(settings)
        accept(folder)
        self.log = folder / "server.log"
        with self.log.open("w") as log:
            self._process = start(folder, "serve", stderr=log)
        assert self._process.stdout is not None
        self.url = self._address(self._process.stdout)

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=PATIENCE)
        return self._process.wait()

    def _address(self, printed: IO[str]) -> str:
        for line in printed:
            if "http://" in line:
                return "http://" + line.split("http://")[1].split()[0].rstrip("/")
        raise AssertionError(f"the server ended with {self._process.wait()}: {self.log.read_text()}")


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientHarness]:
    """One server and one provider for all clients of a worker."""
    folder = tmp_path_factory.mktemp("served")
    with provider(ScenarioModel().case()) as lab:
        server = Server(folder, SETTINGS.format(url=lab.url))
        harness = ClientHarness(server.url, lab, folder / "work")
        yield harness
        harness.close()
        code = server.stop()
    assert code == 0, server.log.read_text()
