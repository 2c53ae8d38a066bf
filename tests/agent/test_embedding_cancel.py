"""A caller that is cancelled, or leaves, in every phase of a run: the run has its one end, what it showed is kept, and
the session goes on."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.agents.open_agent import agent, outcome_of, run_scenario

from turnbuckle import Agent, Event, QuestionAsked, ToolBegun, ToolEnded, Waiting
from turnbuckle.session.state import SessionState

TASKS = {
    "text": ("tell a story with 4 lines", {}),
    "reasoning": ("think about rain", {}),
    "a tool": ("run echo one >> effects.txt; echo said", {}),
    "a cut call": ("write a.txt with 6 lines and cut", {}),
    "a wait": ("say hello and be busy", {}),
    "a question": ("run echo one >> effects.txt", {"approval": {"shell": "ask"}, "attended": True}),
}
Leave = Callable[[Agent, str, int], Any]


async def by_cancelling(opened: Agent, task: str, count: int) -> list[Event]:
    """Take in so many events, and be cancelled behind the last of them."""
    seen: list[Event] = []

    async def consume() -> None:
        async for event in opened.stream(task, session="work"):
            seen.append(event)
            if len(seen) == count:
                consuming.cancel()

    consuming = asyncio.create_task(consume())
    await asyncio.wait({consuming})
    assert consuming.cancelled()
    return seen


async def by_closing(opened: Agent, task: str, count: int) -> list[Event]:
    """Take in so many events, and leave the loop."""
    seen: list[Event] = []
    async with aclosing(opened.stream(task, session="work")) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == count:
                break
    return seen


async def left_behind(opened: Agent, seen: list[Event]) -> str:
    """What must hold once the caller is gone. Gives the outcome."""
    run = seen[0].run
    stored = [event async for event in opened.follow(run)]
    assert stored[: len(seen)] == seen  # nothing that was told is lost
    outcome = outcome_of(stored)
    assert outcome in ("cancelled", "completed")
    starts = [event.call for event in stored if isinstance(event, ToolBegun)]
    ends = [event.call for event in stored if isinstance(event, ToolEnded)]
    assert set(starts) <= set(ends)
    assert len(ends) == len(set(ends))
    assert await opened.approvals() == ()
    after = await opened.run("say I go on", session="work")
    assert (after.outcome, "I go on" in after.text) == ("completed", True)
    return outcome


def is_pause(event: Event) -> bool:
    return isinstance(event, QuestionAsked) or (
        isinstance(event, Waiting) and event.kind in ("retry", "rate_limit")
    )


@pytest.mark.requirement("E1", "F7", "G2")
@pytest.mark.parametrize("leave", [by_cancelling, by_closing])
@pytest.mark.parametrize("phase", TASKS)
def test_a_caller_that_goes_behind_any_event_ends_the_run_and_nothing_it_showed_is_lost(
    tmp_path: Path, phase: str, leave: Leave
):
    task, given = TASKS[phase]

    async def whole(opened: Agent) -> list[Event]:
        events: list[Event] = []
        async for event in opened.stream(task):
            events.append(event)
            if isinstance(event, QuestionAsked):
                assert await opened.answer(event, True)
        return events

    async def scenario(opened: Agent, count: int) -> str:
        return await left_behind(opened, await leave(opened, task, count))

    events = run_scenario(tmp_path, whole, **given)
    assert outcome_of(events) == "completed"
    # Nobody answers, so a question is the last thing that is told; and one real pause is enough to wait for.
    last = next((place for place, event in enumerate(events, 1) if is_pause(event)), len(events) - 1)
    outcomes = []
    for count in range(1, last + 1):
        (tmp_path / "effects.txt").unlink(missing_ok=True)
        outcomes.append(run_scenario(tmp_path, lambda opened, count=count: scenario(opened, count), **given))
        effects = (tmp_path / "effects.txt").read_text() if (tmp_path / "effects.txt").exists() else ""
        assert effects in ("", "one\n")
    assert "cancelled" in outcomes


@pytest.mark.requirement("F7")
def test_a_caller_that_is_cancelled_at_any_step_of_the_beginning_leaves_no_run_without_an_end(tmp_path: Path):
    async def scenario(opened: Agent, steps: int) -> int:
        running = asyncio.create_task(opened.run("tell a story with 4 lines", session="work"))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        lines = await opened.sessions.list()
        assert [line.running for line in lines] in ([], [""])
        after = await opened.run("say I go on", session="work")
        assert after.ok
        return len(await opened.sessions.messages("work"))

    told = {
        run_scenario(tmp_path, lambda opened, steps=steps: scenario(opened, steps)) for steps in range(40)
    }
    assert len(told) > 1  # some were cancelled before anything was stored, and some behind it


async def state_of(opened: Agent) -> SessionState:
    sessions = opened._here().sessions
    return await sessions.state(await sessions.row("work"))


@pytest.mark.requirement("F7")
def test_a_caller_that_is_cancelled_while_its_message_waits_takes_it_back(tmp_path: Path):
    async def scenario(opened: Agent) -> None:
        first = await opened.start("run sleep 600", session="work")
        waiting = asyncio.create_task(opened.run("run echo one > effects.txt", session="work"))
        while len((await state_of(opened)).waiting) < 1:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert (await state_of(opened)).waiting == ()
        await opened.stop(first)

    run_scenario(tmp_path, scenario)
    assert not (tmp_path / "effects.txt").exists()


@pytest.mark.requirement("G2")
def test_a_second_cancellation_does_not_break_the_end_off(tmp_path: Path):
    async def main() -> str:
        async with agent(tmp_path, data=tmp_path / "data") as opened:
            seen: list[Event] = []

            async def consume() -> None:
                async for event in opened.stream("run sleep 600"):
                    seen.append(event)
                    if isinstance(event, ToolBegun):
                        consuming.cancel()

            consuming = asyncio.create_task(consume())
            while not consuming.done():
                await asyncio.sleep(0)
                if consuming.cancelling():
                    consuming.cancel()
            run = seen[0].run
        async with agent(tmp_path, data=tmp_path / "data") as again:
            assert await again.resume() == ()
            return (await again.wait(run)).outcome

    assert asyncio.run(main()) == "cancelled"


@pytest.mark.requirement("F7")
def test_a_loop_that_is_left_without_closing_its_stream_ends_the_run_too(tmp_path: Path):
    async def scenario(opened: Agent) -> str:
        async for event in opened.stream("run sleep 600"):
            if isinstance(event, ToolBegun):
                break
        (line,) = await opened.sessions.list()
        return (await opened.wait(line.running or (await opened.sessions.messages(line.name))[0].run)).outcome

    assert run_scenario(tmp_path, scenario) == "cancelled"


@pytest.mark.requirement("F7")
def test_a_stream_that_nobody_reads_to_its_end_is_ended_with_the_agent(tmp_path: Path):
    async def main() -> str:
        async with agent(tmp_path, data=tmp_path / "data") as opened:
            events = opened.stream("run sleep 600")
            run = (await anext(events)).run
        await events.aclose()
        async with agent(tmp_path, data=tmp_path / "data") as again:
            return (await again.wait(run)).outcome

    assert asyncio.run(main()) == "cancelled"


@pytest.mark.requirement("F7")
def test_one_who_only_follows_or_shares_a_key_can_go_without_ending_the_run(tmp_path: Path):
    async def scenario(opened: Agent) -> None:
        task = "tell a story with 20 lines"
        first = asyncio.create_task(opened.run(task, key="k"))
        run = ""
        while not run:
            await asyncio.sleep(0)
            run = next((line.running for line in await opened.sessions.list()), "")
        second = asyncio.create_task(opened.run(task, key="k"))
        following = opened.follow(run)
        await anext(following)
        await following.aclose()
        for _ in range(20):
            await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait({second})
        assert (await first).ok

    run_scenario(tmp_path, scenario)
