"""Which calls may have stopped the server."""

import pytest

from turnbuckle.turn.doubt import QUESTION, is_suspect
from turnbuckle.turn.labels import SHORT
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import PendingCall
from turnbuckle.vocab.ids import RouteName

TOOLS = {
    "shell": ToolFacts("write", subject="command", is_command=True),
    "write_file": ToolFacts("write", subject="path"),
}
POLICY = Policy((RouteFacts(RouteName("r"), "openai_chat", "m"),), TOOLS)
STOPPERS = (
    "kill pkill killall systemctl service reboot shutdown poweroff halt docker podman supervisorctl turnbuckle".split()
)


def suspect(command, name="shell"):
    return is_suspect(PendingCall("c", name, {"command": command, "path": command}), POLICY)


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("word", STOPPERS)
@pytest.mark.parametrize(
    "form", ["{}", "sudo {} -9 1", "/usr/bin/{} x", "make;{}", "(cd a && {} x)", "x | xargs {}", "$({} x)"]
)
def test_a_command_with_such_a_word_is_a_suspect(word, form):
    assert suspect(form.format(word))


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("word", STOPPERS)
@pytest.mark.parametrize("form", ["s{}", "{}s", "my_{}", "{}2"])
def test_a_part_of_a_word_is_none(word, form):
    assert not suspect(form.format(word)) or form.format(word) in STOPPERS


@pytest.mark.requirement("G5")
@pytest.mark.parametrize("command", ["make all", "echo skill", "sleep 300", ""])
def test_any_other_command_is_none(command):
    assert not suspect(command)


@pytest.mark.requirement("G5")
def test_only_commands_are():
    assert not suspect("kill", "write_file")
    assert not suspect("kill", "unheard_of")


def test_the_question_is_shown_whole_wherever_it_is_shown_short():
    assert len(QUESTION) <= SHORT
