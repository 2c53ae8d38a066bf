"""Every run that is driven here, from its beginning until nobody drives it any more.

A run has a slot as long as it is under way, however it began and however it ends. Surfaces that want to know
of runs look on: to keep count of readers, to answer what a run asks, or to say why it was lost.
"""

import logging
from typing import Protocol

from turnbuckle.runtime.running import Running
from turnbuckle.service.limits import Slots
from turnbuckle.vocab.ids import RunId

log = logging.getLogger("turnbuckle.service")


class RunWatcher(Protocol):
    """Whoever looks on."""

    def began(self, running: Running) -> None:
        """It is driven here from now on."""
        ...

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        """It was taken up after a start, and goes on though none of its readers is there yet."""
        ...

    def gone(self, run: RunId, error: BaseException | None) -> None:
        """It is no longer driven here. `error` is what it was let go of for, if it did not end."""
        ...


class RunWatch:
    """All of them."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self._watchers: list[RunWatcher] = []

    def add(self, watcher: RunWatcher) -> None:
        self._watchers.append(watcher)

    def began(self, running: Running, user: str) -> None:
        """One that had no slot yet has it from now."""
        self.slots.hold(user, running.run)
        for watcher in self._watchers:
            watcher.began(running)

        def over(error: BaseException | None) -> None:
            turn = running.turn
            self.slots.release(running.run, ended=turn.outcome is not None, cost=turn.tally.spent.cost)
            if error is not None:
                log.error("the run %s was released: %s", running.run, error)
            for watcher in self._watchers:
                watcher.gone(running.run, error)

        running.when_done(over)

    def awaits(self, run: RunId, on_disconnect: str) -> None:
        for watcher in self._watchers:
            watcher.awaits(run, on_disconnect)
