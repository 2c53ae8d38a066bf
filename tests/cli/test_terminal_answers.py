"""Questions of a run, put to the person at the terminal."""

import asyncio

import pytest
from asking_stage import HELLO, POLICY, QUESTION, SHELL, call, on_stage
from msgspec.structs import replace

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


@pytest.mark.requirement("D8")
@pytest.mark.parametrize(
    "typed, verdict",
    [
        ("y", "allowed"),
        ("YES ", "allowed"),
        ("", "denied"),
        ("n", "denied"),
        ("yes please", "denied"),
        ("да", "denied"),
    ],
)
def test_only_a_plain_yes_allows_a_call(typed, verdict):
    async def scene(stage):
        person = Person(typed)
        running = await stage.process().start("Do it.")
        await asyncio.gather(answer_all(stage.journal, running, person, 0), running.outcome())
        (answered,) = await stage.of(running.run, ApprovalAnswered)
        assert (answered.verdict, answered.by) == (verdict, "terminal")
        assert person.asked == ['May shell run with {"command":"make"}? [y/N]']

    on_stage(scene, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_questions_are_put_one_at_a_time_in_their_order():
    async def scene(stage):
        person = Person("first", "second")
        running = await stage.process().start("Do it.")
        await asyncio.gather(answer_all(stage.journal, running, person, 0), running.outcome())
        texts = {fact.call_id: fact.outcome.text for fact in await stage.of(running.run, ToolFinished)}
        assert texts == {"c0": "first", "c1": "second"}

    on_stage(scene, call(QUESTION, ("ask_user", '{"question": "And then?"}')), HELLO)


@pytest.mark.requirement("D8")
def test_a_run_that_is_taken_up_asks_only_what_is_still_open():
    async def scene(stage):
        running = await stage.asked()
        await running.answer("a1-0", "denied", "somebody else")
        await stage.until(running.run, ApprovalAsked, 2)
        await running.abandon()
        after = await stage.journal.head(running.run)
        again = await stage.process("b").resume(running.run)
        person = Person("y")
        await asyncio.gather(answer_all(stage.journal, again, person, after), again.outcome())
        assert len(person.asked) == 1
        assert [fact.verdict for fact in await stage.of(running.run, ApprovalAnswered)] == [
            "denied",
            "allowed",
        ]

    on_stage(scene, call(SHELL, SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_an_answer_that_comes_too_late_changes_nothing():
    async def scene(stage):
        async def slow(question):
            await stage.clock.sleep(1_000.0)
            return "y"

        running = await stage.process().start("Do it.")
        answering = asyncio.create_task(answer_all(stage.journal, running, slow, 0))
        await running.outcome()
        await answering
        assert await stage.verdicts(running.run) == ["expired"]
        assert stage.tools.ran == []

    on_stage(scene, call(SHELL), HELLO)


@pytest.mark.requirement("D8")
def test_long_arguments_are_shown_whole():
    async def scene(stage):
        person = Person("n")
        running = await stage.process().start("Do it.")
        await asyncio.gather(answer_all(stage.journal, running, person, 0), running.outcome())
        assert "x" * 5_000 in person.asked[0]

    made = ("shell", '{"command":"' + "x" * 5_000 + '"}')
    on_stage(scene, call(made), HELLO, policy=replace(POLICY, answer_seconds=None))
