"""Clocks that a campaign sets: that of a node, and that of the database, by which all claims are measured."""

import asyncio
import random
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.postgres.clock import DatabaseClock
from support.processes.commands import SOURCE

_FURTHEST = 3600.0
_STEPPED = Path(__file__).with_name("stepped")


class NodeClock:
    """The wall clock of one node, which it has with `environment`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._set(0.0)

    @property
    def environment(self) -> dict[str, str]:
        return {"CAMPAIGN_CLOCK": str(self._file), "PYTHONPATH": f"{_STEPPED}:{SOURCE}"}

    def step(self, dice: random.Random) -> Callable[[], Awaitable[None]]:
        """Set it to some time within an hour of the true one."""

        async def step() -> None:
            self._set(dice.uniform(-_FURTHEST, _FURTHEST))

        return step

    def _set(self, seconds: float) -> None:
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))


def step_of(clock: DatabaseClock, dice: random.Random) -> Callable[[], Awaitable[None]]:
    """Set the clock of the database forwards or backwards, by seconds or by many minutes."""

    async def step() -> None:
        seconds = dice.choice((-1, 1)) * dice.choice((2.0, 10.0, 1000.0))
        await asyncio.to_thread(clock.step, seconds)

    return step
