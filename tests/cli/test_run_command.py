"""`turnbuckle run` and its companions, as a person uses them."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes.commands import ENVIRONMENT, command, configure, facts_of, history_of, provider, start

from turnbuckle.cli.main import main
from turnbuckle.lab.script import Call, Case, Finish, Say, Stall
from turnbuckle.turn.facts import RunEnded, RunStarted, StopAsked, ToolFinished
from turnbuckle.vocab.messages import text_of

WHO = "I am the rehearsal model"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("TURNBUCKLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.requirement("H1", "H2")
def test_a_task_is_carried_out_without_a_key_and_without_a_network(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("run", "write hello.txt with 3 lines") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(WHO)
    assert shown.out.endswith("Wrote hello.txt: 3 lines, 132 bytes.\n")
    first, *lines = shown.err.splitlines()
    assert first.startswith("run r")
    assert lines[0] == "→ write_file hello.txt"
    assert lines[1].startswith("✓ write_file, ")
    assert lines[2] == "  hello.txt +3 −0"
    assert lines[-1].startswith("completed after ")
    assert len(lines) == 8
    assert len((here / "hello.txt").read_text().splitlines()) == 3


def test_what_signals_do_is_afterwards_as_it_was(here: Path) -> None:
    """A program that calls the command goes on with its own Ctrl-C."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert _run("run", "list files") == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.requirement("B4", "B8", "C8")
def test_a_cut_is_told_in_one_quiet_line_and_counted_at_the_end(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("run", "write a.txt with 50 lines and cut") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "stream broke (reset) in write_file, 1,527 characters kept, finishing the draft"
    assert lines[-1].startswith("wasted: ")
    assert lines[-1].endswith("$0.00 (reset ×1)")
    assert len((here / "a.txt").read_text().splitlines()) == 50


@pytest.mark.requirement("H2")
def test_json_prints_every_fact_as_a_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("run", "list", "--json") == 0
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["seq"] for line in lines[:-1]] == list(range(1, len(lines)))
    assert lines[0]["type"] == "run_started"
    assert lines[-2]["type"] == "run_ended"
    assert (lines[-1]["type"], lines[-1]["entries"]) == ("ledger", [])
    assert shown.err == ""


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "give a task"),
        (["run", "--continue", "x"], "there is no session to go on with"),
        (["run", "x", "--route", "y"], "there is no route y"),
        (["run", "x", "--model", "y"], "--model needs a route"),
        (["run", "x", "--config", "none.toml"], "there is no file"),
        (["run", "x", "--workspace", "nowhere"], "is not a folder"),
        (["runs", "resume"], "there is no unfinished run"),
        (["runs", "show"], "no runs yet"),
        (["drafts", "show", "d1"], "no open drafts"),
    ],
)
def test_a_wrong_question_is_answered_with_a_way_out(
    arguments: list[str], words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("turnbuckle: ")
    assert words in shown.err


@pytest.mark.requirement("H2")
def test_runs_are_listed_and_shown_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("runs", "list") == 0
    assert capsys.readouterr() == ("", "no runs yet\n")
    _run("run", "write one.txt")
    ran = capsys.readouterr()
    _run("run", "hello")
    capsys.readouterr()
    assert _run("runs", "list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(row["title"], row["status"]) for row in listed] == [
        ("hello", "completed"),
        ("write one.txt", "completed"),
    ]
    assert _run("runs", "show", listed[1]["id"][-6:]) == 0
    shown = capsys.readouterr()
    assert shown.out == ran.out
    assert shown.err.splitlines() == ran.err.splitlines()[1:]
    assert _run("runs", "list", "--unfinished") == 0
    assert capsys.readouterr() == ("", "no unfinished runs\n")
    assert _run("runs", "show", "nothing-like-it") == 2


def test_resuming_a_run_that_has_ended_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("run", "hello")
    before = facts_of(here)
    capsys.readouterr()
    name = before[0].run if isinstance(before[0], RunStarted) else ""
    assert _run("runs", "resume", name) == 0
    assert "the run had ended already: completed" in capsys.readouterr().err
    assert facts_of(here) == before


def test_continue_gives_the_model_all_that_was_said_before(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run("run", "write one.txt")
    first = facts_of(here)[0]
    assert _run("run", "--continue", "read one.txt") == 0
    second = facts_of(here)[0]
    assert isinstance(first, RunStarted)
    assert isinstance(second, RunStarted)
    assert second.session == first.session
    assert second.base == first.run  # what was said before is stored once, with the run that said it
    messages = history_of(here, second.run, second.session)
    assert messages[: len(first.messages)] == first.messages
    roles = [message.role for message in messages]
    assert roles == "system user assistant tool assistant user assistant tool assistant".split()
    assert text_of(messages[5].parts) == "read one.txt"
    assert _run("run", "hello") == 0
    third = facts_of(here)[0]
    assert isinstance(third, RunStarted)
    assert third.session != first.session


@pytest.mark.requirement("B9")
def test_drafts_of_a_run_that_gave_up_can_be_listed_shown_and_saved(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with provider("cut-in-arguments") as lab:
        configure(here, lab.url, more="[recovery]\nstream_retries = 0")
        assert _run("run", "write notes", "--max-calls", "3") == 3
    capsys.readouterr()
    assert _run("runs", "show") == 3
    assert "draft kept: turnbuckle drafts show r" in capsys.readouterr().err
    assert _run("drafts", "list") == 0
    line = capsys.readouterr().out
    assert line.endswith("  write_file  20  notes.md\n")
    name = line.split()[0]
    assert _run("drafts", "show", "d2") == 0
    assert capsys.readouterr().out == "# Notes\nThe first li"
    assert _run("drafts", "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["settled"], listed["closed"]) == (name, {"path": "notes.md"}, False)
    assert _run("drafts", "save", name, "kept.md") == 0
    assert (here / "kept.md").read_text() == "# Notes\nThe first li"
    assert _run("drafts", "save", name, "kept.md") == 1
    assert "kept.md cannot be written: File exists" in capsys.readouterr().err
    assert not (here / "notes.md").exists()


@pytest.mark.requirement("C6")
@pytest.mark.parametrize(
    ("case", "code"), [("happy", 0), ("unauthorized", 1), ("filtered", 1), ("fin-in-text", 3)]
)
def test_the_exit_code_tells_the_outcome(case: str, code: int, here: Path) -> None:
    with provider(case) as lab:
        configure(here, lab.url, more="[recovery]\nstream_retries = 0\ncontinuations = 1")
        assert _run("run", "anything") == code
    ended = facts_of(here)[-1]
    assert isinstance(ended, RunEnded)
    assert {"completed": 0, "failed": 1, "partial": 3}[ended.outcome.kind] == code


@pytest.mark.parametrize(("rule", "words"), [("deny", "do not allow"), ("ask", "nobody can be asked")])
def test_a_tool_that_the_settings_forbid_does_not_run(
    rule: str, words: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TURNBUCKLE_TOOLS__APPROVAL__SHELL", rule)
    assert _run("run", "run touch made") == (0 if rule == "deny" else 5)
    err = capsys.readouterr().err
    assert "✗ shell did not run: " in err
    assert words in err
    assert not (here / "made").exists()


STALLS = Case("stalls", "says something and then nothing", ((Say("Half a sentence"), Stall("forever")),))
SLEEPS = Case(
    "sleeps", "a long command", ((Call("shell", {"command": "echo begun > fifo; sleep 60"}), Finish()),)
)


def _wait_for(process: "subprocess.Popen[str]", words: str) -> str:
    """Everything on stderr up to the line with these words."""
    assert process.stderr is not None
    seen = ""
    while words not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    return seen


@pytest.mark.process
@pytest.mark.requirement("C6", "H2")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    with provider(SLEEPS) as lab:
        configure(tmp_path, lab.url)
        os.mkfifo(tmp_path / "fifo")
        with start(tmp_path, "run", "sleep") as process:
            (tmp_path / "fifo").read_text()  # waits until the command runs
            process.send_signal(number)
            _, err = process.communicate(timeout=100)
    facts = facts_of(tmp_path)
    assert process.returncode == 130
    assert "interrupted; the conversation is kept\n" in err
    assert "cancelled after " in err
    assert [fact.outcome.status for fact in facts if isinstance(fact, ToolFinished)] == ["killed"]
    assert any(isinstance(fact, StopAsked) for fact in facts)


@pytest.mark.process
@pytest.mark.requirement("H2")
def test_a_second_ctrl_c_leaves_at_once_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo begun > fifo; while :; do sleep 1; done"
    case = Case(
        "stubborn", "a command that ignores signals", ((Call("shell", {"command": stubborn}), Finish()),)
    )
    with provider(case) as lab:
        configure(tmp_path, lab.url)
        os.mkfifo(tmp_path / "fifo")
        with start(tmp_path, "run", "sleep") as process:
            (tmp_path / "fifo").read_text()  # waits until the command runs
            process.send_signal(signal.SIGINT)
            _wait_for(process, "interrupted; the conversation is kept")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=100)
        assert process.returncode == 130
        assert "left at once; to continue: turnbuckle runs resume r" in err
        resumed = command(tmp_path, "runs", "resume")
    told = [fact.outcome.status for fact in facts_of(tmp_path) if isinstance(fact, ToolFinished)]
    assert (resumed.code, told) == (130, ["unknown"])


@pytest.mark.process
@pytest.mark.requirement("H2")
def test_a_second_run_in_the_same_folder_is_refused_and_reading_works_beside_it(tmp_path: Path) -> None:
    with provider(STALLS) as lab:
        configure(tmp_path, lab.url)
        with start(tmp_path, "run", "anything") as process:
            _wait_for(process, "run r")
            second = command(tmp_path, "run", "anything")
            listed = command(tmp_path, "runs", "list", "--json")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=100)
    assert second.code == 1
    assert "already writes to the journal" in second.err
    assert [row["status"] for row in json.loads(listed.out)] == ["running"]
    assert out == "Half a sentence\n"


@pytest.mark.process
@pytest.mark.requirement("H2")
def test_a_reader_that_leaves_early_stops_the_run(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with provider("happy") as lab, os.fdopen(writing, "w") as nobody:
        configure(tmp_path, lab.url)
        ran = subprocess.run(
            [sys.executable, "-m", "turnbuckle.cli.main", "run", "x"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr


@pytest.mark.process
@pytest.mark.realtime
@pytest.mark.requirement("H2")
def test_a_terminal_shows_what_is_waited_for_and_takes_an_answer(tmp_path: Path) -> None:
    case = Case(
        "asks",
        "asks a person, then stalls",
        ((Call("ask_user", {"question": "Which colour?"}), Finish()),),
        after_tools=(Say("So be it."), Stall("forever")),
    )
    ours, theirs = pty.openpty()
    with provider(case) as lab:
        configure(tmp_path, lab.url)
        process = subprocess.Popen(
            [sys.executable, "-m", "turnbuckle.cli.main", "run", "ask me"],
            cwd=tmp_path,
            env={**ENVIRONMENT, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = _read_until(ours, "Which colour?")
        os.write(ours, b"red\n")
        seen = _read_until(ours, "waiting for more from m, ")
        process.send_signal(signal.SIGINT)
        seen = _read_until(ours, "cancelled after")
        assert process.wait(100) == 130
    os.close(ours)
    answers = [fact.outcome.text for fact in facts_of(tmp_path) if isinstance(fact, ToolFinished)]
    assert answers == ["red"]
    assert "\x1b[K" in seen  # the status line is taken away


def _read_until(terminal: int, words: str) -> str:
    seen = ""
    while words not in seen:
        seen += os.read(terminal, 4096).decode("utf-8", "replace")
    return seen


@pytest.mark.long(12)
@pytest.mark.process
@pytest.mark.requirement("E2")
def test_a_full_disk_is_told_loudly_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    limited = (
        f'ulimit -f 320; exec "{sys.executable}" -m turnbuckle.cli.main run "write big.txt with 5000 lines"'
    )
    ran = subprocess.run(
        ["bash", "-c", limited], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 4
    assert "waiting for storage: " in ran.stderr
    assert "The run is unfinished: turnbuckle runs resume r" in ran.stderr
    assert not (tmp_path / "big.txt").exists()
    assert command(tmp_path, "runs", "resume").code == 0
    assert len((tmp_path / "big.txt").read_text().splitlines()) == 5000


@pytest.mark.long(11)
@pytest.mark.process
@pytest.mark.requirement("E10")
def test_a_disk_that_is_full_before_a_run_can_begin_is_told_and_nothing_hangs(tmp_path: Path) -> None:
    limited = f'ulimit -f 240; exec "{sys.executable}" -m turnbuckle.cli.main run "say hi"'
    ran = subprocess.run(
        ["bash", "-c", limited],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ran.returncode == 4, ran.stderr
    assert "waiting for storage: " in ran.stderr
    assert "The run has not begun." in ran.stderr or "The run is unfinished: " in ran.stderr


def test_a_key_that_stands_in_the_file_does_not_show_in_results(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    route = '[[routes]]\nprotocol = "rehearsal"\n[[routes]]\npreset = "openai"\nmodel = "x"\napi_key = "sk-0123456789abcdef"\n'
    (here / "turnbuckle.toml").write_text(route)
    assert _run("run", "--config", "turnbuckle.toml", "read turnbuckle.toml") == 0
    shown = capsys.readouterr()
    assert "sk-0123456789abcdef" not in shown.out + shown.err
    assert 'api_key = "[secret]"' in shown.out


@pytest.mark.requirement("H13")
@pytest.mark.parametrize("arguments", [("-",), ()])
def test_a_task_can_come_by_a_pipe_with_and_without_a_dash(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"write piped.txt with 2 lines\n")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert _run("run", *arguments) == 0
    assert len((here / "piped.txt").read_text().splitlines()) == 2
    assert capsys.readouterr().out.startswith(WHO)


@pytest.mark.requirement("H13")
def test_several_words_are_one_task_and_none_is_a_clear_error(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run("run", "write", "words.txt", "with", "2", "lines") == 0
    assert len((here / "words.txt").read_text().splitlines()) == 2
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert _run("run") == 2
        assert _run("run", "--jsn") == 2
    assert "give a task" in capsys.readouterr().err


@pytest.mark.requirement("H10")
def test_a_run_that_nobody_could_be_asked_about_is_not_completed_and_has_its_own_exit_code(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "turnbuckle.toml").write_text('[tools]\napproval = { shell = "ask" }\n')
    assert _run("run", "run `echo hi`") == 5
    last = [line for line in capsys.readouterr().err.splitlines() if line.startswith("partial after ")]
    assert last[0].endswith("shell needed approval, and nobody could be asked")


TWO_ROUTES = """
[[routes]]
name = "first"
protocol = "rehearsal"
[[routes]]
name = "second"
protocol = "rehearsal"
"""


@pytest.mark.requirement("H7")
def test_a_route_of_the_command_line_counts_more_than_the_one_that_a_session_remembers(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = here / "turnbuckle.toml"
    settings.write_text(TWO_ROUTES)
    told = []
    for words in (["--route", "second"], [], ["--route", "first"], ["--route", "second"]):
        assert _run("run", "--session", "s", "--config", "turnbuckle.toml", *words, "say hi") == 0
        told.append([line for line in capsys.readouterr().err.splitlines() if line.startswith("From here")])
    to_first = "From here on the route first answers; before, it was second."
    to_second = "From here on the route second answers; before, it was first."
    assert told == [[], [], [to_first], [to_second]]
    settings.write_text(TWO_ROUTES.replace("second", "third"))
    for notices in (1, 0):  # a route that is gone is told once, and not remembered any more
        assert _run("run", "--session", "s", "--config", "turnbuckle.toml", "say hi") == 0
        assert capsys.readouterr().err.count(to_first) == notices


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_caller_may_close_any_of_the_standard_streams(here: Path, closed: str) -> None:
    line = f'"$0" -m turnbuckle.cli.main run "write a.txt saying hello" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], env=ENVIRONMENT, capture_output=True, check=False, timeout=100
    )
    assert (done.returncode, (here / "a.txt").read_text()) == (0, "hello\n")


def test_words_that_are_not_utf_8_are_taken_with_signs_in_their_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("run", "say", "caf\udce9") == 0
    assert capsys.readouterr().out.endswith(" caf\ufffd\n")
    assert _run("run", "--session", "caf\udce9", "say hi") == 2
    done = subprocess.run(
        [sys.executable, "-m", "turnbuckle.cli.main", "run", "-"],
        env=ENVIRONMENT,
        check=False,
        input=b"say caf\xe9\n",
        capture_output=True,
        timeout=100,
    )
    assert done.stdout.decode().endswith(" caf\ufffd\n")
