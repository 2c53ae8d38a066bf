"""Who does something in a campaign: clients of all kinds. What each does next follows from the seed and its
own name alone; only how it meets the others is left to the machine."""

import asyncio
import random
from typing import Any

from support.server.live_server import PATIENCE, Listener, encoded

from campaigning.heard import Heard
from campaigning.world import AGAIN, AWAY, LATER, Broken, Seen, World

_PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "runs": "/v1/runs",
    "session": "/v1/sessions/{session}/messages",
}
_FACES = ("chat", "responses", "messages")
"""Those that name their session in a header, and stream their answer."""

DEEDS = (
    "stop",
    "stop",
    "stop",
    "halt",
    "fork",
    "fork",
    "delete",
    "export",
    "new",
    "undo",
    "messages",
    "search",
    "retry",
)
REFUSED = "-"
"""In the place of a run: there is none, and there will be none."""


class Actor:
    """One client or hand, with its own dice."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dice = random.Random(f"{world.seed}:{name}")
        self._number = 0

    def number(self) -> int:
        self._number += 1
        return self._number

    def note(self, what: str) -> None:
        self.world.note(self.name, what)

    def pick(self, known: list[str]) -> str:
        """One of the newest that nobody deletes."""
        kept = [one for one in known[-8:] if one not in self.world.deleted]
        return self.dice.choice(kept) if kept else ""


class Speaker(Actor):
    """Says things in sessions, sometimes into a run that is under way, always under a key."""

    async def play(self) -> None:
        while not self.world.over:
            session = self.pick(self.world.sessions) if self.dice.random() < 0.8 else ""
            if not session:
                session = f"s-{self.world.seed}-{self.name}-{self.number()}"
                self.world.sessions.append(session)
            await self._say(session)
            await asyncio.sleep(self.dice.random() * 0.3)

    async def _say(self, session: str) -> None:
        number = self.number()
        text = f"do n{self.name}{number}" if self.dice.random() < 0.7 else "hello"
        way = self.dice.choice(tuple(_PATHS))
        busy = self.dice.choice(("queue", "queue", "steer", "interrupt", "refuse"))
        headers = {"idempotency_key": f"{self.name}-{number}", "x_turnbuckle_busy": busy}
        headers |= {"x_turnbuckle_session": session} if way in _FACES else {}
        headers["x_turnbuckle_on_disconnect"] = self.dice.choice(("detach", "detach", "cancel", "1"))
        body = _body(way, text)
        if way == "runs":
            body["session"] = session
        if way in _FACES:
            body["stream"] = True
        self.note(f"say {way} {busy} {session} {text!r}")
        run, path = "", _PATHS[way].format(session=session)
        while not (self.world.over or run):
            run = await self._sent(path, body, headers)
        if run in ("", REFUSED):
            return
        self.note(f"began {run} in {session}")
        self.world.knows(run, session)
        if self.dice.random() < 0.3:  # the same request again is the same run
            again = await self._sent(path, body, headers)
            moved = (
                busy == "steer"
            )  # words for a turn that ended before it could be told begin a run of their own
            if again not in ("", REFUSED, run) and session not in self.world.deleted and not moved:
                raise Broken(f"one key began {run} and {again}")

    async def _sent(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> str:
        """The run that it began, REFUSED, or nothing if that is not known."""
        try:
            async with asyncio.timeout(PATIENCE), self.world.server.client() as client:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                reply = await client.ask("POST", path, body=encoded(body), headers=named)
        except AWAY:
            await asyncio.sleep(AGAIN)
            return ""
        if reply.status in (200, 202):
            return reply.headers.get("x-turnbuckle-run", REFUSED)
        if reply.status in (404, 409, 410):
            return REFUSED
        if reply.status in LATER:
            self.note(f"later {reply.status} {reply.body[:120]!r}")
            await asyncio.sleep(AGAIN)
            return ""
        raise Broken(f"{path} answered {reply.status}: {reply.body[:300]!r}")


class Reader(Actor):
    """Follows runs, hangs up, comes back with its cursor."""

    async def play(self) -> None:
        while not self.world.over:
            run = self.pick(self.world.runs)
            if not run:
                await asyncio.sleep(AGAIN)
                continue
            seen = Seen(run)
            self.world.readers.append(seen)
            self.note(f"read {run}")
            for _ in range(self.dice.randint(1, 6)):
                if self.world.over or run in self.world.deleted or await self._connected(seen):
                    break

    async def _connected(self, seen: Seen) -> bool:
        server, path = self.world.server, f"/v1/runs/{seen.run}/events?after={seen.last}"
        try:
            async with server.client() as client, asyncio.timeout(self.dice.random() * 3):
                reply = await client.ask("GET", path)
                if reply.status == 404 and seen.run not in self.world.deleted:
                    raise Broken(f"{seen.run} is unknown, and nobody deleted it: {reply.body[:200]!r}")
                if reply.status != 200:
                    return False
                return await self.world.read_on(seen, self.dice.random() * 3, Listener(client, reply))
        except Broken:
            raise
        except AWAY:
            await asyncio.sleep(AGAIN)
            return False


class Client(Actor):
    """Asks by one of the faces, reads the answer, hangs up in the middle, and asks for the same again."""

    async def play(self) -> None:
        while not self.world.over:
            face, number = self.dice.choice(_FACES), self.number()
            text = "hello" if self.dice.random() < 0.7 else f"do n{self.name}{number}"
            headers = {"idempotency-key": f"{self.name}-{number}", "x-turnbuckle-on-disconnect": "detach"}
            body = {**_body(face, text), "stream": True}
            self.note(f"ask {face} {text!r}")
            for _ in range(self.dice.randint(1, 4)):
                if self.world.over or await self._heard(face, body, headers):
                    break

    async def _heard(self, face: str, body: dict[str, Any], headers: dict[str, str]) -> bool:
        """Read for a while. True if the answer came to its end."""
        listener: Listener | None = None
        try:
            async with self.world.server.client() as client, asyncio.timeout(0.2 + self.dice.random() * 4):
                reply = await client.ask("POST", _PATHS[face], body=encoded(body), headers=headers)
                if reply.status == 200:
                    listener = Listener(client, reply)
                    await listener.rest()
                elif reply.status not in LATER:
                    raise Broken(f"{_PATHS[face]} answered {reply.status}: {reply.body[:300]!r}")
        except AWAY as error:
            if isinstance(error, Broken):
                raise
        if listener is None:
            await asyncio.sleep(AGAIN)
            return False
        self.world.knows(listener.run, "")
        self.world.heard.append(heard := Heard(face, listener.run, listener.frames))
        return heard.is_whole


def _body(way: str, text: str) -> dict[str, Any]:
    if way not in ("chat", "messages"):
        return {"model": "agent", "input": text}
    said = {"model": "agent", "messages": [{"role": "user", "content": text}]}
    return {**said, "max_tokens": 2_000} if way == "messages" else said


class Meddler(Actor):
    """Stops, forks, deletes, exports, begins anew."""

    async def play(self) -> None:
        while not self.world.over:
            await asyncio.sleep(self.dice.random() * 0.8)
            session, run = self.pick(self.world.sessions), self.pick(self.world.runs)
            if not (session and run):
                continue
            here = f"/v1/sessions/{session}"
            match self.dice.choice(DEEDS):
                case "stop":
                    await self._do("stop", "POST", f"/v1/runs/{run}/stop")
                case "halt":
                    await self._do("halt", "POST", f"{here}/stop")
                case "fork":
                    made = f"f-{self.world.seed}-{self.name}-{self.number()}"
                    if await self._do("fork", "POST", f"{here}/fork", {"id": made}) in (200, 201):
                        self.world.sessions.append(made)
                case "delete":
                    self.world.forget(session)
                    await self._do("delete", "DELETE", here)
                case "export" | "messages" as part:
                    await self._do(part, "GET", f"{here}/{part}")
                case "search":
                    await self._do("search", "GET", "/v1/sessions?q=done")
                case word:
                    await self._do(word, "POST", f"{here}/{word}")

    async def _do(self, name: str, method: str, path: str, body: Any = None) -> int:
        self.note(f"{name} {method} {path}")
        sent = {} if method == "POST" and body is None else body
        reply = await self.world.persist(lambda: self.world.server.ask(method, path, sent))
        if reply is not None and reply.status not in (200, 201, 202, 204, 404, 409, 410):
            raise Broken(f"{method} {path} answered {reply.status}: {reply.body[:300]!r}")
        return 0 if reply is None else reply.status
