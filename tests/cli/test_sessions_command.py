"""`turnbuckle sessions`, as a person uses it: with the journal to itself, and beside a running server."""

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.processes.commands import configure, facts_of, provider, start

from turnbuckle.cli.main import main
from turnbuckle.cli.remote import Remote
from turnbuckle.journal.sqlite.reader import SqliteReader
from turnbuckle.lab.script import Case, Say, Stall
from turnbuckle.runtime.conversation import Conversations
from turnbuckle.runtime.runs import READING
from turnbuckle.turn.facts import RunEnded, RunStarted
from turnbuckle.vocab.messages import text_of

WHO = "I am the rehearsal model"
FRESH = "[Runtime] This is a fresh start"


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Terminal:
    """Commands, and what they said."""

    def __init__(self, capsys):
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        self.out, self.err = self._capsys.readouterr()
        return caught.value.code

    def json(self, *arguments):
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def turnbuckle(here, capsys):
    return Terminal(capsys)


def said_before(folder):
    """What the latest run was told before its task."""
    started = facts_of(folder)[0]
    assert isinstance(started, RunStarted)

    async def before():
        reader = SqliteReader(folder / ".turnbuckle")
        try:
            return await Conversations(reader, READING).before(started)
        finally:
            await reader.close()

    return [text_of(message.parts) for message in (*asyncio.run(before()).messages, *started.messages[:-1])]


@pytest.mark.requirement("G7", "H2")
def test_what_was_run_is_listed_shown_searched_and_renamed(turnbuckle):
    assert turnbuckle("sessions", "list") == 0
    assert (turnbuckle.out, turnbuckle.err) == ("", "no sessions\n")
    turnbuckle("run", "write one.txt")
    turnbuckle("run", "--session", "work", "hello there")
    first, second = turnbuckle.json("sessions", "list")
    assert (first["id"], first["title"], first["status"], first["owner"]) == (
        "work",
        "hello there",
        "idle",
        "local",
    )
    assert second["title"] == "write one.txt"
    assert turnbuckle("sessions", "show", second["id"][-6:]) == 0
    assert turnbuckle.out.startswith("user: write one.txt\n")
    assert "→ write_file" in turnbuckle.out
    assert "owner local, 1 run, idle" in turnbuckle.err
    shown = turnbuckle.json("sessions", "show", "work")
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    assert shown["messages"][-1]["outcome"] == "completed"
    (hit,) = turnbuckle.json("sessions", "search", "hello there")
    assert hit["id"] == "work"
    assert "hello there" in hit["snippet"]
    assert turnbuckle("sessions", "rename", "work", "  A better \n title ") == 0
    assert turnbuckle("sessions", "list") == 0
    assert "A better title" in turnbuckle.out
    assert turnbuckle.json("sessions", "search", "better")[0]["id"] == "work"
    assert turnbuckle.json("sessions", "list", "--owner", "somebody") == []


def test_a_session_is_shown_without_the_names_of_our_own_machinery(turnbuckle):
    turnbuckle("run", "--session", "work", "write one.txt with 50 lines and cut")
    assert turnbuckle("sessions", "show", "work") == 0
    assert "\n→ the rest of a call that was cut\n  ✓ Wrote one.txt: 50 lines" in turnbuckle.out
    assert "finish_call" not in turnbuckle.out


@pytest.mark.requirement("G3", "G7")
def test_a_run_goes_on_in_its_session_and_respects_what_was_undone_and_begun_anew(turnbuckle, here):
    turnbuckle("run", "--session", "work", "first thing")
    turnbuckle("run", "--continue", "second thing")
    assert "first thing" in said_before(here)
    taken = turnbuckle.json("sessions", "undo", "work")
    assert taken["did"] == "undone"
    turnbuckle("run", "--session", "work", "third thing")
    before = said_before(here)
    assert "first thing" in before
    assert "second thing" not in before
    assert turnbuckle.json("sessions", "new", "work")["did"] == "begun_anew"
    turnbuckle("run", "--session", "work", "fourth thing")
    before = said_before(here)
    assert "first thing" not in before
    assert before[-1].startswith(FRESH)
    turnbuckle("run", "--session", "work", "fifth thing")
    assert "fourth thing" in said_before(here)
    assert len(turnbuckle.json("sessions", "show", "work")["runs"]) == 5


@pytest.mark.requirement("G7")
def test_retry_says_the_last_message_again_in_the_terminal(turnbuckle, here):
    turnbuckle("run", "--session", "work", "list")
    assert turnbuckle("sessions", "retry", "work") == 0
    assert turnbuckle.out.startswith(WHO)
    assert turnbuckle.err.startswith("run r")
    assert "list" not in said_before(here)
    shown = turnbuckle.json("sessions", "show", "work")
    assert len(shown["runs"]) == 2
    assert len(shown["counted"]) == 1
    assert turnbuckle("sessions", "undo", "work") == 0
    assert turnbuckle("sessions", "retry", "work") == 0
    assert turnbuckle.out == "there is nothing to retry\n"


@pytest.mark.requirement("G7")
@pytest.mark.requirement("I5")
def test_a_session_is_made_smaller_in_the_terminal_and_that_is_taken_back(turnbuckle, here):
    for words in ("hello", "who are you?", "hello again", "and again"):
        assert turnbuckle("run", "--session", "work", words) == 0
    assert turnbuckle("sessions", "compact", "work", "--keep", "the greeting") == 0, turnbuckle.err
    assert "ompacted" in turnbuckle.out or "nothing" in turnbuckle.out.lower()
    started = facts_of(here)[0]
    assert started.options.compact == "the greeting"
    assert turnbuckle("sessions", "compact", "work", "--undo") == 0


def test_a_fork_shares_the_past_and_goes_its_own_way(turnbuckle, here):
    turnbuckle("run", "--session", "work", "first thing")
    assert turnbuckle.json("sessions", "fork", "work", "--name", "other")["id"] == "other"
    assert turnbuckle("sessions", "fork", "work", "--name", "other") == 1
    assert "there is a session other already" in turnbuckle.err
    turnbuckle("run", "--session", "other", "second thing")
    assert "first thing" in said_before(here)
    turnbuckle("run", "--session", "work", "third thing")
    assert "second thing" not in said_before(here)


@pytest.mark.requirement("G7")
def test_an_exported_session_is_deleted_comes_back_and_goes_on(turnbuckle, here):
    turnbuckle("run", "--session", "work", "first thing")
    assert turnbuckle("sessions", "export", "work", "work.jsonl") == 0
    assert turnbuckle("sessions", "export", "work", "work.jsonl") == 1
    assert "is there already" in turnbuckle.err
    assert turnbuckle("sessions", "export", "work") == 0
    lines = turnbuckle.out.splitlines()
    assert json.loads(lines[0])["format"] == "turnbuckle.session"
    assert [line[:20] for line in lines[1:]] == [
        line[:20] for line in Path("work.jsonl").read_text().splitlines()[1:]
    ]
    assert turnbuckle.json("sessions", "delete", "work")["deleted"]
    assert turnbuckle("runs", "list") == 0
    assert turnbuckle.out == ""
    assert turnbuckle.json("sessions", "import", "work.jsonl")["id"] == "work"
    again = turnbuckle.json("sessions", "import", "work.jsonl")["id"]
    assert again != "work"
    assert turnbuckle("sessions", "import", "work.jsonl", "--name", "work") == 1
    turnbuckle("run", "--session", again, "second thing")
    assert "first thing" in said_before(here)
    Path("torn.jsonl").write_text("\n".join(lines[:-1]))
    before = turnbuckle.json("sessions", "list")
    assert turnbuckle("sessions", "import", "torn.jsonl") == 2
    assert "items, and line 1 says" in turnbuckle.err
    assert turnbuckle.json("sessions", "list") == before


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show"], 2, "no sessions yet"),
        (["show", "x"], 2, "no sessions yet"),
        (["stop"], 2, "no sessions yet"),
        (["export", "x"], 2, "no sessions yet"),
        (["import", "nothing.jsonl"], 1, "No such file"),
        (["rename", "x", "y" * 300], 2, "at most 200 characters"),
        (["stop", "--server", "http://127.0.0.1:9"], 2, "name the session"),
        (["stop", "x", "--server", "http://127.0.0.1:9"], 1, "no answer from http://127.0.0.1:9"),
        (["stop", "x", "--server", "nonsense"], 1, "nonsense is not an address; write it as http"),
    ],
)
def test_a_wrong_question_is_answered_with_a_way_out(arguments, code, words, turnbuckle):
    assert turnbuckle("sessions", *arguments) == code
    assert turnbuckle.err.startswith("turnbuckle: ")
    assert words in turnbuckle.err


def test_a_name_that_can_not_be_one_or_fits_several_is_told(turnbuckle):
    assert turnbuckle("run", "--session", "no/such", "hello") == 2
    assert "must have 1 to 128 of the characters" in turnbuckle.err
    assert turnbuckle("run", "--session", "a", "--continue", "hello") == 2
    for name in ("work-1", "work-2"):
        turnbuckle("run", "--session", name, "hello")
    assert turnbuckle("sessions", "show", "work") == 2
    assert "work fits 2 sessions: work-2, work-1" in turnbuckle.err
    assert turnbuckle("sessions", "show", "play") == 2
    assert "`turnbuckle sessions list` shows them all" in turnbuckle.err


@pytest.mark.process
@pytest.mark.requirement("G2", "G5")
def test_what_a_dead_process_left_is_told_as_unfinished_and_can_be_stopped(turnbuckle, here):
    turnbuckle("run", "--session", "work", "hello")
    with start(
        here, "run", "--session", "work", "run echo hi", TURNBUCKLE_FAULT="after-append:ToolStarted:1"
    ) as died:
        died.communicate(timeout=100)
    assert died.returncode == -signal.SIGKILL
    (line,) = turnbuckle.json("sessions", "list")
    assert line["status"] == "unfinished"
    for verb in ("undo", "retry"):
        assert turnbuckle("sessions", verb) == 1
        assert f"turnbuckle runs resume {line['running']}" in turnbuckle.err
    assert turnbuckle("sessions", "delete", "work") == 1
    done = turnbuckle.json("sessions", "stop")
    assert (done["did"], done["run"]) == ("stopped", line["running"])
    ended = facts_of(here)[-1]
    assert isinstance(ended, RunEnded)
    assert ended.outcome.kind == "cancelled"
    assert turnbuckle.json("sessions", "stop")["did"] == "nothing"
    assert turnbuckle.json("sessions", "show")["suspended"] == "stopped"
    turnbuckle("run", "--continue", "and now")
    assert said_before(here)[-1].startswith(FRESH)


class Serving:
    """A server as a process of its own."""

    def __init__(self, folder):
        self.process = start(folder, "serve", "--port", "0")
        line = self.process.stdout.readline()
        self.url = re.search(r"http://\S+", line).group()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.mark.process
@pytest.mark.requirement("G7", "H2")
def test_beside_a_server_looking_works_and_changing_is_done_by_the_server(turnbuckle, here):
    turnbuckle("run", "--session", "work", "first thing")
    turnbuckle("run", "--session", "work", "second thing")
    with Serving(here) as server:
        assert turnbuckle.json("sessions", "list")[0]["id"] == "work"
        assert len(turnbuckle.json("sessions", "show", "work")["messages"]) == 4
        assert turnbuckle.json("sessions", "search", "second")[0]["id"] == "work"
        assert turnbuckle("sessions", "export", "work", "beside.jsonl") == 0
        calls = {
            ("stop",): "POST /v1/sessions/work/stop",
            ("new",): "POST /v1/sessions/work/new",
            ("reset",): "POST /v1/sessions/work/reset",
            ("undo",): "POST /v1/sessions/work/undo",
            ("retry",): "POST /v1/sessions/work/retry",
            ("fork",): "POST /v1/sessions/work/fork",
            ("delete",): "DELETE /v1/sessions/work",
            ("rename", "title"): "PATCH /v1/sessions/work",
        }
        for (verb, *more), call in calls.items():
            assert turnbuckle("sessions", verb, "work", *more) == 1
            assert call in turnbuckle.err
            assert "--server http://127.0.0.1:8765" in turnbuckle.err
        there = ("--server", server.url)
        assert turnbuckle.json("sessions", "undo", "work", *there)["did"] == "undone"
        assert turnbuckle.json("sessions", "stop", "work", *there)["did"] == "nothing"
        again = turnbuckle.json("sessions", "retry", "work", *there)
        assert (again["did"], bool(again["run"])) == ("retried", True)
        assert turnbuckle("sessions", "retry", "work", "--route", "nowhere", *there) == 1
        assert "there is no route 'nowhere'; there are rehearsal" in turnbuckle.err
        assert turnbuckle.json("sessions", "rename", "work", "New title", *there)["title"] == "New title"
        assert turnbuckle.json("sessions", "fork", "work", "--name", "other", *there)["id"] == "other"
        assert turnbuckle.json("sessions", "new", "other", *there)["did"] == "begun_anew"
        assert turnbuckle("sessions", "reset", "other", *there) == 0
        assert turnbuckle.out.startswith("The next message begins a new conversation.")
        assert turnbuckle.json("sessions", "delete", "other", *there)["deleted"]
        assert turnbuckle("sessions", "stop", "other", *there) == 1
        assert "the server says 404: there is no session 'other'" in turnbuckle.err
    assert turnbuckle("sessions", "undo", "work") == 0


@pytest.mark.process
@pytest.mark.requirement("G2")
def test_a_session_that_runs_on_a_server_is_shown_as_running_and_stopped_by_it(turnbuckle, here):
    case = Case("slow", "says a word and waits", ((Say("word "), Stall(600)),))
    with provider(case) as lab:
        configure(here, lab.url)
        with Serving(here) as server:
            begun = asyncio.run(Remote(server.url).ask("POST", "/v1/sessions/live/messages", {"input": "go"}))
            run = begun["id"]
            (line,) = turnbuckle.json("sessions", "list")
            assert (line["id"], line["status"], line["running"]) == ("live", "running", run)
            done = turnbuckle.json("sessions", "stop", "live", "--server", server.url)
            assert (done["did"], done["run"]) == ("stopped", run)
            assert turnbuckle.json("sessions", "show", "live")["suspended"] == "stopped"


@pytest.mark.requirement("G7", "H2")
def test_the_columns_of_a_list_of_sessions_stand_below_each_other(turnbuckle):
    turnbuckle("run", "hello", "--session", "a")
    turnbuckle("run", "hello", "--session", "a-much-longer-name")
    assert turnbuckle("sessions", "list") == 0
    assert len({line.index("idle") for line in turnbuckle.out.splitlines()}) == 1
