"""`turnbuckle chat` in a real terminal of 80 columns: typed at, stopped, asked by, and cut off."""

import json
import re
import shlex
import sys

import pytest
from support.processes.commands import command
from support.processes.served_folder import lab_in_thread, lab_settings, served
from support.server.live_server import gate
from support.terminal.tmux import COLUMNS

from turnbuckle.lab.script import Call, Finish, More, Say, Stall

pytestmark = pytest.mark.process

FIRST, SECOND = "The first half of it, ", "and the second half."
READY = "/help lists"


def _settings(folder, text):
    (folder / "work").mkdir()
    (folder / "turnbuckle.toml").write_text(text)


def _enter(chat, text):
    chat.type(text)
    chat.wait_for(f"› {text}")
    chat.send("Enter")


def _leave(chat):
    chat.send("C-d")
    assert chat.code() == 0
    assert "Traceback" not in chat.text()
    assert max(len(line) for line in chat.screen().splitlines()) <= COLUMNS


@pytest.mark.requirement("H2")
def test_a_turn_shows_set_markdown_and_tools_as_cards(terminal, tmp_path):
    chat = terminal().turnbuckle("chat")
    first = chat.wait_for(READY)
    assert first.startswith("sandbox: ")
    assert "\nsession s" in first
    _enter(chat, "show markdown")
    chat.wait_for("completed after")
    shown = chat.text()
    assert "A heading" in shown
    assert "# A heading" not in shown
    assert "**bold**" not in shown
    assert "def healed(text: str, rest: str) -> str:" in shown
    _enter(chat, "write hello.txt with 3 lines")
    chat.wait_until(lambda _: chat.text().count("completed after") == 2, "the end of the second turn")
    assert "→ write_file hello.txt" in chat.text()
    assert len((tmp_path / "hello.txt").read_text().splitlines()) == 3
    assert chat.text().count("› show markdown") == 1
    _leave(chat)


@pytest.mark.requirement("H2")
def test_a_slash_offers_the_commands_and_tab_completes_one(terminal):
    chat = terminal().turnbuckle("chat")
    chat.wait_for(READY)
    chat.type("/sta")
    chat.wait_for("/status")
    chat.send("Tab")
    chat.wait_for("› /status")
    chat.send("Enter")
    chat.wait_for("Nothing was said in this session yet.")
    chat.type("/hlep")
    chat.send("Enter")
    # A slip is asked back, and stays to be mended.
    chat.wait_until(
        lambda screen: "did you mean /help?" in screen and "› /hlep" in screen, "the slip and the question"
    )
    chat.send("C-c")
    chat.wait_until(lambda screen: "› /hlep" not in screen)
    assert "Traceback" not in chat.text()
    _leave(chat)


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("how", ["alt-enter", "backslash", "paste"])
def test_a_message_may_have_many_lines(how, terminal, tmp_path):
    with lab_in_thread(lambda request: (Say("Heard."), Finish())) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        chat = terminal().turnbuckle("chat")
        chat.wait_for(READY)
        if how == "paste":
            chat.paste("one\ntwo\nthree")
        else:
            for line in ("one", "two"):
                chat.type(line if how == "alt-enter" else f"{line}\\")
                chat.send("M-Enter" if how == "alt-enter" else "Enter")
            chat.type("three")
        chat.wait_for("three")
        assert not behind.provider.requests
        chat.send("Enter")
        chat.wait_for("completed after")
        assert behind.provider.requests[0].body["messages"][-1]["content"] == "one\ntwo\nthree"
        _leave(chat)


_MARKS_PASTES, _MARKS_NONE = "\x1b[?2004h", "\x1b[?2004l"


@pytest.mark.requirement("H2")
def test_the_terminal_marks_what_is_pasted_from_the_first_line_to_the_last_also_while_something_is_printed(
    terminal,
):
    """Else lines that are pasted in such a moment are sent one by one."""
    chat = terminal().turnbuckle("chat")
    chat.wait_for(READY)
    assert chat.written.index(_MARKS_PASTES) < chat.written.index("session s")
    _enter(chat, "show markdown")
    chat.wait_for("completed after")
    assert _MARKS_NONE not in chat.written
    _leave(chat)
    assert chat.written.rindex(_MARKS_NONE) > chat.written.rindex(_MARKS_PASTES)


@pytest.mark.requirement("H2")
def test_a_chat_that_steps_aside_gives_the_terminal_back_and_takes_it_again(terminal):
    chat = terminal().start("bash", "--norc", "--noprofile", "--noediting", "-i")
    chat.type(shlex.join([sys.executable, "-m", "turnbuckle.cli.main", "chat"]))
    chat.send("Enter")
    chat.wait_for(READY)
    chat.send("C-z")
    chat.wait_for("Stopped")
    assert chat.written.rindex(_MARKS_NONE) > chat.written.rindex(_MARKS_PASTES)
    chat.type("fg")
    chat.send("Enter")
    chat.wait_until(lambda _: chat.written.rindex(_MARKS_PASTES) > chat.written.rindex(_MARKS_NONE))
    chat.paste("show\nmarkdown")
    chat.wait_for("markdown")
    assert "completed" not in chat.text()
    chat.send("C-c")
    chat.send("C-d")
    chat.wait_for("to continue:")
    chat.type("exit")
    chat.send("Enter")
    assert chat.code() == 0


@pytest.mark.requirement("H2")
def test_what_was_typed_before_is_found_again_in_another_chat(terminal, tmp_path):
    first = terminal().turnbuckle("chat")
    first.wait_for(READY)
    _enter(first, "list files")
    first.wait_for("completed after")
    _leave(first)
    second = terminal().turnbuckle("chat")
    second.wait_for(READY)
    second.send("C-r")
    second.type("list")
    second.wait_for("list files")
    second.send("Enter", "Enter")
    second.wait_for("completed after")
    _leave(second)
    listed = command(tmp_path, "runs", "list", "--json")
    assert [run["title"] for run in json.loads(listed.out)] == ["list files", "list files"]


@pytest.mark.requirement("H2", "G2")
def test_ctrl_c_stops_the_turn_and_the_chat_goes_on(terminal, tmp_path):
    def model(request):
        if request.number == 1:
            return (Say("Half a sentence"), Stall("forever"))
        return (Say("Here I am again."), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        chat = terminal().turnbuckle("chat")
        chat.wait_for(READY)
        _enter(chat, "say something")
        chat.wait_for("Half a sentence")
        chat.send("C-c")
        chat.wait_for("cancelled after")
        assert "Half a sentence" in chat.text()
        _enter(chat, "and now?")
        chat.wait_for("Here I am again.")
        chat.wait_for("completed after")
        _leave(chat)


@pytest.mark.requirement("H2", "D8")
@pytest.mark.parametrize("answer, made_it", [("y", True), ("n", False)])
def test_consent_is_asked_for_in_place_and_the_exact_command_is_shown(answer, made_it, terminal, tmp_path):
    chat = terminal(TURNBUCKLE_TOOLS__APPROVAL__SHELL="ask").turnbuckle("chat")
    chat.wait_for(READY)
    _enter(chat, "run touch made")
    chat.wait_for("$ touch made")
    chat.wait_for("/n ›")
    assert not (tmp_path / "made").exists()
    _enter(chat, answer)
    chat.wait_for("completed after")
    assert (tmp_path / "made").exists() == made_it
    _leave(chat)


@pytest.mark.requirement("H9", "H10")
@pytest.mark.parametrize("columns", [80, 130])
def test_a_question_about_a_file_shows_the_task_the_reason_and_the_diff(columns, terminal, tmp_path):
    (tmp_path / "hello.txt").write_text(f"old \x1b[2J\u202e{'wide ' * 40}end\n")
    chat = terminal(columns=columns, git=False).turnbuckle("chat")
    chat.wait_for(READY)
    _enter(chat, "write hello.txt with 3 lines")
    chat.wait_for("/n ›")
    asked = chat.text()
    assert "task: write hello.txt with 3 lines" in asked
    assert "asked because: this folder is not in a git work tree" in asked
    assert "hello.txt +3 −1" in asked
    assert "-old \\x1b[2J\\u202ewide" in asked
    assert asked.count("+line ") == 3
    assert 'adds the rule "write_file" = "allow"' in " ".join(asked.split())
    assert max(map(len, chat.screen().splitlines())) <= columns
    _enter(chat, "y")
    chat.wait_for("completed after")
    assert "/n ›" not in chat.screen()
    assert len((tmp_path / "hello.txt").read_text().splitlines()) == 3
    chat.send("C-d")
    assert chat.code() == 0


@pytest.mark.realtime
@pytest.mark.requirement("H2")
def test_a_silence_shows_what_is_waited_for_and_leaves_no_trace(terminal, tmp_path):
    def model(request):
        return (Say(FIRST), gate(1), Say(SECOND), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        chat = terminal().turnbuckle("chat")
        chat.wait_for(READY)
        _enter(chat, "say it")
        chat.wait_for("waiting for more from m")
        behind.open(1)
        chat.wait_for("completed after")
        assert "waiting for more" not in chat.text()
        assert chat.text().count(FIRST + SECOND) == 1
        _leave(chat)


@pytest.mark.realtime
@pytest.mark.requirement("H2", "E4", "G5")
def test_a_chat_with_a_server_that_dies_comes_back_and_shows_what_was_missed_once(terminal, tmp_path):
    def model(request):
        if request.number == 1:
            return (Say(FIRST), gate(1), Finish())
        return (Say(SECOND), gate(2), Finish())

    (tmp_path / "home").mkdir()
    with lab_in_thread(model) as behind, served(tmp_path, lab_settings(behind.url)) as server:
        chat = terminal(tmp_path / "home").turnbuckle("chat", "--server", server.url)
        chat.wait_for(READY)
        _enter(chat, "say it")
        chat.wait_for(FIRST.strip())
        server.kill()
        chat.wait_for("connection lost, trying again")
        server.start()
        behind.asked(2)
        behind.open(2)
        chat.wait_for("completed after")
        told = " ".join(chat.text().split())
        assert told.count(FIRST.strip()) == told.count(SECOND) == 1
        assert len(re.findall("› say it", told)) == 1
        _leave(chat)


@pytest.mark.requirement("H2")
def test_a_message_while_something_runs_waits_where_one_can_see_it(terminal, tmp_path):
    def model(request):
        return (Say(f"Answer {request.number}."), gate(request.number), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        chat = terminal().turnbuckle("chat")
        chat.wait_for(READY)
        _enter(chat, "the first")
        chat.wait_for("Answer 1.")
        _enter(chat, "the second")
        chat.wait_for("waits: the second")
        behind.open(1)
        chat.wait_for("Answer 2.")
        behind.open(2)
        chat.wait_until(lambda screen: screen.count("completed after") == 2)
        told = chat.text()
        assert "waits: " not in told
        assert told.index("Answer 1.") < told.index("› the second") < told.index("Answer 2.")
        _leave(chat)


@pytest.mark.requirement("H2")
def test_a_dumb_terminal_gets_plain_lines_and_no_escape_codes(terminal, tmp_path):
    chat = terminal(TERM="dumb", TURNBUCKLE_TOOLS__APPROVAL__SHELL="ask").turnbuckle("chat")
    chat.wait_for(READY)
    chat.type("run touch made")
    chat.send("Enter")
    chat.wait_for("$ touch made")
    chat.wait_for("y/a/n >")
    chat.type("y")
    chat.send("Enter")
    chat.wait_for("completed after")
    assert (tmp_path / "made").exists()
    chat.type("/quit")
    chat.send("Enter")
    assert chat.code() == 0
    assert "\x1b" not in chat.written


@pytest.mark.requirement("H2", "B4")
def test_a_long_call_is_counted_while_it_streams(terminal, tmp_path):
    def model(request):
        if any(message["role"] == "tool" for message in request.body["messages"]):
            return (Say("Done."), Finish())
        half = '{"path":"a.txt","content":"' + "x" * 5_000
        return (Call("write_file", half, 500, closed=False), gate(1), More('y"}'), Finish())

    with lab_in_thread(model) as behind:
        _settings(tmp_path, lab_settings(behind.url))
        chat = terminal().turnbuckle("chat")
        chat.wait_for(READY)
        _enter(chat, "write it")
        chat.wait_until(
            lambda screen: re.search(r"write_file.*5,0\d\d characters", screen) is not None, "a count"
        )
        behind.open(1)
        chat.wait_for("completed after")
        assert (tmp_path / "work" / "a.txt").read_text() == "x" * 5_000 + "y"
        _leave(chat)
