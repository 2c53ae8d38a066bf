"""For how long no other process counts as dead.

A process is known to live by the locks of its connections. Whoever has just lost its own connections must
think that the others have lost theirs, too: the network was away, or a standby was promoted. So it takes
nothing from anybody until they have had time to come back. A database that was started knows that by itself
(`rows.grace`); one that was promoted, or was never away, has been running for long.
"""

import math
from collections.abc import Callable

from turnbuckle.journal.clock import lease_time

GRACE = 3.0
_NOBODY_IS_DEAD = 1e9


class GracePeriod:
    """That of one process. The first connection of a process tells nothing: what its predecessor held is
    free at once."""

    def __init__(self, length: float = GRACE, monotonic: Callable[[], float] = lease_time) -> None:
        self._length = length
        self._monotonic = monotonic
        self._until = -math.inf

    @property
    def seconds(self) -> float:
        """How long ago the database must have been started."""
        return _NOBODY_IS_DEAD if self._monotonic() < self._until else self._length

    def begin(self) -> None:
        """A connection was lost."""
        self._until = math.inf

    def run_out(self) -> None:
        """A connection that was lost is there again."""
        self._until = self._monotonic() + self._length
