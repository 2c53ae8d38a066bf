"""Sessions in a running server.

What begins in a session is found by asking for its runs: at once after something was said or has ended, then
less and less often, so that a chat that rests costs the server next to nothing and still shows what other
clients begin. A run is read as its events, behind the last one that was seen. A stream that ends before its
run does, or is silent for longer than its keepalive allows, is lost: whoever reads it comes back with the
number that it has.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from turnbuckle.cli.backend import (
    BackendRefused,
    DraftLine,
    Fork,
    Lost,
    Merged,
    Numbered,
    Past,
    Recap,
    RouteLine,
    Taken,
)
from turnbuckle.cli.remote import Remote, ServerGone, ServerRefused, refusal, session_path
from turnbuckle.errors import InvalidValue
from turnbuckle.service.catalog import ON_ROUTE
from turnbuckle.service.changed_files import ChangedFile
from turnbuckle.service.changes import FileDiff
from turnbuckle.service.run_view import RunLine
from turnbuckle.service.runs import Decision
from turnbuckle.service.sessions import SessionChange, SessionLine, Verb
from turnbuckle.session.facts import Busy
from turnbuckle.turn.consent import asks_first
from turnbuckle.turn.facts import Fact, RunEnded, RunStarted, UserSpoke, decode
from turnbuckle.turn.ledger import Waste
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.origin import Origin
from turnbuckle.wire.sse import SseDecoder

SILENCE = 90.0
"""Seconds without a byte after which a stream is taken for dead: several keepalives of a server that is
alive."""
FIRST_LOOK, LAST_LOOK = 0.1, 2.0
"""Seconds between two looks for a new run: the first ones, and those of a chat that rests."""
_CONNECT = 10.0
_RUNS = 50  # runs of a session that are known to have been before; what is touched later is always among them
_PAST = 3  # exchanges that a chat begins with
_CHUNK = 1 << 16
_GONE = 404


class RemoteBackend:
    """A server at an address."""

    stays = True

    def __init__(self, remote: Remote, *, attended: bool = False) -> None:
        self._ask_first = asks_first("terminal", attended)
        self.about = remote.address
        self._remote = remote
        self._poked = asyncio.Event()

    # Sessions

    async def latest(self) -> str | None:
        found = await self._ask("GET", "/v1/sessions?limit=1")
        return found["data"][0]["id"] if found["data"] else None

    async def sessions(self, words: str) -> list[SessionLine]:
        query = urlencode({"limit": 20, **({"q": words} if words else {})})
        found = await self._ask("GET", f"/v1/sessions?{query}")
        return [_line(view) for view in found["data"]]

    async def resolve(self, text: str) -> str:
        """A server wants the whole id."""
        if not text:
            raise InvalidValue("with --server, name the session: GET /v1/sessions lists them")
        return text

    async def recap(self, session: str) -> Recap:
        view = await self._maybe(session_path(session))
        if view is None:
            return Recap()
        runs = await self.runs(session)
        running = view.get("running") or ""
        ended = [run for run in runs if run.id != running]
        past = [self._past(await self._ask("GET", _run_path(run.id))) for run in ended[:_PAST]]
        known = tuple(run.id for run in ended)
        return Recap(True, view["title"], tuple(reversed(past)), known, running)

    def _past(self, view: dict[str, Any]) -> Past:
        outcome = view["outcome"] or {}
        return Past(
            view["title"], view["output"], outcome.get("kind", view["status"]), outcome.get("why", "")
        )

    async def status(self, session: str) -> str:
        """The server's own words: they are asked for as in any chat."""
        if await self._maybe(session_path(session)) is None:
            return "Nothing was said in this session yet."
        return await self.told(session, "/status")

    async def told(self, session: str, command: str) -> str:
        body = {"input": command, **({"ask_first": True} if self._ask_first else {})}
        begun = await self._ask("POST", session_path(session, "messages"), body)
        view = await self._ask("GET", _run_path(begun["id"]))
        return str(view["output"])

    async def change(self, session: str, verb: Verb, keep: str = "", route: str = "") -> SessionChange:
        body = {"keep": keep} if keep else {"route": route} if route else None
        told = await self._ask("POST", session_path(session, verb), body)
        self._poked.set()
        return msgspec.convert(told, SessionChange)

    async def rename(self, session: str, title: str) -> SessionLine:
        return _line(await self._ask("PATCH", session_path(session), {"title": title}))

    async def fork(self, session: str, fork: Fork) -> SessionLine:
        return _line(await self._ask("POST", session_path(session, "fork"), fork))

    async def delete(self, session: str) -> None:
        await self._ask("DELETE", session_path(session))

    # Runs

    async def runs(self, session: str) -> list[RunLine]:
        query = urlencode({"session": session, "limit": _RUNS})
        found = await self._ask("GET", f"/v1/runs?{query}")
        lines = msgspec.convert(found["data"], list[RunLine])
        return sorted(lines, key=lambda run: (run.created_at, run.id), reverse=True)

    async def next_run(self, session: str, seen: Collection[str]) -> str:
        pause = FIRST_LOOK
        while True:
            self._poked.clear()
            for run in reversed(await self.runs(session)):
                if run.id not in seen:
                    return run.id
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._poked.wait()
                    pause = FIRST_LOOK / 2
            pause = min(pause * 2, LAST_LOOK)

    async def follow(self, run: str, after: int) -> AsyncGenerator[list[Numbered]]:
        try:
            async for facts in self._events(run, after):
                if facts:
                    yield facts
                    if isinstance(facts[-1][1], RunEnded):
                        return
        except aiohttp.ClientConnectorError:
            raise Lost(f"no answer from {self._remote.address}") from None
        except (aiohttp.ClientError, TimeoutError, OSError):
            raise Lost("the stream broke off") from None
        except msgspec.DecodeError:
            raise BackendRefused(
                f"what listens at {self._remote.address} sends events that cannot be read"
            ) from None
        raise Lost("the stream ended before its run")

    async def _events(self, run: str, after: int) -> AsyncIterator[list[Numbered]]:
        timeout = aiohttp.ClientTimeout(None, sock_connect=_CONNECT, sock_read=SILENCE)
        address = f"{self._remote.address}{_run_path(run)}/events?after={after}"
        decoder = SseDecoder()
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=self._remote.headers) as client,
            client.get(address) as answer,
        ):
            if answer.status >= 400:
                raise _translated(refusal(answer.status, await answer.content.read(_CHUNK)))
            async for chunk in answer.content.iter_any():
                yield [
                    fact
                    for name, data in decoder.feed(chunk)
                    if data and (fact := _fact(name, data)) is not None
                ]
                if decoder.overflow is not None:
                    raise BackendRefused("the server sends an event that is too large")

    async def say(self, session: str, text: str, busy: Busy | None, key: str, route: str = "") -> Taken:
        body: dict[str, Any] = {"input": text, **({} if busy is None else {"busy": busy})}
        if self._ask_first:
            body["ask_first"] = True
        if route:
            body["model"] = ON_ROUTE + route
        told = await self._ask("POST", session_path(session, "messages"), body, {"idempotency-key": key})
        self._poked.set()
        return Taken(told["id"], told["status"] == "queued")

    async def answer(self, run: str, approval: str, decision: Decision, text: str) -> bool:
        body = {"decision": decision, "text": text}
        try:
            await self._remote.ask("POST", f"{_run_path(run)}/approvals/{quote(approval, safe='')}", body)
        except ServerRefused as error:
            if error.status == 409:
                return False
            raise _translated(error) from None
        return True

    async def interrupt(self, run: str) -> bool:
        return bool((await self._ask("POST", f"{_run_path(run)}/interrupt"))["stopped"])

    async def stop(self, run: str) -> bool:
        return bool((await self._ask("POST", f"{_run_path(run)}/stop"))["stopped"])

    async def drafts(self, session: str) -> list[DraftLine]:
        made = []
        for run in (await self.runs(session))[:20]:
            for one in await self._every(f"{_run_path(run.id)}/drafts"):
                target = one["settled"].get("path")
                named = target if isinstance(target, str) else ""
                made.append(DraftLine(f"{run.id}:{one['id']}", one["tool"], named, one["characters"]))
        return made

    async def draft(self, name: str) -> str:
        run, _, draft = name.rpartition(":")
        return str((await self._ask("GET", f"{_run_path(run)}/drafts/{quote(draft, safe='')}"))["text"])

    async def changes(self, run: str) -> list[FileDiff]:
        return msgspec.convert(await self._every(f"{_run_path(run)}/changes"), list[FileDiff])

    async def revert(self, run: str, path: str) -> ChangedFile:
        told = await self._ask("POST", f"{_run_path(run)}/changes/undo", {"path": path})
        return msgspec.convert(told, ChangedFile)

    async def ledger(self, run: str) -> tuple[Waste, ...]:
        told = await self._ask("GET", f"{_run_path(run)}/ledger")
        return msgspec.convert(told["entries"], tuple[Waste, ...])

    async def routes(self) -> list[RouteLine]:
        found = (await self._ask("GET", "/v1/models"))["data"]
        agents = [one for one in found if one.get("kind") == "agent"]
        named = [one for one in agents if one["id"].startswith(ON_ROUTE)] or agents
        return [RouteLine(one["id"].removeprefix(ON_ROUTE), one.get("model", "")) for one in named]

    async def sandbox(self) -> str:
        """Where commands run there, in words; empty if that server does not say."""
        told = await self._maybe("/v1/settings")
        return str((told or {}).get("sandbox", {}).get("words", ""))

    async def leave(self) -> None:
        """What runs there goes on."""

    # Asking

    async def _ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        try:
            return await self._remote.ask(method, path, body, headers)
        except ServerRefused as error:
            raise _translated(error) from None

    async def _every(self, path: str) -> list[Any]:
        try:
            return await self._remote.every(path)
        except ServerRefused as error:
            raise _translated(error) from None

    async def _maybe(self, path: str) -> Any:
        """None if there is no such thing."""
        try:
            return await self._remote.ask("GET", path)
        except ServerRefused as error:
            if error.status == _GONE:
                return None
            raise _translated(error) from None


def _line(view: dict[str, Any]) -> SessionLine:
    running = view.get("running") or ""
    return SessionLine(
        view["id"],
        view["title"],
        view["created_at"],
        view["updated_at"],
        running,
        "running" if running else "idle",
        snippet=view.get("snippet") or "",
    )


def _translated(error: ServerRefused) -> Lost | BackendRefused:
    return Lost(str(error)) if isinstance(error, ServerGone) else BackendRefused(str(error))


def _run_path(run: str) -> str:
    return f"/v1/runs/{quote(run, safe='')}"


def _fact(name: bytes, data: bytes) -> Numbered | None:
    """An event as the fact that it is. What users said comes cut down, and becomes as much of a fact as there
    is."""
    match name:
        case b"heartbeat":
            return None
        case b"interrupted":
            raise Lost("the server is stopping")
        case b"reset":
            raise Merged("events of this run were merged")
        case b"run_started" | b"user_spoke":
            told = msgspec.json.decode(data)
            return told["seq"], _spoken(told)
        case _:
            return msgspec.json.decode(data, type=_Number).seq, decode(data)


class _Number(msgspec.Struct):
    seq: int


def _spoken(told: dict[str, Any]) -> Fact:
    messages = tuple(Message(one["role"], _parts(one["parts"])) for one in told["input"])
    if told["type"] == "user_spoke":
        return UserSpoke(told["at"], told["id"], messages)
    origin = Origin(notice=told.get("notice", ""), notice_why=told.get("notice_why", ""))
    session = SessionId(told["session"])
    return RunStarted(told["at"], RunId(told["run"]), session, messages, len(messages), origin=origin)


def _parts(parts: list[dict[str, Any]]) -> tuple[TextPart, ...]:
    return tuple(TextPart(part["text"]) for part in parts if part.get("kind") == "text" and "text" in part)
