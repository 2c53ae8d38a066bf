"""The one fold that tells a run: what every surface draws, whichever way the words came in pieces."""

import msgspec
import pytest
from support.narrate.sample_runs import ALL, facts_of, run_named, tools_started
from support.turns.turn_facts import START, ask, burst, called

from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import (
    CallArriving,
    CallGrown,
    DraftMoved,
    Paragraph,
    PartOver,
    Reasoning,
    RunOver,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
    Waiting,
)
from turnbuckle.turn.facts import Streamed, ToolFinished, ToolStarted
from turnbuckle.vocab.events import CallArgs, CallClosed, CallStarted, Ended, ReasoningDelta, TextDelta
from turnbuckle.vocab.tooling import ToolOutcome

FINE = ToolOutcome("finished", "fine")


def told(facts, *, short=False, **options):
    """All that is told; by the short way where there is one, if `short`."""
    narration, values = Narration(**options), []
    for fact in facts:
        if short and (text := narration.going_on(fact)):
            values.append(Text(text))
        else:
            values += narration.take(fact)
    return values


def text(values):
    return "".join(value.text for value in values if isinstance(value, Text))


def thoughts(values):
    """Thoughts and where they end, each in one piece."""
    found: list[tuple[int | None, int | None, str]] = []
    for value in values:
        if isinstance(value, PartOver):
            found.append((None, value.block, ""))
        elif isinstance(value, Reasoning):
            *before, last = found or [(None, None, "")]
            if last[:2] == (value.attempt, value.block):
                found = [*before, (*last[:2], last[2] + value.text)]
            else:
                found.append((value.attempt, value.block, value.text))
    return found


def in_pieces(facts):
    """The same run, each event in a burst of its own."""
    for fact in facts:
        if isinstance(fact, Streamed):
            yield from (Streamed(fact.at, fact.attempt, (event,)) for event in fact.events)
        else:
            yield fact


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", ALL)
def test_however_the_words_come_and_whichever_way_they_are_read_they_are_the_same(name):
    facts = facts_of(run_named(name))
    whole = told(facts)
    others = [value for value in whole if not isinstance(value, Text | Waiting)]
    for values in (told(facts, short=True), told(in_pieces(facts)), told(in_pieces(facts), short=True)):
        assert text(values) == text(whole)
        assert thoughts(values) == thoughts(whole)
    assert [v for v in told(facts, short=True) if not isinstance(v, Text | Waiting)] == others


@pytest.mark.requirement("C6")
@pytest.mark.parametrize("name", ALL)
def test_every_call_that_began_has_one_end_and_an_id_of_its_own_and_the_end_of_the_run_comes_last(name):
    facts = facts_of(run_named(name))
    values = told(facts)
    begun = [value for value in values if isinstance(value, ToolBegun) and not value.again]
    ended = [value for value in values if isinstance(value, ToolEnded) and value.began]
    assert [value.tool for value in begun] == [name for _, name in tools_started(facts)]
    assert sorted(value.call for value in begun) == sorted(value.call for value in ended)
    assert len({value.call for value in begun}) == len(begun)
    assert [value for value in values if isinstance(value, RunOver)] == values[-1:]


@pytest.mark.parametrize("name", ALL)
def test_what_is_told_survives_a_trip_through_json(name):
    for value in told(facts_of(run_named(name)), arguments=True):
        assert msgspec.json.decode(msgspec.json.encode(value), type=Told) == value


def test_a_thought_that_goes_on_behind_words_is_another_one_also_if_both_came_together():
    events = [ReasoningDelta(0, "a"), ReasoningDelta(0, "b"), TextDelta(1, "Hi"), ReasoningDelta(0, "c")]
    wanted = [(1, 0, "ab"), (None, 0, ""), (1, 0, "c")]
    for bursts in ([*zip(events, strict=True)], [events[:2], events[2:]], [events[:3], events[3:]], [events]):
        assert thoughts(told((START, ask(), *(burst(*some) for some in bursts)))) == wanted
    facts = (START, ask(), burst(events[0]), burst(ReasoningDelta(0, ""), at=70.0), burst(events[1], at=80.0))
    assert thoughts(told(facts)) == [(1, 0, "ab")]
    narration = Narration()
    for fact in facts:
        narration.take(fact)
    assert narration.waiting.on(90.0).since == 80.0


def test_a_paragraph_is_told_once_and_only_behind_words():
    facts = (START, ask(), ToolStarted(4.0, "c", "look", {}, "k"), ToolFinished(5.0, "c", "look", FINE))
    assert not [value for value in told(facts) if isinstance(value, Paragraph)]
    spoken = (START, ask(), burst(TextDelta(0, "I look.")), *facts[2:])
    assert len([value for value in told(spoken) if isinstance(value, Paragraph)]) == 1


@pytest.mark.requirement("F8")
def test_arguments_are_told_only_to_who_wants_them_and_always_counted():
    facts = (
        START,
        ask(),
        *(burst(event) for event in (CallStarted(0, "c", "shell"), *(CallArgs(0, "xy"),) * 9)),
    )
    grown = [value.text for value in told(facts, arguments=True) if isinstance(value, CallGrown)]
    assert grown == ["xy"] * 9
    assert not [value for value in told(facts) if isinstance(value, CallGrown)]
    for wanted in (False, True):
        narration = Narration(arguments=wanted)
        for fact in facts:
            narration.take(fact)
        assert narration.waiting.on(9.0).detail.endswith("shell, 18 characters")


def test_two_calls_that_a_model_put_into_one_have_a_card_each_with_their_own_ends():
    one = (CallStarted(0, "c", "list_files"), CallArgs(0, "{}{}"), CallClosed(0), Ended("x"))
    starts = [ToolStarted(4.0, call, "list_files", {}, call) for call in ("c", "c_1")]
    ends = [ToolFinished(5.0, call, "list_files", FINE) for call in ("c_1", "c")]
    values = told((START, ask(), burst(*one), *starts, *ends))
    cards = {value.call: value.card for value in values if isinstance(value, ToolBegun)}
    assert cards == {"c": 1, "c_1": 2}
    assert [(value.call, value.card) for value in values if isinstance(value, ToolEnded)] == [
        ("c_1", 2),
        ("c", 1),
    ]


def test_calls_without_an_id_of_their_own_are_found_by_name_in_their_order():
    facts = (START, ask(), called(("", "look", "{}"), ("", "look", "{}")))
    starts = [ToolStarted(4.0, f"call_{number}", "look", {}, "k") for number in (1, 2)]
    cards = [value.card for value in told((*facts, *starts)) if isinstance(value, ToolBegun)]
    assert cards == [1, 2]


@pytest.mark.requirement("B1")
def test_what_finishes_a_cut_call_belongs_to_its_card():
    values = told(facts_of(run_named("draft")), arguments=True)
    arriving = [value for value in values if isinstance(value, CallArriving)]
    cards = {value.card for value in values if isinstance(value, DraftMoved)}
    assert len(cards) == 1
    assert {value.card for value in arriving if value.rest} == cards
    assert next(value.card for value in values if isinstance(value, ToolBegun)) in cards
