"""How many tokens a request has, asked of a provider that counts them. One try, and not for long: whoever
asks can do with an estimate."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.wire.registry import PROTOCOLS

SECONDS = 10.0
_LARGEST = 64 * 1024  # bytes of an answer that is one number


class TokenCounter:
    """Asks the routes that can count."""

    def __init__(self, routes: Iterable[Route], connections: Connections) -> None:
        self._routes = {route.name: route for route in routes}
        self._connections = connections

    async def count(self, name: RouteName, body: dict[str, Any], headers: dict[str, str]) -> int | None:
        """The count of a body of the route's own protocol. None if the route cannot count, or does not say.
        An empty name is the usual route."""
        route = self._routes.get(name) if name else next(iter(self._routes.values()), None)
        path = "" if route is None else PROTOCOLS[route.protocol].count_endpoint
        if route is None or not path:
            return None
        own = PROTOCOLS[route.protocol].headers(route.api_key.reveal(), route.quirks)
        written = msgspec.json.encode({**body, "model": route.model or body.get("model")})
        exchange = self._connections.exchange(
            route.base_url + path, {**own, **headers, **route.headers}, written
        )
        answer = b""
        try:
            async with asyncio.timeout(SECONDS):
                head = await exchange.send()
                if isinstance(head, Failure) or head.status != 200:
                    return None
                while piece := await exchange.read():
                    if isinstance(piece, Failure) or len(answer) > _LARGEST:
                        return None
                    answer += piece
        except TimeoutError:
            return None
        finally:
            exchange.abort(failure("cancelled", "the count is known, or nobody waits for it"))
        return counted(answer)


def counted(answer: bytes) -> int | None:
    """The number in an answer, if there is one."""
    try:
        found = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    number = found.get("input_tokens")
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
