"""Which step makes a history smaller, and what it makes of it."""

import pytest
from msgspec.structs import replace

from turnbuckle.testing.world.tools import FACTS
from turnbuckle.turn import compact, summary
from turnbuckle.turn.base import opening_of
from turnbuckle.turn.compaction import Compaction, FileSeen, Folding, Measure
from turnbuckle.turn.facts import Compacted, GiveUp, ModelAsked, Streamed
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import CompactionRules, Policy, RouteFacts, ToolFacts
from turnbuckle.turn.state import Ask, Tally, Turn
from turnbuckle.turn.window import estimate, room_of
from turnbuckle.vocab.events import Ended, FinishNoted, TextDelta
from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    ResultPart,
    TextPart,
    text_of,
)

POLICY = Policy(
    (RouteFacts("main", "openai_chat", "m"),),
    {**FACTS, "recall": ToolFacts("read")},
    compaction=CompactionRules(),
)
SYSTEM = Message("system", (TextPart("You work."),))


def user(text):
    return Message("user", (TextPart(text),))


def assistant(text):
    return Message("assistant", (TextPart(text),))


def called(number, result, *, name="read_file", thought="", path=None):
    """A round: a call and its result."""
    arguments = f'{{"path": "{path or f"f{number}.txt"}"}}'
    thoughts = (ReasoningPart(thought),) if thought else ()
    call = CallPart(f"c{number}", name, arguments)
    return (
        Message("assistant", (*thoughts, call)),
        Message("tool", (ResultPart(f"c{number}", (TextPart(result),)),)),
    )


def turn_of(*messages, own=0, **more):
    """A turn whose last `own` messages are its own, behind its task."""
    began = len(messages) - own
    task = tuple(one for one in messages[:began] if one.role == "user")[-1:]
    return Turn(
        messages=messages, began=began, task=task, ask=Ask("main", "after_tools"), phase="asking", **more
    )


def step_of(turn, window, *, refused=0, bound=False, policy=POLICY):
    room = room_of(window, refused, 0.8, None)
    return compact.next_step(turn, policy, room, estimate(turn.messages), bound=bound)


BIG = "some words of a result " * 100  # 575 tokens
READS = turn_of(SYSTEM, user("Look at all of it."), *(m for n in range(8) for m in called(n, BIG)), own=16)


@pytest.mark.requirement("I2")
def test_what_fits_is_left_alone():
    assert step_of(READS, 10_000) is None


@pytest.mark.requirement("I2", "I3")
def test_old_results_go_first_and_the_newest_stay():
    step = step_of(READS, 5_000)

    assert isinstance(step, Compacted)
    assert step.step == "results"
    now = compact.applied(READS, step.compaction).messages
    results = [text_of(part.content) for one in now for part in one.parts if isinstance(part, ResultPart)]
    assert results[-1] == BIG
    assert results[0].startswith(
        '[Runtime] Left out to save room: the result of read_file {"path": "f0.txt"}'
    )
    assert "Call it again to see it as it is now." in results[0]
    assert 'recall("c0") shows it as it was.' in results[0]
    assert len(now) == len(READS.messages), "every call still has its result"
    assert estimate(now) < 0.6 * 0.8 * 5_000


def test_a_result_that_is_kept_in_a_file_says_where():
    kept = f"{BIG}\n[The whole output is kept. Read it with read_file, path kept/r1/shell.txt]"
    turn = turn_of(SYSTEM, user("Go."), *(m for n in range(8) for m in called(n, kept, name="shell")), own=16)

    step = step_of(turn, 5_000)

    assert isinstance(step, Compacted)
    assert "Read it with read_file, path kept/r1/shell.txt" in step.compaction.lines[0].text
    assert "Call it again" not in step.compaction.lines[0].text, "it may not be repeated"


@pytest.mark.requirement("I2")
def test_reasoning_goes_where_results_are_not_enough():
    rounds = (m for n in range(8) for m in called(n, "short", thought="I think. " * 200))
    turn = turn_of(SYSTEM, user("Go."), *rounds, own=16)

    step = step_of(turn, 4_000)

    assert isinstance(step, Compacted)
    assert step.step == "reasoning"
    now = compact.applied(turn, step.compaction).messages
    assert not any(isinstance(part, ReasoningPart) for one in now for part in one.parts)


@pytest.mark.requirement("I2", "I3")
def test_bound_reasoning_goes_with_the_first_change():
    rounds = (m for n in range(8) for m in called(n, BIG, thought="hm"))
    turn = turn_of(SYSTEM, user("Go."), *rounds, own=16)

    loose, bound = step_of(turn, 5_000), step_of(turn, 5_000, bound=True)

    assert isinstance(loose, Compacted)
    assert isinstance(bound, Compacted)
    kept = compact.applied(turn, loose.compaction).messages
    gone = compact.applied(turn, bound.compaction).messages
    assert any(isinstance(part, ReasoningPart) for one in kept for part in one.parts)
    assert not any(isinstance(part, ReasoningPart) for one in gone for part in one.parts)


TALK = tuple(
    m for n in range(20) for m in (user(f"Question {n}: " + "why " * 100), assistant("Because. " * 60))
)


def summed_up(turn, folding, text="Task: talk. Forbidden: none."):
    """The turn behind a summary of this text."""
    fold = TurnFold(POLICY, sending=True)
    fold.turn = turn
    fold.take(ModelAsked(1.0, 1, "main", "openai_chat", "m", "compact", folding=folding))
    fold.take(Streamed(2.0, 1, (TextDelta(0, text), FinishNoted("stop", "stop"), Ended("x"))))
    ((record,),) = (fold.due(),)
    for fact in record.facts:
        fold.take(fact)
    return fold.turn, record.facts[0]


@pytest.mark.requirement("I2", "I3")
def test_the_oldest_part_is_summarised_where_nothing_else_is_enough():
    turn = turn_of(SYSTEM, *TALK, user("And now?"))
    folding = step_of(turn, 4_000)
    assert isinstance(folding, Folding)

    now, fact = summed_up(turn, folding)

    assert now.messages[0] == SYSTEM
    assert now.messages[-1] == user("And now?")
    assert text_of(now.messages[1].parts).startswith("[Runtime] To save room, the ")
    assert "Task: talk." in text_of(now.messages[1].parts)
    assert "Question 0: why" in text_of(now.messages[1].parts), "the first wish, word by word"
    assert (fact.before, now.phase, now.ask) == (estimate(turn.messages), "asking", turn.ask)
    assert fact.after <= 0.8 * 4_000


@pytest.mark.requirement("I3")
def test_the_task_and_the_last_words_stay_messages_of_the_user():
    turn = turn_of(
        SYSTEM, *TALK, user("Do it, but never touch b.txt."), *called(1, BIG), *called(2, BIG), own=4
    )
    turn = replace(turn, began=len(turn.messages) - 4)
    folding = Folding(len(turn.messages) - 2, 1_000, 5_000, 300)

    now, _ = summed_up(turn, folding)

    assert [text_of(one.parts) for one in now.messages if summary.is_users(one)][
        -1
    ] == "Do it, but never touch b.txt."
    assert now.messages[-2:] == turn.messages[-2:]


@pytest.mark.requirement("I3", "I5")
def test_the_read_set_and_the_users_words_survive_one_summary_after_the_other():
    turn = turn_of(SYSTEM, user("Never delete a file."), *called(1, BIG), *TALK, user("Go on."))
    first, _ = summed_up(turn, Folding(20, 1_000, 5_000, 300))
    longer = replace(first, messages=(*first.messages, *TALK, user("More.")))
    second, _ = summed_up(longer, Folding(len(longer.messages) - 3, 1_000, 5_000, 300))

    told = text_of(second.messages[1].parts)
    seen = FileSeen("f1.txt", "read", summary.mark_of(BIG), len(BIG))
    assert seen in second.compaction.files
    assert f"f1.txt: read, {len(BIG):,} characters, {seen.mark}" in told
    assert "Never delete a file." in told
    assert second.compaction.messages > first.compaction.messages


@pytest.mark.requirement("I3", "I5")
@pytest.mark.parametrize("size", [1, 10], ids=["old results as lines", "the newest shortened too"])
def test_a_file_whose_result_became_a_line_is_still_known_by_the_content_that_was_seen(size: int):
    content = BIG * size
    rounds = (m for n in range(8) for m in called(n, content))
    turn = turn_of(SYSTEM, user("Look at all of it."), *rounds, own=16)
    step = step_of(turn, 5_000 if size == 1 else 3_000)
    while isinstance(step, Folding):
        turn, _ = summed_up(turn, step)
        step = step_of(turn, 3_000)
    assert isinstance(step, Compacted)
    told = compact.compacted(turn, step, sending=True)

    last, _ = summed_up(told, Folding(len(told.messages), 1_000, 5_000, 300))

    seen = [FileSeen(f"f{n}.txt", "read", summary.mark_of(content), len(content)) for n in range(8)]
    assert set(last.compaction.files) == set(seen)


@pytest.mark.requirement("I4")
@pytest.mark.parametrize("word", ["word{} ", "語{}"], ids=["English", "Chinese"])
def test_a_summary_that_is_longer_than_it_may_be_is_shortened_so_that_the_session_goes_on(word: str):
    turn = turn_of(SYSTEM, *TALK, user("And now?"))
    folding = step_of(turn, 4_000)
    assert isinstance(folding, Folding)

    now, fact = summed_up(turn, folding, "Task: talk. " + "".join(map(word.format, range(20_000))))

    assert fact.after <= 0.8 * 4_000
    assert step_of(now, 4_000) is None
    assert "Task: talk." in text_of(now.messages[1].parts)
    assert estimate((assistant(now.compaction.summary),)) <= 1.25 * folding.cap + 20


@pytest.mark.requirement("I3")
def test_no_border_splits_a_pair_or_a_reply_that_goes_on():
    cut = replace(assistant("It was cut h"), partial=True)
    messages = (SYSTEM, user("Go."), *called(1, BIG), cut, assistant("ere."), *called(2, BIG), user("Hm."))
    for tail in range(0, estimate(messages), 20):
        border = compact._border(turn_of(*messages), tail)
        assert border in (1, 2, 4, 6, 8), tail


@pytest.mark.requirement("I4")
def test_newest_results_are_shortened_if_they_alone_are_too_large():
    turn = turn_of(SYSTEM, user("Go."), *called(1, BIG * 10), own=2)

    step = step_of(turn, 4_000)

    assert isinstance(step, Compacted)
    assert step.step == "newest"
    assert step.after < 2_000
    assert step.compaction.lines[0].text.startswith("some words of a result")


@pytest.mark.requirement("I4")
@pytest.mark.parametrize(
    "turn, why",
    [
        (turn_of(SYSTEM, user("word " * 5_000)), "nothing more can be left out"),
        (replace(READS, tally=Tally(compactions=20)), "20 times in this turn"),
    ],
    ids=["the task alone is too long", "too often"],
)
def test_it_ends_with_words_where_nothing_helps(turn, why):
    step = step_of(turn, 3_000)

    assert isinstance(step, GiveUp)
    assert why in step.why
    assert "/new" in step.why


@pytest.mark.requirement("I9")
def test_nobody_compacts_what_is_not_theirs():
    assert step_of(READS, 1_000, policy=replace(POLICY, compaction=None)) is None


@pytest.mark.requirement("I5")
def test_what_the_run_added_stays_at_hand_as_it_was_said():
    step = step_of(READS, 5_000)
    assert isinstance(step, Compacted)

    told = compact.compacted(READS, step, sending=True)
    read = compact.compacted(READS, step, sending=False)

    assert told.added == read.added == READS.messages[2:]
    assert read.messages == READS.messages
    assert opening_of(told.messages) == (SYSTEM,)
    assert told.given == read.given


def test_a_transcript_fits_and_keeps_the_beginning_and_the_end():
    text = summary.transcript((user("first"), *TALK, user("last")), 300)

    assert len(text) <= 1_200
    assert text.startswith("User: first")
    assert text.endswith("User: last")


def test_a_note_says_so_where_there_is_no_summary():
    gathered = summary.Gathered.of((), Compaction(0), POLICY, 100)
    told = summary.note("", gathered, 3, recall=False, why="no model could summarise it")

    assert "There is no summary: no model could summarise it." in text_of(told.parts)


PICTURE = ImagePart(data="QUJD" * 1_000, media_type="image/png")
PAGES = FilePart(name="plan.pdf", data="QUJD" * 1_000, media_type="application/pdf")


def looked_at(number):
    """A round whose result is a picture."""
    call = CallPart(f"c{number}", "view", f'{{"page": {number}}}')
    shown = ResultPart(f"c{number}", (TextPart(f"Page {number}."), PICTURE))
    return Message("assistant", (call,)), Message("tool", (shown,))


@pytest.mark.requirement("I2", "I3")
def test_a_line_in_place_of_a_result_says_that_there_was_a_picture():
    turn = turn_of(SYSTEM, user("Look."), *(m for n in range(6) for m in looked_at(n)), own=12)

    step = step_of(turn, 6_000)

    assert isinstance(step, Compacted)
    assert step.step == "results"
    assert "(7 characters, a picture (image/png), content" in step.compaction.lines[0].text
    now = compact.applied(turn, step.compaction).messages
    results = [part for one in now for part in one.parts if isinstance(part, ResultPart)]
    assert len(results) == 6, "every call still has its result"
    assert results[-1].content == (TextPart("Page 5."), PICTURE)
    assert all(PICTURE not in part.content for part in results[:4])


@pytest.mark.requirement("I2", "I3")
def test_a_summary_of_pictures_tells_who_writes_it_and_who_goes_on_that_they_were_there():
    shown = Message("user", (TextPart("This is the plan."), TextPart("<env>"), PICTURE, PAGES))
    turn = turn_of(SYSTEM, shown, *looked_at(1), *TALK, user("And now?"))
    folding = step_of(turn, 6_000)
    assert isinstance(folding, Folding)

    (_, asked) = summary.request_messages(turn, folding)
    told = text_of(asked.parts)
    assert "This is the plan. <env> [a picture (image/png)] [a document (plan.pdf)]" in told
    assert "[result: Page 1.] [a picture (image/png)]" in told
    assert not any(isinstance(part, ImagePart | FilePart) for part in asked.parts)
    now, _ = summed_up(turn, folding)
    note = text_of(now.messages[1].parts)
    assert "This is the plan. <env> [a picture (image/png), which is no longer in sight]" in note
    assert "[a document (plan.pdf), which is no longer in sight]" in note
    assert not any(PICTURE in one.parts for one in now.messages)


@pytest.mark.requirement("I2", "I3")
def test_a_picture_of_the_last_turns_stays_in_sight():
    last = Message("user", (TextPart("What is this?"), PICTURE))
    turn = turn_of(SYSTEM, *TALK, last)
    folding = step_of(turn, 5_000)
    assert isinstance(folding, Folding)

    now, _ = summed_up(turn, folding)

    assert now.messages[-1] == last


@pytest.mark.requirement("I4")
def test_what_may_fit_is_sent_since_only_its_provider_can_weigh_a_document():
    pages = replace(PAGES, data="QUJD" * 1_000_000)
    turn = turn_of(SYSTEM, Message("user", (TextPart("Read it."), pages)))
    assert estimate(turn.messages) > 32_000

    assert step_of(turn, 32_000) is None, "it goes out"
    refused = step_of(turn, 32_000, refused=36_000)
    assert isinstance(refused, GiveUp), "and if it is refused, it ends with words"
    counted = replace(turn, measure=Measure(40_000, 0), measured=len(turn.messages))
    assert isinstance(step_of(counted, 32_000), GiveUp), "its provider has counted it"


@pytest.mark.requirement("I2", "I6")
@pytest.mark.parametrize("window", [700, 1_000, 3_000, 8_000, 100_000])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.5])
def test_a_request_for_a_summary_fits_whoever_is_asked_for_it(window, ratio):
    turn = turn_of(SYSTEM, *TALK, user("And now?"))
    folding = step_of(turn, 5_000)
    assert isinstance(folding, Folding)

    fitted = compact.fitted(folding, window, ratio)
    asked = estimate(summary.request_messages(turn, fitted))

    assert asked * max(ratio, 1.0) + fitted.longest <= window or asked < 320, "nothing but the instructions"
    assert fitted.told_in <= folding.room
    assert compact.fitted(folding, None, ratio) == folding
