"""Where a task came from: what the surface that took it in must know of it later."""

from typing import Any

from msgspec import Struct

CANCEL = "cancel"
DETACH = "detach"
SECOND_CHANCE = "60"
"""How long a run that a process let go of waits for its client, once the next one is there."""


class Origin(Struct, frozen=True, omit_defaults=True):
    """Stored with the run, or with the message that waits to begin one. `created` and `message` are of the
    message that began it; `after` is where the answer to words into a run begins; `queued` says what it
    waited for, and `notice` what the user is told before the answer."""

    surface: str = "runs"
    model: str = ""
    """As the client named it."""
    on_disconnect: str = DETACH
    """What happens when its readers leave: `cancel`, `detach`, or seconds of grace."""
    repeatable: bool = False
    """It may simply be asked again: it has no session that it would stand in twice, and no key."""
    store: bool = True
    background: bool = False
    echo: dict[str, Any] = {}
    """Fields of the request that its protocol gives back with the answer."""
    input: tuple[dict[str, Any], ...] = ()
    """The items of the request, for protocols that list them."""
    created: float | None = None
    message: str = ""
    after: int | None = None
    queued: str = ""
    notice: str = ""
    notice_why: str = ""

    @property
    def dies_with_its_client(self) -> bool:
        """Nobody can come back for it: it ends when its client leaves, and has no name that the client
        knew before."""
        return self.repeatable and self.on_disconnect == CANCEL and not self.background
