"""An ASGI proxy without any logic: uvicorn in front, aiohttp behind, nothing parsed and nothing kept.

python benchmarks/peers/proxy.py PORT PROVIDER_PORT
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import uvicorn

HEADERS = {"content-type": "application/json"}
STREAM = [(b"content-type", b"text/event-stream")]
sessions: list[aiohttp.ClientSession] = []


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    asked, more = b"", True
    while more:
        message = await receive()
        asked, more = asked + message["body"], message["more_body"]
    if not sessions:
        sessions.append(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
    url = f"http://127.0.0.1:{sys.argv[2]}{scope['path']}"
    async with sessions[0].post(url, data=asked, headers=HEADERS) as answer:
        await send({"type": "http.response.start", "status": answer.status, "headers": STREAM})
        async for data in answer.content.iter_any():
            await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        lifespan="off",
        log_level="warning",
        access_log=False,
    )
