"""How a reply becomes a message, whole or cut."""

import msgspec
import pytest

from turnbuckle.reply.message import message_of, salvage
from turnbuckle.reply.repair import repair
from turnbuckle.reply.rules import violations
from turnbuckle.vocab.events import Cut, Ended
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    Message,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from turnbuckle.vocab.reply import (
    Reply,
    ReplyBlock,
    ReplyCall,
    ReplyOpaque,
    ReplyReasoning,
    ReplyRefusal,
    ReplyText,
)
from turnbuckle.wire.registry import rules_of

CUT = Cut(failure("reset", "the connection broke"))
VOUCHED = {"signature": "s", "encrypted_content": "e", "thoughtSignature": "t"}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


def cut(*blocks: ReplyBlock) -> Reply:
    return Reply(blocks, last=CUT)


def ended(*blocks: ReplyBlock) -> Reply:
    return Reply(blocks, last=Ended("[DONE]"))


@pytest.mark.requirement("A3", "A4")
@every_protocol
def test_a_whole_reply_keeps_every_block_in_order_with_its_state(protocol: ProtocolName) -> None:
    reply = ended(
        ReplyReasoning("hm", True, VOUCHED),
        ReplyText("looking", True, {"id": "msg_1"}),
        ReplyCall("c1", "look", '{"a":1}', True, {"extra_content": {"x": 1}}),
        ReplyOpaque({"type": "web_search_call", "id": "ws_1"}, True),
        ReplyRefusal("not that", True),
    )
    message = message_of(reply, rules_of(protocol), "m")
    assert message == Message(
        "assistant",
        (
            ReasoningPart("hm", ProviderState(protocol, "m", VOUCHED)),
            TextPart("looking", ProviderState(protocol, "m", {"id": "msg_1"})),
            CallPart("c1", "look", '{"a":1}', ProviderState(protocol, "m", {"extra_content": {"x": 1}})),
            OpaquePart(ProviderState(protocol, "m", {"type": "web_search_call", "id": "ws_1"})),
            RefusalPart("not that"),
        ),
    )


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("last", [None, CUT])
def test_a_reply_that_did_not_end_is_no_whole_message(last: Cut | None) -> None:
    assert (
        message_of(Reply((ReplyText("looks done.", True),), last=last), rules_of("openai_chat"), "m") is None
    )


def test_hollow_blocks_are_left_out_but_silent_signed_thinking_stays() -> None:
    reply = ended(ReplyText(""), ReplyReasoning(""), ReplyReasoning("", True, VOUCHED), ReplyText("yes"))
    message = message_of(reply, rules_of("anthropic"), "m")
    assert message is not None
    assert message.parts == (ReasoningPart("", ProviderState("anthropic", "m", VOUCHED)), TextPart("yes"))


@every_protocol
def test_a_reply_of_nothing_is_no_message(protocol: ProtocolName) -> None:
    empty = ended(ReplyText(""), ReplyRefusal(""))
    assert message_of(empty, rules_of(protocol), "m") is None
    assert salvage(empty, rules_of(protocol), "m") is None


@pytest.mark.requirement("B1")
@every_protocol
def test_of_a_cut_reply_the_text_stays_and_no_call_does_not_even_a_whole_one(protocol: ProtocolName) -> None:
    reply = cut(
        ReplyText("I will write", True),
        ReplyCall("c1", "write", '{"a":1}', True),
        ReplyCall("c2", "write", '{"a'),
    )
    assert salvage(reply, rules_of(protocol), "m") == Message(
        "assistant", (TextPart("I will write"),), partial=True
    )


@every_protocol
def test_unfinished_text_is_kept_without_the_state_of_a_finished_item(protocol: ProtocolName) -> None:
    message = salvage(cut(ReplyText("half", False, {"id": "msg_1"})), rules_of(protocol), "m")
    assert message == Message("assistant", (TextPart("half"),), partial=True)


def test_what_was_shown_of_a_refusal_is_kept() -> None:
    message = salvage(cut(ReplyRefusal("I cannot")), rules_of("openai_chat"), "m")
    assert message == Message("assistant", (RefusalPart("I cannot"),), partial=True)


@pytest.mark.requirement("A3", "B1")
@pytest.mark.parametrize(
    "thought, is_kept",
    [
        (ReplyReasoning("hm", True, VOUCHED), True),
        (ReplyReasoning("hm", False, VOUCHED), False),
        (ReplyReasoning("hm", True), False),
    ],
)
@every_protocol
def test_of_a_cut_reply_only_closed_reasoning_with_its_state_stays(
    protocol: ProtocolName, thought: ReplyReasoning, is_kept: bool
) -> None:
    message = salvage(cut(thought, ReplyText("yes", True)), rules_of(protocol), "m")
    assert message is not None
    assert any(isinstance(part, ReasoningPart) for part in message.parts) == is_kept


@every_protocol
def test_reasoning_that_led_to_nothing_is_not_kept(protocol: ProtocolName) -> None:
    assert (
        salvage(
            cut(ReplyReasoning("hm", True, VOUCHED), ReplyCall("c1", "write", "{")), rules_of(protocol), "m"
        )
        is None
    )


def test_thinking_without_a_signature_is_not_kept_for_anthropic() -> None:
    reply = cut(ReplyReasoning("hm", True, {"type": "thinking"}), ReplyText("yes", True))
    assert salvage(reply, rules_of("anthropic"), "m") == Message(
        "assistant", (TextPart("yes"),), partial=True
    )


@pytest.mark.parametrize(
    "protocol, is_kept", [("openai_chat", True), ("anthropic", True), ("openai_responses", False)]
)
def test_reasoning_before_unfinished_text_stays_unless_the_item_it_led_to_must_be_whole(
    protocol: ProtocolName, is_kept: bool
) -> None:
    message = salvage(cut(ReplyReasoning("hm", True, VOUCHED), ReplyText("ye")), rules_of(protocol), "m")
    assert message is not None
    assert len(message.parts) == (2 if is_kept else 1)


def test_a_providers_own_call_stays_only_with_its_result() -> None:
    use = ReplyOpaque({"type": "server_tool_use", "id": "s1"}, True)
    found = ReplyOpaque({"type": "web_search_tool_result", "tool_use_id": "s1"}, True)
    alone = salvage(cut(ReplyText("so", True), use), rules_of("anthropic"), "m")
    assert alone is not None
    assert len(alone.parts) == 1
    paired = salvage(cut(use, found, ReplyText("so")), rules_of("anthropic"), "m")
    assert paired is not None
    assert len(paired.parts) == 3
    unfinished = salvage(cut(use, ReplyOpaque(found.data), ReplyText("so")), rules_of("anthropic"), "m")
    assert unfinished == Message("assistant", (TextPart("so"),), partial=True)


@pytest.mark.requirement("B1", "C5")
@every_protocol
def test_whatever_is_kept_of_a_reply_cut_anywhere_is_legal_behind_a_user_message(
    protocol: ProtocolName,
) -> None:
    """Every prefix of a reply, with its last block open or closed, in every way to keep it."""
    blocks: tuple[ReplyBlock, ...] = (
        ReplyReasoning("hm", True, VOUCHED),
        ReplyText("one", True, {"id": "msg_1"}),
        ReplyReasoning("and", True, VOUCHED),
        ReplyCall("c1", "look", '{"a":1}', True, {"id": "fc_1"}),
        ReplyOpaque({"type": "server_tool_use", "id": "s1"}, True),
        ReplyOpaque({"type": "web_search_tool_result", "tool_use_id": "s1"}, True),
        ReplyRefusal("no", True),
    )
    asked = Message("user", (TextPart("hi"),))
    for size in range(len(blocks) + 1):
        for kept in (blocks[:size], *(((*blocks[: size - 1], _opened(blocks[size - 1])),) if size else ())):
            saved = salvage(cut(*kept), rules_of(protocol), "m")
            history = (asked, *((saved,) if saved else ()))
            assert violations(history, rules_of(protocol), model="m") == ()
            assert repair(history, rules_of(protocol), model="m").messages == history


def _opened(block: ReplyBlock) -> ReplyBlock:
    return msgspec.structs.replace(block, closed=False)
