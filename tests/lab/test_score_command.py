"""`turnbuckle lab score`, as a person uses it."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.lab.faulty_servers import Naive, open_server
from support.processes.reserved_port import reserved_port
from support.server import live_server

from turnbuckle.cli.main import main
from turnbuckle.lab.score.card import as_json, foot, head, line
from turnbuckle.lab.score.facts import Expectation, Heard, Played
from turnbuckle.lab.score.grades import GRADES, grade
from turnbuckle.lab.score.player import ScoreRow
from turnbuckle.lab.score.tale import TALE
from turnbuckle.lab.score.trials import TRIALS, USUAL


def row(name: str, heard: Heard, **more) -> ScoreRow:
    played = Played(Expectation(TALE, characters=len(TALE)), heard, **more)
    return ScoreRow(name, "a summary", played, grade(played))


GOOD = row("clean", Heard("done", TALE, finish="stop"))
BAD = row("reset-in-text", Heard("done", TALE[:100], finish="stop", plain=True))
IDLE = row("long-write", Heard("done"), idle="the server has no tool of that kind")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["lab", "score", *arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@contextmanager
def serving(provider: str) -> Iterator[str]:
    """A naive relay in a thread of its own, as the command has a loop of its own."""
    ready, over, address = threading.Event(), threading.Event(), []

    async def serve() -> None:
        async with open_server(Naive(provider)) as url:
            address.append(url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=live_server.run, args=(serve(),))
    thread.start()
    ready.wait()
    try:
        yield address[0]
    finally:
        over.set()
        thread.join()


@pytest.mark.requirement("H4")
def test_a_server_is_graded_and_each_mark_that_is_refused_has_a_sentence(capsys: pytest.CaptureFixture[str]):
    with reserved_port() as port, serving(f"http://127.0.0.1:{port}/v1") as server:
        code = run("--server", server, "--provider-port", str(port), "--cases", "clean,end-without-finish")
    told = capsys.readouterr().out
    assert code == 0
    assert told.splitlines()[1].startswith("a relay")
    assert "    honest: 318 of 459 characters were told as `stop`" in told.splitlines()
    assert told.splitlines()[-2].startswith(
        "ends 4/4 · honest 2/4 · nothing lost 4/4 · once 4/4 · healed 2/4"
    )
    assert told.splitlines()[-1] == "Not seen here: nothing half done, comes back."


def test_programs_get_a_line_of_json_for_each_play_and_one_for_all(capsys: pytest.CaptureFixture[str]):
    with reserved_port() as port, serving(f"http://127.0.0.1:{port}/v1") as server:
        code = run("--server", f"{server}/v1", "--provider-port", str(port), "--cases", "clean", "--json")
    lines = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [(told["case"], told["plain"], told["requests"], told["waste"]) for told in lines[:-1]] == [
        ("clean", False, 1, 1.0),
        ("clean", True, 1, 1.0),
    ]
    assert lines[-1]["totals"]["healed"] == {"given": 2, "of": 2}


def test_a_server_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]):
    with reserved_port() as nobody, reserved_port() as port:
        gone = f"http://127.0.0.1:{nobody}"
        assert run("--server", gone, "--provider-port", str(port)) == 1
    assert f"nothing answers at {gone}" in capsys.readouterr().err


def test_a_server_that_asks_somebody_else_is_told_how_to_point_it(capsys: pytest.CaptureFixture[str]):
    with (
        reserved_port() as port,
        reserved_port() as another,
        serving(f"http://127.0.0.1:{another}/v1") as server,
    ):
        assert run("--server", server, "--provider-port", str(port)) == 1
    told = capsys.readouterr().err
    assert "never asked the lab's provider" in told
    assert f"Point it at http://127.0.0.1:{port}/v1" in told


WRONG = [
    (("--cases", "reset-in-txt"), 'did you mean "reset-in-text"?'),
    (("--cases", "clean", "--all"), "either --cases or --all"),
    (("--server", "127.0.0.1:8765"), "such as http://127.0.0.1:8765"),
    (("--canary", "no-such-folder"), "there is no folder no-such-folder"),
    (("--provider-port", "70000"), "there is no port 70000"),
]


@pytest.mark.parametrize("arguments, words", WRONG)
def test_what_is_asked_wrongly_is_answered_with_what_to_do(
    arguments, words: str, capsys: pytest.CaptureFixture[str]
):
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def test_a_port_in_use_is_told_by_the_name_of_its_option(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run("--provider-port", str(taken.getsockname()[1])) == 1
    told = capsys.readouterr().err
    assert "choose another by --provider-port" in told
    assert "0 for any free one" not in told, "the server must know the port beforehand"


def test_the_table_fits_into_80_columns():
    longest = max(TRIALS, key=lambda trial: len(trial.name) + 8 * trial.plain)
    wide = row(longest.name, Heard("done", TALE, finish="stop", plain=longest.plain))
    rows = [wide] * 99
    shown = [head(), line(wide), foot(rows).splitlines()[0]]
    assert [text for text in shown if len(text) > 80] == []
    assert len({text.index(sign) for text, sign in ((line(GOOD), "✓"), (line(wide), "✓"))}) == 1


def test_a_row_says_why_and_what_was_not_played():
    assert line(GOOD).count("\n") == 0
    assert line(BAD).splitlines()[0].startswith("reset-in-text (plain)")
    assert line(BAD).splitlines()[1:] == [
        "    honest: 100 of 459 characters were told as `stop`",
        "    healed: only 100 of 459 characters arrived",
    ]
    assert line(IDLE).splitlines()[1:] == ["    not played: the server has no tool of that kind"]
    assert set(json.loads(as_json(BAD))["why"]) == {"honest", "healed"}


def test_there_are_as_many_usual_cases_as_say_most_and_each_name_is_there_once():
    assert 15 <= len(USUAL) <= 24
    assert len({trial.name for trial in TRIALS}) == len(TRIALS)
    assert list(GRADES) == ["ends", "honest", "kept", "once", "untouched", "healed", "frugal", "comes back"]


def test_the_page_lists_every_case_as_it_is():
    page = (Path(__file__).parents[2] / "docs/lab.md").read_text("utf-8").splitlines()
    for trial in TRIALS:
        more = ("; also plain" if trial.plain else "") + ("" if trial.usual else " (`--all`)")
        assert f"| {trial.name} | {trial.summary}{more} |" in page
