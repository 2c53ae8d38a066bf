"""A client that sends what a fuzzer thought of, waits for the answer no longer than a person would, and looks at every
byte of it.

schemathesis makes requests from the document, good ones and bad ones. Left alone it would name no run that there is, so
some ids are put in place of those that it made up: the caller's own, and another owner's.
"""

import http.client
import os
import time
from typing import Any
from urllib.parse import quote, urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks
from support.server.owners_server import MARKS, OwnedThings, OwnersServer

HEAD_SECONDS = 60.0
"""How long the head of an answer, or a plain body, may take before that counts as a hang."""
SILENT_SECONDS = 0.2
STREAM_SECONDS = 3.0
MOST_BYTES = 4 << 20
MORE = int(os.environ.get("TURNBUCKLE_FUZZ", "1"))
"""How many times the usual number of examples."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(context: Any, value: Any) -> bytes:
    """Whatever it thought of, as the body of an import."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def examples(count: int) -> settings:
    """So many, the same ones each time; with TURNBUCKLE_FUZZ set, so many times more, and others each time."""
    return settings(
        max_examples=count * MORE,
        derandomize=MORE == 1,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


class Fuzzer:
    """Sends cases to a server as one owner, and never sees anything of the other."""

    def __init__(self, owners: OwnersServer, owner: str, other: str) -> None:
        self.owners = owners
        self.owner = owner
        self.sent = 0
        self.slowest = 0.0
        self._stranger = other
        self._at = urlsplit(owners.url)

    def send(self, case: schemathesis.Case) -> schemathesis.Response:
        """Send a case, and check all that must hold for every answer."""
        request = requests.Request(**case.as_transport_kwargs(base_url=self.owners.url)).prepare()
        request.headers["Authorization"] = f"Bearer {self.owners.keys[self.owner]}"
        began = time.monotonic()
        response = self._exchange(request)
        self.sent += 1
        self.slowest = max(self.slowest, time.monotonic() - began)
        case.freeze_metadata()
        # An empty header or parameter is the same as none, which no schema says.
        given = [*case.headers.values(), *case.query.values()]
        wanted = CHECKS if any(map(_is_nothing, given)) else [*CHECKS, checks.negative_data_rejection]
        case.validate_response(response, checks=wanted)
        self._look(request, response)
        return response

    def _exchange(self, request: requests.PreparedRequest) -> schemathesis.Response:
        line = http.client.HTTPConnection(str(self._at.hostname), self._at.port, timeout=HEAD_SECONDS)
        try:
            line.request(str(request.method), request.path_url, request.body, dict(request.headers))
            answer = line.getresponse()
            is_stream = (answer.getheader("content-type") or "").startswith("text/event-stream")
            body, cut = self._stream(line, answer) if is_stream else (answer.read(), False)
        finally:
            line.close()
        names = {name.lower() for name in answer.headers}
        return schemathesis.Response(
            status_code=answer.status,
            headers={name: answer.headers.get_all(name, []) for name in names},
            content=body,
            request=request,
            elapsed=0.0,
            verify=False,
            message=answer.reason,
            encoding="utf-8",
            stream_cut_short=cut,
        )

    def _stream(
        self, line: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> tuple[bytes, bool]:
        """A stream to its end, or until it is silent for a moment, has gone on for long, or is too much."""
        pieces, size, until = [], 0, time.monotonic() + STREAM_SECONDS
        line.sock.settimeout(SILENT_SECONDS)
        try:
            while piece := answer.read1(1 << 16):
                pieces.append(piece)
                size += len(piece)
                if size > MOST_BYTES or time.monotonic() > until:
                    break
            else:
                return b"".join(pieces), False
        except TimeoutError:
            pass
        whole = b"".join(pieces)
        return whole[: whole.rfind(b"\n\n") + 2], True

    def _look(self, request: requests.PreparedRequest, response: schemathesis.Response) -> None:
        """Nothing of the stranger is in the answer, except an id that was in the question."""
        told = response.content + repr(response.headers).encode()
        asked = (request.url or "").encode() + _bytes(request.body) + repr(request.headers).encode()
        things = self.owners.things[self._stranger]
        for secret in (MARKS[self._stranger], *(name for kind in _ALONE for name in things.ids[kind])):
            word = secret.encode()
            assert word not in told or word in asked, (
                f"{secret} of {self._stranger} was told: {told[:1000]!r}"
            )
        assert response.headers["x-content-type-options"] == ["nosniff"]
        assert len(response.headers["x-request-id"]) == 1


def _is_nothing(value: Any) -> bool:
    """An object stands there as its fields, and none of them has its name."""
    return (
        value in ("", None, [])
        or isinstance(value, dict)
        or (isinstance(value, list) and any(map(_is_nothing, value)))
    )


def _bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""


# Ids in place of made-up ones

_IN_BODY = {
    "previous_response_id": "response",
    "conversation": "conversation",
    "session": "session",
    "run": "run",
}
_ALONE = ("run", "response")
"""Ids of which there is only one. Sessions are named by their owners, and drafts and approvals are counted in a run."""
_MODELS = ("agent", "lab", "rehearsal", "m")
_ODD = ("{}x", "{}/..", "../{}", "{}\x00", "{} ", "%{}", "{}?", "{}#a", "{}/", "\u202e{}", "{}%00", "{}\r\n")


def named(draw: Any, kind: str, own: OwnedThings, other: OwnedThings, made_up: Any) -> Any:
    """An id of one's own most of the time; else another's, a spoiled one, or the one that was made up."""
    mine, theirs = own.ids.get(kind, []), other.ids.get(kind, [])
    if not mine:
        return made_up
    match draw(st.integers(0, 9)):
        case 0:
            return made_up
        case 1 | 2:
            return draw(st.sampled_from(theirs))
        case 3:
            return draw(st.sampled_from(_ODD)).format(draw(st.sampled_from(mine)))
        case _:
            return draw(st.sampled_from(mine))


def at_home(case: schemathesis.Case, draw: Any, own: OwnedThings, other: OwnedThings) -> None:
    """Let a case be about things that there are."""
    for name, made_up in case.path_parameters.items():
        chosen = named(draw, name, own, other, made_up)
        case.path_parameters[name] = made_up if chosen is made_up else quote(chosen, safe="")
    if "X-Turnbuckle-Session" in case.headers and draw(st.booleans()):
        chosen = named(draw, "session", own, other, "fresh")
        # In a session where something waits for a person, an answer waits as well, for an hour if need be.
        if chosen.isprintable() and chosen.isascii() and "busy" not in chosen:
            case.headers["X-Turnbuckle-Session"] = chosen
    if isinstance(case.body, dict):
        for name, kind in _IN_BODY.items():
            if name in case.body and draw(st.booleans()):
                case.body[name] = named(draw, kind, own, other, case.body[name])
        if isinstance(case.body.get("model"), str) and draw(st.integers(0, 9)):
            case.body["model"] = draw(st.sampled_from(_MODELS))
