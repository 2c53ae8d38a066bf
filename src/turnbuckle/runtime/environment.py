"""What a process is to everything in it: its name, its clock, and its way to make ids."""

from collections.abc import Callable

from msgspec import Struct

from turnbuckle.runtime.lease import LEASE
from turnbuckle.runtime.ports import Sleep, Wall
from turnbuckle.vocab.ids import RunId


class Environment(Struct, frozen=True):
    """`owner` is what this process calls itself in its claims; no other process ever has the same name."""

    owner: str
    wall: Wall
    sleep: Sleep
    new_name: Callable[[str], str]
    """A new id for a kind of thing: `r` for a run, `s` for a session, `m` for a message."""
    elapsed: Wall | None = None
    """The clock that work is measured by: no step of the wall clock and no sleep of the machine moves it.
    Without one, the wall clock does."""
    lease: float = LEASE
    """How long a claim lasts that is not renewed."""

    def new_run(self) -> RunId:
        return RunId(self.new_name("r"))
