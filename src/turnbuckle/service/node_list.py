"""The nodes on one journal, for people and programs. A journal in a folder has one."""

from collections.abc import Callable

from msgspec import Struct

from turnbuckle.journal.nodes import NodeRow, Nodes, NodeState


class NodeView(Struct, frozen=True):
    """One node. `runs` are those that it drives, of `max_runs` at most; 0: no limit of its own. `lag` is by
    how many seconds its last look at the others was late. `here`: it is the one that was asked. `labels` are
    what it has that others may not."""

    name: str
    version: str
    started: float
    runs: int
    max_runs: int
    lag: float
    here: bool = False
    labels: tuple[str, ...] = ()


def node_view(row: NodeRow) -> NodeView:
    return NodeView(
        row.name, row.version, row.since, row.runs, row.most, round(row.lag, 3), row.is_here, row.labels
    )


class NodeList:
    """Lists nodes. Without `nodes` this process is the only one."""

    def __init__(self, nodes: Nodes | None, alone: Callable[[], NodeState], about: NodeRow) -> None:
        self._nodes = nodes
        self._alone = alone
        self._about = about

    async def listed(self) -> list[NodeView]:
        """All that live, the oldest first. Raises StorageError."""
        if self._nodes is not None:
            return [node_view(row) for row in await self._nodes.listed()]
        state = self._alone()
        row = self._about
        return [NodeView(row.name, row.version, row.since, state.runs, state.most, 0.0, True, row.labels)]
