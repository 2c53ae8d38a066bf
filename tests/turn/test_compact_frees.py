"""A step that would not make what is sent smaller is not taken: asked for or not, whatever the summary is like."""

import itertools

import pytest
from msgspec.structs import replace

from turnbuckle.testing.world.tools import FACTS
from turnbuckle.turn import compact, summary
from turnbuckle.turn.commands import Record
from turnbuckle.turn.compact import NothingToShrink
from turnbuckle.turn.compaction import Folding, Measure
from turnbuckle.turn.facts import (
    Compacted,
    Decided,
    Fact,
    GiveUp,
    ModelAsked,
    RunEnded,
    Streamed,
    SummaryDropped,
)
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import COMPACTION, Ledger
from turnbuckle.turn.machine import nothing_left_out
from turnbuckle.turn.policy import CompactionRules, Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import Ask, Turn
from turnbuckle.turn.window import estimate, room_of, tokens_of_part
from turnbuckle.vocab.events import Cut, Ended, FinishNoted, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.messages import CallPart, Message, ReasoningPart, ResultPart, TextPart
from turnbuckle.vocab.request import RunOptions

POLICY = Policy(
    (RouteFacts("main", "openai_chat", "m"),),
    {**FACTS, "recall": ToolFacts("read")},
    compaction=CompactionRules(),
    stream_retries=1,
)
SYSTEM = Message("system", (TextPart("You work."),))


def says(role, text):
    return Message(role, (TextPart(text),))


def talk(rounds, words):
    """A conversation without tools."""
    said = ("word " * words).strip()
    pairs = ((says("user", f"{n}: {said}"), says("assistant", f"So: {said}")) for n in range(rounds))
    return tuple(itertools.chain.from_iterable(pairs))


def work(rounds, words, thought=""):
    """A conversation of calls."""
    made = [says("user", "Look at all of it.")]
    for n in range(rounds):
        thoughts = (ReasoningPart(thought),) if thought else ()
        made.append(Message("assistant", (*thoughts, CallPart(f"c{n}", "read_file", f'{{"path": "f{n}"}}'))))
        made.append(Message("tool", (ResultPart(f"c{n}", (TextPart("word " * words),)),)))
        made.append(says("assistant", "I see."))
    return tuple(made)


CONVERSATIONS = {
    "nothing": (),
    "a word": (says("user", "Hi."),),
    "an exchange": talk(1, 5),
    "a short talk": talk(4, 20),
    "a talk": talk(8, 60),
    "a long talk": talk(60, 80),
    "short work": work(3, 20),
    "work": work(6, 400),
    "long work": work(40, 600),
    "lines as long as results": work(20, 100),
    "thoughts": work(4, 20, thought="I think of it. " * 100),
    "the users own words": tuple(says("user", f"{n}: " + "mine " * 80) for n in range(20)),
}
SUMMARIES = {
    "shorter": "Task: look. Forbidden: none.",
    "longer": "Task: look. " + "and this and that " * 8_000,
    "as long": "Task: look. " + "and this and that " * 60,
    "empty": "",
}


def turn_of(messages, **more):
    history = (SYSTEM, *messages)
    return Turn(
        messages=history, began=len(history), task=(), ask=Ask("main", "first"), phase="asking", **more
    )


def answered(fold, folding, text, *, cut=False):
    """The fold behind the reply to a request for a summary."""
    attempt = fold.turn.attempt + 1
    fold.take(ModelAsked(1.0, attempt, "main", "openai_chat", "m", "compact", folding=folding))
    last = (Cut(failure("reset", "gone")),) if cut else (FinishNoted("stop", "stop"), Ended("x"))
    fold.take(Streamed(2.0, attempt, ((TextDelta(0, text),) if text else ()) + last))


def played(turn, window, text, *, cut=False, policy=POLICY, bound=False):
    """The facts of a turn, up to the request that goes out or to its end."""
    fold = TurnFold(policy, sending=True)
    facts: list[Fact] = []
    fold.turn = turn
    for _ in range(60):
        for due in fold.due():
            if isinstance(due, Record):
                facts += due.facts
                for fact in due.facts:
                    fold.take(fact)
                break
            room = room_of(window, 0, 0.8, None)
            guessed = estimate(fold.turn.messages)
            used = compact.used_by(fold.turn, guessed, "m")
            if due.ask.folding is not None:
                step = due.ask.folding
            else:
                step = compact.next_step(fold.turn, policy, room, used, bound=bound)
            match step:
                case Folding():
                    answered(fold, step, text, cut=cut)
                case Compacted():
                    facts.append(step)
                    fold.take(step)
                case NothingToShrink(why):
                    ends = nothing_left_out(fold.turn, why).facts
                    return fold, [*facts, *ends]
                case _:
                    return fold, facts
        if fold.turn.phase == "ended":
            return fold, facts
    raise AssertionError("it goes round in circles")


@pytest.mark.requirement("I2", "I4")
@pytest.mark.parametrize("text", SUMMARIES.values(), ids=SUMMARIES)
@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
@pytest.mark.parametrize("asked", ["", None], ids=["asked for", "by itself"])
def test_what_is_sent_is_smaller_by_the_least_behind_every_step(messages, text, asked):
    for window, ratio, cut, bound in itertools.product(
        (None, 900, 3_000, 20_000), (0.5, 1.0, 2.5), (False, True), (False, True)
    ):
        size = int(estimate((SYSTEM, *messages)) * ratio)
        measure = Measure(size, 0, ratio, "m")
        turn = turn_of(messages, options=RunOptions(compact=asked), measure=measure)
        turn = replace(turn, measured=len(turn.messages))

        fold, facts = played(turn, window, text, cut=cut, bound=bound)

        sent, limit = turn, window * 0.8 if window and asked is None else size
        for fact in facts:
            if isinstance(fact, Compacted):
                now = compact.applied(sent, fact.compaction)
                told = (fact.step, window, ratio, cut, fact.before, fact.after)
                assert estimate(now.messages) < estimate(sent.messages), told
                assert fact.before - fact.after >= int(0.05 * limit), told
                sent = compact.compacted(sent, fact, sending=True)
        assert fold.turn.messages == sent.messages, "what is not taken leaves no trace"
        if asked is not None:
            ended = facts[-1]
            assert isinstance(ended, RunEnded)
            made = [fact for fact in facts if isinstance(fact, Compacted)]
            assert len(made) <= 1
            if not made and ended.outcome.kind == "completed":
                assert ended.outcome.why.startswith("there is nothing to make smaller")


@pytest.mark.requirement("I2")
@pytest.mark.parametrize("name", ["nothing", "a word", "an exchange", "a short talk", "short work"])
def test_a_conversation_that_no_summary_makes_smaller_costs_no_model_call(name):
    turn = turn_of(CONVERSATIONS[name], options=RunOptions(compact=""))

    _, facts = played(turn, None, "Task: none.")

    assert [type(fact) for fact in facts] == [RunEnded]
    assert facts[0].outcome.why == "there is nothing to make smaller"


@pytest.mark.requirement("I2", "I7")
def test_a_summary_that_is_too_long_is_told_and_paid_for_and_the_conversation_stays():
    turn = turn_of(CONVERSATIONS["a talk"], options=RunOptions(compact=""))
    policy, ledger = POLICY, Ledger()
    fold = TurnFold(policy, sending=True)
    fold.turn = turn
    folding = compact.next_step(turn, policy, None, estimate(turn.messages), bound=False)
    assert isinstance(folding, Folding)
    asked = ModelAsked(1.0, 1, "main", "openai_chat", "m", "compact", folding=folding)
    usage = UsageNoted(Usage(input=400, output=900))
    said = (TextDelta(0, SUMMARIES["longer"]), usage, FinishNoted("stop", "stop"), Ended("x"))
    streamed = Streamed(2.0, 1, said)
    for fact in (asked, streamed):
        fold.take(fact)
        ledger.take(fact)

    ((record,),) = (fold.due(),)
    (dropped,) = record.facts
    ledger.take(dropped)
    fold.take(dropped)

    assert isinstance(dropped, SummaryDropped)
    assert dropped.after > dropped.before * 0.95
    assert fold.turn.messages == turn.messages
    assert fold.turn.ask == turn.ask
    (entry,) = ledger.entries
    assert (entry.cause, entry.times, entry.input_tokens, entry.output_tokens) == (COMPACTION, 1, 400, 900)
    again = compact.next_step(fold.turn, policy, None, dropped.before, bound=False)
    assert again == NothingToShrink(
        f"with a summary it would take {dropped.after:,} tokens instead of {dropped.before:,}"
    )


@pytest.mark.requirement("I2")
def test_where_a_summary_does_not_help_old_results_and_thoughts_go():
    for name, step in (("work", "results"), ("thoughts", "reasoning")):
        turn = turn_of(CONVERSATIONS[name], options=RunOptions(compact=""))
        _, facts = played(turn, None, SUMMARIES["longer"])
        made = [fact.step for fact in facts if isinstance(fact, Compacted)]
        assert made == [step], name


@pytest.mark.requirement("I6")
@pytest.mark.parametrize("cut", [False, True], ids=["empty", "cut"])
def test_who_asked_for_a_summary_that_no_model_can_write_keeps_the_conversation(cut):
    turn = turn_of(CONVERSATIONS["a long talk"], options=RunOptions(compact="all"))

    fold, facts = played(turn, None, "half" if cut else "", cut=cut)

    last = [fact for fact in facts if isinstance(fact, Decided)][-1]
    assert isinstance(last.decision, GiveUp)
    assert facts[-1].outcome.kind == "failed"
    assert "stays as it was" in facts[-1].outcome.why
    assert fold.turn.messages == turn.messages


def test_a_line_is_never_as_long_as_the_result_that_it_stands_for():
    calls = [CallPart(f"c{n}", "read_file", f'{{"path": "{"p" * 300}{n}"}}') for n in range(30)]
    kept = "\n[The whole output is kept. Read it with read_file, path kept/" + "k" * 240 + "]"
    results = [ResultPart(call.id, (TextPart("word " * 5 * n + kept),)) for n, call in enumerate(calls)]
    pairs = (
        (Message("assistant", (call,)), Message("tool", (result,)))
        for call, result in zip(calls, results, strict=True)
    )
    turn = turn_of((says("user", "Go."), *itertools.chain.from_iterable(pairs)))
    sizes = {part.call_id: tokens_of_part(part) for part in results}

    for spared in (0, 1, 500):
        lines = compact._lines(turn, POLICY, spared)
        assert lines
        for line in lines:
            assert tokens_of_part(ResultPart(line.call_id, (TextPart(line.text),))) < sizes[line.call_id] + 12


@pytest.mark.requirement("I4")
def test_what_nothing_makes_smaller_is_sent_while_it_fits_the_window():
    turn = turn_of((says("user", "word " * 600),))
    used = estimate(turn.messages)

    assert compact.next_step(turn, POLICY, room_of(used * 10 // 9, 0, 0.8, None), used, bound=False) is None
    full = compact.next_step(turn, POLICY, room_of(used, 0, 0.8, None), used, bound=False)
    assert isinstance(full, GiveUp)
    refused = compact.next_step(turn, POLICY, room_of(None, used, 0.8, None), used, bound=False)
    assert isinstance(refused, GiveUp)


def test_a_model_is_told_how_long_its_summary_may_be():
    turn = turn_of(CONVERSATIONS["a long talk"], options=RunOptions(compact=""))
    folding = compact.next_step(turn, POLICY, None, estimate(turn.messages), bound=False)
    assert isinstance(folding, Folding)

    (_, asked) = summary.request_messages(turn, folding)

    assert f"Write the notes now, in at most {folding.longest * 3 // 4:,} words." in asked.parts[0].text
