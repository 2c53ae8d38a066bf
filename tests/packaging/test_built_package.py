"""One file, installed into an empty environment: server, console, chat and lab work from it."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tidy import ROOT

PATIENCE = 100.0
"""Far longer than anything takes here, so that what hangs is told."""
WHEELS = ROOT / ".venv/wheels"
CLEAN = {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "COLUMNS": "80"}
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    _ran(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    [built] = folder.glob("turnbuckle-*.whl")
    return built


@pytest.mark.process
@pytest.mark.requirement("J8")
def test_the_package_holds_all_that_is_served_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    source = ROOT / "src"
    sources = {
        str(path.relative_to(source))
        for path in (source / "turnbuckle").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == sources


@pytest.mark.long(10)
@pytest.mark.process
@pytest.mark.requirement("J8")
def test_one_file_installed_into_an_empty_environment_serves_chats_runs_and_has_its_lab(
    wheel: Path, tmp_path: Path
):
    """One test, because installing is what costs."""
    place, folder = tmp_path / "empty", tmp_path / "work"
    folder.mkdir()
    _ran(sys.executable, "-m", "venv", "--without-pip", place)
    pip = (sys.executable, "-m", "pip", "--python", place / "bin/python")
    _ran(*pip, "install", "-qq", "--no-compile", "--no-index", "--find-links", WHEELS, wheel)
    turnbuckle = place / "bin/turnbuckle"
    with _served(turnbuckle, folder) as address:
        page = _get(f"{address}/").decode()
        assert "<title>" in page
        script = page.split('src="', 1)[1].split('"', 1)[0]
        assert _get(address + "/" + script.lstrip("/"))
        body = {"model": "agent", "messages": [{"role": "user", "content": "say good morning"}]}
        answer = json.loads(_get(f"{address}/v1/chat/completions", body))
        assert "good morning" in answer["choices"][0]["message"]["content"]
    assert "usable" in _ran(turnbuckle, "run", "say usable", cwd=folder)
    assert "usable" in _ran(turnbuckle, "chat", cwd=folder, typed="say usable\n")
    assert "reset-in-text" in _ran(turnbuckle, "lab", "cases", cwd=folder)


@pytest.mark.process
@pytest.mark.requirement("J8")
def test_the_container_is_linted_and_its_own_words_start_and_check_a_server(tmp_path: Path):
    programs = Path(sys.executable).parent
    _ran(programs / "hadolint", ROOT / "Containerfile")
    text = (ROOT / "Containerfile").read_text()
    health = json.loads(text.split("CMD ", 1)[1].split("\n", 1)[0])
    command = json.loads(text.rsplit("CMD ", 1)[1])
    assert "\nUSER 10001\n" in text
    with _served(programs / "turnbuckle", tmp_path, *command) as address:
        port = address.rsplit(":", 1)[1]
        _ran(sys.executable, *health[1:], environment={"TURNBUCKLE_SERVER__PORT": port})
    with pytest.raises(AssertionError):
        _ran(sys.executable, *health[1:], environment={"TURNBUCKLE_SERVER__PORT": port})


@contextmanager
def _served(program: Path, folder: Path, *command: str) -> Iterator[str]:
    """The address of a server with free choice of its port."""
    words = [str(program), *(command or ("serve",)), "--port", "0"]
    with subprocess.Popen(
        words, cwd=folder, env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().rsplit(" ", 1)[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def _get(address: str, body: object = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"})
    with _direct.open(request, timeout=PATIENCE) as answer:
        return bytes(answer.read())


def _ran(
    *words: str | Path, cwd: Path = ROOT, environment: dict[str, str] | None = None, typed: str = ""
) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**CLEAN, **(environment or {})},
        capture_output=True,
        text=True,
        input=typed,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
