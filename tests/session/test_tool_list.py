"""`/tools` says of each tool what the rules would say of its calls."""

import pytest

from turnbuckle.service.tool_list import tools_text
from turnbuckle.turn.consent import written
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.tooling import FINISH_CALL

TOOLS = {
    "read_file": ToolFacts("read", subject="path"),
    "write_file": ToolFacts(subject="path"),
    "shell": ToolFacts(subject="command", is_command=True, widens="network"),
    "ask_user": ToolFacts("read", asks=True),
    "_quiet": ToolFacts(),
    FINISH_CALL: ToolFacts(),
}


def told(approval=None, **more):
    routes = (RouteFacts(RouteName("main"), "openai_chat", "m"),)
    lines = tools_text(
        Policy(routes=routes, tools=TOOLS, consent=written(approval or {}), **more)
    ).splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


@pytest.mark.requirement("H10")
@pytest.mark.parametrize(
    "approval, more, tool, words",
    [
        ({}, {}, "shell", "runs without asking; with network: asks first"),
        ({}, {"ask_first": True}, "shell", "asks first"),
        ({}, {"ask_first": True}, "write_file", "asks first"),
        ({}, {"ask_first": True, "versioned": True}, "write_file", "runs without asking"),
        ({}, {"ask_first": True}, "read_file", "runs without asking"),
        ({"shell": "deny"}, {}, "shell", "is not allowed"),
        (
            {"shell": "ask", "shell:git status": "allow"},
            {},
            "shell",
            "asks first; git status: allowed",
        ),
        ({"*": "ask"}, {}, "read_file", "asks first"),
        ({}, {}, "ask_user", "is a question to you"),
    ],
)
def test_each_tool_has_its_rule(approval, more, tool, words):
    assert told(approval, **more)[tool] == words


def test_what_is_the_runtimes_own_is_not_listed():
    assert set(told()) == {"read_file", "write_file", "shell", "ask_user"}
