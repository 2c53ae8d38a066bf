"""What the rules of a turn say of tools that servers of others offer, of which only the prefix is known."""

import pytest
from msgspec.structs import replace

from turnbuckle.turn.approvals import CHANGED, judge, rules_for_good
from turnbuckle.turn.consent import written
from turnbuckle.turn.policy import Policy, RouteFacts, for_options
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import RunOptions, ToolSpec

POLICY = Policy((RouteFacts(RouteName("main"), "openai_chat", "m"),), foreign=("mcp__notes__",))
NAME = "mcp__notes__add"


@pytest.mark.requirement("M1", "D3")
def test_such_a_tool_may_change_anything_and_is_asked_about():
    assert POLICY.tool(NAME).effect == "write"
    assert judge(POLICY, NAME, {}).rule == "ask"
    assert judge(POLICY, "mcp__other__add", {}).rule == "allow"  # no such server: the call runs nothing
    allowed = Policy(POLICY.routes, foreign=POLICY.foreign, consent=written({"mcp__notes__*": "allow"}))
    assert judge(allowed, NAME, {}).rule == "allow"


@pytest.mark.requirement("M1", "H10")
def test_a_yes_for_good_holds_for_the_tool_that_was_seen_and_not_for_one_that_describes_itself_otherwise():
    assert rules_for_good(POLICY, NAME, {}) == ()  # nobody knows yet what it says of itself
    seen = replace(POLICY, marks={NAME: "1"})
    given = rules_for_good(seen, NAME, {})
    assert judge(replace(seen, allowed=given), NAME, {}).rule == "allow"
    for marks in ({NAME: "2"}, {}):
        other = judge(replace(POLICY, marks=marks, allowed=given), NAME, {})
        assert (other.rule, other.why) == ("ask", CHANGED)
    unbound = tuple(replace(rule, mark="") for rule in given)  # of a file that an older version wrote
    assert judge(replace(seen, allowed=unbound), NAME, {}).rule == "ask"
    # What the owner of the settings wrote is the owner's own word.
    assert judge(replace(POLICY, consent=written({NAME: "allow"})), NAME, {}).rule == "allow"


@pytest.mark.requirement("M1", "F11")
def test_a_relay_has_none_of_them_and_a_client_with_own_tools_keeps_ours():
    relay = for_options(POLICY, RunOptions(own_tools=False))
    assert relay.foreign == ()
    assert not relay.offers(NAME)
    beside = for_options(POLICY, RunOptions(tools=(ToolSpec("look", "", {}),)))
    assert beside.offers(NAME)
    assert not beside.offers("shell")


@pytest.mark.requirement("M1", "F11")
def test_a_tool_that_the_client_brings_under_such_a_name_is_the_clients():
    policy = for_options(POLICY, RunOptions(tools=(ToolSpec(NAME, "", {}),)))
    assert policy.tool(NAME).client
    assert judge(policy, NAME, {}).rule == "allow"  # the client asks its own user
