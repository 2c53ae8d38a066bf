"""A server made with the official package, as its users make one."""

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


server.run("stdio")
