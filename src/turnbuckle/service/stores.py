"""What the services work on, and the requests that count once."""

from msgspec import Struct

from turnbuckle.errors import BadKey, KeyReused
from turnbuckle.journal.port import Journal, StreamQuery, StreamRow
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.idempotency import IdempotencyStore, KeyConflict, New, Replay, key_fault
from turnbuckle.runtime.runs import Runs
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.service.anywhere import NodeDesk
from turnbuckle.service.owners import Owner, of
from turnbuckle.service.pins import Pins
from turnbuckle.service.spending import SpendingService
from turnbuckle.vocab.ids import RunId


class RequestKey(Struct, frozen=True):
    """What makes a request count once. `fingerprint` tells another request under the same key apart, and
    `user` is to whom the key belongs."""

    user: str
    key: str
    fingerprint: str

    def check(self) -> None:
        """Raise BadKey if it is not one: a client that sends an empty one thinks that it is protected."""
        if fault := key_fault(self.key):
            raise BadKey(fault, "Idempotency-Key")


class Stores(Struct, frozen=True):
    """What the services work on, as far as both need it."""

    journal: Journal
    runs: Runs
    sessions: Sessions
    manager: SessionManager
    idempotency: IdempotencyStore
    spending: SpendingService
    desk: NodeDesk | None = None
    """The other nodes on this journal, if there may be any."""
    pins: Pins | None = None
    """What needs a node with certain labels."""

    @property
    def environment(self) -> Environment:
        return self.runs.environment

    async def rows(self, kind: str, name: str, owner: Owner = None) -> list[StreamRow]:
        """The row of this name, or none."""
        return await self.journal.streams(StreamQuery(kind=kind, name=name, user=of(owner)), limit=1)

    async def reserve(self, key: RequestKey | None) -> New | Replay | None:
        """The id that a request has by its key, the same each time it is sent; None if it has no key. Raises
        BadKey and KeyReused."""
        if key is None:
            return None
        key.check()
        reserved = await self.idempotency.reserve(key.user, key.key, key.fingerprint)
        if isinstance(reserved, KeyConflict):
            raise KeyReused("this Idempotency-Key was used for another request; use a new one")
        return reserved

    def new_session(self, reserved: RunId | None = None) -> str:
        """A public id for a session that nobody has named; the same for the same request."""
        return self.environment.new_name("s") if reserved is None else f"s{reserved.removeprefix('r')}"
