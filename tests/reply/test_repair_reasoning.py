"""Which reasoning and which provider state repair leaves in a history."""

import pytest
from support.turns.histories import assistant, call, every_protocol, passes_of, result, signed, tool, user

from turnbuckle.reply.repair import repair
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.registry import rules_of


@pytest.mark.requirement("A3", "C5")
@pytest.mark.parametrize("made_by", PROTOCOL_NAMES)
@every_protocol
def test_reasoning_goes_back_only_to_the_protocol_that_made_it(
    protocol: ProtocolName, made_by: ProtocolName
) -> None:
    """L6"""
    thought = ReasoningPart("so", signed(made_by))
    repaired = repair((user("hi"), assistant(thought, "yes")), rules_of(protocol))
    assert (thought in repaired.messages[1].parts) == (protocol == made_by)
    assert repaired.messages[1].parts[-1] == TextPart("yes")


@pytest.mark.requirement("A3")
@every_protocol
def test_reasoning_and_signatures_of_another_model_are_dropped_but_words_and_calls_stay(
    protocol: ProtocolName,
) -> None:
    other = signed(protocol, "other")
    said = assistant(ReasoningPart("so", other), TextPart("yes", other), CallPart("c1", "look", "{}", other))
    repaired = repair((user("hi"), said, tool(result("c1"))), rules_of(protocol), model="m")
    assert repaired.messages[1] == assistant("yes", call("c1", "{}"))
    unnamed = repair((user("hi"), said, tool(result("c1"))), rules_of(protocol))
    assert unnamed.messages[1] is said


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "protocol, data, quirks, is_kept",
    [
        ("anthropic", {"signature": "s"}, Quirks(), True),
        ("anthropic", {"type": "redacted_thinking", "data": "x"}, Quirks(), True),
        ("anthropic", {"signature": ""}, Quirks(), False),
        ("anthropic", None, Quirks(), False),
        ("openai_responses", {"id": "rs_1", "encrypted_content": "e"}, Quirks(), True),
        ("openai_responses", {"id": "rs_1"}, Quirks(), False),
        ("openai_responses", {"id": "rs_1"}, Quirks(stored=True), True),
        ("openai_responses", None, Quirks(), False),
        ("openai_chat", None, Quirks(), True),
        ("openai_chat", {"reasoning_details": []}, Quirks(), True),
    ],
)
def test_reasoning_that_nothing_vouches_for_is_dropped(
    protocol: ProtocolName, data: dict[str, str] | None, quirks: Quirks, is_kept: bool
) -> None:
    thought = ReasoningPart("so", None if data is None else ProviderState(protocol, "m", data))
    repaired = repair((user("hi"), assistant(thought, "yes")), rules_of(protocol), quirks=quirks)
    assert (thought in repaired.messages[1].parts) == is_kept


def test_an_item_whose_reasoning_is_gone_is_no_longer_a_known_item() -> None:
    item = ProviderState("openai_responses", "m", {"id": "fc_1"})
    said = assistant(ReasoningPart("so"), CallPart("c1", "look", "{}", item))
    assert repair((user("hi"), said), rules_of("openai_responses")).messages[1] == assistant(call("c1", "{}"))


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "protocol, is_kept", [("openai_chat", True), ("openai_responses", False), ("anthropic", False)]
)
def test_reasoning_that_nothing_follows_is_dropped(protocol: ProtocolName, is_kept: bool) -> None:
    loose = ReasoningPart("and", signed(protocol))
    repaired = repair((user("hi"), assistant("yes", loose)), rules_of(protocol))
    assert repaired.messages[1] == (assistant("yes", loose) if is_kept else assistant("yes"))


@every_protocol
def test_a_message_of_nothing_but_reasoning_is_dropped(protocol: ProtocolName) -> None:
    repaired = repair(
        (user("hi"), assistant(ReasoningPart("hm", signed(protocol))), user("well?")), rules_of(protocol)
    )
    assert repaired.messages == (user("hi"), user("well?"))
    assert passes_of(repaired) == {"loose_thoughts"}


@pytest.mark.parametrize("made_by", PROTOCOL_NAMES)
@every_protocol
def test_an_opaque_part_goes_back_only_to_its_own_protocol(
    protocol: ProtocolName, made_by: ProtocolName
) -> None:
    opaque = OpaquePart(ProviderState(made_by, "other", {"type": "server_tool_use", "id": "s1"}))
    repaired = repair((user("hi"), assistant(opaque, "yes")), rules_of(protocol), model="m")
    # Chat Completions is spoken by many hosts, which know no parts of each other.
    may_return = protocol == made_by and protocol != "openai_chat"
    assert (opaque in repaired.messages[1].parts) == may_return
    same_model = repair((user("hi"), assistant(opaque, "yes")), rules_of(protocol), model="other")
    assert (opaque in same_model.messages[1].parts) == (protocol == made_by)
