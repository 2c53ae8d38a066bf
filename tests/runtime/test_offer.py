"""Which tools a model call offers, and which of them it must take."""

import pytest
from support.turns.turn_facts import ask

from turnbuckle.runtime.request_tools import PATIENCE, offered, offers_finishing, rounds_of, tool_choice
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.request import NamedTool, RunOptions, ToolSpec
from turnbuckle.vocab.tooling import FINISH_CALL

OWN = tuple(ToolSpec(name, "ours") for name in ("read_file", FINISH_CALL, "shell"))
BROUGHT = tuple(ToolSpec(name, "theirs") for name in ("find", "shell"))


def names(tools):
    return [(tool.name, tool.description) for tool in tools]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "options, expected",
    [
        (RunOptions(), [("read_file", "ours"), ("shell", "ours"), (FINISH_CALL, "ours")]),
        (
            RunOptions(tools=BROUGHT),
            [("read_file", "ours"), ("find", "theirs"), ("shell", "theirs"), (FINISH_CALL, "ours")],
        ),
        (
            RunOptions(own_tools=False, tools=BROUGHT),
            [("find", "theirs"), ("shell", "theirs"), (FINISH_CALL, "ours")],
        ),
        (RunOptions(own_tools=False), []),
        (RunOptions(own_tools=False, tools=(ToolSpec(FINISH_CALL, "theirs"),)), [(FINISH_CALL, "theirs")]),
    ],
    ids=["agent", "agent with more tools", "relay", "relay without tools", "another agent with drafts"],
)
def test_the_callers_tools_hide_ours_and_finish_call_stands_last(options, expected):
    assert names(offered(OWN, options)) == expected


@pytest.mark.requirement("F11")
def test_where_we_have_no_tools_at_all_nothing_is_offered():
    assert offered((), RunOptions()) == ()
    assert offered((OWN[1],), RunOptions()) == ()


@pytest.mark.requirement("F11")
def test_a_choice_of_none_leaves_the_list_of_tools_as_it_is():
    """A list that changes between two requests would spoil the provider's cache; the choice alone keeps it from
    calling."""
    options = RunOptions(own_tools=False, tools=BROUGHT, tool_choice="none")
    assert offered(OWN, options) == offered(OWN, RunOptions(own_tools=False, tools=BROUGHT))
    assert tool_choice(options, ask(), is_drafting=True) == "none"


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "why", ["first", "after_tools", "retry", "continue", "finish_draft", "fallback", "reask"]
)
@pytest.mark.parametrize("drafting", [False, True])
@pytest.mark.parametrize("choice", ["auto", "none", "required", NamedTool("find")], ids=str)
def test_what_the_caller_forces_is_forced_until_a_tool_has_answered(choice, drafting, why):
    found = tool_choice(RunOptions(tool_choice=choice), ask(why=why), is_drafting=drafting)
    if choice in ("auto", "none"):
        assert found == choice
    elif drafting:
        assert found == NamedTool(FINISH_CALL)
    else:
        assert found == ("auto" if why == "after_tools" else choice)


@pytest.mark.requirement("F11")
@pytest.mark.parametrize(
    "protocol, effort, drafted, expected",
    [
        ("openai_chat", None, False, False),
        ("openai_responses", "high", False, False),
        ("openai_chat", None, True, True),
        ("openai_responses", None, True, True),
        ("anthropic", None, False, True),
        ("anthropic", "high", False, True),
        ("anthropic", "none", False, False),
        ("anthropic", "none", True, True),
    ],
)
def test_finish_call_comes_in_with_the_first_draft_unless_thoughts_are_bound_to_the_list(
    protocol, effort, drafted, expected
):
    assert offers_finishing(protocol, effort, drafted=drafted) is expected
    finishing = offered(OWN, RunOptions(tools=BROUGHT), finishing=expected)
    assert (FINISH_CALL in {tool.name for tool in finishing}) is expected
    assert [tool for tool in offered(OWN, RunOptions(tools=BROUGHT)) if tool.name != FINISH_CALL] == [
        tool for tool in finishing if tool.name != FINISH_CALL
    ]


def told(*rounds):
    messages = [Message("user", (TextPart("Do it."),))]
    for place, names_called in enumerate(rounds):
        calls = tuple(CallPart(f"c{place}{name}", name, "{}") for name in names_called)
        answers = tuple(ResultPart(call.id, (TextPart("no"),), failed=True) for call in calls)
        messages += [
            Message("assistant", calls),
            Message("tool", answers),
            Message("user", (TextPart("x"),), note=True),
        ]
    return tuple(messages)


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("why", ["after_tools", "retry", "continue", "fallback", "reask"])
@pytest.mark.parametrize("choice", ["required", NamedTool("find")], ids=str)
@pytest.mark.parametrize(
    "own_tools, rounds, is_kept",
    [
        (False, (), True),
        (False, ([FINISH_CALL],), True),
        (False, (["no_such_tool"],), True),
        (False, ([FINISH_CALL], [FINISH_CALL]), True),
        (False, ([FINISH_CALL],) * PATIENCE, False),
        (True, (), True),
        (True, ([FINISH_CALL],), True),
        (True, (["no_such_tool"],), True),
        (True, (["read_file"],), False),
        (True, ([FINISH_CALL, "read_file"],), False),
        (True, (["read_file"], [FINISH_CALL]), False),
        (True, ([FINISH_CALL],) * PATIENCE, False),
    ],
)
def test_a_choice_is_met_by_a_tool_that_is_there_and_by_nothing_else(own_tools, rounds, is_kept, choice, why):
    options = RunOptions(own_tools=own_tools, tools=BROUGHT, tool_choice=choice)
    called = rounds_of(told(*rounds), offered(OWN, options))
    found = tool_choice(options, ask(why=why), is_drafting=False, rounds=called)
    assert found == (choice if is_kept else "auto")


@pytest.mark.requirement("F11")
def test_what_was_called_before_a_person_spoke_meets_nothing():
    history = (*told(["read_file"]), Message("user", (TextPart("Again."),)))
    assert rounds_of(history, OWN) == ()
