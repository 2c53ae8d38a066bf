"""The conversation is stored once: a run stores what it adds, and what it stands on is the same after anything."""

import asyncio
from itertools import pairwise

import pytest
from support.runs.approval_runs import HELLO, new_run, run_scenario

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import EVERY_STREAM, READ_LIMIT, StreamQuery
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.runtime import conversation
from turnbuckle.runtime.conversation import KIND, MOST_KEPT, Conversation, Conversations, Link, merged
from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.runs import READING
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.sessions import SESSION, USER, Plot, SessionWorld, message
from turnbuckle.turn.facts import SESSION as MADE_WITH
from turnbuckle.turn.facts import RunStarted, decode
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart, text_of

FORK = SessionId("fork")


def staged(story):
    clock = VirtualClock()

    async def main():
        world = SessionWorld(Plot(()), clock)
        await world.start()
        try:
            return await story(world)
        finally:
            await world.end()

    return clock.run(main, quiet=0)


async def say(world, *texts):
    for text in texts:
        said = IncomingMessage((message(text),), run=RunId(f"r-{text}"))
        await world.in_worker(lambda worker, said=said: worker.say(said))
        await world.pass_time(60)


async def asked(world, session=SESSION):
    history = await world.sessions.history(session)
    return [text_of(one.parts) for one in history or () if one.role == "user" and not one.note]


def words(*texts, role="user"):
    return tuple(Message(role, (TextPart(text),)) for text in texts)


def test_what_is_kept_in_memory_is_counted_right_whatever_comes_again_and_is_forgotten():
    conversations = Conversations(MemoryJournal(), READING)
    for number in range(3 * MOST_KEPT):
        session, run = SessionId(f"s-{number % 3}"), RunId(f"r-{number % 500}")
        conversations.remember(Turn(session=session, run=run, messages=words("x" * (number % 90))))
        if number % 100 == 0:
            conversations.forget(SessionId("s-1"))
        kept = conversations._kept.values()
        assert len(kept) <= MOST_KEPT
        assert conversations._size == sum(one.characters for one in kept)


@pytest.mark.requirement("E9")
def test_a_turn_costs_the_journal_the_same_however_long_the_conversation_is():
    async def scenario(harness):
        runs = harness.process()
        sizes, last = [], RunId("")
        for _ in range(30):
            running = await runs.begin(new_run(session=SessionId("s"), history=(), base=last))
            await running.outcome()
            last = running.run
            sizes.append(sum(len(item.data) for item in await harness.journal.read(running.run)))
        assert len(harness.model.requests[-1].messages) > 50
        assert max(sizes[2:]) - min(sizes[2:]) < 50

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("C5", "E9")
def test_the_history_that_was_kept_at_hand_is_the_one_that_is_read_from_the_journal():
    async def story(world):
        await say(world, "A", "B", "C")
        runs, compared = world.runs, []
        for name in ("r-A", "r-B", "r-C"):
            cold = Conversations(world.journal, runs.policy)
            compared.append(
                (await runs.conversations.until(RunId(name), SESSION), await cold.until(RunId(name), SESSION))
            )
        return compared

    compared = staged(story)
    assert all(warm == cold for warm, cold in compared)
    assert [len(cold.messages) for _, cold in compared] == sorted(
        {len(cold.messages) for _, cold in compared}
    )


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("gone", ["A", "B", "C"])
def test_deleting_a_run_costs_the_conversation_that_run_only(gone):
    async def story(world):
        await say(world, "A", "B", "C")
        await world.in_worker(lambda worker: worker.forget(RunId(f"r-{gone}")))
        left = await asked(world)
        await say(world, "D")
        cold = await Conversations(world.journal, world.runs.policy).until(RunId("r-D"), SESSION)
        return left, await asked(world), cold.messages, await world.sessions.history(SESSION)

    left, later, cold, warm = staged(story)
    assert left == [text for text in "ABC" if text != gone]
    assert later == [*left, "D"]
    assert cold == warm


@pytest.mark.requirement("E9", "G8")
@pytest.mark.parametrize("generations", [1, 3])
@pytest.mark.parametrize("what", ["run", "session"])
def test_a_fork_shares_by_reference_and_keeps_what_it_shares_when_that_is_deleted(what, generations):
    async def story(world):
        await say(world, "A", "B", "C")
        names = [SESSION, *(SessionId(f"fork-{number}") for number in range(1, generations)), FORK]
        for parent, fork in pairwise(names):
            await world.sessions.fork(parent, fork, USER, "", RunId("r-B") if parent == SESSION else None)
        size = sum(len(item.data) for item in await world.journal.read(FORK))
        before = await world.sessions.history(FORK)
        if what == "run":
            await world.in_worker(lambda worker: worker.forget(RunId("r-A")))
        else:
            await world.manager.let_go(SESSION)
            await world.sessions.delete(SESSION)
        after = await Conversations(world.journal, world.runs.policy).until(RunId("@"), FORK)
        await world.sessions.delete(FORK)
        left = await world.journal.streams(StreamQuery(kind=KIND, parent=FORK))
        return size, before, after.messages, left

    size, before, after, left = staged(story)
    assert size < 400
    assert before == after
    assert left == []


@pytest.mark.requirement("E12", "G8")
@pytest.mark.parametrize("middle", [False, True], ids=["the first", "the one between, then the first"])
@pytest.mark.parametrize("how", ["nothing was said between", "before its answer", "behind its answer"])
def test_a_fork_of_a_fork_keeps_what_it_shares_whichever_session_is_deleted(how, middle):
    """As long as nothing was said in a fork, a fork of it stands on the first session itself."""

    async def scenario(harness):
        runs = harness.process()
        sessions = Sessions(harness.journal, runs)
        first, again = SessionId("first"), SessionId("again")
        await sessions.create(first, "ann")
        begun = await runs.begin(new_run(session=first, user="ann"))
        await begun.outcome()
        await sessions.fork(first, FORK, "ann", "", begun.run)
        between, at = None, 0 if how == "before its answer" else None
        if how != "nothing was said between":
            running = await runs.begin(new_run(session=FORK, user="ann", history=(), base=MADE_WITH))
            await running.outcome()
            between = running.run
        await sessions.fork(FORK, again, "ann", "", between, at)
        before = [await sessions.history(name) for name in (FORK, again)]
        await sessions.delete(gone := FORK if middle else first)
        if middle:
            await sessions.delete(first)
        cold = Sessions(harness.journal, harness.process())
        left = [name for name in (FORK, again) if name != gone]
        assert [await cold.history(name) for name in left] == before[-len(left) :]
        assert len(before[1]) >= 2
        for name in left:
            await sessions.delete(name)
        assert await harness.journal.streams(StreamQuery(kind=KIND)) == []

    run_scenario(scenario, HELLO, HELLO)


class SlowJournal(WrappedJournal):
    """Others get their turn before anything is read."""

    async def read(self, stream, after=0, limit=READ_LIMIT):
        await asyncio.sleep(0)
        return await super().read(stream, after, limit)

    async def streams(self, wanted=EVERY_STREAM, after=None, limit=50):
        await asyncio.sleep(0)
        return await super().streams(wanted, after, limit)


@pytest.mark.requirement("E12", "G8")
@pytest.mark.parametrize("steps", range(0, 40))
def test_a_fork_of_a_fork_may_be_made_while_the_first_session_is_deleted(steps):
    async def scenario(harness):
        harness.journal = SlowJournal(harness.journal)
        runs = harness.process()
        sessions = Sessions(harness.journal, runs)
        first, again = SessionId("first"), SessionId("again")
        await sessions.create(first, "ann")
        begun = await runs.begin(new_run(session=first, user="ann"))
        await begun.outcome()
        await sessions.fork(first, FORK, "ann", "", begun.run)

        async def fork():
            for _ in range(steps):
                await asyncio.sleep(0)
            return await sessions.fork(FORK, again, "ann", "")

        _, made = await asyncio.gather(sessions.delete(first), fork())
        assert made
        cold = Sessions(harness.journal, harness.process())
        assert len(await cold.history(again)) >= 2

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("C5")
def test_a_run_is_not_deleted_while_one_goes_on_that_was_told_of_it():
    async def story(world):
        await say(world, "A")
        said = IncomingMessage((message("B"),), run=RunId("r-B"))
        await world.in_worker(lambda worker: worker.say(said))
        with pytest.raises(SessionBusy, match="was told of r-A"):
            await world.in_worker(lambda worker: worker.forget(RunId("r-A")))
        await world.pass_time(60)
        return await asked(world)

    assert staged(story) == ["A", "B"]


@pytest.mark.requirement("G8", "E12")
def test_a_run_without_a_session_leaves_nothing_behind_once_all_that_stood_on_it_are_gone():
    async def scenario(harness):
        runs = harness.process()
        sessions = Sessions(harness.journal, runs)
        made = []
        for _ in range(3):
            running = await runs.begin(new_run(session=SessionId("s"), user="ann"))
            await running.outcome()
            made.append(running.run)
        whole = (await runs.conversations.until(made[2], SessionId("s"))).messages
        assert await sessions.delete_run(made[1])
        left = (await runs.conversations.until(made[2], SessionId("s"))).messages
        assert len(left) < len(whole)
        assert left[0] == whole[0]
        for run in (made[0], made[2]):
            assert await sessions.delete_run(run)
        assert await harness.journal.streams(StreamQuery()) == []

    run_scenario(scenario, HELLO)


@pytest.mark.parametrize("first_opening", [None, 1])
@pytest.mark.parametrize("second_opening", [None, 0, 1])
@pytest.mark.parametrize("based", [True, False])
def test_two_links_that_became_one_make_the_same_history(first_opening, second_opening, based):
    base = Conversation((*words("old", role="system"), *words("1"))) if based else Conversation()
    first_own = (*words("new", role="system"), *words("2")) if first_opening or not based else words("2")
    first = Link(SESSION, RunId("b" if based else ""), first_opening if based else None, first_own)
    second_own = (*words("newest", role="system"), *words("3")) if second_opening else words("3")
    second = Link(SESSION, RunId("x"), second_opening, second_own)
    apart = base.followed_by(first).followed_by(second)
    assert base.followed_by(merged(first, second)).messages == apart.messages


@pytest.mark.requirement("E9")
def test_instructions_that_stand_there_already_are_not_stored_again():
    rules = words("Be kind.", role="system")

    async def scenario(harness):
        runs = harness.process()
        first = await runs.begin(new_run(history=rules))
        await first.outcome()
        session = first.turn.session
        same = await runs.begin(new_run(session=session, history=rules, base=first.run, opening=1))
        await same.outcome()
        other = words("Be brief.", role="system")
        changed = await runs.begin(new_run(session=session, history=other, base=same.run, opening=1))
        await changed.outcome()
        stored = [decode((await harness.journal.read(run.run, 0, 1))[0].data) for run in (same, changed)]
        assert all(isinstance(fact, RunStarted) for fact in stored)
        assert [(len(fact.messages), fact.opening) for fact in stored] == [(1, None), (2, 1)]
        assert [one for one in changed.turn.messages if one.role == "system"] == list(other)
        assert same.turn.messages[0] == rules[0]

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("E12", "R2")
def test_a_session_that_another_process_made_anew_under_the_same_name_begins_with_its_own_words():
    async def scenario(harness):
        here, there = harness.process("a"), harness.process("b")
        others, name, told = Sessions(harness.journal, there), SessionId("s"), []
        for said in ("the old words", "the new words"):
            await others.create(name, "ann", history=words(said))
            told.append(await here.conversations.until(MADE_WITH, name))
            await others.delete(name)
        return [text_of(message.parts) for one in told for message in one.messages]

    assert run_scenario(scenario, HELLO) == ["the old words", "the new words"]


@pytest.mark.requirement("E12")
def test_what_another_process_deleted_of_a_session_is_told_no_more():
    async def scenario(harness):
        here, there = harness.process("a"), harness.process("b")
        name = SessionId("s")
        first = await here.begin(new_run("the secret", session=name))
        await first.outcome()
        second = await here.begin(new_run("hello", session=name))
        await second.outcome()
        before = await here.conversations.until(second.run, name)
        assert await Sessions(harness.journal, there).delete_run(first.run)
        here.conversations.look_again(name, frozenset({first.run}))
        after = await here.conversations.until(second.run, name)
        here.conversations.look_again(name, frozenset({first.run}))
        assert await here.conversations.until(second.run, name) is after
        return ["secret" in repr(one.messages) for one in (before, after)]

    assert run_scenario(scenario, HELLO) == [True, False]


def test_what_was_settled_of_a_history_is_let_go_of_with_the_history(monkeypatch):
    monkeypatch.setattr(conversation, "MOST_KEPT", 3)
    book = HistoryBook(lambda: 0.0)
    conversations = Conversations(MemoryJournal(), READING, book)
    for number in range(9):
        session, said = SessionId(f"s{number}"), words(*"w" * 40)
        book.estimate(session, said)
        conversations._keep((session, RunId("r"), RunId("")), Conversation(said, 40))
    assert list(book._kept) == ["s6", "s7", "s8"]
