"""`turnbuckle doctor` explains a set-up: whatever is not well is named, with the way to mend it."""

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes.commands import command, configure, provider, start
from support.processes.reserved_port import reserved_port

from turnbuckle.cli.listener import listener_at
from turnbuckle.cli.main import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("TURNBUCKLE_SERVER__PORT", "0")  # so that nobody else's server is in the way
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str) -> Any:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    return caught.value.code


def _found(
    here: Path, capsys: pytest.CaptureFixture[str], text: str = "", *more: str
) -> tuple[int, list[dict[str, str]]]:
    (here / "turnbuckle.toml").write_text(text)
    code = _run("doctor", "--json", "--config", "turnbuckle.toml", *more)
    return code, json.loads(capsys.readouterr().out)["findings"]


ROUTE = '[[routes]]\nname = "a"\nprotocol = "openai_chat"\nmodel = "m"\n'
WRONG: list[tuple[str, str, str, str]] = [
    ("modell = 1", "settings", "modell is not known", "Fix that line"),
    ("[server]\nkeepalive = 'x'", "settings", "server.keepalive", "Fix that line"),
    ("[server", "settings", "is not TOML", "Fix that line"),
    ("workspace = 'nowhere'", "workspace", "is not a folder", "Make it"),
    ("[tools]\nmodules = ['none.py']", "tools.modules", "none.py", "Fix that setting"),
    ("[tools.approval]\nshel = 'ask'", "tools.approval", "did you mean shell?", "Fix that setting"),
    ("[session]\ntime_zone = 'Mars/North'", "session", "no time zone", "Fix that setting"),
    ("[[routes]]\npreset = 'openai'\nmodel = 'm'", "route openai", "without a key", "Set OPENAI_API_KEY"),
    ("[[routes]]\npreset = 'opnai'\nmodel = 'm'", "route opnai", "did you mean openai", "turnbuckle init"),
    ("[[routes]]\npreset = 'openai'", "route openai", "model is missing", "turnbuckle init"),
    (
        ROUTE + "base_url = 'http://localhost:1/v1'\napi_key = 'env:NOT_THERE'",
        "route a",
        "NOT_THERE",
        "export NOT_THERE=…",
    ),
    (
        ROUTE + "base_url = 'https://nowhere.invalid/v1'\napi_key = 'x'",
        "route a",
        "nowhere.invalid",
        "name server",
    ),
    ("[server]\nhost = '0.0.0.0'", "server", "for everybody, without a key", "turnbuckle keys create"),
    ("[server]\norigins = ['*']", "server", "allows every page", "Fix that setting"),
    ("[server]\napi_keys = ['env:NOT_THERE']", "server", "NOT_THERE", "Fix that setting"),
    ("[server]\nhost = '192.0.2.1'\napi_keys = ['some-key']", "server", "cannot be used", "Set server.host"),
]


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(("text", "about", "what", "fix"), WRONG)
def test_what_is_wrong_is_found_and_told_how_to_mend(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, about: str, what: str, fix: str
) -> None:
    code, found = _found(here, capsys, text)
    wrong = [finding for finding in found if finding["level"] == "wrong"]
    assert code == 1
    assert [(one["about"], what in one["what"], fix in one["fix"]) for one in wrong] == [
        (about, True, True)
    ], wrong


NOTED: list[tuple[str, str, str]] = [
    ("", "routes", "`rehearsal` answers"),
    ("[server]\nhost = '0.0.0.0'\napi_keys = ['some-key']", "server", "without TLS"),
    (ROUTE + "base_url = 'http://localhost:1/v1'\napi_key = 'x'", "secrets", "the key of route a"),
    (
        ROUTE + "base_url = 'http://localhost:1/v1'\nheaders = { x-api-key = 'x' }",
        "secrets",
        "a header of route a",
    ),
    ("[server]\napi_keys = ['some-key']", "secrets", "server.api_keys"),
]


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(("text", "about", "what"), NOTED)
def test_what_is_worth_knowing_is_noted_and_all_is_well(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, about: str, what: str
) -> None:
    code, found = _found(here, capsys, text)
    assert code == 0
    assert [
        one
        for one in found
        if one["level"] == "note" and one["about"] == about and what in one["what"] and one["fix"]
    ]


def test_every_finding_that_is_not_fine_says_what_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, *_ in (*WRONG, *NOTED):
        _, found = _found(here, capsys, text)
        assert all(one["fix"] for one in found if one["level"] != "ok"), text


def test_a_data_folder_that_is_a_file_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = _found(here, capsys, "data = 'turnbuckle.toml'")
    assert code == 1
    assert ("wrong", "data folder") in [(one["level"], one["about"]) for one in found]


def test_a_person_reads_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "turnbuckle.toml").write_text("[tools.approval]\nshel = 'ask'")
    assert _run("doctor") == 1
    told = capsys.readouterr().out
    assert (
        "  WRONG  tools.approval: there is no tool 'shel'; did you mean shell?\n         Fix that setting"
        in told
    )
    (here / "turnbuckle.toml").write_text("port = 1")
    assert _run("doctor") == 1
    assert "  WRONG  settings: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "code", "words"), [("tool", 1, "does not call tools"), ("unauthorized", 1, "auth")]
)
def test_online_every_route_is_asked(
    here: Path, capsys: pytest.CaptureFixture[str], case: str, code: int, words: str
) -> None:
    with provider(case) as lab:
        configure(here, lab.url)
        assert _run("doctor") == 0
        assert not lab.requests
        assert _run("doctor", "--online") == code
    assert words in capsys.readouterr().out


def test_files_in_the_future_mean_that_the_clock_is_wrong(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = here / ".turnbuckle"
    data.mkdir(mode=0o755)
    (data / "keys.lock").touch()
    os.utime(data / "keys.lock", (time.time() + 7200, time.time() + 7200))
    code, found = _found(here, capsys)
    assert code == 1
    assert [one["about"] for one in found if one["level"] == "wrong"] == ["clock"]
    assert [one["fix"] for one in found if one["about"] == "data folder"] == [
        f"If you share the machine: chmod 700 {data}"
    ]


@pytest.fixture
def web() -> Iterator[int]:
    """Some other program that listens on this machine."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_port_that_somebody_else_has_is_told_with_the_process(
    here: Path, web: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNBUCKLE_SERVER__PORT", str(web))
    code, found = _found(here, capfd)
    (told,) = [one for one in found if one["level"] == "wrong"]
    assert code == 1
    assert told["what"].startswith(f"port {web} of 127.0.0.1 is taken by process {os.getpid()}, ")


def test_a_port_is_looked_at_without_taking_it() -> None:
    with reserved_port() as port:
        assert listener_at("127.0.0.1", port).state == "free"
    assert listener_at("127.0.0.1", 0).state == "free"
    assert listener_at("127.0.0.1", 70_000).state == "unusable"


@pytest.mark.process
@pytest.mark.requirement("H2")
def test_a_second_server_is_told_where_the_first_one_is(here: Path) -> None:
    for name in ("one", "two"):
        (here / name).mkdir()
    with start(here / "one", "serve", "--port", "0") as first:
        assert first.stdout is not None
        address = first.stdout.readline().split()[-1]
        port = address.rpartition(":")[2]
        try:
            elsewhere = command(here / "two", "serve", "--port", port)
            beside = command(here / "one", "serve", "--port", port)
            seen = command(here / "two", "doctor", TURNBUCKLE_SERVER__PORT=port)
            own = command(here / "one", "doctor", TURNBUCKLE_SERVER__PORT=port)
        finally:
            first.terminate()
    assert (elsewhere.code, f"another turnbuckle listens on {address} already" in elsewhere.err) == (1, True)
    assert (beside.code, f"It is a server, which listens on {address}" in beside.err) == (1, True)
    assert (seen.code, f"another turnbuckle listens on port {port}" in seen.out) == (0, True)
    assert (own.code, f"a turnbuckle has this folder, and port {port}" in own.out) == (0, True)
