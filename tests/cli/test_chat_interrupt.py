"""Ctrl-C and Esc in a chat: the run ends and the conversation stays; then force; then leaving."""

import pytest
from support.cli.scripted_chat import (
    ScriptedBackend,
    controller_of,
    ended,
    eventually,
    run_scenario,
    spoke,
    started,
)


@pytest.mark.requirement("G2", "H2")
@pytest.mark.requirement("H6")
def test_ctrl_c_interrupts_the_second_one_forces_the_third_leaves_and_idle_it_does_nothing():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go")])
        place.answers = {"go": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        assert talk.interrupt() == "idle"
        talk.entered("go")
        await eventually(lambda: front.said == ["go"])
        place.let_go.clear()
        assert [talk.interrupt(), talk.interrupt(), talk.interrupt()] == ["stopping"] * 3  # in a hurry: once
        await eventually(lambda: place.interrupted == ["r1"])
        assert talk.is_stopping
        await eventually(lambda: "still running: Ctrl-C again, or /stop" in front.screen)
        assert place.stopped == []
        assert talk.interrupt() == "stopping"
        await eventually(lambda: place.stopped == ["r1"])
        assert talk.interrupt() == "leave"
        assert place.interrupted == ["r1"]
        place.let_go.set()
        place.add("r1", ended("cancelled"))
        await talk.settled()
        assert (talk.code, talk.interrupt()) == (130, "idle")
        await talk.close()

    run_scenario(scenario)


@pytest.mark.requirement("H6")
@pytest.mark.parametrize("forced", [False, True])
def test_what_is_said_of_an_interrupt_stands_behind_the_line_that_was_open(forced):
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go"), spoke("First.\n\nAn open line")])
        place.answers = {"go": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("go")
        await eventually(lambda: front.text)
        place.let_go.clear()
        talk.interrupt()
        await eventually(lambda: "still running" in "".join(front.lines))
        if forced:
            talk.interrupt()
            await eventually(lambda: place.stopped == ["r1"])
        place.let_go.set()
        if forced:
            await eventually(lambda: "ended by force: the next message starts fresh" in front.lines)
        place.add("r1", ended("cancelled"))
        await talk.settled()
        await talk.close()
        said = [line for line in front.screen[front.screen.index("First.") :].splitlines() if line]
        assert said[:2] == ["First.", "An open line"]
        assert said[2].startswith("still running: Ctrl-C again, or /stop")
        assert ("ended by force" in said[4]) is forced  # the offer has two rows

    run_scenario(scenario)


@pytest.mark.requirement("H6")
def test_an_interrupt_that_works_is_not_followed_by_an_offer_of_force():
    async def scenario():
        place = ScriptedBackend(r1=[started("r1", "go")])
        place.answers = {"go": "r1"}
        talk, front = controller_of(place)
        await talk.open()
        talk.entered("/interrupt")
        talk.entered("go")
        await eventually(lambda: front.said == ["go"])
        talk.entered("/interrupt")
        await eventually(lambda: place.interrupted == ["r1"])
        place.add("r1", ended("cancelled"))
        await talk.settled()
        await talk.close()
        assert "nothing runs" in front.screen
        assert "still running" not in front.screen
        assert place.stopped == []

    run_scenario(scenario)
