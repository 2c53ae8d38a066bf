"""What several processes on one journal are to each other: nodes. Only a journal that several processes can
write has them (`postgres/nodes.py`).

A stream is changed by whoever holds its claim. A node that is asked to change one that another node holds
puts the question to that node, and hands on its answer. Questions are rows beside the journal: they are no
part of what happened, and nobody needs them once they are answered.

A question is done at least once. If the node that was asked dies, the next holder of the stream is asked, or
whoever put the question is told that nobody has it. So what is asked for must not mind being done twice.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from turnbuckle.journal.gossip import Gossip
from turnbuckle.journal.keys import StoredKeys
from turnbuckle.journal.port import StreamRow
from turnbuckle.journal.quotas import Quotas

Perform = Callable[[bytes], Awaitable[bytes]]
"""Does what another node asks for, and gives the answer. Must not raise."""


PINNED = "pin"
"""The kind of the rows, without any item, whose status has the labels that a node must have to work on
something."""


def pin_name(stream: str) -> str:
    """The row of a session, or of the session that a run without one would have."""
    return f"{PINNED}:{stream}"


class NodeState(Struct, frozen=True):
    """What a node says of itself. `most` is how many runs it takes; 0: any number."""

    runs: int = 0
    most: int = 0
    labels: tuple[str, ...] = ()


class NodeRow(Struct, frozen=True):
    """One node that lives. `lag`: by how many seconds its last look around was late."""

    number: int
    name: str
    version: str
    since: float
    runs: int
    most: int
    lag: float
    is_here: bool = False
    labels: tuple[str, ...] = ()


class Unheld(Struct, frozen=True):
    """Streams with something to do that no living node holds."""

    runs: list[StreamRow]
    sessions: list[StreamRow]


class NodeReply(Struct, frozen=True):
    """What one node of several says. None: it did not answer in time."""

    node: str
    data: bytes | None


class NodeTimeout(Exception):
    """The node that holds a stream did not answer in time."""


class Nodes(Protocol):
    """The nodes of one journal, as one of them sees them."""

    @property
    def quotas(self) -> Quotas:
        """What owners have used, at all of them."""
        ...

    @property
    def gossip(self) -> Gossip:
        """What they tell each other."""
        ...

    @property
    def keys(self) -> StoredKeys:
        """The API keys that are good at all of them."""
        ...

    def with_each_look(self, call: Callable[[], Awaitable[None]]) -> None:
        """Do this, too, whenever this node looks around. It may raise StorageError."""
        ...

    async def join(
        self,
        name: str,
        version: str,
        state: Callable[[], NodeState],
        perform: Perform,
        look: Callable[[], None],
    ) -> None:
        """Be one of them. `look` is called when there may be work that nobody holds, and every quarter of a
        second besides."""
        ...

    async def leave(self) -> None:
        """Answer nothing more, and be gone from the list. What is being answered is finished first."""
        ...

    async def ask(self, stream: str, data: bytes) -> bytes | None:
        """Ask the living node that holds a stream, or that holds the parent of a stream that nobody holds.
        None if no other node does. Raises NodeTimeout and StorageError."""
        ...

    async def ask_all(self, data: bytes, *, patient: bool = False) -> list[NodeReply]:
        """Ask every other node that lives. Each has to answer soon, or, if somebody is `patient`, as soon as
        one that is asked alone must."""
        ...

    async def unheld(self, limit: int, but: Collection[str] = (), labels: Collection[str] = ()) -> Unheld:
        """What a node with these labels could take up, what was touched first before the others; all `but`
        these."""
        ...

    async def count_unheld(self) -> int:
        """In how many sessions there is something to do that no living node holds; runs without a session
        count as one each."""
        ...

    async def journal_bytes(self) -> int:
        """How large the journal is, with its indexes."""
        ...

    def call(self) -> None:
        """Tell the others, soon, that there is work that nobody holds."""
        ...

    async def listed(self) -> Sequence[NodeRow]:
        """All that live, the oldest first."""
        ...
