"""A conversation that never fills up: compactions over many runs, what people can do about them, and what the model
finds of its past."""

import asyncio

import pytest

from turnbuckle.service.owners import Caller
from turnbuckle.testing.world.compaction_rules import left_out_of
from turnbuckle.testing.world.long_talk import ASKS, SESSION, TOOLS, LongTalk, TalkingModel
from turnbuckle.turn.facts import ModelAsked, RunStarted
from turnbuckle.turn.window import estimate, tokens_of_tools
from turnbuckle.vocab.messages import text_of

SECRET = "Remember that the harbour password is zephyr-17."
QUESTION = f"{ASKS} the harbour password?"


def talked(story, window=4_000, results=1_500):
    """Play a story in a long talk."""

    async def main():
        talk = LongTalk(window, results)
        try:
            return await story(talk)
        finally:
            await talk.close()

    return asyncio.run(main())


async def chat(talk, count, start=0):
    return [await talk.say(f"Tell me of thing number {start + number}, please.") for number in range(count)]


async def sent(talk):
    """What the next run would be told."""
    state = await talk.services.stores.sessions.state(SESSION)
    runs = talk.runs
    by = await runs.conversations.told_by(state.last_run, SESSION, state.untold)
    return await runs.conversations.sent(state.last_run, SESSION, by)


@pytest.mark.requirement("I2", "I4", "I5")
def test_no_refusal_reaches_the_user_and_a_fact_of_the_beginning_is_found_at_the_end():
    async def story(talk):
        before = await chat(talk, 2)
        await talk.say(SECRET)
        said = [*before, *await chat(talk, 60, 2)]
        return said, await talk.say(QUESTION), talk.model, await sent(talk)

    said, answer, model, told = talked(story)

    assert {one.outcome for one in said} == {"completed"}
    assert model.refused == 0
    assert "zephyr-17" in answer.text
    made = [fact for one in said for fact in one.compactions]
    assert 5 < len(made) < len(said), "it is made smaller now and then, and not each time"
    assert all(fact.after <= 0.65 * 0.8 * 4_000 for fact in made if fact.step != "summary")
    assert len(told.messages) < 60


@pytest.mark.requirement("I5", "I6")
def test_another_process_tells_the_model_the_same():
    async def story(talk):
        await chat(talk, 25)
        before = await sent(talk)
        await talk.restart()
        return (
            before,
            await sent(talk),
            (await chat(talk, 1, 25))[0],
            await talk.runs.conversations.until(
                (await talk.services.stores.sessions.state(SESSION)).last_run, SESSION
            ),
        )

    before, after, said, whole = talked(story)

    assert left_out_of(before.messages)
    assert after == before
    assert said.outcome == "completed"
    assert not left_out_of(whole.messages), "what was said is stored as it was"
    assert sum(text_of(one.parts).startswith("Tell me of thing") for one in whole.messages) == 26


@pytest.mark.requirement("I5")
def test_a_compaction_can_be_asked_for_looked_at_and_taken_back():
    async def story(talk):
        await chat(talk, 6)
        before = await sent(talk)
        asked = await talk.say("/compact keep the numbers")
        smaller, shown, full = await sent(talk), await talk.say("/context"), await talk.say("/status")
        undone = await talk.say("/undo compaction")
        again, more = await sent(talk), await talk.say("/undo compaction")
        goes_on = await talk.say("Tell me of thing number 7, please.")
        return before, asked, smaller, shown, full, undone, again, more, goes_on

    before, asked, smaller, shown, full, undone, again, more, goes_on = talked(story, window=20_000)

    assert asked.text.startswith("Compacted ")
    assert "messages summarised." in asked.text
    assert len(smaller.messages) < len(before.messages)
    assert "Forbidden: none." in shown.text
    assert "of 20,000 tokens" in full.text
    assert undone.text.startswith("Undone")
    assert again.messages == before.messages
    assert more.text == "There is no compaction to undo."
    assert goes_on.outcome == "completed"


@pytest.mark.requirement("I5")
def test_undo_right_behind_a_wanted_compaction_takes_it_back():
    async def story(talk):
        await chat(talk, 6)
        before = await sent(talk)
        await talk.say("/compact")
        await talk.say("/undo")
        return before, await sent(talk)

    before, after = talked(story, window=20_000)

    assert after.messages == before.messages


@pytest.mark.requirement("I1", "I5")
def test_the_same_can_be_done_without_words():
    async def story(talk):
        await chat(talk, 6)
        sessions = talk.services.sessions
        row = await sessions.row(SESSION)
        before = await sessions.context(row)
        done = await sessions.change(row, Caller("local"), "compact")
        await talk.runs.live(done.run).over()
        smaller = await sessions.context(row)
        undone = await sessions.change(row, Caller("local"), "undo_compaction")
        return before, done, smaller, undone, await sessions.context(row)

    before, done, smaller, undone, after = talked(story, window=20_000)

    assert (done.did, undone.did, undone.run) == ("compacting", "compaction_undone", done.run)
    assert (before.window, before.summary, after.compacted_by) == (20_000, "", "")
    assert smaller.used < before.used
    assert smaller.messages > 10
    assert "Forbidden" in smaller.summary
    assert smaller.compacted_by == done.run


@pytest.mark.requirement("I5")
def test_undo_behind_a_compaction_says_that_it_undid_the_compaction():
    async def story(talk):
        await chat(talk, 6)
        before = await sent(talk)
        for _ in range(2):  # the second one changes nothing
            await talk.say("/compact")
        undone, after = await talk.say("/undo"), await sent(talk)
        await talk.say("/compact")
        sessions = talk.services.sessions
        changes = [
            await sessions.change(await sessions.row(SESSION), Caller("local"), "undo") for _ in range(2)
        ]
        return before, undone, after, changes

    before, undone, after, changes = talked(story, window=20_000)

    assert undone.text == "Undone: the model gets the full history again, as far as it fits."
    assert after.messages == before.messages
    assert [change.did for change in changes] == ["compaction_undone", "undone"]


def test_there_may_be_nothing_to_make_smaller():
    async def story(talk):
        return await talk.say("/compact")

    assert talked(story).text == "There is nothing to make smaller."


@pytest.mark.requirement("I2")
def test_a_talk_that_is_too_short_for_a_summary_is_left_alone_and_no_model_is_asked():
    async def story(talk):
        await chat(talk, 2)
        before, asked = await sent(talk), talk.model.asked
        wished = await talk.say("/compact")
        return before, wished, talk.model.asked - asked, await sent(talk), await talk.say("/undo compaction")

    before, wished, calls, after, undone = talked(story, window=20_000, results=100)

    assert (wished.text, wished.outcome, calls) == ("There is nothing to make smaller.", "completed", 0)
    assert after.messages == before.messages
    assert undone.text == "There is no compaction to undo."


@pytest.mark.requirement("I5")
def test_undo_behind_a_compaction_that_changed_nothing_takes_the_last_message_back():
    async def story(talk):
        await talk.say("Tell me of one thing, please.")
        before = await sent(talk)
        await talk.say("Tell me of the other thing, please.")
        for _ in range(2):
            await talk.say("/compact")
        return (
            before,
            await talk.say("/undo"),
            await sent(talk),
            await talk.say("/undo"),
            await talk.say("/undo"),
        )

    before, undone, after, first, nothing = talked(story, window=20_000, results=100)

    assert undone.text == first.text == "Undone: your last message and its answer."
    assert after.messages == before.messages
    assert nothing.text == "There is nothing to undo."


@pytest.mark.requirement("I5")
def test_retry_behind_a_compaction_that_changed_nothing_retries_the_last_message():
    async def story(talk):
        await talk.say("Tell me of one thing, please.")
        first = await talk.say("Tell me of the other thing, please.")
        before = await sent(talk)
        await talk.say("/compact")
        return first, await talk.say("/retry"), before, await sent(talk)

    first, again, before, after = talked(story, window=20_000, results=100)

    assert (again.text, again.run != first.run) == (first.text, True)
    assert len(after.messages) == len(before.messages)  # the ids of its calls are new


@pytest.mark.requirement("I2", "I6")
def test_a_summary_that_is_too_long_is_told_and_counted_and_the_conversation_goes_on_as_it_was():
    long = " ".join(f"Point {number} of it." for number in range(2_000))

    async def story(talk):
        await chat(talk, 4)
        before = await sent(talk)
        talk.model = TalkingModel(20_000, summary=long)
        await talk.restart()
        wished = await talk.say("/compact")
        view = await talk.services.runs.fold(wished.run)
        after, more = await sent(talk), await talk.say("Tell me of thing number 7, please.")
        return before, wished, view.ledger.entries, after, more

    before, wished, entries, after, more = talked(story, window=20_000, results=200)

    assert wished.outcome == "completed"
    assert wished.text.startswith("There is nothing to make smaller: with a summary it would take ")
    (entry,) = entries
    assert (entry.cause, entry.times) == ("compaction", 1)
    assert entry.input_tokens
    assert entry.output_tokens
    assert after.messages == before.messages
    assert (more.outcome, more.compactions) == ("completed", ())


@pytest.mark.requirement("I1", "I5")
def test_the_use_that_is_shown_counts_the_tools_also_behind_an_undone_compaction():
    async def story(talk):
        await chat(talk, 6)
        worker = await talk.services.sessions.row(SESSION)
        before = await talk.services.sessions.context(worker)
        await talk.say("/compact")
        smaller = await talk.services.sessions.context(worker)
        await talk.say("/undo compaction")
        return before, smaller, await talk.services.sessions.context(worker), await sent(talk)

    before, smaller, after, told = talked(story, window=20_000)

    assert smaller.used < before.used <= after.used
    assert after.used == estimate(told.messages) + tokens_of_tools(TOOLS)


@pytest.mark.requirement("I5")
def test_what_is_deleted_is_not_told_by_a_summary_any_more():
    async def story(talk):
        (first,) = await chat(talk, 1)
        secret = await talk.say(SECRET)
        await chat(talk, 6, 1)
        await talk.say("/compact")
        row = await talk.services.runs.row(secret.run)
        assert row.name == secret.run
        await talk.services.stores.manager.with_worker(
            SESSION, "local", lambda worker: worker.forget(secret.run)
        )
        return await sent(talk), await talk.say(QUESTION), first

    told, answer, _ = talked(story, window=20_000)

    assert "zephyr" not in repr(told.messages)
    assert "zephyr" not in answer.text


@pytest.mark.requirement("I5")
def test_the_result_of_a_call_is_found_by_its_id():
    async def story(talk):
        await chat(talk, 12)
        state = await talk.services.stores.sessions.state(SESSION)
        whole = await talk.runs.conversations.until(state.last_run, SESSION)
        calls = [part.id for one in whole.messages for part in one.parts if hasattr(part, "arguments")]
        return calls[0], await talk.say(f"{ASKS} {calls[0]}?")

    call, answer = talked(story)

    assert f"The result of {call}" in answer.text


@pytest.mark.requirement("I1")
def test_each_request_says_what_it_should_take():
    async def story(talk):
        said = await chat(talk, 4)
        facts = [fact for one in said for fact in await talk.facts(one.run)]
        view = await talk.services.runs.fold(said[-1].run)
        row = await talk.services.runs.row(said[-1].run)
        return facts, view.view(row, "local", live=False, now=0.0)

    facts, view = talked(story)

    asks = [fact for fact in facts if isinstance(fact, ModelAsked)]
    assert all(ask.window == 4_000 and 0 < ask.expected <= 4_000 for ask in asks)
    assert view.context.window == 4_000
    assert view.context.used > 0
    assert all(started.told >= 0 for started in facts if isinstance(started, RunStarted))
