"""How a reply becomes a message, whole or cut."""

import msgspec
import pytest

from turnbuckle.reply.message import answer_cut_calls, message_of, salvage
from turnbuckle.reply.repair import repair
from turnbuckle.reply.rules import violations
from turnbuckle.reply.stand_in import CUT_CALL, stand_in
from turnbuckle.vocab.events import Cut, Ended
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import PROTOCOLS, Protocol
from turnbuckle.vocab.messages import (
    CallPart,
    Message,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    TextPart,
)
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyOpaque, ReplyReasoning, ReplyRefusal, ReplyText

CUT = Cut(failure("reset", "the connection broke"))
VOUCHED = {"signature": "s", "encrypted_content": "e"}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def cut(*blocks: ReplyBlock) -> Reply:
    return Reply(blocks, last=CUT)


def ended(*blocks: ReplyBlock) -> Reply:
    return Reply(blocks, last=Ended("[DONE]"))


@pytest.mark.requirement("A3", "A4")
@every_protocol
def test_a_whole_reply_keeps_every_block_in_order_with_its_state(protocol: Protocol) -> None:
    reply = ended(
        ReplyReasoning("hm", True, VOUCHED),
        ReplyText("looking", True, {"id": "msg_1"}),
        ReplyCall("c1", "look", '{"a":1}', True, {"extra_content": {"x": 1}}),
        ReplyOpaque({"type": "web_search_call", "id": "ws_1"}, True),
        ReplyRefusal("not that", True),
    )
    message = message_of(reply, protocol, "m")
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
    assert message_of(Reply((ReplyText("looks done.", True),), last=last), "openai_chat", "m") is None


def test_hollow_blocks_are_left_out_but_silent_signed_thinking_stays() -> None:
    reply = ended(ReplyText(""), ReplyReasoning(""), ReplyReasoning("", True, VOUCHED), ReplyText("yes"))
    message = message_of(reply, "anthropic", "m")
    assert message is not None
    assert message.parts == (ReasoningPart("", ProviderState("anthropic", "m", VOUCHED)), TextPart("yes"))


@every_protocol
def test_a_reply_of_nothing_is_no_message(protocol: Protocol) -> None:
    empty = ended(ReplyText(""), ReplyRefusal(""))
    assert message_of(empty, protocol, "m") is None
    assert salvage(empty, protocol, "m") is None
    assert answer_cut_calls(empty, protocol, "m") == ()


@pytest.mark.requirement("B1")
@every_protocol
def test_of_a_cut_reply_the_text_stays_and_no_call_does_not_even_a_whole_one(protocol: Protocol) -> None:
    reply = cut(
        ReplyText("I will write", True), ReplyCall("c1", "write", '{"a":1}', True), ReplyCall("c2", "write", '{"a')
    )
    assert salvage(reply, protocol, "m") == Message("assistant", (TextPart("I will write"),), partial=True)


@every_protocol
def test_unfinished_text_is_kept_without_the_state_of_a_finished_item(protocol: Protocol) -> None:
    message = salvage(cut(ReplyText("half", False, {"id": "msg_1"})), protocol, "m")
    assert message == Message("assistant", (TextPart("half"),), partial=True)


def test_what_was_shown_of_a_refusal_is_kept() -> None:
    message = salvage(cut(ReplyRefusal("I cannot")), "openai_chat", "m")
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
    protocol: Protocol, thought: ReplyReasoning, is_kept: bool
) -> None:
    message = salvage(cut(thought, ReplyText("yes", True)), protocol, "m")
    assert message is not None
    assert any(isinstance(part, ReasoningPart) for part in message.parts) == is_kept


@every_protocol
def test_reasoning_that_led_to_nothing_is_not_kept(protocol: Protocol) -> None:
    assert salvage(cut(ReplyReasoning("hm", True, VOUCHED), ReplyCall("c1", "write", "{")), protocol, "m") is None


def test_thinking_without_a_signature_is_not_kept_for_anthropic() -> None:
    reply = cut(ReplyReasoning("hm", True, {"type": "thinking"}), ReplyText("yes", True))
    assert salvage(reply, "anthropic", "m") == Message("assistant", (TextPart("yes"),), partial=True)


@pytest.mark.parametrize("protocol, is_kept", [("openai_chat", True), ("anthropic", True), ("openai_responses", False)])
def test_reasoning_before_unfinished_text_stays_unless_the_item_it_led_to_must_be_whole(
    protocol: Protocol, is_kept: bool
) -> None:
    message = salvage(cut(ReplyReasoning("hm", True, VOUCHED), ReplyText("ye")), protocol, "m")
    assert message is not None
    assert len(message.parts) == (2 if is_kept else 1)


def test_a_providers_own_call_stays_only_with_its_result() -> None:
    use = ReplyOpaque({"type": "server_tool_use", "id": "s1"}, True)
    found = ReplyOpaque({"type": "web_search_tool_result", "tool_use_id": "s1"}, True)
    alone = salvage(cut(ReplyText("so", True), use), "anthropic", "m")
    assert alone is not None
    assert len(alone.parts) == 1
    paired = salvage(cut(use, found, ReplyText("so")), "anthropic", "m")
    assert paired is not None
    assert len(paired.parts) == 3
    unfinished = salvage(cut(use, ReplyOpaque(found.data), ReplyText("so")), "anthropic", "m")
    assert unfinished == Message("assistant", (TextPart("so"),), partial=True)


@pytest.mark.requirement("B1", "C1", "C5")
@every_protocol
def test_cut_calls_can_be_kept_in_a_legal_form_each_with_the_word_that_it_did_not_run(protocol: Protocol) -> None:
    """T1"""
    reply = cut(
        ReplyText("I will write", True),
        ReplyCall("c1", "write", '{"a":1}', True),
        ReplyCall("c2", "write", '{"path":"a.txt","content":"hel'),
        ReplyCall("c3", "", '{"pa'),
    )
    said, answers = answer_cut_calls(reply, protocol, "m")
    assert said.partial
    assert [part.id for part in said.parts if isinstance(part, CallPart)] == ["c1", "c2"]
    half = said.parts[2]
    assert isinstance(half, CallPart)
    assert msgspec.json.decode(half.arguments) == {"_truncated": '{"path":"a.txt","content":"hel'}
    assert answers == Message("tool", (stand_in("c1", CUT_CALL), stand_in("c2", CUT_CALL)))
    history = (Message("user", (TextPart("hi"),)), said, answers)
    assert violations(history, protocol) == ()
    assert repair(history, protocol).messages == history


def test_a_cut_reply_without_calls_has_nothing_to_answer() -> None:
    reply = cut(ReplyText("half"))
    assert answer_cut_calls(reply, "openai_chat", "m") == (salvage(reply, "openai_chat", "m"),)


def test_a_cut_call_without_an_id_gets_one_from_its_place() -> None:
    said, answers = answer_cut_calls(cut(ReplyText("so"), ReplyCall("", "write", "")), "openai_chat", "m")
    assert said.parts[1] == CallPart("cut_1", "write", "{}")
    assert answers.parts == (stand_in("cut_1", CUT_CALL),)


@pytest.mark.requirement("A3")
@pytest.mark.parametrize(
    "call, keeps_state",
    [
        (ReplyCall("c1", "write", "{}", True, {"x": 1}), True),
        (ReplyCall("c1", "write", "{}", False, {"x": 1}), False),
        (ReplyCall("c1", "write", "{", True, {"x": 1}), False),
    ],
)
def test_state_stays_only_on_a_call_that_is_sent_back_as_it_came(call: ReplyCall, keeps_state: bool) -> None:
    part = answer_cut_calls(cut(call), "openai_chat", "m")[0].parts[0]
    assert isinstance(part, CallPart)
    assert (part.state is not None) == keeps_state


@pytest.mark.requirement("B1", "C5")
@every_protocol
def test_whatever_is_kept_of_a_reply_cut_anywhere_is_legal_behind_a_user_message(protocol: Protocol) -> None:
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
            saved = salvage(cut(*kept), protocol, "m")
            for history in (
                (asked, *((saved,) if saved else ())),
                (asked, *answer_cut_calls(cut(*kept), protocol, "m")),
            ):
                assert violations(history, protocol, model="m") == ()
                assert repair(history, protocol, model="m").messages == history


def _opened(block: ReplyBlock) -> ReplyBlock:
    return msgspec.structs.replace(block, closed=False)
