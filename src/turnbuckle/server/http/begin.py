"""What requests that begin or change something say in their headers, and what their answers carry."""

import hashlib

from turnbuckle.errors import InvalidValue
from turnbuckle.server.http.exchange import Exchange, Headers
from turnbuckle.service.owners import public_session
from turnbuckle.service.run_handle import RunHandle
from turnbuckle.service.stores import RequestKey
from turnbuckle.session.facts import Busy

KEY = "idempotency-key"
BUSY = "x-turnbuckle-busy"
SESSION = "x-turnbuckle-session"
ON_DISCONNECT = "x-turnbuckle-on-disconnect"


async def request_key(exchange: Exchange) -> RequestKey | None:
    """What makes this request count once, if it wants that."""
    key = exchange.headers.get(KEY)
    return None if key is None else RequestKey(exchange.caller.owner, key, await fingerprint(exchange))


async def fingerprint(exchange: Exchange) -> str:
    """What makes a request another one: where it goes, what it says, and the headers that change its
    meaning."""
    headers = (exchange.headers.get(name, "") for name in (SESSION, ON_DISCONNECT))
    text = "\0".join((exchange.method, exchange.path, *headers))
    return hashlib.sha256(text.encode() + b"\0" + await exchange.body()).hexdigest()


def busy_of(exchange: Exchange) -> Busy | None:
    """What a request wants done while something else runs in its session. Raises InvalidValue."""
    match exchange.headers.get(BUSY, "").strip().lower():
        case "":
            return None
        case "queue" | "steer" | "interrupt" | "refuse" as busy:
            return busy
        case _:
            message = "X-Turnbuckle-Busy must be queue, steer, interrupt or refuse"
            raise InvalidValue(message, "X-Turnbuckle-Busy")


def run_headers(begun: RunHandle, owner: str) -> Headers:
    """What every answer about a run carries."""
    headers = (
        ("x-turnbuckle-run", begun.run),
        ("x-turnbuckle-session", public_session(owner, begun.session)),
    )
    return (*headers, ("idempotency-replayed", "true")) if begun.replayed else headers
