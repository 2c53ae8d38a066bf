"""A run in a chat: what is shown for good, and what is under way."""

from typing import Any

import pytest
from support.cli.scripted_chat import ended, spoke, started

from turnbuckle.cli.chat.renderer import ChatRunRenderer, UserWords
from turnbuckle.cli.pieces import Line, Words
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ModelAsked,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
)
from turnbuckle.vocab.events import CallArgs, CallStarted, Cut, Ended, ReasoningDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.tooling import ToolOutcome

AT = 1_000.0


def streamed(*events):
    return Streamed(AT, 1, events)


def lines(pieces):
    return [piece.text for piece in pieces if isinstance(piece, Line)]


def live(chat):
    return [line.text for line in chat.live()]


@pytest.mark.requirement("H2")
def test_arguments_that_come_in_are_counted_and_named_by_what_tells_most():
    chat = ChatRunRenderer()
    chat.take(1, streamed(CallStarted(0, "c", "write_file")))
    assert live(chat) == ["→ write_file … 0 characters"]
    chat.take(1, streamed(CallArgs(0, '{"content": "x", "pa')))
    assert live(chat) == ["→ write_file … 20 characters"]
    chat.take(1, streamed(CallArgs(0, 'th": "notes.md", ')))
    assert live(chat) == ["→ write_file notes.md … 37 characters"]
    for _ in range(1_000):
        chat.take(1, streamed(CallArgs(0, "x" * 12)))
    assert live(chat) == ["→ write_file notes.md … 12,037 characters"]


@pytest.mark.parametrize("last", [Ended("end"), Cut(failure("reset", "gone"))])
def test_a_reply_that_is_over_has_nothing_coming_in(last):
    chat = ChatRunRenderer()
    chat.take(1, streamed(CallStarted(0, "c", "shell"), CallArgs(0, "{}"), last))
    assert live(chat) == []


def test_a_path_that_never_comes_costs_only_the_beginning():
    chat = ChatRunRenderer()
    chat.take(1, streamed(CallStarted(0, "c", "write_file")))
    for _ in range(100):
        chat.take(1, streamed(CallArgs(0, "y" * 100)))
    chat.take(1, streamed(CallArgs(0, '"path": "late.txt"')))
    assert live(chat) == ["→ write_file … 10,018 characters"]


@pytest.mark.requirement("D4", "H2")
@pytest.mark.parametrize(
    "outcome, shown",
    [
        (ToolOutcome("finished", "two", seconds=1.5), "✓ shell, 1.5 s: two"),
        (ToolOutcome("failed", "bad", seconds=1.5, exit_code=3), "✗ shell, 1.5 s, exit code 3: bad"),
        (ToolOutcome("killed", "", "half", seconds=2.0), "✗ shell killed after 2.0 s: half"),
        (ToolOutcome("timed_out", seconds=2.0), "✗ shell timed out after 2.0 s"),
        (ToolOutcome("unknown"), "? shell was started, how it ended is not known"),
        (ToolOutcome("not_started", "no"), "✗ shell did not run: no"),
        (ToolOutcome("denied", "no"), "✗ shell did not run: no"),
    ],
)
def test_each_end_of_a_tool_is_told_apart_in_one_line(outcome, shown):
    chat = ChatRunRenderer()
    chat.take(1, ToolStarted(AT, "c", "shell", {"command": "make"}, "k"))
    assert lines(chat.take(1, ToolFinished(AT, "c", "shell", outcome))) == [shown]
    assert live(chat) == []


def test_a_running_tool_shows_the_end_of_what_it_prints_and_leaves_it_behind():
    chat = ChatRunRenderer()
    assert lines(chat.take(1, ToolStarted(AT, "c", "shell", {"command": "make"}, "k"))) == ["→ shell make"]
    for number in range(10):
        chat.take(1, ToolSaid(AT, "c", f"line {number}\nl"))
    assert live(chat) == ["→ shell make …", "  lline 7", "  lline 8", "  lline 9", "  l"]
    told = lines(chat.take(1, ToolFinished(AT, "c", "shell", ToolOutcome("finished", "ok", seconds=0.1))))
    assert told == ["  lline 7", "  lline 8", "  lline 9", "  l", "✓ shell, 0.1 s: ok"]


def test_a_tool_that_prints_without_end_costs_a_few_lines():
    chat = ChatRunRenderer()
    chat.take(1, ToolStarted(AT, "c", "shell", {}, "k"))
    for _ in range(100):
        chat.take(1, ToolSaid(AT, "c", "z" * 10_000))
    assert [len(line) for line in live(chat)] == [len("→ shell …"), 202]


def test_what_was_said_stands_before_its_answer_also_into_a_turn():
    chat = ChatRunRenderer()
    assert chat.take(1, started("r1", "do it")) == [UserWords("do it", "r1")]
    said = chat.take(1, UserSpoke(AT, "m", (Message("user", (TextPart("and that"),)),)))
    assert said == [UserWords("and that", "r1", into=True)]


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "verdict, by, text, shown",
    [
        ("allowed", "ann", "", "allowed by ann"),
        ("denied", "ann", "too big", "denied by ann: too big"),
        ("answered", "", "blue", "answered: blue"),
        ("expired", "", "", "nobody answered in time"),
        ("withdrawn", "", "", "no answer is needed any more"),
    ],
)
def test_an_answer_is_shown_wherever_it_was_given(verdict, by, text, shown):
    assert lines(ChatRunRenderer().take(1, ApprovalAnswered(AT, "a", verdict, by, text))) == [shown]


def test_reasoning_can_be_turned_on_in_the_middle():
    chat = ChatRunRenderer()
    thought = streamed(ReasoningDelta(0, "hm"))
    assert chat.take(1, thought) == []
    chat.reasoning = True
    assert Words("hm", reasoning=True) in chat.take(1, thought)


RUN = [
    started("r1", "go"),
    ModelAsked(AT, 1, RouteName("m"), "openai_chat", "m", "first"),
    spoke("one "),
    spoke("two "),
    spoke("three "),
    ToolStarted(AT, "c", "shell", {"command": "x"}, "k"),
    ToolFinished(AT, "c", "shell", ToolOutcome("finished", "ok", seconds=0.1)),
    spoke("four"),
    ended(),
]


def told(chat, facts):
    """Everything in order, text joined, so that only words and lines count and not how they were cut."""
    made: list[Any] = []
    for seq, fact in facts:
        for piece in chat.take(seq, fact):
            if isinstance(piece, Words) and made and isinstance(made[-1], str):
                made[-1] += piece.text
            else:
                made.append(piece.text if isinstance(piece, Words) else piece)
    return made


def joined(*parts):
    made: list[Any] = []
    for part in (one for each in parts for one in each):
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return made


@pytest.mark.requirement("E4")
def test_a_run_that_was_merged_meanwhile_is_told_on_without_a_word_twice():
    numbered = list(enumerate(RUN, 1))
    merged = [*numbered[:2], (5, Streamed(AT, 1, spoke("one two three ").events, merged=3)), *numbered[5:]]
    whole = told(ChatRunRenderer(False), numbered)
    for seen in range(len(numbered) + 1):
        chat = ChatRunRenderer(False)
        first = told(chat, numbered[:seen])
        assert joined(first, told(chat.again(False), merged)) == whole


def test_an_answer_given_at_this_machine_names_nobody():
    def told(by, verdict="denied", text="use rg"):
        renderer = ChatRunRenderer()
        pieces = renderer.take(1, ApprovalAnswered(AT, "a1", verdict, by, text))
        return [piece.text for piece in pieces if isinstance(piece, Line)]

    assert told("terminal") == told("local") == told("") == ["denied: use rg"]
    assert told("anna") == ["denied by anna: use rg"]


@pytest.mark.parametrize("printed, rows", [("7\n", 0), ("6\n7\n", 2), ("other\n", 1)])
def test_the_one_line_that_a_tool_printed_is_not_told_twice(printed, rows):
    renderer = ChatRunRenderer()
    renderer.take(1, started("r1", "go"))
    renderer.take(2, ToolStarted(AT, "c1", "shell", {"command": "x"}, "k"))
    renderer.take(3, ToolSaid(AT, "c1", printed))
    pieces = renderer.take(4, ToolFinished(AT, "c1", "shell", ToolOutcome("finished", "7\n")))
    lines = [piece.text for piece in pieces if isinstance(piece, Line)]
    assert [line for line in lines if line.startswith("  ")] == [f"  {line}" for line in printed.split()][
        :rows
    ]
    assert lines[-1].endswith(": 7")
