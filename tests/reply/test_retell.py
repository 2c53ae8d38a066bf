"""A history in plain words: nothing left to pair, nothing lost that the model needs."""

import pytest

from turnbuckle.reply.repair import repair
from turnbuckle.reply.retell import can_retell, retold
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    OpaquePart,
    ProviderState,
    ReasoningPart,
    ResultPart,
    TextPart,
    text_of,
)
from turnbuckle.wire.registry import rules_of

STATE = ProviderState("anthropic", "m", {"signature": "s"})
ASKED = Message("user", (TextPart("How is it in Oslo?"),))
CALLED = Message(
    "assistant",
    (
        ReasoningPart("I must look.", STATE),
        OpaquePart(STATE),
        TextPart("I look.", STATE),
        CallPart("call_1", "get_weather", '{"city":"Oslo"}', STATE),
    ),
)
PICTURE = ImagePart(url="https://pictures.example/oslo.png")
ANSWERED = Message("tool", (ResultPart("call_1", (TextPart("It is fine."), PICTURE)),))
FAILED = Message("tool", (ResultPart("call_1", (TextPart("No station."),), failed=True),))
HISTORY = (ASKED, CALLED, ANSWERED)


def retell(messages, count):
    """As repair leaves it: without the messages that have nothing left to tell."""
    told = retold(messages, count)
    return (*(message for message in told[:count] if message.parts), *told[count:])


def test_calls_and_results_become_words_and_nothing_else_changes():
    asked, called, answered = retell(HISTORY, len(HISTORY))
    assert asked == ASKED
    assert called.parts == (TextPart("I look."), TextPart('[I called get_weather with {"city":"Oslo"}]\n'))
    assert (answered.role, answered.note) == ("user", True)
    assert answered.parts == (TextPart("[Runtime] The call of get_weather gave:\nIt is fine.\n"), PICTURE)


def test_a_result_that_failed_is_told_as_one():
    told = text_of(retell((ASKED, CALLED, FAILED), 3)[-1].parts)
    assert told == "[Runtime] The call of get_weather failed:\nNo station.\n"


def test_what_came_later_stays_as_it_is():
    assert retell((*HISTORY, CALLED, ANSWERED), 3)[3:] == (CALLED, ANSWERED)
    assert retell(HISTORY, 0) == HISTORY


def test_a_message_of_nothing_but_thought_is_left_out():
    thought = Message("assistant", (ReasoningPart("Hm.", STATE),))
    assert retell((ASKED, thought), 2) == (ASKED,)


def test_long_arguments_are_told_in_part():
    long = Message("assistant", (CallPart("c", "write_file", "x" * 10_000),))
    assert len(text_of(retell((long,), 1)[0].parts)) < 2_100


def test_only_a_history_with_calls_or_with_a_providers_own_state_can_be_retold():
    assert can_retell(HISTORY)
    for part in (ReasoningPart("Hm.", STATE), OpaquePart(STATE), TextPart("Fine.", STATE)):
        bound = (ASKED, Message("assistant", (part, TextPart("Fine."))))
        assert can_retell(bound)
        assert retell(bound, 2)[1].parts[-1] == TextPart("Fine.")
        assert not can_retell(retell(bound, 2))
    assert not can_retell((ASKED, Message("assistant", (ReasoningPart("Hm."), TextPart("Fine.")))))


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_retold_history_is_legal_everywhere(protocol: ProtocolName):
    made = repair(retell(HISTORY, len(HISTORY)), rules_of(protocol), to_ask=True)
    assert made.left == ()
    assert not can_retell(made.messages)
