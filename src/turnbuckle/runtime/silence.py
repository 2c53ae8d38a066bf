"""That a run waits, as a fact.

Clients that count only numbered events hang up on a run that is silent for minutes, and come back with the
number of the last event. So what keeps them must have a number that nothing else ever gets, on any process
and after any crash: it is stored. One fact serves all readers of a run. A run that is not driven here is left
alone: nobody but its driver may write to it.

What the model and the tools take is bounded by clocks of their own. A person may take days: the longer nobody
answers, the more seldom this is said, up to a time at which every known client is still there.
"""

import asyncio
import logging
from collections.abc import Callable

from turnbuckle.journal.port import JournalError
from turnbuckle.runtime.ports import Wall
from turnbuckle.runtime.running import Running
from turnbuckle.vocab.ids import RunId

LONGEST = 240.0
"""Seconds between two such facts at the most. The strictest known client hangs up after 300."""

log = logging.getLogger("turnbuckle.run")


def pause(every: float, times: int, *, person: bool) -> float:
    """Seconds of silence after which it is said that the run waits, if that is all that was said so many
    times before. It is `every` or a multiple of it, since nobody looks more often."""
    if not person:
        return every
    return every * min(1 << min(times, 30), max(int(LONGEST // every), 1))


class Silence:
    """Told of readers that get nothing. `every`: after how many seconds that is too long."""

    def __init__(self, live: Callable[[RunId], Running | None], *, every: float, wall: Wall) -> None:
        self._live = live
        self._every = every
        self._wall = wall
        self._said: dict[RunId, float] = {}
        """When it was last said of a run, for as long as its readers may not have it yet."""
        self._saying: dict[RunId, asyncio.Task[None]] = {}

    def tell(self, run: RunId, seconds: float, now: float) -> None:
        """A reader of this run got nothing for so long. `now` is by any clock that does not go back."""
        running = self._live(run)
        if running is None or run in self._saying:
            return
        due = seconds >= pause(self._every, running.waits, person=running.waits_for_person)
        if not due or now - self._said.get(run, -self._every) < self._every:
            return
        self._said = {other: at for other, at in self._said.items() if now - at < self._every}
        self._said[run] = now
        saying = self._saying[run] = asyncio.create_task(self._say(running), name=f"silence of {run}")
        saying.add_done_callback(lambda _: self._saying.pop(run, None))

    async def settled(self) -> None:
        """Wait until nothing of this is under way."""
        if self._saying:
            await asyncio.wait(set(self._saying.values()))

    async def _say(self, running: Running) -> None:
        """Never cancelled: half an append would leave its run with a wrong idea of its journal."""
        try:
            await running.note_wait(self._wall())
        except (JournalError, OSError) as error:
            # It is not part of the run's work. What ails the store, or that the run is lost, its driver finds
            # out.
            log.debug("it could not be stored that the run %s waits: %s", running.run, error)
