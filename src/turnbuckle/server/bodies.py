"""The body of a request: of the right type, not too large, and whole.

A body that says how long it is is refused before it is read. The type must be JSON, or lines of
it where an endpoint takes those, or nothing at all: what a page can send to another origin without asking first is a
form or plain text, and such a body is never read. Where no body is needed, one that is empty has no type.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from turnbuckle.server.http import JSON, Problem
from turnbuckle.server.line import Departed
from turnbuckle.server.problems import too_large

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


def check_type(headers: Mapping[str, str], wanted: str = JSON) -> None:
    """Raises Problem if the body is said to be anything but what is wanted. JSON may stand for lines of it."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if wanted != JSON and kind not in ("", wanted, JSON):
        message = f"the body must be lines of JSON, with the header `Content-Type: {wanted}`, not {kind[:100]!r}"
        raise Problem(415, message, code="unsupported_media_type")
    if kind not in ("", wanted, JSON) and not (kind.startswith("application/") and kind.endswith("+json")):
        message = f"the body must be JSON, with the header `Content-Type: application/json`, not {kind[:100]!r}"
        raise Problem(415, message, code="unsupported_media_type")
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise Problem(
            415, f"a body packed by {encoding[:100]!r} is not read; send it as it is", code="unsupported_encoding"
        )


def is_empty(headers: Mapping[str, str]) -> bool:
    """Whether there is no body, whatever its type is said to be: many clients name one for every POST."""
    return "transfer-encoding" not in headers and headers.get("content-length", "0").strip() == "0"


async def read_body(receive: Receive, headers: Mapping[str, str], limit: int) -> bytes:
    """The whole body. Raises Problem if it is larger than the limit, and Departed if its client leaves."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise too_large(limit)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Departed
        if piece := message.get("body", b""):
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
