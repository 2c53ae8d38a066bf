"""Questions of a run, put to the person at the terminal."""

import asyncio

import pytest
from msgspec.structs import replace
from support.runs.approval_runs import HELLO, POLICY, QUESTION, SHELL, call, run_scenario

from turnbuckle.cli.approvals import answer_all
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, ToolFinished


class Person:
    """Says one thing after the other, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, question):
        self.asked.append(question)
        return self.answers.pop(0)


def nothing(pieces):
    """Shows nothing of what a question is about."""


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "typed, verdict",
    [
        ("y", "allowed"),
        ("YES ", "allowed"),
        ("", "denied"),
        ("n", "denied"),
        ("a", "allowed"),
        ("yes please", "denied"),
        ("да", "denied"),
    ],
)
def test_only_a_plain_yes_allows_a_call(typed, verdict):
    async def scenario(harness):
        person = Person(typed)
        running = await harness.process().start("Do it.")
        await asyncio.gather(answer_all(harness.journal, running, person, 0, nothing), running.outcome())
        (answered,) = await harness.of(running.run, ApprovalAnswered)
        assert (answered.verdict, answered.by) == (verdict, "terminal")
        assert answered.always == (typed == "a")
        assert person.asked == ["May shell run this? [y/a/N]"]

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_questions_are_put_one_at_a_time_in_their_order():
    async def scenario(harness):
        person = Person("first", "second")
        running = await harness.process().start("Do it.")
        await asyncio.gather(answer_all(harness.journal, running, person, 0, nothing), running.outcome())
        texts = {fact.call_id: fact.outcome.text for fact in await harness.of(running.run, ToolFinished)}
        assert texts == {"c0": "first", "c1": "second"}

    run_scenario(scenario, call(QUESTION, ("ask_user", '{"question": "And then?"}')), HELLO)


@pytest.mark.requirement("D8")
def test_a_run_that_is_taken_up_asks_only_what_is_still_open():
    async def scenario(harness):
        running = await harness.asked()
        await running.answer("a1-0", "denied", "somebody else")
        await harness.until(running.run, ApprovalAsked, 2)
        await running.abandon()
        after = await harness.journal.head(running.run)
        again = await harness.process("b").resume(running.run)
        person = Person("y")
        await asyncio.gather(answer_all(harness.journal, again, person, after, nothing), again.outcome())
        assert len(person.asked) == 1
        assert [fact.verdict for fact in await harness.of(running.run, ApprovalAnswered)] == [
            "denied",
            "allowed",
        ]

    run_scenario(scenario, call(SHELL, SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_an_answer_that_comes_too_late_changes_nothing():
    async def scenario(harness):
        async def slow(question):
            await harness.clock.sleep(1_000.0)
            return "y"

        running = await harness.process().start("Do it.")
        answering = asyncio.create_task(answer_all(harness.journal, running, slow, 0, nothing))
        await running.outcome()
        await answering
        assert await harness.verdicts(running.run) == ["expired"]
        assert harness.tools.ran == []

    run_scenario(scenario, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_long_arguments_are_shown_whole():
    async def scenario(harness):
        person = Person("n")
        running = await harness.process().start("Do it.")
        shown: list[str] = []
        await asyncio.gather(answer_all(harness.journal, running, person, 0, shown.extend), running.outcome())
        assert "x" * 5_000 in repr(shown)

    made = ("shell", '{"command":"' + "x" * 5_000 + '"}')
    run_scenario(scenario, call(made), HELLO, policy=replace(POLICY, answer_seconds=None))
