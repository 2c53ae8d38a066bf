"""How many tokens a request has, asked of a provider that counts them. One try, and not for long: whoever
asks can do with an estimate."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.registry import PROTOCOLS

SECONDS = 10.0
_LARGEST = 64 * 1024  # bytes of an answer that is one number


class OwnWords(Struct, frozen=True):
    """A request as its client wrote it, with the headers that go along."""

    body: dict[str, Any]
    headers: dict[str, str]


class TokenCounter:
    """Asks the routes that can count."""

    def __init__(self, routes: Iterable[Route], connections: Connections) -> None:
        self._routes = {route.name: route for route in routes}
        self._connections = connections

    async def count(self, name: RouteName, request: ModelRequest, own: OwnWords | None = None) -> int | None:
        """The count of a request; `own` if its client wrote it in the route's protocol. None if the route
        cannot count, or does not say. An empty name is the usual route."""
        route = self._routes.get(name) if name else next(iter(self._routes.values()), None)
        counting = None if route is None else PROTOCOLS[route.protocol].counting
        if route is None or counting is None:
            return None
        model = route.model or request.model
        if own is not None:
            body, said = {**own.body, "model": model}, own.headers
        else:
            body, said = counting.build(replace(request, model=model), route.quirks), {}
        headers = PROTOCOLS[route.protocol].headers(route.api_key.reveal(), route.quirks)
        exchange = self._connections.exchange(
            route.base_url + counting.endpoint(model),
            {**headers, **said, **route.headers},
            msgspec.json.encode(body),
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
        return counted(answer, counting.field)


def counted(answer: bytes, field: str) -> int | None:
    """The number in an answer, if there is one."""
    try:
        fields = msgspec.json.decode(answer, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    number = fields.get(field)
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None
