"""A running server, asked from the command line: one request, one answer, and what went wrong in a sentence."""

from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from turnbuckle.errors import TurnbuckleError

PATIENCE = 60.0
"""Seconds for one answer. A stop waits for the end of what it stops, which takes a second."""
MOST = 16 << 20  # bytes of an answer; what is asked for here has a few hundred


class ServerRefused(TurnbuckleError):
    """The server can not be reached, or does not do it."""


class Remote:
    """A server at an address, with a key if it wants one."""

    def __init__(self, address: str, key: str = "") -> None:
        self._address = address.rstrip("/")
        self._key = key

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as plain values. Raises ServerRefused."""
        headers = {"content-type": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as client,
                client.request(method, self._address + path, data=data, headers=headers) as answer,
            ):
                text = await answer.content.read(MOST)
                if answer.status >= 400:
                    raise ServerRefused(f"the server says {answer.status}: {_reason(text)}")
                return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise ServerRefused(f"what listens at {self._address} is no turnbuckle") from None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ServerRefused(f"no answer from {self._address}: {error or type(error).__name__}") from None


def session_path(session: str, verb: str = "") -> str:
    """Where a session is, or what can be done to it."""
    return f"/v1/sessions/{quote(session, safe='')}{f'/{verb}' if verb else ''}"


def _reason(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return text[:200].decode("utf-8", "replace") or "nothing more"
