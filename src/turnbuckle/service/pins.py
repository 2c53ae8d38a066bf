"""Which nodes may work on what: a session, or a run without one, can need labels that not every node has.

A node that `needs` labels pins what is first said at it. The pin is a row of the index beside the session,
without any item, so that the database itself can leave out what a node may not take (`Nodes.unheld`). It
stays: where the files of a session are does not change by itself.

A node without the labels still takes every request. What begins there is stored and left to a node that has
them. If none is there, whoever waits is told so, in words, and it goes on when one comes.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from turnbuckle.journal.nodes import PINNED, NodeRow, Nodes, pin_name
from turnbuckle.journal.port import IndexUpdate, Journal, JournalError, StreamQuery
from turnbuckle.narrate.waiting import WaitingOn

_REMEMBERED = 10_000
_FRESH = 1.0  # seconds for which a list of nodes is good enough for words


class Pins:
    """What this node, with its `labels`, may work on; and what needs labels because it was begun here."""

    def __init__(
        self,
        journal: Journal,
        nodes: Nodes,
        labels: Sequence[str] = (),
        needs: Sequence[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.labels = frozenset(labels)
        self._journal = journal
        self._nodes = nodes
        self._needs = tuple(sorted(set(needs)))
        self._monotonic = monotonic
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._listed: tuple[float, Sequence[NodeRow]] = (-_FRESH, ())

    async def needed_by(self, stream: str) -> tuple[str, ...]:
        """The labels that a session needs, or a run without one."""
        if stream not in self._known:
            rows = await self._journal.streams(StreamQuery(kind=PINNED, name=pin_name(stream)), limit=1)
            if not rows:
                return ()
            self._remember(stream, tuple(rows[0].status.split()))
        return self._known[stream]

    async def begin(self, stream: str) -> frozenset[str]:
        """Something is said in it at this node: pin it, if it is not and must be. Gives the labels that this
        node lacks for it."""
        needed = await self.needed_by(stream)
        if not needed and self._needs:
            note = IndexUpdate(kind=PINNED, parent=stream, status=" ".join(self._needs))
            await self._journal.note(pin_name(stream), note)
            self._remember(stream, self._needs)
            needed = self._needs
        return frozenset(needed) - self.labels

    async def fits(self, stream: str) -> bool:
        """Whether this node may work on it."""
        return self.labels.issuperset(await self.needed_by(stream))

    async def awaited(self, stream: str) -> str:
        """What it waits for, in words, if no node that lives has what it needs; else empty."""
        needed = await self.needed_by(stream)
        if not needed or self.labels.issuperset(needed):
            return ""
        if any(set(needed) <= set(row.labels) for row in await self._nodes_now()):
            return ""
        many = f"the labels {', '.join(needed)}" if len(needed) > 1 else f"the label {needed[0]}"
        return f"a server with {many}; none that runs now has {'them' if len(needed) > 1 else 'it'}"

    async def waiting(self, stream: str, since: float) -> WaitingOn | None:
        """The same as every surface tells what is waited for. None also while the nodes cannot be asked."""
        try:
            words = await self.awaited(stream)
        except JournalError:
            return None
        return WaitingOn("turn", words, since) if words else None

    async def _nodes_now(self) -> Sequence[NodeRow]:
        at, rows = self._listed
        if self._monotonic() - at >= _FRESH:
            rows = await self._nodes.listed()
            self._listed = (self._monotonic(), rows)
        return rows

    def _remember(self, stream: str, labels: tuple[str, ...]) -> None:
        self._known[stream] = labels
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
