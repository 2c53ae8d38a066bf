"""A real HTTP server that plays scripts to anybody's client, in the protocol that the client speaks.

A request picks its case by the header `x-lab-case`, by the model name `lab:<case>`, or gets the provider's
own. Each case counts its requests, so that a second try can go otherwise than the first.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from turnbuckle.lab.actions import Action, End, SendHead, Write
from turnbuckle.lab.cases import CASES, find_case
from turnbuckle.lab.clock import RealClock
from turnbuckle.lab.connection import LabConnection, LabExchange, Progress
from turnbuckle.lab.dialogue import CREATED, ScriptPlayer
from turnbuckle.lab.http1 import Request
from turnbuckle.lab.received import brings_results
from turnbuckle.lab.script import Case, LabRequest, Script
from turnbuckle.lab.script_text import ScriptError
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.failure import failure
from turnbuckle.wire.protocol import Protocol
from turnbuckle.wire.registry import PROTOCOLS

MODEL_PREFIX = "lab:"
CASE_HEADER = "x-lab-case"
CHARACTERS_PER_TOKEN = 4
REMEMBERED = 1000  # requests; a lab that runs for weeks forgets older ones


Watch = Callable[[LabRequest, Iterator[Action]], Iterator[Action]]
"""Somebody who looks on: gets a request and what will be done for it, and hands that on. An action is over
when the next one is asked for."""


class Received(Struct):
    """One request that the provider got, for a test to look at. `progress` grows while it is answered."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    arrived: float
    progress: Progress
    case: str = ""
    number: int = 0


class Provider:
    """An async context manager. `case` is played for every request that does not pick one itself."""

    def __init__(
        self,
        case: Case | str = "happy",
        *,
        cases: Iterable[Case] = CASES,
        host: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.requests: deque[Received] = deque(maxlen=REMEMBERED)
        self._cases = {known.name: known for known in cases}
        self._default = case if isinstance(case, Case) else find_case(case, self._cases)
        self._cases[self._default.name] = self._default
        self._host = host
        self._port = port
        self._clock: Clock = clock or RealClock()
        self._watch = watch
        self._counts: Counter[str] = Counter()
        self._served = 0
        self._connections: set[LabConnection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: LabConnection(self._serve, self._clock, self._connections), self._host, self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for connection in tuple(self._connections):
                await connection.stop()
            await self._server.wait_closed()

    @property
    def url(self) -> str:
        """The address without a path; clients of OpenAI's form want `/v1` behind it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def _serve(self, request: Request) -> LabExchange:
        path = urlsplit(request.target).path
        progress = Progress()
        received = Received(request.method, path, request.headers, None, self._clock.now(), progress)
        self.requests.append(received)
        return LabExchange(self._actions(request, received), progress)

    def _actions(self, request: Request, received: Received) -> Iterator[Action]:
        served = served_by(received.path)
        if served is None and (field := counts_at(received.path)) and request.method == "POST":
            return _document(200, {field: len(request.body) // CHARACTERS_PER_TOKEN + 1})
        if served is None:
            return self._other(request.method, received.path)
        protocol, said = served
        if request.method != "POST":
            return _document(405, {"error": {"message": f"{received.path} takes POST", "type": "lab_error"}})
        try:
            received.body = msgspec.json.decode(request.body)
        except msgspec.DecodeError as error:
            return _refusal(protocol, 400, f"the body is not JSON: {error}")
        if not isinstance(received.body, dict):
            return _refusal(protocol, 400, "the body is not a JSON object")
        received.body = {**received.body, **said}
        return self._play(protocol, received.body, received)

    def _play(self, protocol: Protocol, body: dict[str, Any], received: Received) -> Iterator[Action]:
        model = str(body.get("model", "lab"))
        picked = received.headers.get(CASE_HEADER, "")
        if not picked and model.startswith(MODEL_PREFIX):
            picked = model.removeprefix(MODEL_PREFIX)
        try:
            case = find_case(picked, self._cases) if picked else self._default
        except ScriptError as error:
            return _refusal(protocol, 404, str(error))
        asked = LabRequest(
            protocol=protocol.name,
            path=received.path,
            headers=received.headers,
            body=body,
            stream=body.get("stream") is True,
            model=model,
        )
        self._served += 1
        received.case = case.name
        asked, script = self._choose(case, asked)
        received.number = asked.number
        actions = ScriptPlayer(asked, reply_id=f"lab-{self._served}").play(script)
        return actions if self._watch is None else self._watch(asked, actions)

    def _choose(self, case: Case, asked: LabRequest) -> tuple[LabRequest, Script]:
        if case.after_tools is not None and brings_results(asked):
            return msgspec.structs.replace(asked, number=max(self._counts[case.name], 1)), case.after_tools
        self._counts[case.name] += 1
        number = self._counts[case.name]
        return msgspec.structs.replace(asked, number=number), case.script_for(number)

    def _other(self, method: str, path: str) -> Iterator[Action]:
        if method == "GET" and path in ("/v1/models", "/models"):
            return _document(200, models_document(self._cases.values()))
        if method == "GET" and path == "/":
            lines = [f"{case.name}  {case.summary}" for case in self._cases.values()]
            return _body(200, "text/plain; charset=utf-8", ("\n".join(lines) + "\n").encode())
        known = ", ".join(["/v1/models", *(protocol.path for protocol in PROTOCOLS.values())])
        message = f"there is no {method} {path} here; there are {known}"
        return _document(
            404, {"error": {"message": message, "type": "not_found_error", "param": None, "code": None}}
        )


def served_by(path: str) -> tuple[Protocol, dict[str, Any]] | None:
    """Who takes requests at a path, with or without the version in front, and what the path says."""
    bare = _without_version(path)
    for protocol in PROTOCOLS.values():
        said = protocol.serves(bare)
        if said is not None:
            return protocol, said
    return None


def counts_at(path: str) -> str:
    """The field in which tokens are told that are counted at a path; empty if none are."""
    bare = _without_version(path)
    for counting in (protocol.counting for protocol in PROTOCOLS.values()):
        if counting is None:
            continue
        before, _, behind = counting.endpoint("{model}").partition("{model}")
        if bare == before or (behind and bare.startswith(before) and bare.endswith(behind)):
            return counting.field
    return ""


def _without_version(path: str) -> str:
    path = path.rstrip("/")
    versions = sorted({protocol.base_path for protocol in PROTOCOLS.values()}, key=len, reverse=True)
    return path.removeprefix(next((version for version in versions if path.startswith(f"{version}/")), ""))


def models_document(cases: Iterable[Case]) -> dict[str, Any]:
    """The list of models, one per case, in a form that OpenAI's and Anthropic's clients both read."""
    models = [
        {
            "id": MODEL_PREFIX + case.name,
            "object": "model",
            "type": "model",
            "display_name": case.summary,
            "created": CREATED,
            "created_at": "2026-01-01T00:00:00Z",
            "owned_by": "turnbuckle-lab",
        }
        for case in cases
    ]
    ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]} if models else {}
    return {"object": "list", "data": models, "has_more": False, **ends}


def _refusal(protocol: Protocol, status: int, message: str) -> Iterator[Action]:
    said = failure("not_found" if status == 404 else "invalid", message)
    return _document(status, protocol.encoding.error_body(said))


def _document(status: int, document: dict[str, Any]) -> Iterator[Action]:
    return _body(status, "application/json", msgspec.json.encode(document))


def _body(status: int, content_type: str, body: bytes) -> Iterator[Action]:
    yield SendHead(status, {"content-type": content_type}, len(body))
    yield Write(body)
    yield End("tidy")
