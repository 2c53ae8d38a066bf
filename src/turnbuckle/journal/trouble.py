"""What a store suffers from, as its body remembers it."""

from collections.abc import Callable, Mapping

from turnbuckle.journal.port import (
    Damaged,
    FormatUnknown,
    IndexUpdate,
    OutOfFiles,
    ReadOnly,
    StorageAway,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageSlow,
    Trouble,
)

FAULTS: Mapping[str, type[StorageError]] = {
    kind.fault: kind for kind in (StorageFull, StorageAway, StorageLocked, StorageSlow, ReadOnly, OutOfFiles)
}
"""What passes by itself, by the word that names it."""
PROBE = "probe:ready"
"""A stream that holds nothing: that its row can be written shows that the journal can."""
PROBED = IndexUpdate(kind="probe")


class TroubleBook:
    """Keeps what the last works of a store have shown. `wall` gives the time."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._failing: Trouble | None = None
        self._unread: Trouble | None = None
        self._damage: Trouble | None = None

    def failed(self, error: StorageError) -> None:
        """Something could not be stored."""
        if isinstance(error, Damaged | FormatUnknown):
            self._damage = self._damage or self._told(error)
        elif self._failing is None or self._failing.fault != error.fault:
            self._failing = self._told(error)

    def stored(self) -> None:
        """Something was stored, so what was read before may be read again."""
        self._failing = self._unread = None

    def note(self, error: StorageError | None) -> None:
        """How a work has ended."""
        if error is None:
            self.stored()
        else:
            self.failed(error)

    def unread(self, error: StorageError) -> None:
        """Something could not be read."""
        if isinstance(error, Damaged | FormatUnknown):
            self.failed(error)
        elif self._unread is None or self._unread.fault != error.fault:
            self._unread = self._told(error)

    def read(self) -> None:
        """Something was read. A process that only reads has no other way to know that all is well again."""
        self._unread = None

    @property
    def is_failing(self) -> bool:
        """Whether the last that was to be stored was not."""
        return self._failing is not None

    @property
    def trouble(self) -> Trouble | None:
        return self._failing or self._unread or self._damage

    def _told(self, error: StorageError) -> Trouble:
        return Trouble(error.fault, str(error), self._wall())
