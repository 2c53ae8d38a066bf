"""Whoever wants to hear of a stop is called, once, and what has come by then is read first."""

import asyncio

import pytest

from turnbuckle.runtime.halt import Halt, Stop
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.failure import failure


def told_after(ask, passes: int) -> list[str]:
    """What was called within so many passes of the loop behind `ask`."""

    async def main() -> list[str]:
        told: list[str] = []
        stop = Stop()
        halt = Halt(stop, 60.0, 60.0)
        forget = halt.on_stop(lambda: told.append("stopped"))
        ask(stop, halt)
        for _ in range(passes):
            await asyncio.sleep(0)
        forget()
        return told

    return asyncio.run(main())


def because_of_the_run(stop: Stop, halt: Halt) -> None:
    stop.ask("somebody")


def because_of_what_it_says(stop: Stop, halt: Halt) -> None:
    halt.why = failure("repeated", "again and again")


ASKS = (because_of_the_run, because_of_what_it_says)


@pytest.mark.parametrize("ask", ASKS)
def test_an_attempt_is_broken_off_some_passes_of_the_loop_later(ask):
    assert [told_after(ask, passes) for passes in (0, 2, 5)] == [[], [], ["stopped"]]


def test_an_attempt_that_nobody_stops_ends_when_the_time_of_its_turn_is_over():
    clock = VirtualClock()

    async def main() -> tuple[float, str]:
        halt = Halt(Stop(), 30.0, 30.0)
        await halt.wait()
        assert halt.why is not None
        return clock.now(), halt.why.message

    assert clock.run(main) == (30.0, "the limit of 30 seconds is reached")


def test_who_has_forgotten_a_stop_is_not_called():
    async def main() -> list[str]:
        told: list[str] = []
        stop = Stop()
        stop.on_stop(lambda: told.append("one"))
        stop.on_stop(lambda: told.append("other"))()
        stop.ask()
        stop.ask()
        return told

    assert asyncio.run(main()) == ["one"]
