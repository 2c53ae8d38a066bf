"""What a run has wasted is counted by cause, in characters, tokens, seconds and money."""

import pytest
from msgspec.structs import replace

from turnbuckle.turn.facts import (
    Continue,
    Decided,
    Decision,
    Fact,
    FinishDraft,
    GiveUp,
    ModelAsked,
    Retry,
    RunEnded,
    Streamed,
)
from turnbuckle.turn.ledger import Ledger, Waste, total
from turnbuckle.vocab.events import CallArgs, Cut, Event, ReasoningDelta, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import MILLION, Price

RESET = failure("reset", "gone")
STALL = failure("stalled", "stalled 12 s", clock="gap")


def _asked(at: float) -> ModelAsked:
    return ModelAsked(at, 1, RouteName("r"), "openai_chat", "m", "first")


def _said(at: float, *events: Event) -> Streamed:
    return Streamed(at, 1, events)


def _decided(
    at: float, choice: Decision, told: Failure | None = RESET, gained: int = 0, lost: int = 0
) -> Decided:
    return Decided(at, 1, "cut_by_transport", (), choice, told, gained=gained, lost=lost)


def _ledger(*facts: Fact, price: float | None = None) -> tuple[Waste, ...]:
    ledger, each = Ledger(), None if price is None else Price(price * MILLION, price * MILLION)
    for fact in facts:
        ledger.take(replace(fact, price=each) if isinstance(fact, Streamed) else fact)
    return ledger.entries


def test_a_run_without_a_break_wastes_nothing() -> None:
    assert _ledger(_asked(1), _said(2, TextDelta(0, "hi")), RunEnded(3, Outcome("completed"))) == ()


@pytest.mark.requirement("C8")
def test_an_attempt_that_brought_nothing_is_wasted_with_the_wait_behind_it() -> None:
    (waste,) = _ledger(_asked(10), _said(13, Cut(RESET)), _decided(13, Retry(2)), _asked(15), price=0.1)
    assert waste == Waste("reset", 1, seconds=5.0, money=0.0)


@pytest.mark.requirement("C8")
def test_of_an_attempt_that_gained_only_its_silent_end_is_wasted() -> None:
    facts: list[Fact] = [
        _asked(10),
        _said(20, CallArgs(0, "x" * 100)),
        _decided(32, FinishDraft(DraftId("d")), STALL, gained=90, lost=10),
    ]
    (waste,) = _ledger(*facts, _asked(32))
    assert (waste.cause, waste.seconds, waste.characters, waste.output_tokens) == (
        "stalled between words",
        12.0,
        10,
        3,
    )


@pytest.mark.requirement("C8")
def test_input_is_wasted_as_the_provider_counted_it_and_reasoning_is_lost_with_its_reply() -> None:
    facts: list[Fact] = [
        _asked(0),
        _said(1, UsageNoted(Usage(input=1000, output=1)), ReasoningDelta(0, "hm" * 20)),
    ]
    (waste,) = _ledger(*facts, _decided(2, Retry(0)), _asked(2), price=0.01)
    assert (waste.input_tokens, waste.output_tokens, waste.characters) == (1000, 10, 40)
    assert waste.money == pytest.approx(10.1)


def test_money_is_unknown_as_soon_as_one_price_is() -> None:
    wastes = (Waste("a", 1, 1.0, 2, 3, 4, 5.0), Waste("b", 1, 1.0, 2, 3, 4, None))
    assert total(wastes) == Waste("all", 2, 2.0, 4, 6, 8, None)
    assert total(wastes[:1]).money == 5.0


@pytest.mark.requirement("C8")
def test_causes_are_kept_apart_and_counted() -> None:
    facts: list[Fact] = []
    for told in (RESET, STALL, RESET):
        facts += [_asked(0), _said(1, Cut(told)), _decided(1, Retry(0), told)]
    assert [(waste.cause, waste.times) for waste in _ledger(*facts)] == [
        ("reset", 2),
        ("stalled between words", 1),
    ]


def test_a_pause_and_a_stop_are_no_waste() -> None:
    stop = failure("cancelled", "stopped")
    facts: list[Fact] = [
        _asked(0),
        _decided(1, Continue("paused"), None),
        _asked(1),
        _decided(2, GiveUp("cancelled", "stopped"), stop),
    ]
    assert _ledger(*facts) == ()
