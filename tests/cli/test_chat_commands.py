"""What is a command of a chat, and what is for the model."""

import pytest

from turnbuckle.cli.chat.command import way_back
from turnbuckle.cli.chat.commands import WORDS, ChatMessage, Command, Wrong, about, help_text, parse
from turnbuckle.session.commands import HELP


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "text, meant",
    [
        ("hello", ChatMessage("hello")),
        ("/stop", Command("stop")),
        ("/STOP ", Command("stop")),
        ("/new", Command("new")),
        ("//new york is a city", ChatMessage("/new york is a city")),
        ("//stop", ChatMessage("//stop")),
        ("//deploy now", ChatMessage("/deploy now")),
        ("/model", Command("model")),
        ("/model small", Command("model", "small")),
        ("/cost", Command("cost")),
        ("/tools", Command("tools")),
        ("/compact", Command("compact")),
        ("/compact keep the names", Command("compact", "keep the names")),
        ("!ls", ChatMessage("!ls")),
        ("/interrupt", Command("interrupt")),
        ("/etc/hosts", ChatMessage("/etc/hosts")),
        ("/^a+$/ matches what?", ChatMessage("/^a+$/ matches what?")),
        ("/quit", Command("quit")),
        ("/exit", Command("quit")),
        ("/session other", Command("session", "other")),
        ("/sessions", Command("sessions")),
        ("/sessions two words", Command("sessions", "two words")),
        ("/steer look at b.txt first", Command("steer", "look at b.txt first")),
        ("/interrupt no", Command("interrupt", "no")),
        ("/queue then this", Command("queue", "then this")),
        ("/busy steer", Command("busy", "steer")),
        ("/busy", Command("busy")),
        ("/reasoning on", Command("reasoning", "on")),
        ("/drafts", Command("drafts")),
        ("/drafts show r1:d1", Command("drafts", "show r1:d1")),
        ("/drafts save r1:d1 a.txt", Command("drafts", "save r1:d1 a.txt")),
    ],
)
def test_a_line_is_a_command_or_a_message(text, meant):
    assert parse(text) == meant


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "text, meant",
    [
        ("!git status", Command("!", "git status")),
        ("! git log -1", Command("!", "git log -1")),
        ("!!important: read this", ChatMessage("!important: read this")),
        ("!ls\nand more", ChatMessage("!ls\nand more")),
        ("/share", Command("share")),
        ("/share why is that?", Command("share", "why is that?")),
        ("!", Wrong("! needs a command: !git status")),
    ],
)
def test_at_a_terminal_one_line_behind_an_exclamation_mark_is_a_command_of_the_users_own(text, meant):
    assert parse(text, own_commands=True) == meant


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    "text, words",
    [
        ("/statsu", "did you mean /status?"),
        ("/statsu of it all", "did you mean /status?"),
        ("/deploy", "// at the beginning sends it as it is"),
        ("/zzz to the server", "/help lists the commands"),
        ("/new york is a city", "/new takes no arguments"),
        ("/session", "/session NAME"),
        ("/session two words", "has no spaces"),
        ("/steer", "/steer TEXT"),
        ("/busy sometimes", "queue, steer, interrupt, refuse"),
        ("/reasoning maybe", "on or off"),
        ("/drafts show", "show ID"),
        ("/share", "is for a terminal"),
        ("/drafts burn r1:d1", "show ID"),
    ],
)
def test_a_slip_is_answered_with_a_way_out(text, words):
    told = parse(text)
    assert isinstance(told, Wrong)
    assert words in told.why


def test_the_help_names_every_command_of_the_chat_and_of_sessions():
    text = help_text()
    for word in WORDS:
        assert word in text
        assert about(word)
    assert {f"/{name}" for name in HELP} <= set(WORDS)


@pytest.mark.requirement("H13")
@pytest.mark.parametrize(
    "typed, hint",
    [
        ("/hlep", "did you mean /help?"),
        ("/sttaus", "did you mean /status?"),
        ("/foo", "/help lists the commands;"),
    ],
)
def test_the_nearest_command_is_named_only_if_it_is_near(typed, hint):
    meant = parse(typed)
    assert isinstance(meant, Wrong)
    assert f"there is no {typed}; {hint} " in meant.why


@pytest.mark.requirement("H2")
def test_whoever_leaves_is_told_the_command_that_goes_on_where_the_session_is():
    assert way_back("s1", "") == "to continue: turnbuckle chat --session s1"
    at = "http://127.0.0.1:8790"
    assert way_back("s1", at) == f"to continue: turnbuckle chat --server {at} --session s1"
