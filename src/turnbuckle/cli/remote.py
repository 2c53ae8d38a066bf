"""A running server, asked from the command line: one request, one answer, and what went wrong in a
sentence."""

import os
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from turnbuckle.errors import TurnbuckleError

PATIENCE = 60.0
"""Seconds for one answer. A stop waits for the end of what it stops, which takes a second."""
_COME_BACK = (429, 502, 503, 504)
_KEY = "--key gives one, and so does TURNBUCKLE_KEY in the environment"
MOST = 16 << 20  # bytes of an answer; what is asked for here has a few hundred


class ServerRefused(TurnbuckleError):
    """The server cannot be reached, or does not do it. `status` is that of its answer, if there was one."""

    status = 0


class ServerGone(ServerRefused):
    """There was no answer, or one that says to come back: nobody knows whether it was done."""


def remote_at(address: str, key: str) -> "Remote":
    """The server at an address, with this key or else that of the environment."""
    return Remote(address, key or os.environ.get("TURNBUCKLE_KEY", ""))


class Remote:
    """A server at an address, with a key if it wants one."""

    def __init__(self, address: str, key: str = "") -> None:
        self.address = address.rstrip("/")
        self.headers = {"authorization": f"Bearer {key}"} if key else {}

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """The answer as plain values. Raises ServerRefused."""
        headers = {"content-type": "application/json", **self.headers, **(headers or {})}
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as client,
                client.request(method, self.address + path, data=data, headers=headers) as answer,
            ):
                text = await answer.content.read(MOST)
                if answer.status >= 400:
                    raise refusal(answer.status, text)
                return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ServerRefused(f"what listens at {self.address} is not a turnbuckle server") from None
        except aiohttp.InvalidURL:
            raise ServerRefused(
                f"{self.address} is not an address; write it as http://127.0.0.1:8765"
            ) from None
        except (aiohttp.ClientConnectorError, TimeoutError, ConnectionError) as error:
            raise ServerGone(f"no answer from {self.address}: {_cause(error)}") from None
        except (aiohttp.ClientError, ValueError) as error:
            raise ServerGone(f"no answer from {self.address}: {error or type(error).__name__}") from None

    async def every(self, path: str, missing: set[str] | None = None) -> list[Any]:
        """All of a list, page after page. The nodes that it knows nothing of are put into `missing`. Raises
        ServerRefused."""
        silent = set() if missing is None else missing
        made: list[Any] = []
        page = await self.ask("GET", path)
        silent.update(page.get("missing_nodes", ()))
        while page.get("next"):
            made += page["data"]
            page = await self.ask("GET", f"{path}?after={quote(page['next'], safe='')}")
            silent.update(page.get("missing_nodes", ()))
        return made + list(page["data"])


def session_path(session: str, verb: str = "") -> str:
    """Where a session is, or what can be done to it."""
    return f"/v1/sessions/{quote(session, safe='')}{f'/{verb}' if verb else ''}"


def refusal(status: int, text: bytes) -> ServerRefused:
    """What a bad answer means."""
    kind = ServerGone if status in _COME_BACK else ServerRefused
    reason = _reason(text)
    if status == 401:  # by which option, and not by which header
        reason = f"{reason.partition(': send')[0]}; {_KEY}"
    made = kind(f"the server says {status}: {reason}")
    made.status = status
    return made


def _cause(error: Exception) -> str:
    match error:
        case TimeoutError():
            return f"nothing came for {PATIENCE:.0f} s"
        case aiohttp.ClientConnectorDNSError():
            return "there is no host of that name"
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return "nothing listens there; `turnbuckle serve` starts a server"
        case _:
            return str(error) or type(error).__name__


def _reason(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return text[:200].decode("utf-8", "replace") or "nothing more"
