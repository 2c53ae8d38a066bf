"""Questions to people in runs that are under way: asked once, answered once, and there for everybody to see."""

import asyncio

import pytest
from msgspec.structs import replace
from support.runs.approval_runs import (
    HELLO,
    POLICY,
    QUESTION,
    SHELL,
    CountingTools,
    SlowJournal,
    call,
    new_run,
    run_scenario,
)

from turnbuckle.journal.port import StorageFull
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    RunClaimed,
    RunEnded,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.request import RunOptions, ToolSpec


async def passes(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.requirement("D8")
def test_a_call_waits_until_somebody_allows_it():
    async def scenario(harness):
        running = await harness.asked()
        await harness.clock.advance(500.0)
        assert harness.tools.ran == []
        assert await running.answer("a1-0", "allowed", "ann")
        assert (await running.outcome()).kind == "completed"
        assert harness.tools.ran == [("shell", {"command": "make"})]
        (answered,) = await harness.of(running.run, ApprovalAnswered)
        assert (answered.verdict, answered.by, answered.at) == ("allowed", "ann", 1_500.0)

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_a_client_that_comes_later_finds_the_question_in_the_journal_and_answers_it():
    """C22: whoever attaches can see and answer it."""

    async def scenario(harness):
        runs = harness.process()
        running = await harness.asked(runs)
        (asked,) = await harness.of(running.run, ApprovalAsked)
        assert (asked.name, asked.arguments) == ("shell", {"command": "make"})
        live = runs.live(running.run)
        assert live is not None
        assert await live.answer(asked.approval, "denied", "bob", "no thanks")
        await running.outcome()
        assert harness.tools.ran == []
        (finished,) = await harness.of(running.run, ToolFinished)
        assert finished.outcome.text == "The user said no. no thanks"

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("apart", range(12))
@pytest.mark.parametrize("verdicts", [("allowed", "denied"), ("denied", "allowed")], ids="-".join)
def test_of_two_answers_one_is_stored_however_close_they_are(verdicts, apart):
    async def scenario(harness):
        running = await harness.asked()

        async def second():
            await passes(apart)
            return await running.answer("a1-0", verdicts[1], "bob")

        taken = await asyncio.gather(running.answer("a1-0", verdicts[0], "ann"), second())
        await running.outcome()
        assert taken == [True, False]
        assert await harness.verdicts(running.run) == [verdicts[0]]
        assert len(harness.tools.ran) == (verdicts[0] == "allowed")

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
def test_many_answers_at_once_leave_one():
    async def scenario(harness):
        running = await harness.asked()
        answers = [running.answer("a1-0", "allowed", f"client {number}") for number in range(50)]
        assert (await asyncio.gather(*answers)).count(True) == 1
        await running.outcome()
        assert len(await harness.of(running.run, ApprovalAnswered)) == 1
        assert len(harness.tools.ran) == 1

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("turns", range(16))
def test_a_stop_and_an_answer_at_once_leave_one_answer(turns):
    async def scenario(harness):
        running = await harness.asked()

        async def stop():
            await passes(turns)
            running.stop("bob")

        taken, _ = await asyncio.gather(running.answer("a1-0", "allowed", "ann"), stop())
        outcome = await running.outcome()
        facts = await harness.facts(running.run)
        verdicts = await harness.verdicts(running.run)
        assert verdicts == ["allowed" if taken else "withdrawn"]
        stopped = next((place for place, fact in enumerate(facts) if isinstance(fact, StopAsked)), len(facts))
        assert not any(isinstance(fact, ToolStarted) for fact in facts[stopped:])
        assert outcome.kind in ("cancelled", "completed")

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("turns", range(40))
def test_behind_a_wish_to_stop_nobody_is_asked_and_no_call_is_handed_over(turns):
    async def scenario(harness):
        for options in (RunOptions(), RunOptions(tools=(ToolSpec("shell"),))):
            harness.model.replies = [call(SHELL), HELLO]
            running = await harness.process().begin(new_run(options=options))
            await passes(turns)
            running.stop()
            await running.outcome()
            facts = await harness.facts(running.run)
            stopped = next(
                (place for place, fact in enumerate(facts) if isinstance(fact, StopAsked)), len(facts)
            )
            late = [fact for fact in facts[stopped:] if isinstance(fact, ApprovalAsked | CallsHandedOver)]
            assert late == []
            assert len(await harness.of(running.run, ApprovalAsked)) == len(
                await harness.verdicts(running.run)
            )

    run_scenario(scenario, HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8", "G5")
@pytest.mark.parametrize("turns", range(12))
def test_an_answer_and_the_end_of_a_run_that_came_back_too_often_leave_one_answer(turns):
    async def scenario(harness):
        running = await harness.asked()
        await harness.until(running.run, ToolStarted)
        await running.abandon()
        harness.tools.slow = ()
        again = await harness.process("b").resume(running.run)
        await passes(turns)
        taken = await again.answer("a1-0", "answered", "ann", "yes")
        await again.outcome()
        assert await harness.verdicts(running.run) == ["answered" if taken else "withdrawn"]

    policy = replace(POLICY, max_recoveries=0)
    run_scenario(
        scenario,
        call(QUESTION, "look"),
        HELLO,
        journal=SlowJournal,
        policy=policy,
        tools=CountingTools(slow=("look",)),
    )


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("turns", range(16))
def test_an_answer_at_the_last_moment_leaves_one_answer(turns):
    """The time for it ends while the answer is on its way."""

    async def scenario(harness):
        running = await harness.asked()
        await harness.clock.sleep(600.0 - 0.001)
        answering = asyncio.ensure_future(running.answer("a1-0", "allowed", "ann"))
        await passes(turns)
        await harness.clock.sleep(0.001)
        taken = await answering
        await running.outcome()
        assert await harness.verdicts(running.run) == ["allowed" if taken else "expired"]
        assert len(harness.tools.ran) == taken

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
def test_an_answer_after_the_time_for_it_is_not_taken_even_if_nobody_has_noticed_yet():
    async def scenario(harness):
        running = await harness.asked()
        harness.clock._now += 600.0  # the clock jumped; nothing has run since
        assert not await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        assert await harness.verdicts(running.run) == ["expired"]
        assert harness.tools.ran == []

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_nobody_answers_and_the_run_goes_on_without_consent():
    async def scenario(harness):
        running = await harness.asked()
        assert (await running.outcome()).kind == "completed"
        assert harness.clock.now() == 1_600.0
        (answered,) = await harness.of(running.run, ApprovalAnswered)
        assert (answered.verdict, answered.by) == ("expired", "")
        assert not await running.answer("a1-0", "allowed", "ann")

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_a_person_may_take_longer_than_the_turn_has():
    async def scenario(harness):
        running = await harness.asked()
        await harness.clock.advance(10 * harness.policy.limits.seconds)
        assert await running.answer("a1-0", "allowed", "ann")
        assert (await running.outcome()).kind == "completed"
        assert len(harness.tools.ran) == 1

    run_scenario(scenario, call(SHELL), HELLO, policy=replace(POLICY, answer_seconds=None))


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "made, wrong", [(SHELL, "answered"), (QUESTION, "allowed")], ids=["consent", "question"]
)
def test_an_answer_to_what_was_not_asked_is_refused_and_changes_nothing(made, wrong):
    async def scenario(harness):
        running = await harness.asked()
        with pytest.raises(ValueError, match="question"):
            await running.answer("a1-0", wrong, "ann")
        assert await harness.verdicts(running.run) == []
        running.stop()
        await running.outcome()

    run_scenario(scenario, call(made), HELLO)


@pytest.mark.requirement("D8")
def test_an_unknown_or_settled_question_takes_no_answer():
    async def scenario(harness):
        running = await harness.asked()
        assert not await running.answer("a7-0", "allowed", "ann")
        assert await running.answer("a1-0", "denied", "ann")
        assert not await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        assert not await running.answer("a1-0", "allowed", "ann")
        assert await harness.verdicts(running.run) == ["denied"]

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_a_question_of_the_model_is_answered_in_words():
    async def scenario(harness):
        running = await harness.asked()
        (asked,) = await harness.of(running.run, ApprovalAsked)
        assert (asked.kind, asked.question) == ("question", "Which?")
        assert await running.answer("a1-0", "answered", "ann", "the blue one")
        await running.outcome()
        (finished,) = await harness.of(running.run, ToolFinished)
        assert (finished.outcome.status, finished.outcome.text) == ("finished", "the blue one")
        assert harness.tools.ran == []
        assert "the blue one" in str(harness.model.requests[-1].messages[-1])

    run_scenario(scenario, call(QUESTION), HELLO)


@pytest.mark.requirement("D8")
@pytest.mark.parametrize("turns", range(10))
def test_an_answer_whose_client_goes_away_is_stored_all_the_same(turns):
    """At no moment does a client that hangs up leave the run's journal in doubt."""

    async def scenario(harness):
        running = await harness.asked()
        answering = asyncio.ensure_future(running.answer("a1-0", "allowed", "ann"))
        await passes(turns)
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        await passes(10)
        await running.answer("a1-0", "denied", "bob")  # taken only if the first had not yet begun
        assert (await running.outcome()).kind == "completed"
        verdicts = await harness.verdicts(running.run)
        assert len(verdicts) == 1
        assert len(harness.tools.ran) == (verdicts == ["allowed"])
        if turns:
            assert verdicts == ["allowed"]

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
def test_an_answer_that_finds_no_room_is_told_to_whoever_gave_it_and_can_be_given_again():
    async def scenario(harness):
        running = await harness.asked()
        harness.journal.full = 1
        with pytest.raises(StorageFull):
            await running.answer("a1-0", "denied", "ann")
        assert await harness.verdicts(running.run) == []
        assert await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        assert await harness.verdicts(running.run) == ["allowed"]

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8")
def test_whoever_reads_the_question_first_can_answer_it_at_once():
    """The reader knows of it before the writer hears that it was stored."""

    class LateNews(SlowJournal):
        behind = 30

    async def scenario(harness):
        running = await harness.asked()
        assert await running.answer("a1-0", "allowed", "ann")
        await running.outcome()
        assert await harness.verdicts(running.run) == ["allowed"]

    run_scenario(scenario, call(SHELL), HELLO, journal=LateNews)


# Restarts


@pytest.mark.requirement("D8", "G6")
def test_a_question_outlives_its_process_and_is_answered_in_the_next():
    """S12: the waiter died; its successor runs the frozen call, once."""

    async def scenario(harness):
        running = await harness.asked()
        await running.abandon()
        harness.crash()
        again = await harness.process("b").resume(running.run)
        assert [one.consent.id for one in again.turn.calls] == ["a1-0"]
        assert await again.answer("a1-0", "allowed", "ann")  # at once: it knows where it stands
        assert (await again.outcome()).kind == "completed"
        assert len(await harness.of(running.run, ApprovalAsked)) == 1
        assert len(harness.tools.ran) == 1

    run_scenario(scenario, call(SHELL), HELLO, journal=SlowJournal)


@pytest.mark.requirement("D8", "G6", "G5")
def test_any_number_of_restarts_leaves_a_question_open():
    async def scenario(harness):
        running = await harness.asked()
        for number in range(10):
            await running.abandon()
            running = await harness.process(f"p{number}").resume(running.run)
        assert await running.answer("a1-0", "allowed", "ann")
        assert (await running.outcome()).kind == "completed"
        assert len(await harness.of(running.run, RunClaimed)) == 10

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_time_for_an_answer_passes_also_while_no_process_runs():
    async def scenario(harness):
        running = await harness.asked()
        await running.abandon()
        await harness.clock.advance(5_000.0)
        again = await harness.process("b").resume(running.run)
        assert not await again.answer("a1-0", "allowed", "ann")
        await again.outcome()
        assert await harness.verdicts(running.run) == ["expired"]
        assert harness.tools.ran == []

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_a_process_in_which_nobody_answers_takes_up_a_run_and_does_not_hang():
    async def scenario(harness):
        running = await harness.asked()
        await running.abandon()
        again = await harness.process("b", replace(harness.policy, attended=False)).resume(running.run)
        await again.outcome()
        assert await harness.verdicts(running.run) == ["withdrawn"]
        assert harness.clock.now() == 1_000.0

    run_scenario(scenario, call(SHELL), HELLO, policy=replace(POLICY, answer_seconds=None))


# Several calls


@pytest.mark.requirement("D8", "D6")
def test_what_needs_no_consent_runs_while_somebody_thinks():
    async def scenario(harness):
        running = await harness.asked()
        await harness.until(running.run, ToolFinished)
        assert harness.tools.ran == [("look", {})]
        assert await running.answer("a1-0", "answered", "ann", "yes")
        await running.outcome()

    run_scenario(scenario, call(QUESTION, "look"), HELLO)


@pytest.mark.requirement("D8")
def test_questions_of_one_reply_are_open_together_and_answered_in_any_order():
    async def scenario(harness):
        running = await harness.asked(count=2)
        assert await running.answer("a1-1", "answered", "ann", "second")
        assert await running.answer("a1-0", "answered", "bob", "first")
        await running.outcome()
        texts = {fact.call_id: fact.outcome.text for fact in await harness.of(running.run, ToolFinished)}
        assert texts == {"c0": "first", "c1": "second"}

    run_scenario(scenario, call(QUESTION, QUESTION), HELLO)


@pytest.mark.requirement("D8")
def test_commands_of_one_reply_are_asked_about_one_after_the_other():
    async def scenario(harness):
        running = await harness.asked()
        await harness.clock.advance(10.0)
        assert len(await harness.of(running.run, ApprovalAsked)) == 1
        await running.answer("a1-0", "denied", "ann")
        await harness.until(running.run, ApprovalAsked, 2)
        await running.answer("a1-1", "allowed", "ann")
        await running.outcome()
        ends = [(fact.call_id, fact.outcome.status) for fact in await harness.of(running.run, ToolFinished)]
        assert ends == [("c0", "denied"), ("c1", "finished")]

    run_scenario(scenario, call(SHELL, SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_a_call_that_can_not_run_is_refused_before_anybody_is_asked():
    async def scenario(harness):
        running = await harness.process().start("Do it.")
        await running.outcome()
        assert await harness.of(running.run, ApprovalAsked) == []
        (finished,) = await harness.of(running.run, ToolFinished)
        assert finished.outcome.status == "not_started"

    run_scenario(scenario, call("rm_all"), HELLO, policy=replace(POLICY, consent=POLICY.consent))


@pytest.mark.requirement("D8")
def test_a_stop_while_somebody_is_waited_for_ends_the_run_at_once():
    async def scenario(harness):
        running = await harness.asked()
        running.stop("ann")
        assert (await running.outcome()).kind == "cancelled"
        assert harness.clock.now() == 1_000.0
        facts = await harness.facts(running.run)
        assert [type(fact) for fact in facts[-4:]] == [StopAsked, ApprovalAnswered, ToolFinished, RunEnded]
        assert await harness.verdicts(running.run) == ["withdrawn"]

    run_scenario(scenario, call(SHELL), HELLO, tools=CountingTools())
