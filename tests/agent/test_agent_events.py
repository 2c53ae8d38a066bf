"""Facts to events for embedders: nothing twice, nothing lost, from any cursor."""

import msgspec
import pytest

from turnbuckle.agent.events import Cursor, Event, EventRenderer, read_cursor
from turnbuckle.errors import CursorGone
from turnbuckle.journal.port import Item
from turnbuckle.turn import facts
from turnbuckle.vocab.events import CallArgs, ReasoningDelta, RefusalDelta, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

RUN = RunId("r1")
BURST = (
    ReasoningDelta(0, "hm "),
    ReasoningDelta(0, "yes"),
    TextDelta(1, "Hel"),
    CallArgs(2, "{"),
    TextDelta(1, "lo"),
)
FACTS: list[facts.Fact] = [
    facts.RunStarted(1.0, RUN, SessionId("s1"), (), origin=Origin(notice="A new conversation.")),
    facts.ModelAsked(2.0, 1, RouteName("main"), "openai_chat", "m", "first"),
    facts.Streamed(3.0, 1, BURST),
    facts.Streamed(3.5, 1, (CallArgs(2, "}"),)),
    facts.Decided(
        4.0, 1, "cut", (), facts.Retry(2.0), failure("rate_limited", "slow down"), notice="The stream broke."
    ),
    facts.ApprovalAsked(5.0, "a1-0", "c1", "shell", {"command": "ls"}),
    facts.ApprovalAnswered(6.0, "a1-0", "allowed", "user"),
    facts.ToolStarted(7.0, "c1", "shell", {"command": "ls"}, "k"),
    facts.ToolSaid(8.0, "c1", "a.txt\n"),
    facts.ToolFinished(9.0, "c1", "shell", ToolOutcome("killed", partial_output="a.txt", seconds=2.0)),
    facts.ToolFinished(9.0, "c2", "_inner", ToolOutcome("finished", "x")),
    facts.RunLeft(10.0, "the agent was closed"),
    facts.RunClaimed(11.0, 1),
    facts.Streamed(12.0, 2, (RefusalDelta(0, "I will not."),)),
    facts.StopAsked(13.0, "user"),
    facts.RunEnded(14.0, Outcome("cancelled", "stopped by user")),
]
ITEMS = [Item(number, facts.encode(fact)) for number, fact in enumerate(FACTS, 1)]


def tell(items: list[Item], after: str | int = "") -> list[Event]:
    cursor = read_cursor(after)
    renderer = EventRenderer(RUN, cursor)
    return [event for item in items for event in renderer.take(item)]


def test_every_fact_that_concerns_a_program_is_told_once_and_in_order():
    assert [type(event).__name__ for event in tell(ITEMS)] == [
        "RunBegun", "Notice", "Waiting", "Reasoning", "Text", "Notice", "Waiting", "QuestionAsked", "QuestionAnswered",
        "ToolBegun", "ToolPrinted", "ToolEnded", "Notice", "Notice", "Text", "Notice", "RunOver",
    ]  # fmt: skip


def test_neighbours_of_a_burst_are_one_event_and_keep_their_order():
    burst = [event for event in tell(ITEMS) if event.at == 3.0]
    assert [(type(event).__name__, event.text, event.cursor) for event in burst] == [
        ("Reasoning", "hm yes", "3.0"),
        ("Text", "Hello", "3"),
    ]


@pytest.mark.requirement("E4")
def test_whoever_comes_back_with_the_cursor_of_any_event_gets_exactly_those_behind_it():
    whole = tell(ITEMS)
    for place, event in enumerate(whole):
        assert tell(ITEMS, event.cursor) == whole[place + 1 :]
    assert tell(ITEMS, 0) == tell(ITEMS, "") == whole


@pytest.mark.requirement("E4")
@pytest.mark.parametrize(
    "after, gone", [("2", False), ("3", True), ("4.0", True), ("5.0", True), ("5", False)]
)
def test_a_cursor_into_events_that_were_merged_is_refused_and_never_answered_with_a_gap(
    after: str, gone: bool
):
    merged = Item(5, facts.encode(facts.Streamed(5.0, 1, (TextDelta(0, "abc"),), merged=3)))  # for 3, 4 and 5
    if gone:
        with pytest.raises(CursorGone, match="from the start"):
            tell([merged], after)
    else:
        assert len(tell([merged], after)) == (after == "2")


@pytest.mark.parametrize("written", ["x", "-1", "1.x", "1.-2", "1 "])
def test_what_is_no_cursor_is_refused(written: str):
    with pytest.raises(ValueError, match="is not a cursor"):
        read_cursor(written)


def test_events_are_plain_values_that_survive_a_trip_through_json():
    for event in tell(ITEMS):
        assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event
        with pytest.raises(AttributeError):
            event.cursor = ""


def test_every_kind_of_event_has_a_fact_that_leads_to_it():
    assert {type(event) for event in tell(ITEMS)} == set(Event.__args__)


def test_a_cursor_behind_a_part_of_an_item_reads_that_item_again():
    assert (Cursor(7).read_after, Cursor(7, 0).read_after) == (7, 6)
