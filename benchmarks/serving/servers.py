"""The servers under test: how each is started, and who takes part.

Every server gets a folder of its own, a port, and the same provider. Each peer has a venv of its own below
`.venv-peers`, as their versions of one package do not agree; one that is not installed is left out with a
word why. Settings are the kindest to the peer: one worker, logs and telemetry off, no limits on streams.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from serving.contender import HERE, KEY, MODEL, Contender
from serving.processes import free_port, stop
from serving.script import Script

ROOT = HERE.parent
PEERS = ROOT / ".venv-peers"
PATIENCE = 120.0


class Start(NamedTuple):
    command: list[str]
    environment: dict[str, str]


class NotRunning(Exception):
    """The server cannot take part; the words say why."""


class Recipe(NamedTuple):
    python: Path
    start: Callable[[Path, Path, int, int], Start]  # python, folder, port, the provider's port
    distribution: str | None = None


def splice(python: Path, folder: Path, port: int, provider: int) -> Start:
    return Start([str(python), str(HERE / "peers" / "splice.py"), str(port), str(provider)], {})


def proxy(python: Path, folder: Path, port: int, provider: int) -> Start:
    return Start([str(python), str(HERE / "peers" / "proxy.py"), str(port), str(provider)], {})


def floor(python: Path, folder: Path, port: int, provider: int) -> Start:
    return Start([str(python), str(HERE / "peers" / "floor.py"), str(port), str(provider)], {})


def naive(python: Path, folder: Path, port: int, provider: int) -> Start:
    return Start([str(python), str(HERE / "peers" / "naive.py"), str(port), str(provider)], {})


def litellm(python: Path, folder: Path, port: int, provider: int) -> Start:
    route = {"model": "openai/bench", "api_base": f"http://127.0.0.1:{provider}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": "bench", "litellm_params": route}],
        "litellm_settings": {"telemetry": False, "num_retries": 0},
    }
    (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    command = [
        str(python.parent / "litellm"),
        "--config",
        "config.yaml",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    quiet = {"LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    quiet |= {"AIOHTTP_CONNECTOR_LIMIT": "5000", "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "5000"}
    quiet["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    return Start([*command, "--num_workers", "1"], {**quiet, "PYTHONWARNINGS": "ignore"})


def hermes(python: Path, folder: Path, port: int, provider: int) -> Start:
    model = {
        "default": "bench",
        "provider": "custom",
        "base_url": f"http://127.0.0.1:{provider}/v1",
        "api_key": "none",
        "context_length": 200_000,
    }
    settings = {"model": model, "gateway": {"api_server": {"max_concurrent_runs": 0}}}
    (folder / "config.yaml").write_text(json.dumps(settings))
    environment = {
        "HERMES_HOME": str(folder),
        "HOME": str(folder),
        "API_SERVER_ENABLED": "true",
        "API_SERVER_KEY": KEY,
        "API_SERVER_PORT": str(port),
        "API_SERVER_HOST": "127.0.0.1",
    }
    return Start([str(python.parent / "hermes"), "gateway", "run"], environment)


def turnbuckle(python: Path, folder: Path, port: int, provider: int) -> Start:
    (folder / "turnbuckle.toml").write_text(
        f'[[routes]]\nname = "bench"\nprotocol = "openai_chat"\nmodel = "bench"\n'
        f'base_url = "http://127.0.0.1:{provider}/v1"\n\n[server]\nport = {port}\n'
        "requests_per_minute = 0\nmax_runs = 5000\nmax_runs_per_owner = 5000\n"
    )
    return Start([str(python.parent / "turnbuckle"), "serve"], {})


RECIPES = {
    "splice": Recipe(Path(sys.executable), splice),
    "proxy": Recipe(Path(sys.executable), proxy),
    "floor": Recipe(Path(sys.executable), floor),
    "turnbuckle": Recipe(Path(sys.executable), turnbuckle, "turnbuckle"),
    "naive": Recipe(PEERS / "naive/bin/python", naive, "openai"),
    "litellm": Recipe(PEERS / "litellm/bin/python", litellm, "litellm"),
    "hermes": Recipe(PEERS / "hermes/bin/python", hermes, "hermes-agent"),
}


def why_not(name: str) -> str:
    """Why it cannot take part; empty if it can. The reason of a failed set-up lies beside the venv."""
    if RECIPES[name].python.exists():
        return ""
    reason = PEERS / f"{name}.reason"
    return reason.read_text().strip() if reason.exists() else "not installed; make bench-server installs it"


def version(name: str) -> str:
    recipe = RECIPES[name]
    if recipe.distribution is None:
        return ""
    code = f"import importlib.metadata as m; print(m.version({recipe.distribution!r}))"
    return subprocess.run(
        [recipe.python, "-c", code], capture_output=True, text=True, check=False
    ).stdout.strip()


def said(port: int, request: bytes) -> bytes:
    """What comes back until `[DONE]` or the end; nothing if nobody listens yet."""
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(request)
            while b"[DONE]" not in received and (more := connection.recv(65536)):
                received += more
    except OSError:
        return received
    return received


class Provider:
    """The provider's process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "serving.provider"]
        self.process = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        stop(self.process)


class Server:
    """A server's process. `seconds` is the time from its start to the end of its first whole answer."""

    def __init__(self, name: str, folder: Path, provider: int) -> None:
        folder.mkdir(parents=True)
        recipe = RECIPES[name]
        self.name, self.port = name, free_port()
        start = recipe.start(recipe.python, folder, self.port, provider)
        self.log = folder / "output"
        started = time.perf_counter()
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                start.command,
                cwd=folder,
                env={**os.environ, **start.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            self.seconds = self._first_answer(started)
        except BaseException:
            self.stop()
            raise

    def _first_answer(self, started: float) -> float:
        asked = Contender(self.name, self.port, MODEL, self.process.pid).request(Script(1))
        while time.perf_counter() - started < PATIENCE and self.process.poll() is None:
            if b"[DONE]" in said(self.port, asked):
                return time.perf_counter() - started
            time.sleep(0.003)
        raise NotRunning(f"it does not answer: {self.last_words()}")

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else ""

    def stop(self) -> None:
        stop(self.process)
