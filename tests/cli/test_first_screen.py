"""What a person sees when the server starts: on a terminal a few lines that help, in a pipe the address alone."""

import logging
import os
import pty
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes.commands import ENVIRONMENT

from turnbuckle.cli.first_screen import Quieter, browser_command, first_screen, open_browser, reachable
from turnbuckle.config import load
from turnbuckle.tools.sandbox.port import Holds

ADDRESS = "http://127.0.0.1:8765"
LANDLOCK = Holds("landlock")
"""The longest words."""


def _screen(folder: Path, text: str = "", *, needs_key: bool = False) -> str:
    (folder / "turnbuckle.toml").write_text(text)
    loaded = load(folder=folder, environment={})
    return "\n".join(first_screen(ADDRESS, loaded, needs_key=needs_key, sandbox=LANDLOCK.words))


@pytest.mark.requirement("H1")
def test_with_the_rehearsal_model_it_says_so_and_names_something_to_watch(tmp_path: Path) -> None:
    told = _screen(tmp_path)
    assert f"{ADDRESS}/\n" in told
    assert f"{ADDRESS}/v1 " in told
    assert f"{ADDRESS}/?try=stall" in told
    assert "needs no key and no network" in told
    assert "turnbuckle init" in told
    assert "Sandbox  landlock: commands see" in told
    assert "can be ended" in told
    assert max(map(len, told.splitlines())) <= 80


def test_with_a_real_model_it_says_which(tmp_path: Path) -> None:
    told = _screen(
        tmp_path, "[[routes]]\npreset = 'openai'\nmodel = 'big'\n[[routes]]\nprotocol = 'rehearsal'\n"
    )
    assert "big (openai), then rehearsal" in told
    assert "?try=" not in told


def test_with_a_key_it_says_how_to_get_one(tmp_path: Path) -> None:
    assert "turnbuckle keys create" in _screen(tmp_path, needs_key=True)
    assert "turnbuckle keys create" not in _screen(tmp_path)


def test_a_server_that_listens_everywhere_is_opened_on_this_machine() -> None:
    assert reachable("http://0.0.0.0:80") == "http://127.0.0.1:80"
    assert reachable("http://[::]:80") == "http://[::1]:80"
    assert reachable("http://192.168.1.5:80") == "http://192.168.1.5:80"


@pytest.mark.parametrize(
    ("method", "status", "shown"),
    [
        ("GET", 200, False),
        ("GET", 304, False),
        ("GET", 404, True),
        ("POST", 200, True),
        ("DELETE", 200, True),
    ],
)
def test_on_a_terminal_what_only_looks_is_no_news(method: str, status: int, shown: bool) -> None:
    record = logging.LogRecord(
        "x", logging.INFO, "", 0, "%s %s %d in %.3f s", (method, "/", status, 0.1), None
    )
    assert Quieter().filter(record) is True  # some other line
    record.event = "request"
    assert Quieter().filter(record) is shown


def _fake_opener(folder: Path) -> Path:
    """A program in place of the one that opens a page. It writes down what it was asked for."""
    program = folder / "xdg-open"
    program.write_text(f'#!/bin/sh\necho "$1 $BROWSER" > {folder}/asked\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.parametrize(
    ("environment", "platform", "found"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "1.2.3.4"}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_TTY": "/dev/pts/1"}, "darwin", False),
    ],
)
def test_a_browser_is_opened_only_where_somebody_sits_in_front_of_a_display(
    tmp_path: Path, environment: dict[str, str], platform: str, found: bool
) -> None:
    _fake_opener(tmp_path)
    assert bool(browser_command({**environment, "PATH": str(tmp_path)}, platform)) is found
    assert browser_command({"DISPLAY": ":0", "PATH": "/nowhere"}, "linux") == []


def test_an_opener_that_can_not_be_started_is_no_problem(tmp_path: Path) -> None:
    program = _fake_opener(tmp_path)
    program.write_text("no program at all")
    assert open_browser(ADDRESS, {"DISPLAY": ":0", "PATH": str(tmp_path)}) is False


@pytest.mark.process
@pytest.mark.requirement("H1")
def test_on_a_terminal_the_server_shows_its_first_screen_and_opens_the_console_beside_it(
    tmp_path: Path,
) -> None:
    _fake_opener(tmp_path)
    os.mkfifo(tmp_path / "asked")
    asked = os.open(tmp_path / "asked", os.O_RDWR | os.O_NONBLOCK)
    path = f"{tmp_path}{os.pathsep}{ENVIRONMENT['PATH']}"
    kept = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("SSH_")}
    environment = {**kept, "PATH": path, "DISPLAY": ":0", "BROWSER": "w3m"}
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "turnbuckle.cli.main", "serve", "--port", "0", "--open"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        close_fds=True,
    ) as server:
        os.close(terminal)
        told = ""
        while "Ctrl-C" not in told:
            told += os.read(main, 4096).decode()
        address = told.split()[3]
        server.send_signal(signal.SIGTERM)
        assert server.wait(100) == 0
    os.close(main)
    assert told.startswith(f"Turnbuckle listens on {address}\r\n\r\n  Console  {address}/\r\n")
    assert f"{address}/?try=stall" in told
    assert select.select([asked], [], [], 30)[0] == [asked]
    assert os.read(asked, 4096).decode() == f"{address}/ \n"
    os.close(asked)
