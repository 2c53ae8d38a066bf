"""Models that never come to an end: however they go on, a turn without real progress ends after a few calls.

Every short word over an alphabet of replies is a model that says these replies over and over. None of the words below
holds anything that a patient reader would call progress, so each must end long before the limit on model calls.
"""

from itertools import product

import pytest
from msgspec.structs import replace
from support.turns.turn_facts import (
    MAIN,
    OTHER,
    RESET,
    START,
    TOOLS,
    after,
    ask,
    burst,
    called,
    recorded,
    said,
)

from turnbuckle.turn.commands import CallModel, RunTool
from turnbuckle.turn.facts import ToolFinished, ToolStarted, UserSpoke
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.events import (
    CallArgs,
    CallStarted,
    Cut,
    Ended,
    FinishNoted,
    ReasoningDelta,
    TextDelta,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.messages import Message, TextPart, text_of
from turnbuckle.vocab.tooling import ToolOutcome

FEW = 24
"""Model calls: what a person would still take for an honest try. The usual limit is 90."""
STALLED = Cut(failure("stalled", "no progress", clock="gap"))
STOP = (FinishNoted("stop", "stop"), Ended("end"))
_PREAMBLES = (
    "I will now write it.",
    "Let me write the file now.",
    "Sure, here is the file.",
    "Now I write it out.",
)


def preamble(number):
    return TextDelta(0, f"{_PREAMBLES[number % len(_PREAMBLES)]} ({number})")


def cut_call(tool, number, text=False, arguments='{"path": "a'):
    words = (preamble(number),) if text else ()
    return burst(*words, CallStarted(1, f"c{number}", tool), CallArgs(1, arguments), RESET, number=number)


def whole_call(tool, arguments, number):
    return called((f"c{number}", tool, arguments), number=number)


ALPHABET = {
    "nothing, reset": lambda n: burst(RESET, number=n),
    "nothing, stalled": lambda n: burst(STALLED, number=n),
    "thought, reset": lambda n: burst(ReasoningDelta(0, "hm"), RESET, number=n),
    "empty": lambda n: burst(*STOP, number=n),
    "empty, length": lambda n: burst(FinishNoted("length", "length"), Ended("end"), number=n),
    "the same text, reset": lambda n: burst(TextDelta(0, "I will look at it. "), RESET, number=n),
    "cut shell": lambda n: cut_call("shell", n),
    "cut look": lambda n: cut_call("look", n),
    "text, cut shell": lambda n: cut_call("shell", n, text=True),
    "text, cut write_file": lambda n: cut_call("write_file", n, True, '{"path": "a", "content": "one'),
    "cut write_file": lambda n: cut_call("write_file", n, False, '{"path": "a", "content": "one two'),
    "cut finish_call": lambda n: cut_call("finish_call", n, False, '{"draft": "d1", "after": "zzz", "rest": "y'),
    "finish_call, no draft": lambda n: whole_call("finish_call", '{"draft": "none", "after": "x", "rest": "y"}', n),
    "a call that cannot be read": lambda n: whole_call("shell", '{"x": 01}', n),
    "text, a call that cannot be read": lambda n: called(("c", "shell", '{"x": 01}'), number=n, text=f"Now {n}."),
    "calls announced": lambda n: burst(FinishNoted("calls", "tool_calls"), Ended("end"), number=n),
    "a tool that is not there": lambda n: whole_call(f"nothing_{n}", "{}", n),
    "the same call": lambda n: whole_call("shell", '{"command": "ls"}', n),
    "a pause": lambda n: burst(FinishNoted("paused", "pause_turn"), Ended("end"), number=n),
}  # fmt: skip
DISTINCT = [
    "nothing, reset", "empty", "the same text, reset", "text, cut shell", "text, cut write_file", "finish_call, no draft",
    "a call that cannot be read", "a tool that is not there", "the same call",
]  # fmt: skip
ONE = replace(Policy((MAIN,), TOOLS), closed=True)
BOTH = replace(Policy((MAIN, OTHER), TOOLS), closed=True)


def run_scenario(word, policy, spoken=()):
    """A model that says the replies of a word over and over; the fold, and how often it was asked."""
    fold = after(START, policy=policy)
    number = 0
    while due := recorded(fold):
        for command in due:
            if isinstance(command, CallModel):
                number = command.attempt
                fold.take(
                    ask(number, fold.turn.now + command.ask.after, command.ask.why, policy.route(command.ask.route),
                        notes=command.ask.notes, stream=command.ask.stream)
                )  # fmt: skip
                for fact in spoken if number == 2 else ():
                    fold.take(fact)
                fold.take(replace(ALPHABET[word[number % len(word)]](number), at=fold.turn.now + 0.1))
            else:
                assert isinstance(command, RunTool)
                fold.take(
                    ToolStarted(fold.turn.now, command.call_id, command.name, command.arguments, command.key)
                )
                fold.take(
                    ToolFinished(fold.turn.now, command.call_id, command.name, ToolOutcome("finished", "ok"))
                )
        assert number <= 90
    return fold, number


@pytest.mark.requirement("B6", "B17")
@pytest.mark.parametrize("policy", [ONE, BOTH], ids=["one route", "two routes"])
def test_every_short_word_of_broken_replies_ends_after_a_few_calls(policy):
    counts = {}
    words = [*product(ALPHABET, repeat=1), *product(ALPHABET, repeat=2), *product(DISTINCT, repeat=3)]
    for word in words:
        fold, counts[word] = run_scenario(word, policy)
        assert fold.turn.phase == "ended"
    worst = max(counts, key=counts.__getitem__)
    assert counts[worst] <= FEW * len(policy.routes), (worst, counts[worst])


@pytest.mark.requirement("B6", "B17")
def test_a_new_sentence_in_front_of_the_same_cut_call_refills_nothing():
    counts = {word: run_scenario((word,), ONE)[1] for word in ("cut shell", "text, cut shell")}
    assert counts == {"cut shell": 4, "text, cut shell": 4}


@pytest.mark.requirement("B17")
def test_one_character_of_a_draft_at_a_time_is_not_progress_for_ever():
    fold = after(
        START, ask(), cut_call("write_file", 1, False, '{"path": "a", "content": "one two three'), policy=ONE
    )
    text, number = "one two three", 1
    while due := recorded(fold):
        (command,) = due
        number = command.attempt
        fold.take(ask(number, 3.0, command.ask.why, notes=command.ask.notes))
        letter = "bcdfgjklmnpqsuvxyz"[number]
        rest = f'{{"draft": "d1", "after": "{text[-20:]}", "rest": "{letter}", "more": true}}'
        fold.take(whole_call("finish_call", rest, number))
        text += letter
    assert number < 20
    assert fold.turn.outcome.kind == "partial"
    assert "only a few characters" in fold.turn.outcome.why


# Steering


def _wish(at=2.5):
    return UserSpoke(at, "m1", (Message("user", (TextPart("Write to b.txt instead."),)),))


@pytest.mark.requirement("G1", "B17")
@pytest.mark.parametrize(
    "word", [*((word,) for word in ALPHABET), ("cut write_file", "empty")], ids=" then ".join
)
def test_what_a_person_says_reaches_the_model_within_three_calls(word):
    if word in (("a pause",), ("empty, length",)):
        word = (*word, "the same text, reset")
    fold, number = run_scenario(word, ONE, spoken=(_wish(),))
    told = [message for message in fold.turn.messages if message.role == "user" and not message.note]
    if number > 4:
        assert [text_of(message.parts) for message in told][1:] == ["Write to b.txt instead."]
    assert number <= FEW


@pytest.mark.requirement("G1", "B17")
def test_a_wish_beside_an_open_draft_is_told_at_once_and_answered_once():
    fold = after(
        START, ask(), cut_call("write_file", 1, False, '{"path": "a", "content": "one two three'), policy=ONE
    )
    fold.take(_wish(3.5))
    (due,) = recorded(fold)
    fold.take(ask(2, 4.0, due.ask.why, notes=due.ask.notes))
    assert fold.turn.spoken == ()
    assert "b.txt" in text_of(fold.turn.messages[-2].parts)
    fold.take(said("I do so.", number=2))
    assert recorded(fold) == ()
    assert fold.turn.phase == "ended"


@pytest.mark.requirement("G1")
def test_a_wish_waits_behind_a_text_that_was_cut_but_not_for_ever():
    fold = after(START, ask(), burst(TextDelta(0, "Once upon a time"), RESET))
    fold.take(_wish(3.5))
    for number in (2, 3, 4):
        (due,) = recorded(fold)
        fold.take(ask(number, 4.0, due.ask.why, notes=due.ask.notes))
        assert bool(fold.turn.spoken) == (number < 4)
        fold.take(
            burst(
                TextDelta(0, f" there was a king who had {number} daughters and a horse,"),
                RESET,
                number=number,
            )
        )


# Nothing ran


@pytest.mark.requirement("B4", "C6")
@pytest.mark.parametrize(
    "first", ["text, cut shell", "text, cut write_file", "text, a call that cannot be read"]
)
def test_nothing_behind_a_call_that_broke_is_never_the_end_of_an_answer(first):
    fold = after(START, ask(), ALPHABET[first](1), policy=ONE)
    (due,) = recorded(fold)
    fold.take(ask(2, 4.0, due.ask.why, notes=due.ask.notes))
    fold.take(burst(*STOP, number=2))
    (due,) = recorded(fold)
    assert isinstance(due, CallModel)
    fold.take(ask(3, 5.0, due.ask.why, notes=due.ask.notes))
    fold.take(burst(*STOP, number=3))
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind != "completed"


@pytest.mark.requirement("B3")
def test_nothing_behind_a_text_that_was_cut_at_its_very_end_is_the_end():
    fold = after(START, ask(), burst(TextDelta(0, "All is done."), RESET))
    (due,) = recorded(fold)
    fold.take(ask(2, 4.0, due.ask.why, notes=due.ask.notes))
    fold.take(burst(*STOP, number=2))
    assert recorded(fold) == ()
    assert fold.turn.outcome.kind == "completed"


@pytest.mark.requirement("C2")
def test_an_empty_reply_at_a_limit_that_nobody_set_is_simply_asked_for_again():
    policy = Policy((replace(MAIN, cap=None, cap_most=None, effort=None),), TOOLS)
    fold = after(START, ask(), ALPHABET["empty, length"](1), policy=policy)
    (due,) = recorded(fold)
    assert due.ask.why == "retry"
    for number in (2, 3):
        fold.take(ask(number, 4.0, due.ask.why))
        fold.take(ALPHABET["empty, length"](number))
        due = (recorded(fold) or [None])[0]
    assert due is None
    assert fold.turn.outcome.why == "the answer was cut before its first word"
