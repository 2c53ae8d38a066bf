"""What an earlier request sent is never touched, and what follows is made to fit behind it."""

import pytest
from support.turns.histories import assistant, call, every_protocol, result, tool, user

from turnbuckle.reply.repair import repair
from turnbuckle.reply.stand_in import NO_RESULT, stand_in
from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.wire.registry import rules_of


@pytest.mark.requirement("C5")
@every_protocol
def test_a_turn_whose_calls_were_sent_is_answered_directly_behind_the_sealed_part(
    protocol: ProtocolName,
) -> None:
    sent = (user("hi"), assistant(call("a"), call("b")), tool(result("a")))
    repaired = repair((*sent, user("next"), tool(result("b", "late"))), rules_of(protocol), sealed=3)
    assert repaired.messages == (*sent, tool(result("b", "late")), user("next"))
    missing = repair((*sent, user("next")), rules_of(protocol), sealed=3)
    assert missing.messages == (*sent, tool(stand_in("b", NO_RESULT)), user("next"))
    assert missing.left == ()


@pytest.mark.parametrize(
    "protocol, is_closed", [("openai_chat", False), ("anthropic", False), ("openai_responses", True)]
)
def test_a_hole_deep_in_what_was_sent_is_closed_where_the_protocol_allows_and_else_reported(
    protocol: ProtocolName, is_closed: bool
) -> None:
    sent = (user("hi"), assistant(call("a")), user("next"))
    repaired = repair((*sent, assistant("yes")), rules_of(protocol), sealed=3)
    if is_closed:
        assert repaired.messages == (*sent, tool(stand_in("a", NO_RESULT)), assistant("yes"))
        assert repaired.left == ()
    else:
        assert repaired.messages == (*sent, assistant("yes"))
        assert repaired.notes == ()
        assert [(left.rule, left.index) for left in repaired.left] == [("unanswered_call", 1)]


@pytest.mark.parametrize("protocol, is_closed", [("openai_chat", False), ("anthropic", True)])
def test_a_sent_turn_in_two_messages_can_be_answered_where_the_provider_joins_them(
    protocol: ProtocolName, is_closed: bool
) -> None:
    sent = (user("hi"), assistant(call("a")), assistant(call("b")))
    repaired = repair((*sent, tool(result("b")), tool(result("a"))), rules_of(protocol), sealed=3)
    assert repaired.messages[:3] == sent
    assert repaired.messages[3].parts[0] == result("a" if is_closed else "b")
    assert [left.index for left in repaired.left] == ([] if is_closed else [1])


@every_protocol
def test_a_call_id_that_was_sent_before_is_renamed_only_behind_the_seal(protocol: ProtocolName) -> None:
    sent = (user("hi"), assistant(call("call_0")), tool(result("call_0", "1")))
    repaired = repair(
        (*sent, assistant(call("call_0")), tool(result("call_0", "2"))), rules_of(protocol), sealed=3
    )
    assert repaired.messages == (*sent, assistant(call("call_0_1")), tool(result("call_0_1", "2")))


@every_protocol
def test_what_was_sent_is_never_mended(protocol: ProtocolName) -> None:
    sent = (user(" "), assistant("", call("", "{", "")), tool(result("who")))
    assert repair(sent, rules_of(protocol), sealed=3).messages[:3] == sent
