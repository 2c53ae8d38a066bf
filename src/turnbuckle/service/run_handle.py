"""A run as whoever began it holds it."""

from msgspec import Struct

from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.turn.facts import RunStarted
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.origin import Origin


class RunHandle(Struct, frozen=True):
    """A run that was begun, now or by the same request before. One that waits for its turn in a session has
    only its id so far. `after` is where the answer to this request begins: behind what a run had said when it
    was steered. `message`: what was said into a run that was under way. `told`: it is the answer to a
    command, which no model gets to see. `mine`: it is driven because of this request."""

    run: RunId
    session: SessionId
    origin: Origin
    created: float
    after: int = 0
    message: str = ""
    replayed: bool = False
    ended: bool = False
    told: bool = False
    mine: bool = False

    @property
    def awaited(self) -> WaitingOn:
        """What a run waits for that has not begun."""
        return WaitingOn("turn", self.origin.queued or "its turn in this session", self.created)


def handle_of(started: RunStarted, *, ended: bool = False) -> RunHandle:
    """The same for a run that has begun."""
    created = started.at if started.origin.created is None else started.origin.created
    return RunHandle(started.run, started.session, started.origin, created, ended=ended)
