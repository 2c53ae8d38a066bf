"""What becomes of a turn whose request was refused: what is asked next, and that it is asked once."""

import json

import pytest
from support.turns.turn_facts import (
    MAIN,
    OTHER,
    START,
    TWO,
    USER,
    after,
    ask,
    burst,
    called,
    recorded,
    said,
)

from turnbuckle.reply.repair import repair
from turnbuckle.turn.commands import CallModel
from turnbuckle.turn.facts import RunStarted, ToolFinished
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, OpaquePart, ProviderState, ReasoningPart, TextPart
from turnbuckle.vocab.tooling import ToolOutcome
from turnbuckle.wire.failures import from_response
from turnbuckle.wire.registry import rules_of

AFFORD = "This request requires more credits, or fewer max_tokens. You can only afford {}."
FIELD = "Unsupported parameter: 'max_tokens' is not supported with this model."
BOUND = "messages.1.content.0: thinking is bound to a different conversation"


def refused(status: int, message: str, number: int = 1):
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    return burst(Cut(from_response(status, {}, body)), number=number)


def next_ask(fold):
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    return due.ask


def test_the_next_request_has_the_cap_that_can_be_paid():
    fold = after(START, ask(cap=100), refused(402, AFFORD.format(42)), policy=TWO)
    assert (next_ask(fold).route, next_ask(fold).cap) == (MAIN.name, 42)


def test_a_cap_that_is_lowered_once_is_not_lowered_again_before_an_answer_came():
    facts = (START, ask(cap=100), refused(402, AFFORD.format(42)))
    fold = after(*facts, policy=TWO)
    recorded(fold)
    fold.take(ask(2, cap=42))
    fold.take(refused(402, AFFORD.format(7), 2))
    assert next_ask(fold).route == OTHER.name


def test_a_field_that_is_refused_by_its_name_goes_by_its_other_name_for_the_rest_of_the_turn():
    fold = after(START, ask(), refused(400, FIELD))
    assert next_ask(fold).cap_field == "max_completion_tokens"
    fold.take(ask(2, cap_field="max_completion_tokens"))
    fold.take(called(("c", "look", "{}"), number=2))
    recorded(fold)
    fold.take(ToolFinished(4.0, "c", "look", ToolOutcome("finished", "fine")))
    assert next_ask(fold).cap_field == "max_completion_tokens"


@pytest.mark.requirement("C5")
def test_a_history_of_nothing_but_text_and_thought_that_is_refused_goes_out_without_the_thought():
    state = ProviderState("anthropic", "m", {"signature": "s"})
    earlier = Message("assistant", (ReasoningPart("Hm.", state), TextPart("Fine.")))
    empty = Message("assistant", (ReasoningPart("", state),))
    start = RunStarted(1.0, RunId("r"), SessionId("s"), (USER, earlier, USER, empty, USER))
    fold = after(start, ask(), refused(400, BOUND))
    assert next_ask(fold).why == "reask"
    fold.take(ask(2))
    sent = repair(fold.turn.messages, rules_of("anthropic"), model="m").messages
    assert [message.role for message in sent] == ["user", "assistant", "user", "user"]
    assert sent[1].parts == (TextPart("Fine."),)
    assert len(fold.turn.messages) == 5, "whoever counts messages finds each in its place"


@pytest.mark.requirement("C5")
def test_what_was_retold_stays_so_for_whoever_asks_next():
    state = ProviderState("anthropic", "m", {"signature": "s"})
    earlier = Message("assistant", (ReasoningPart("Hm.", state), TextPart("Fine.")))
    start = RunStarted(1.0, RunId("r"), SessionId("s"), (USER, earlier, USER))
    fold = after(start, ask(), refused(400, BOUND))
    recorded(fold)
    fold.take(ask(2))
    fold.take(said("Done.", 2))
    recorded(fold)
    assert fold.turn.messages[1] == Message("assistant", (TextPart("Fine."),))


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("is_same_route", [True, False])
def test_only_the_route_itself_shows_that_it_refused_its_own_parts(is_same_route: bool):
    odd = OpaquePart(ProviderState("openai_chat", "m", {"type": "odd"}))
    earlier = Message("assistant", (TextPart("Fine."), odd))
    start = RunStarted(1.0, RunId("r"), SessionId("s"), (USER, earlier, USER))
    fold = after(start, ask(), refused(400, "Bad thing at position 3."), policy=TWO)
    assert next_ask(fold).route == MAIN.name
    fold.take(ask(2))
    if is_same_route:
        fold.take(said("Done.", 2))
    else:
        fold.take(refused(401, "no such key", 2))
        assert next_ask(fold).route == OTHER.name
        fold.take(ask(3, route=OTHER))
        fold.take(said("Done.", 3))
    assert fold.turn.words_only == ((MAIN.name, MAIN.model),)
    assert fold.turn.on_trial is not is_same_route, "what is on trial at its end is not told to the next run"
