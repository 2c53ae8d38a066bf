"""Which calls may have stopped the server."""

import pytest

from turnbuckle.turn.crash_suspects import QUESTION, is_suspect
from turnbuckle.turn.labels import SHORT
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import PendingCall
from turnbuckle.vocab.ids import RouteName

TOOLS = {
    "shell": ToolFacts("write", subject="command", is_command=True),
    "write_file": ToolFacts("write", subject="path"),
}
POLICY = Policy((RouteFacts(RouteName("r"), "openai_chat", "m"),), TOOLS)


def suspect(command, name="shell"):
    return is_suspect(PendingCall("c", name, {"command": command, "path": command}), POLICY)


@pytest.mark.requirement("G5", "D11")
@pytest.mark.parametrize("command", ["kill -9 4242", "sudo systemctl restart turnbuckle", "(cd a && reboot)"])
def test_a_command_that_could_end_the_server_is_a_suspect(command):
    assert suspect(command)


@pytest.mark.requirement("G5")
@pytest.mark.parametrize(
    "command", ["make all", "echo skill", "sleep 300", "", "cat docs/kill.md", "ls turnbuckle"]
)
def test_any_other_command_is_none(command):
    assert not suspect(command)


@pytest.mark.requirement("G5")
def test_only_commands_are():
    assert not suspect("kill 1", "write_file")
    assert not suspect("kill 1", "unheard_of")


def test_the_question_is_shown_whole_wherever_it_is_shown_short():
    assert len(QUESTION) <= SHORT
