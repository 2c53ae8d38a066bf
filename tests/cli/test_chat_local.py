"""A chat in one process with its journal: what is typed, what is left behind, and a real line to type on."""

import asyncio
import os
import re
import stat
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from support.cli.scripted_chat import ScriptedBackend, controller_of, eventually, run_scenario, spoke, started
from support.processes.commands import ENVIRONMENT, command

from turnbuckle.app import open_app
from turnbuckle.cli.chat.history import LONGEST, MOST, ChatHistory
from turnbuckle.cli.chat.terminal import TerminalFront, status_text
from turnbuckle.cli.chat.view import View
from turnbuckle.cli.local_backend import LocalBackend
from turnbuckle.config import load

SHELL = "[tools]\napproval = { shell = 'ask' }\n"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@asynccontextmanager
async def local(folder, settings="", attended=True):
    file = folder / "turnbuckle.toml"
    file.write_text(f"workspace = '{folder}'\ndata = '{folder / 'data'}'\n{settings}")
    async with open_app(
        load(file, environment={}), {"PATH": os.environ["PATH"]}, attended=attended
    ) as opened:
        place = LocalBackend(opened)
        try:
            yield place
        finally:
            await place.leave()


@pytest.mark.requirement("H1", "H2")
def test_a_chat_needs_no_server_no_key_and_no_network(tmp_path):
    async def scenario():
        async with local(tmp_path) as place:
            talk, front = controller_of(place)
            await talk.open()
            talk.entered("write a.txt with 50 lines and cut")
            await talk.settled()
            talk.entered("read a.txt")
            await talk.settled()
            assert front.said == ["write a.txt with 50 lines and cut", "read a.txt"]
            assert "stream broke (reset) in write_file" in front.screen
            assert "wasted: " in front.screen
            assert "line 50 of 50" in front.text
            for line in (
                "/runs",
                "/sessions",
                "/status",
                "/ledger",
                "/model",
                "/cost",
                "/tools",
                "/context",
                "/drafts",
                "/compact the words",
            ):
                talk.entered(line)
            await talk.settled()
            runs, sessions, status, ledger, model, cost, tools, context, drafts = front.replies[-9:]
            assert runs.count("completed") == 2
            assert sessions.splitlines()[1].startswith("* work")
            assert "write_file  " in tools
            assert "finish_call" not in tools
            assert status.startswith("Nothing runs.")
            assert ledger == "nothing was wasted"
            assert model.splitlines()[0] == "* rehearsal  rehearsal"
            assert [line.split(":")[0] for line in cost.splitlines()] == [
                "Last run",
                "This session",
                "Today (UTC)",
            ]
            assert context.startswith("The model gets ")
            assert drafts == "no open drafts"
            assert talk.view().queued == ()
            for line in ("/undo compaction", "/Undo  Compaction", "/undo", "/undo", "/undo", "/undo"):
                talk.entered(line)
            await talk.settled()
            undone = [words.split()[0] for words in front.replies[-6:]]
            # There was nothing to make smaller, and so no compaction; each undo is of a message.
            assert undone == ["There", "There", "Undone:", "Undone:", "There", "There"]
            await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("H9")
def test_what_a_run_changed_is_shown_by_diff_and_undone_by_revert(tmp_path):
    file = tmp_path / "a.txt"

    async def entered(talk, front, line):
        before = len(front.screen)
        talk.entered(line)
        await talk.settled()
        return front.screen[before:]

    async def scenario():
        async with local(tmp_path) as place:
            talk, front = controller_of(place)
            await talk.open()
            assert "the last run changed no file" in await entered(talk, front, "/diff")
            assert "nothing ran here yet" in await entered(talk, front, "/revert a.txt")
            file.write_text("mine\n")
            await entered(talk, front, "write a.txt with 3 lines")
            written = file.read_text()
            diff = await entered(talk, front, "/diff")
            assert "a.txt +3 −1" in diff
            assert "  -mine" in diff
            assert diff.count("  +line ") == 3
            assert "the last run changed a.txt" in await entered(talk, front, "/diff b.txt")
            assert "b.txt" in await entered(talk, front, "/revert b.txt")
            file.write_text("somebody else\n")
            assert "has changed since the run" in await entered(talk, front, "/revert a.txt")
            assert file.read_text() == "somebody else\n"
            file.write_text(written)
            assert "is what it was before the run" in await entered(talk, front, "/revert a.txt")
            assert file.read_text() == "mine\n"
            assert "undone already" in await entered(talk, front, "/revert a.txt")
            assert "undone since" in await entered(talk, front, "/diff a.txt")
            await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("D8", "H2")
@pytest.mark.parametrize("typed, shown", [("y", "✓ shell"), ("n", "✗ shell did not run: The user said no.")])
def test_a_local_run_asks_in_the_chat(typed, shown, tmp_path):
    async def scenario():
        async with local(tmp_path, SHELL) as place:
            talk, front = controller_of(place)
            await talk.open()
            talk.entered("run echo hi")
            await eventually(lambda: talk.question is not None)
            assert talk.entered(typed, talk.asking) == "answer"
            await talk.settled()
            assert shown in front.screen
            await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("E2", "G6", "H2")
def test_a_run_that_was_under_way_when_the_chat_was_closed_goes_on_in_the_next_one(tmp_path):
    async def scenario():
        async with local(tmp_path, SHELL) as place:
            talk, front = controller_of(place)
            await talk.open()
            talk.entered("run echo hi >> done.txt")
            await eventually(lambda: talk.question is not None)
            talk.entered("list files")
            await eventually(lambda: len(talk.view().queued) == 1)
            await talk.close()
        async with local(tmp_path, SHELL) as place:
            talk, front = controller_of(place)
            assert await place.latest() == "work"
            await talk.open()
            assert "a run is under way here:" in front.replies
            await eventually(lambda: talk.question is not None)
            talk.entered("y", talk.asking)
            await eventually(lambda: front.said == ["run echo hi >> done.txt", "list files"])
            await eventually(lambda: front.lines[-1].startswith("completed"))
            assert "resumed after a restart" in front.lines
            assert (tmp_path / "done.txt").read_text() == "hi\n"
            await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("G2", "H2")
@pytest.mark.requirement("H6", "G2")
def test_behind_an_interrupt_the_conversation_goes_on_and_behind_a_stop_it_starts_fresh(tmp_path):
    async def scenario():
        async with local(tmp_path) as place:
            talk, front = controller_of(place)
            await talk.open()
            for act in (talk.interrupt, lambda: talk.entered("/stop")):
                told = len(front.lines)
                talk.entered("run sleep 1000")
                await eventually(lambda told=told: "→ shell sleep 1000" in front.lines[told:])
                act()
                await talk.settled()
                assert talk.code == 130
                assert "✗ shell " in "\n".join(front.lines[told:])
                told = len(front.lines)
                talk.entered("list files")
                await talk.settled()
                assert talk.code == 0
                fresh = any("Fresh start: the last run was stopped." in line for line in front.lines[told:])
                assert fresh == (act != talk.interrupt)
            await talk.close()

    run_scenario(scenario)


class Output(DummyOutput):
    """Remembers what was printed for good, and has a size."""

    def __init__(self, columns=80):
        self.printed = ""
        self._columns = columns

    def write_raw(self, data):
        self.printed += data

    def get_size(self):
        return Size(24, self._columns)


@asynccontextmanager
async def typing(folder, settings="", columns=80):
    """A chat with somebody at the keys."""
    async with local(folder, settings) as place:
        with create_pipe_input() as keys:
            output = Output(columns)
            front = TerminalFront(place, ChatHistory(folder / "data"), color=True, input=keys, output=output)
            talk, _ = controller_of(place, front)
            front.attach(talk)
            await talk.open()
            running = asyncio.ensure_future(front.run())
            try:
                yield talk, keys, output, running
            finally:
                running.cancel()
                await asyncio.wait({running})
                await talk.close()


def live(front):
    return "".join(text for _, text in front._message())


@pytest.mark.requirement("H2")
def test_lines_are_typed_sent_and_answered_above_the_line(tmp_path):
    async def scenario():
        async with typing(tmp_path) as (_talk, keys, output, running):
            keys.send_text("list files\r")
            await eventually(lambda: "completed after" in output.printed)
            keys.send_text("one\\\rtwo\x1b\rlist\r")
            await eventually(lambda: output.printed.count("completed after") == 2)
            plain = ESCAPES.sub("", output.printed)
            assert "› one\r\n  two\r\n  list\r\n" in plain
            assert "\n" not in output.printed.replace("\r\n", "")
            keys.send_text("/quit\r")
            assert await asyncio.wait_for(running, 100) == "quit"

    run_scenario(scenario)


@pytest.mark.requirement("H6")
def test_esc_alone_is_known_by_a_short_wait_for_more_and_interrupts(tmp_path):
    async def scenario():
        async with typing(tmp_path) as (talk, keys, output, _running):
            keys.send_text("run sleep 1000\r")
            await eventually(lambda: talk.view().running)
            await eventually(lambda: "→ shell sleep 1000" in output.printed)
            keys.send_text("\x1b")
            await eventually(lambda: "cancelled after" in output.printed)
            app = talk._front._session.app
            assert app.timeoutlen + app.ttimeoutlen < 0.5  # the rest of a second is for the run
            assert "interrupted; the conversation is kept" in output.printed

    run_scenario(scenario)


@pytest.mark.requirement("H2")
def test_pasted_lines_stay_together_and_ctrl_d_leaves(tmp_path):
    async def scenario():
        async with typing(tmp_path, columns=40) as (_talk, keys, output, running):
            keys.send_text("\x1b[200~one\ntwo list\x1b[201~")
            keys.send_text("\r")
            await eventually(lambda: "completed after" in output.printed)
            assert "› one\r\n  two list\r\n" in ESCAPES.sub("", output.printed)
            keys.send_text("\x04")
            assert await asyncio.wait_for(running, 100) == "quit"

    run_scenario(scenario)


@pytest.mark.requirement("D8", "H2")
def test_a_line_begun_before_a_question_goes_to_the_model_and_the_next_one_answers(tmp_path):
    async def scenario():
        async with typing(tmp_path, SHELL) as (talk, keys, output, _running):
            keys.send_text("run echo hi\rlist fi")
            await eventually(lambda: talk.question is not None)
            keys.send_text("les\r")
            await eventually(lambda: talk.view().queued == ("list files",))
            keys.send_text("perhaps\r")
            await eventually(lambda: "y allows it" in output.printed)
            keys.send_text("\x15y\r")
            await eventually(lambda: output.printed.count("completed after") == 2)
            plain = ESCAPES.sub("", output.printed)
            assert plain.index("allowed") < plain.index("› list files")

    run_scenario(scenario)


@pytest.mark.requirement("G2", "H2")
def test_ctrl_c_stops_a_run_then_leaves_at_once_and_clears_a_line_when_nothing_runs(tmp_path):
    async def scenario():
        async with typing(tmp_path) as (talk, keys, output, running):
            keys.send_text("half a line\x03list files\r")
            await eventually(lambda: "completed after" in output.printed)
            assert "half a line" not in output.printed
            keys.send_text("run sleep 1000\r")
            await eventually(lambda: talk.view().lines)
            keys.send_text("\x03")
            await eventually(lambda: "cancelled after" in output.printed)
            keys.send_text("\x03")
            await eventually(lambda: "Ctrl-C again leaves" in output.printed)
            keys.send_text("\x03")
            assert await asyncio.wait_for(running, 100) == "quit"

    run_scenario(scenario)


@pytest.mark.requirement("H2")
def test_the_line_that_is_open_stays_on_the_screen_when_somebody_leaves(tmp_path):
    async def scenario():
        place, output = ScriptedBackend(r1=[started("r1", "go"), spoke("First.\n\nAn open line")]), Output()
        place.answers = {"go": "r1"}
        with create_pipe_input() as keys:
            front = TerminalFront(place, ChatHistory(tmp_path), color=False, input=keys, output=output)
            talk, _ = controller_of(place, front)
            front.attach(talk)
            await talk.open()
            running = asyncio.ensure_future(front.run())
            keys.send_text("go\r")
            await eventually(lambda: "An open line" in live(front))
            keys.send_text("/busy steer\r")
            await eventually(lambda: "a message while something runs: steer" in output.printed)
            assert "› /busy steer\r\na message" in output.printed
            assert "An open line" not in output.printed
            keys.send_text("\x04")
            assert await asyncio.wait_for(running, 100) == "quit"
            await talk.close()
        assert output.printed.endswith("An open line\r\n")

    run_scenario(scenario)


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "columns, shown",
    [
        (100, "lab · context 2,419 (7 %) · $0.01 · waiting for more from m, 2 s · Esc interrupts"),
        (80, "lab · context 2,419 (7 %) · waiting for more from m, 2 s · Esc interrupts"),
        (60, "lab · waiting for more from m, 2 s · Esc interrupts"),
        (50, "waiting for more from m, 2 s · Esc interrupts"),
        (30, "waiting for more from m, 2 s…"),
    ],
)
def test_the_status_says_what_is_waited_for_before_what_was_used(columns, shown):
    view = View(True, waiting="waiting for more from m, 2 s", meter="lab · context 2,419 (7 %) · $0.01")
    assert status_text(view, columns) == shown


@pytest.mark.requirement("H2")
def test_what_was_typed_is_found_again_and_what_is_secret_is_not_kept(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    history = ChatHistory(folder)
    for line in (
        "first",
        "two\nlines",
        "key sk-abcdefghijklmnopqrstuvwxyz012345",
        "x" * (LONGEST + 1),
        "last",
    ):
        history.append_string(line)
    assert list(ChatHistory(folder).load_history_strings()) == ["last", "two\nlines", "first"]
    assert stat.S_IMODE((folder / "chat_history").stat().st_mode) == 0o600
    for number in range(MOST + 10):
        history.store_string(f"line {number}")
    assert len(list(ChatHistory(folder).load_history_strings())) == MOST // 2
    assert next(iter(ChatHistory(folder).load_history_strings())) == f"line {MOST + 9}"
    assert stat.S_IMODE((folder / "chat_history").stat().st_mode) == 0o600
    (folder / "chat_history").write_bytes(b'"good"\nbroken\n"also"\n')
    assert list(ChatHistory(folder).load_history_strings()) == ["also", "good"]
    assert list(ChatHistory(tmp_path / "nowhere").load_history_strings()) == []


def _piped(folder, text, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "turnbuckle.cli.main", "chat", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.process
@pytest.mark.requirement("C6", "H2")
def test_in_a_pipe_each_line_is_a_turn_and_the_last_one_is_the_exit_code(tmp_path):
    ran = _piped(
        tmp_path, "write a.txt with 3 lines\n\nread a.txt\n/runs\n", "--session", "work", TERM="xterm"
    )
    assert ran.returncode == 0
    assert ran.stdout.startswith("I am the rehearsal model")
    assert "line 3 of 3" in ran.stdout
    assert "\x1b" not in ran.stdout + ran.stderr
    lines = ran.stderr.splitlines()
    assert lines[0].startswith("session work, rehearsal.")
    assert [line for line in lines if line.startswith("›")] == ["› write a.txt with 3 lines", "› read a.txt"]
    assert sum("completed  " in line for line in lines) == 2
    again = _piped(tmp_path, "/status\n/statsu\n", "--continue")
    assert again.returncode == 2
    assert "Messages in this conversation: 2." in again.stderr
    assert "did you mean /status?" in again.stderr


@pytest.mark.process
@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--continue", "--session", "x"], "use one of them"),
        (["--continue"], "there is no session to go on with"),
        (["--server", "http://127.0.0.1:1", "--model", "m"], "leave those out"),
        (["--session", "a b"], "the name of a session must have"),
    ],
)
def test_a_chat_that_can_not_be_meant_is_answered_with_a_way_out(arguments, words, tmp_path):
    ran = command(tmp_path, "chat", *arguments)
    assert (ran.code, words in ran.err) == (2, True)


@pytest.mark.process
@pytest.mark.requirement("H2")
def test_a_server_that_is_not_there_is_told_at_once(tmp_path):
    ran = command(tmp_path, "chat", "--server", "http://127.0.0.1:1")
    assert (ran.code, "no answer from http://127.0.0.1:1" in ran.err) == (1, True)
