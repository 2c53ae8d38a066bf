"""A server made with the official package, as its users make one: on stdin and stdout, or on an open socket."""

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

server = MCPServer("orders")


class Order(BaseModel):
    name: str
    count: int = 1


@server.tool()
def place(order: Order) -> dict[str, int]:
    """Place an order."""
    return {order.name: order.count}


@server.tool()
def broken() -> str:
    """Never works."""
    raise ValueError("out of stock")


if sys.argv[1:]:
    uvicorn.run(server.streamable_http_app(), fd=int(sys.argv[1]), log_level="warning")
else:
    server.run("stdio")
