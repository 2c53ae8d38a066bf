"""`/v1/nodes`: the servers that work on one journal."""

from typing import Literal

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.service.node_list import NodeList, NodeView


class NodesView(Struct, frozen=True):
    """All nodes that live, the oldest first."""

    data: list[NodeView]
    object: Literal["list"] = "list"


class NodesApi:
    """The handler."""

    def __init__(self, nodes: NodeList) -> None:
        self._nodes = nodes

    async def list(self, exchange: Exchange) -> Answer:
        return json_answer(NodesView(await self._nodes.listed()))


def node_endpoints(api: NodesApi) -> tuple[Endpoint, ...]:
    """The rows of the table."""
    said = "The servers on this journal"
    return (
        Endpoint(
            "GET",
            "/v1/nodes",
            api.list,
            Operation("listNodes", said, "health", answers={200: (Given(said, NodesView),)}),
        ),
    )
