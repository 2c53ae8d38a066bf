"""A channel on which the database notifies others, and what is done while it takes no notifications.

All sessions of a server share one queue. Somebody who listens and stands still, in a transaction or as a
stopped process, keeps the queue from being emptied, and a transaction that notifies fails when it is full.
Nothing that we store may fail for that: it is stored without the notification, and for a while nobody is
notified. Whoever waits looks by itself every few seconds.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from turnbuckle.journal.port import StorageFailed
from turnbuckle.journal.postgres.errors import code_of

SILENCE = 5.0
"""Seconds after which a queue that was full is tried again."""
_QUEUE_FULL = "54000"

log = logging.getLogger("turnbuckle.journal")
T = TypeVar("T")


class Notifier:
    """One channel. `monotonic` gives the time."""

    def __init__(self, channel: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._monotonic = monotonic
        self._silent_until = 0.0

    @property
    def channel(self) -> str:
        """Empty while nobody can be notified."""
        return self._channel if self._monotonic() >= self._silent_until else ""

    async def perform(self, act: Callable[[str], Awaitable[T]]) -> T:
        """What the act gives. It notifies on the channel that it is given, in the transaction that it makes;
        on an empty one it notifies nobody."""
        channel = self.channel
        try:
            return await act(channel)
        except StorageFailed as error:
            if not channel or code_of(error.__cause__ or error) != _QUEUE_FULL:
                raise
        if self._silent_until <= 0:
            log.warning(
                "the database takes no more notifications, because a session that listens stands still; "
                "whoever reads at another server sees new text some seconds later"
            )
        self._silent_until = self._monotonic() + SILENCE
        return await act("")
