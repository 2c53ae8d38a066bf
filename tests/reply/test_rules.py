"""Each rule of the judge, broken once and kept once."""

import pytest

from turnbuckle.reply.rules import Rule, violations
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    Message,
    Part,
    ProviderState,
    ReasoningPart,
    ResultPart,
    Role,
    TextPart,
)
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.registry import rules_of

CHAT, RESPONSES, ANTHROPIC = "openai_chat", "openai_responses", "anthropic"
ALL = set(PROTOCOL_NAMES)


def said(role: Role, *parts: str | Part) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


GEMINI: ProtocolName = "gemini"

HI = said("user", "hi")
CALL = CallPart("c1", "look", "{}")
OTHER = CallPart("c2", "look", "{}")
RESULT = ResultPart("c1", (TextPart("found"),))
OTHER_RESULT = ResultPart("c2", (TextPart("found"),))
SIGNED = {"signature": "s", "encrypted_content": "e", "thoughtSignature": "t"}


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "history, rule, index, refusing",
    [
        ((HI, said("assistant", CALL), said("tool", RESULT, "and stop")), "misplaced_part", 2, ALL),
        ((HI, said("user", RESULT, "x")), "misplaced_part", 1, ALL),
        ((HI, said("user", ReasoningPart("hm"), "x")), "misplaced_part", 1, ALL),
        ((HI, said("assistant")), "empty_message", 1, ALL),
        ((HI, said("user", " ")), "empty_message", 1, ALL),
        ((HI, said("assistant", "a", " ")), "blank_text", 1, {ANTHROPIC}),
        (
            (HI, said("assistant", CALL), said("tool", ResultPart("c1", (TextPart(""),)))),
            "blank_text",
            2,
            {ANTHROPIC},
        ),
        ((HI, said("assistant", CallPart("", "look", "{}"))), "bad_call_id", 1, ALL),
        ((HI, said("assistant", CallPart("f.a:0", "look", "{}"))), "bad_call_id", 1, {ANTHROPIC}),
        ((HI, said("assistant", CallPart("x" * 65, "look", "{}"))), "bad_call_id", 1, {RESPONSES}),
        (
            (
                HI,
                said("assistant", CALL),
                said("tool", RESULT),
                said("assistant", CALL),
                said("tool", RESULT),
            ),
            "repeated_call_id",
            3,
            ALL,
        ),
        ((HI, said("assistant", CallPart("c1", "", "{}")), said("tool", RESULT)), "nameless_call", 1, ALL),
        (
            (HI, said("assistant", CallPart("c1", "look", '{"a')), said("tool", RESULT)),
            "bad_arguments",
            1,
            ALL,
        ),
        (
            (HI, said("assistant", CallPart("c1", "look", "[]")), said("tool", RESULT)),
            "bad_arguments",
            1,
            ALL,
        ),
        ((HI, said("assistant", CallPart("c1", "look", "")), said("tool", RESULT)), "bad_arguments", 1, ALL),
        ((HI, said("assistant", CALL)), "unanswered_call", 1, ALL),
        ((HI, said("assistant", CALL, OTHER), said("tool", RESULT)), "unanswered_call", 1, ALL),
        (
            (HI, said("assistant", CALL), HI, said("tool", RESULT)),
            "unanswered_call",
            1,
            {CHAT, ANTHROPIC, GEMINI},
        ),
        (
            (HI, said("assistant", CALL), HI, said("tool", RESULT)),
            "stray_result",
            3,
            {CHAT, ANTHROPIC, GEMINI},
        ),
        (
            (HI, said("assistant", CALL), said("assistant", "so"), said("tool", RESULT)),
            "unanswered_call",
            1,
            {CHAT},
        ),
        (
            (HI, said("assistant", CALL), said("assistant", "so"), said("tool", RESULT)),
            "stray_result",
            3,
            {CHAT},
        ),
        ((HI, said("tool", RESULT)), "stray_result", 1, ALL),
        ((HI, said("tool", RESULT), said("assistant", CALL)), "stray_result", 1, ALL),
        ((HI, said("assistant", CALL), said("tool", RESULT, RESULT)), "stray_result", 2, ALL),
        (
            (HI, said("assistant", ReasoningPart("hm"), "yes")),
            "refused_reasoning",
            1,
            {RESPONSES, ANTHROPIC, GEMINI},
        ),
        (
            (HI, said("assistant", ReasoningPart("hm", ProviderState("anthropic", "m", SIGNED)), "yes")),
            "refused_reasoning",
            1,
            {CHAT, RESPONSES, GEMINI},
        ),
        (
            (HI, said("assistant", TextPart("yes", ProviderState("openai_responses", "m", {"id": "msg_1"})))),
            "foreign_state",
            1,
            {CHAT, ANTHROPIC, GEMINI},
        ),
        ((said("assistant", "hello"), HI), "first_not_user", 0, {ANTHROPIC, GEMINI}),
    ],
)
def test_a_broken_rule_is_found_in_its_message_and_only_where_it_holds(
    history: tuple[Message, ...], rule: Rule, index: int, refusing: set[ProtocolName]
) -> None:
    for protocol in PROTOCOL_NAMES:
        found = {(violation.rule, violation.index) for violation in violations(history, rules_of(protocol))}
        assert ((rule, index) in found) == (protocol in refusing), protocol


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_results_of_one_turn_may_come_in_any_order_and_in_several_messages(protocol: ProtocolName) -> None:
    """The order of the calls is our habit; no provider asks for it."""
    history = (HI, said("assistant", CALL, OTHER), said("tool", OTHER_RESULT), said("tool", RESULT))
    assert violations(history, rules_of(protocol)) == ()


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_reasoning_at_the_end_of_a_turn_breaks_a_rule_where_reasoning_has_a_place(
    protocol: ProtocolName,
) -> None:
    loose = ReasoningPart("hm", ProviderState(protocol, "m", SIGNED))
    found = [
        violation.rule
        for violation in violations((HI, said("assistant", "yes", loose), HI), rules_of(protocol))
    ]
    assert found == (["loose_reasoning"] if rules_of(protocol).reasoning_leads else [])
    assert violations((HI, said("assistant", loose, "yes"), HI), rules_of(protocol)) == ()


def test_state_of_another_model_counts_only_when_the_model_is_named() -> None:
    history = (HI, said("assistant", ReasoningPart("hm", ProviderState("anthropic", "other", SIGNED)), "yes"))
    assert violations(history, rules_of("anthropic")) == ()
    assert [violation.rule for violation in violations(history, rules_of("anthropic"), model="m")] == [
        "refused_reasoning"
    ]


def test_a_user_behind_results_breaks_a_rule_only_where_the_host_says_so() -> None:
    history = (HI, said("assistant", CALL), said("tool", RESULT), HI)
    strict = Quirks(text_after_tools=False)
    assert violations(history, rules_of("openai_chat")) == ()
    assert [violation.index for violation in violations(history, rules_of("openai_chat"), quirks=strict)] == [
        3
    ]


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_the_assistants_last_word_breaks_a_rule_only_when_an_answer_is_wanted(protocol: ProtocolName) -> None:
    history = (HI, said("assistant", "so"))
    assert violations(history, rules_of(protocol)) == ()
    assert [violation.rule for violation in violations(history, rules_of(protocol), to_ask=True)] == [
        "assistant_last"
    ]
