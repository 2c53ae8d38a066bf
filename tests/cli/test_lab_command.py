"""`turnbuckle lab`, as a person uses it."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import turnbuckle
from turnbuckle.cli.lab import tour
from turnbuckle.cli.main import main
from turnbuckle.lab.cases import CASES, find_case

SOURCE = str(Path(turnbuckle.__file__).parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "80"}


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def _start(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "turnbuckle.cli.main", "lab", "serve", "--port", "0", *arguments]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().split()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_provider_serves_until_it_is_told_to_stop(number: signal.Signals) -> None:
    with _start() as process:
        address = _address(process)
        asked = urllib.request.Request(
            f"{address}/v1/chat/completions", b'{"model":"lab:happy","stream":true}'
        )
        with urllib.request.urlopen(asked) as response:
            assert response.read().endswith(b"data: [DONE]\n\n")
        asked = urllib.request.Request(
            f"{address}/v1/messages", b'{"model":"lab:stalls-in-text","stream":true}'
        )
        with urllib.request.urlopen(asked) as response:
            assert response.status == 200
            process.send_signal(number)  # in the middle of an answer
            assert process.stdout is not None
            assert process.stderr is not None
            out, errors = process.stdout.read(), process.stderr.read()
    assert process.returncode == 0
    assert out.endswith("stopped\n")
    assert errors == ""


def test_a_script_from_a_file_is_served(tmp_path: Path) -> None:
    script = tmp_path / "mine.toml"
    script.write_text('summary = "my own"\nsteps = [{ say = "from a file" }, "finish"]\n')
    with _start("--script", str(script)) as process:
        asked = urllib.request.Request(f"{_address(process)}/v1/chat/completions", b'{"model":"any"}')
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
        process.terminate()
        assert process.stdout is not None
        out = process.stdout.read()
    assert answer["choices"][0]["message"]["content"] == "from a file"
    assert 'It plays "mine":\n  my own\n' in out
    assert process.returncode == 0


def test_all_cases_are_listed_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("lab", "cases") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [case.name for case in CASES]
    assert max(len(line) for line in lines) <= 80


def test_all_cases_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("lab", "cases", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [case["model"] for case in listed] == [f"lab:{case.name}" for case in CASES]
    assert listed[0] == {"name": "happy", "summary": CASES[0].summary, "model": "lab:happy", "scenarios": []}


def test_an_unknown_case_is_a_usage_error_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("lab", "serve", "--case", "hapy") == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        shown.err
        == 'turnbuckle: unknown case "hapy"; did you mean "happy"? (turnbuckle lab cases lists them all)\n'
    )


def test_a_mistake_in_a_script_is_shown_with_file_and_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "bad.toml"
    script.write_text('steps = [{ say = "a" }, { stal = 1 }]\n')
    assert _run("lab", "serve", "--script", str(script)) == 2
    assert (
        capsys.readouterr().err
        == f'turnbuckle: {script}: unknown step "stal" in steps[1]; did you mean "stall"?\n'
    )


def test_a_script_that_is_not_there_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("lab", "serve", "--script", str(tmp_path / "none.toml")) == 2
    assert "none.toml cannot be read: No such file" in capsys.readouterr().err


def test_case_and_script_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("lab", "serve", "--case", "happy", "--script", str(tmp_path / "x.toml")) == 2
    assert "not both" in capsys.readouterr().err


def test_a_port_in_use_is_told_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert _run("lab", "serve", "--port", port) == 1
    assert capsys.readouterr().err == (
        f"turnbuckle: port {port} is in use; choose another by --port, or --port 0 for any free one\n"
    )


def test_a_port_that_can_not_be_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("lab", "serve", "--port", "70000") == 2
    assert "ports go from 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("lab", "casez"), ("lub",), ("lab", "serve", "--prot", "1")])
def test_a_wrong_word_on_the_command_line_is_a_usage_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("turnbuckle: Unknown ")
    assert "--help` lists what there is" in shown.err


def test_the_tour_fits_80_columns_and_names_every_endpoint() -> None:
    text = tour("http://127.0.0.1:65535", find_case("long-write-killed-every-4000"))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(
        path in text for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/models")
    )
    assert "lab:reset-in-text" in text


def test_the_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--version") == 0
    assert capsys.readouterr().out.strip() == turnbuckle.__version__


def test_help_loads_nothing_that_it_does_not_need() -> None:
    program = (
        "import sys\n"
        "from turnbuckle.cli.main import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit as stop:\n"
        "    heavy = {'aiohttp', 'asyncio', 'msgspec', 'turnbuckle.lab'} & set(sys.modules)\n"
        "    print(sorted(heavy), stop.code, file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert "lab" in ran.stdout
    assert ran.stderr == "[] 0\n"


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    command = [sys.executable, "-m", "turnbuckle.cli.main", "lab", "cases"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        ran = subprocess.run(
            command, env=ENVIRONMENT, stdout=nobody, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr) == (1, "")
