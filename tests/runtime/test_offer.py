"""Which tools a model call offers, and which of them it must take."""

import pytest
from turn_facts import ask

from turnbuckle.runtime.offer import offered, tool_choice
from turnbuckle.vocab.request import NamedTool, ToolSpec, Wishes
from turnbuckle.vocab.tooling import FINISH_CALL

OWN = tuple(ToolSpec(name, "ours") for name in ("read_file", FINISH_CALL, "shell"))
BROUGHT = tuple(ToolSpec(name, "theirs") for name in ("find", "shell"))


def names(tools):
    return [(tool.name, tool.description) for tool in tools]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "wishes, expected",
    [
        (Wishes(), [("read_file", "ours"), ("shell", "ours"), (FINISH_CALL, "ours")]),
        (
            Wishes(tools=BROUGHT),
            [("read_file", "ours"), ("find", "theirs"), ("shell", "theirs"), (FINISH_CALL, "ours")],
        ),
        (Wishes(own_tools=False, tools=BROUGHT), [("find", "theirs"), ("shell", "theirs"), (FINISH_CALL, "ours")]),
        (Wishes(own_tools=False), []),
        (Wishes(own_tools=False, tools=(ToolSpec(FINISH_CALL, "theirs"),)), [(FINISH_CALL, "theirs")]),
    ],
    ids=["agent", "agent with more tools", "relay", "relay without tools", "another agent with drafts"],
)
def test_the_callers_tools_hide_ours_and_finish_call_stands_last(wishes, expected):
    assert names(offered(OWN, wishes)) == expected


@pytest.mark.requirement("F11")
def test_where_we_have_no_tools_at_all_nothing_is_offered():
    assert offered((), Wishes()) == ()
    assert offered((OWN[1],), Wishes()) == ()


@pytest.mark.requirement("F11")
def test_a_choice_of_none_leaves_the_list_of_tools_as_it_is():
    """A list that changes between two requests would spoil the provider's cache; the choice alone keeps it from
    calling."""
    wishes = Wishes(own_tools=False, tools=BROUGHT, tool_choice="none")
    assert offered(OWN, wishes) == offered(OWN, Wishes(own_tools=False, tools=BROUGHT))
    assert tool_choice(wishes, ask(), is_drafting=True) == "none"


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("why", ["first", "after_tools", "retry", "continue", "finish_draft", "fallback", "reask"])
@pytest.mark.parametrize("drafting", [False, True])
@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("find")], ids=str)
def test_what_the_caller_forces_is_forced_until_a_tool_has_answered(choice, drafting, why):
    found = tool_choice(Wishes(tool_choice=choice), ask(why=why), is_drafting=drafting)
    if choice in ("auto", "none"):
        assert found == choice
    elif drafting:
        assert found == NamedTool(FINISH_CALL)
    else:
        assert found == ("auto" if why == "after_tools" else choice)
