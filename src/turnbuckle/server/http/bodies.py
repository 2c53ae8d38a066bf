"""The body of a request: of the right type, not too large, and whole.

A body that says how long it is is refused before it is read. The type must be JSON, or lines of it where an
endpoint takes those, or nothing at all: what a page can send to another origin without asking first is a form
or plain text, and such a body is never read. Where no body is needed, one that is empty has no type.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from turnbuckle.server.http.body_values import MOST_VALUES, SMALL, TooManyValues, counted
from turnbuckle.server.http.client_connection import ClientGone
from turnbuckle.server.http.exchange import JSON, Problem
from turnbuckle.server.http.problems import too_large

BODY_SECONDS = 600.0
"""Longer than the largest body takes on any line that people still use."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def check_type(headers: Mapping[str, str], wanted: str = JSON) -> None:
    """Raises Problem if the body is said to be anything but what is wanted. JSON may stand for lines of
    it."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if wanted != JSON and kind not in ("", wanted, JSON):
        message = (
            f"the body must be lines of JSON, with the header `Content-Type: {wanted}`, not {kind[:100]!r}"
        )
        raise Problem(415, message, code="unsupported_media_type")
    if kind not in ("", wanted, JSON) and not (kind.startswith("application/") and kind.endswith("+json")):
        message = (
            f"the body must be JSON, with the header `Content-Type: application/json`, not {kind[:100]!r}"
        )
        raise Problem(415, message, code="unsupported_media_type")
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Problem(
            415,
            f"a body packed by {encoding[:100]!r} is not read; send it as it is",
            code="unsupported_encoding",
        )


def is_empty(headers: Mapping[str, str]) -> bool:
    """Whether there is no body, whatever its type is said to be: many clients name one for every POST."""
    return "transfer-encoding" not in headers and headers.get("content-length", "0").strip() == "0"


class BodyBudget:
    """Bytes of bodies that are held at once, of one owner and of all. They count from when they arrive until
    the request has its answer, or its stream begins."""

    def __init__(self, per_owner: int, in_all: int) -> None:
        self._per_owner = per_owner
        self._in_all = in_all
        self._held: dict[str, int] = {}

    @property
    def held(self) -> int:
        """Bytes of all owners."""
        return sum(self._held.values())

    def take(self, owner: str, size: int) -> None:
        """Count bytes. Raises Problem if there is no room for them; nothing is counted then."""
        mine = self._held.get(owner, 0)
        if mine + size > self._per_owner or self.held + size > self._in_all:
            message = "too many large requests are being read at this moment; send this one again in a moment"
            raise Problem(503, message, code="too_many_bytes", retry_after=1.0, should_retry=True)
        self._held[owner] = mine + size

    def give_back(self, owner: str, size: int) -> None:
        left = self._held.get(owner, 0) - size
        if left > 0:
            self._held[owner] = left
        else:
            self._held.pop(owner, None)


class Holding:
    """Bytes of one client in a budget, for messages that have no request of their own."""

    def __init__(self, budget: BodyBudget, owner: str) -> None:
        self._budget = budget
        self._owner = owner
        self.held = 0

    def hold(self, size: int) -> None:
        """Hold so many bytes from now on, instead of what was held. Raises Problem if there is no room; then
        nothing has changed."""
        if size > self.held:
            self._budget.take(self._owner, size - self.held)
        elif size < self.held:
            self._budget.give_back(self._owner, self.held - size)
        self.held = size


class Body:
    """The body of one request, which counts against a budget from its first byte until it is let go of."""

    def __init__(
        self,
        receive: Receive,
        headers: Mapping[str, str],
        limit: int,
        budget: BodyBudget,
        owner: str,
        *,
        is_here: bool = False,
    ):
        """`is_here`: it has arrived, and nobody has to wait for it."""
        self._receive = receive
        self._headers = headers
        self._limit = limit
        self._budget = budget
        self._owner = owner
        self._is_here = is_here
        self._held = 0

    async def read(self) -> bytes:
        """The whole of it. Raises Problem if it is too large, comes too slowly or holds too many values, and
        ClientGone if its client leaves."""
        length = self._headers.get("content-length", "")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > self._limit):
            raise too_large(self._limit)
        if self._is_here:
            body = await self._pieces()
        else:
            body = await self._pieces_in_time()
        if len(body) > SMALL:
            await self._count(body)
        return body

    def let_go(self) -> None:
        """Nobody needs it any more."""
        held, self._held = self._held, 0
        if held:
            self._budget.give_back(self._owner, held)

    async def _pieces_in_time(self) -> bytes:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._pieces()
        except TimeoutError:
            message = f"the body took more than {BODY_SECONDS:.0f} seconds to arrive"
            raise Problem(408, message, code="request_timeout") from None

    async def _pieces(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            if piece := message.get("body", b""):
                size += len(piece)
                if size > self._limit:
                    raise too_large(self._limit)
                self._budget.take(self._owner, len(piece))
                self._held += len(piece)
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _count(self, body: bytes) -> None:
        try:
            for _ in counted(body):
                await asyncio.sleep(0)
        except TooManyValues:
            message = f"the body holds more than {MOST_VALUES:,} values"
            raise Problem(413, message, code="too_many_values") from None
