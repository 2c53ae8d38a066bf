"""What a store suffers from, as its body remembers it."""

from collections.abc import Callable

from turnbuckle.journal.port import Damaged, FormatUnknown, StorageError, Trouble


class TroubleBook:
    """Keeps what the last works of a store have shown. `wall` gives the time."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._failing: Trouble | None = None
        self._damage: Trouble | None = None

    def failed(self, error: StorageError) -> None:
        if isinstance(error, Damaged | FormatUnknown):
            self._damage = self._damage or Trouble(error.fault, str(error), self._wall())
        elif self._failing is None or self._failing.fault != error.fault:
            self._failing = Trouble(error.fault, str(error), self._wall())

    def stored(self) -> None:
        self._failing = None

    @property
    def trouble(self) -> Trouble | None:
        return self._failing or self._damage
