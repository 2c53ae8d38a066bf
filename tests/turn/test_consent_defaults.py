"""Who is asked before what, where no rule speaks: a table over surfaces, people, kinds of tools, rules, and version
control."""

import asyncio
import itertools
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from turnbuckle.runtime.consent_book import ConsentBook
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.turn.approvals import judge, rules_for_good
from turnbuckle.turn.consent import Rule, Surface, ToolKind, asks_first, rule_text, unruled, written
from turnbuckle.turn.policy import Policy, RouteFacts, ToolFacts, for_options
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import RunOptions

CALLS: dict[ToolKind, tuple[str, dict[str, Any]]] = {
    "command": ("shell", {"command": "make test"}),
    "network": ("fetch_url", {"url": "https://example.org/a"}),
    "write": ("write_file", {"path": "a.txt", "content": "x"}),
    "other": ("read_file", {"path": "a.txt"}),
}
TOOLS = {
    "shell": ToolFacts("write", subject="command", is_command=True, widens="network"),
    "fetch_url": ToolFacts("read", subject="url"),
    "write_file": ToolFacts("idempotent", subject="path"),
    "read_file": ToolFacts("read", subject="path"),
    "own": ToolFacts("write"),
}
MAIN = RouteFacts(RouteName("main"), "openai_chat", "m")
RULES: tuple[Rule | None, ...] = (None, "allow", "ask", "deny")
TABLE = list(itertools.product(get_args(Surface), (True, False), get_args(ToolKind), RULES, (True, False)))


def policy(rule: dict[str, Rule], *, ask_first: bool, versioned: bool) -> Policy:
    whole = Policy((MAIN,), TOOLS, consent=written(rule), versioned=versioned)
    return for_options(whole, RunOptions(ask_first=ask_first))


@pytest.mark.requirement("H10")
@pytest.mark.parametrize(("surface", "attended", "kind", "rule", "versioned"), TABLE)
def test_a_rule_always_decides_and_without_one_a_person_is_asked_first(
    surface: Surface, attended: bool, kind: ToolKind, rule: Rule | None, versioned: bool
):
    name, arguments = CALLS[kind]
    rules: dict[str, Rule] = {} if rule is None else {name: rule}
    found = judge(
        policy(rules, ask_first=asks_first(surface, attended), versioned=versioned), name, arguments
    )
    sits_there = attended and surface in ("terminal", "console")
    asked = sits_there and (kind in ("command", "network") or (kind == "write" and not versioned))
    assert found.rule == (rule or ("ask" if asked else "allow"))
    assert bool(found.why) == (rule is not None or asked)


@pytest.mark.requirement("H10")
def test_the_kinds_of_the_built_in_tools_are_what_they_do():
    kinds = {
        tool.name: ToolFacts(tool.effect, subject=tool.subject, is_command=tool.is_command).kind
        for tool in BUILT_IN
    }
    assert {name for name, kind in kinds.items() if kind == "command"} == {"shell"}
    assert {name for name, kind in kinds.items() if kind == "network"} == {"fetch_url"}
    assert {name for name, kind in kinds.items() if kind == "write"} == {
        "write_file",
        "append_file",
        "edit_file",
    }


@pytest.mark.requirement("H10")
def test_why_it_is_asked_names_the_rule_or_the_default():
    asking = policy({"shell": "allow", "shell:git push*": "ask"}, ask_first=True, versioned=False)
    assert judge(asking, "shell", {"command": "git push now"}).why == 'the rule "shell:git push*" = "ask"'
    assert (
        judge(asking, "write_file", CALLS["write"][1]).why
        == unruled("write", ask_first=True, versioned=False)[1]
    )
    assert judge(asking, "shell", {"command": "make", "network": True}).why == (
        "it wants more than it has: network"
    )


@pytest.mark.requirement("H10")
@pytest.mark.parametrize(
    ("rules", "name", "arguments", "expected"),
    [
        ({}, "shell", {"command": "make test"}, ['"shell:make test" = "allow"']),
        ({"shell": "ask"}, "shell", {"command": "make test"}, ['"shell:make test" = "allow"']),
        ({}, "shell", {"command": "make; rm -rf ."}, []),
        ({}, "shell", {"command": "ls *"}, []),
        (
            {},
            "shell",
            {"command": "pip list", "network": True},
            ['"shell:pip list" = "allow"', '"network:pip list" = "allow"'],
        ),
        ({}, "fetch_url", {"url": "https://a.org/?q=*"}, ['"fetch_url:https://a.org/[?]q=[*]" = "allow"']),
        ({}, "write_file", {"path": "a.txt"}, ['"write_file" = "allow"']),
        ({"write_file": "ask"}, "write_file", {"path": "./a.txt"}, ['"write_file:a.txt" = "allow"']),
        ({"own": "ask"}, "own", {}, []),
        # A rule that asks about all tools asks about this one, too: only the very file is meant.
        ({"*": "ask"}, "write_file", {"path": "a.txt"}, ['"write_file:a.txt" = "allow"']),
        ({"w*": "ask"}, "write_file", {"path": "a.txt"}, ['"write_file:a.txt" = "allow"']),
        # An empty command is not every command.
        ({}, "shell", {"command": "  "}, []),
        ({}, "shell", {}, []),
        ({}, "fetch_url", {"url": ""}, []),
    ],
)
def test_a_yes_for_good_writes_the_narrowest_rule_that_can_allow_it(
    rules: dict[str, Rule], name: str, arguments: dict[str, Any], expected: list[str]
):
    asking = policy(rules, ask_first=True, versioned=False)
    found = rules_for_good(asking, name, arguments)
    assert [rule_text(rule) for rule in found] == expected
    if found:
        assert judge(asking, name, arguments, found).rule == "allow"
        other = {**arguments, "command": "curl evil", "url": "https://b.org/"}
        if name != "write_file":
            assert judge(asking, name, other, found).rule == "ask"


@pytest.mark.requirement("H10")
@pytest.mark.parametrize("denied", ["shell", "*", "shell:make*", "s*"])
def test_what_the_settings_deny_is_denied_whatever_a_person_once_allowed_for_good(denied: str):
    call = CALLS["command"]
    book = ConsentBook()
    allowed = rules_for_good(policy({"shell": "ask"}, ask_first=False, versioned=False), *call)
    asyncio.run(book.add("local", allowed))
    asking = policy({"shell": "ask"}, ask_first=False, versioned=False)
    assert judge(replace(asking, allowed=book.of("local")), *call).rule == "allow"
    denying = policy({denied: "deny"}, ask_first=False, versioned=False)
    assert judge(replace(denying, allowed=book.of("local")), *call).rule == "deny"
    assert judge(denying, *call, allowed).rule == "deny"
