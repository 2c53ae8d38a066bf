"""What a campaign knows: what it did, whom it spoke to, and what every reader saw."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from support.http.memory_server import Reply
from support.server.live_server import ApiClient, Frame, Listener

from campaigning.heard import Heard

AWAY = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, AssertionError, OSError, EOFError)
"""What a client sees of a server that dies, hangs or is not there."""
LATER = (429, 503, 507)
"""What a server answers that is up and cannot do it now."""
AGAIN = 0.05
"""Seconds before a client tries again."""


class Broken(Exception):
    """A promise that did not hold."""


@dataclass
class Seen:
    """What one reader of a run has seen, over all its connections."""

    run: str
    frames: list[Frame] = field(default_factory=list)

    @property
    def last(self) -> int:
        return int(self.frames[-1].id) if self.frames else 0

    def take(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.id:
                if int(frame.id) <= self.last:
                    raise Broken(f"a reader of {self.run} got {frame.id} behind {self.last}")
                self.frames.append(frame)


class Breaking:
    """Who breaks something at this moment: any number of those that may do it at the same time, or one
    alone."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._shared = 0
        self._alone = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._shared += 1
        try:
            yield
        finally:
            async with self._changed:
                self._shared -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            await self._changed.wait_for(lambda: not self._shared)
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()


@dataclass
class World:
    """Shared by all actors. `server` is whoever is asked next, and `work` where effects are. Ids are kept in
    the order in which they became known."""

    server: ApiClient
    work: Path
    seed: int
    began: float = field(default_factory=time.monotonic)
    trace: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    runs_of: dict[str, set[str]] = field(default_factory=dict)
    readers: list[Seen] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    over: bool = False
    breaking: Breaking = field(default_factory=Breaking)
    counts: dict[str, int] = field(default_factory=dict)

    def note(self, actor: str, what: str) -> None:
        name = what.split(" ", 1)[0]
        self.counts[name] = self.counts.get(name, 0) + 1
        self.trace.append(f"{time.monotonic() - self.began:8.3f} {actor:<9} {what}")

    def knows(self, run: str, session: str) -> None:
        if run not in self.runs:
            self.runs.append(run)
        self.runs_of.setdefault(session, set()).add(run)
        if session in self.deleted:
            self.deleted.add(run)

    def forget(self, session: str) -> None:
        """It is being deleted: from here on nobody expects anything of it."""
        self.deleted.add(session)
        self.deleted |= self.runs_of.get(session, set())

    async def persist(self, ask: Callable[[], Awaitable[Reply]]) -> Reply | None:
        """Ask until there is an answer that does not say "later". None if the campaign is over before
        that."""
        while not self.over:
            try:
                reply = await ask()
            except AWAY:
                await asyncio.sleep(AGAIN)
                continue
            if reply.status not in LATER:
                return reply
            await asyncio.sleep(AGAIN)
        return None

    async def read_on(self, seen: Seen, patience: float, listener: Listener) -> bool:
        """Take in what comes on a connection, for so long. True if the run has its end."""
        taken = 0
        try:
            async with asyncio.timeout(patience):
                while piece := await listener.client.chunk():
                    listener.body += piece
                    frames = listener.frames
                    seen.take(frames[taken:])
                    taken = len(frames)
        except AWAY as error:
            if isinstance(error, Broken):
                raise
        return bool(seen.frames) and seen.frames[-1].event == "run_ended"


def outcome_of(frames: list[Frame]) -> str:
    return str(frames[-1].json["outcome"]["kind"]) if frames and frames[-1].event == "run_ended" else ""


def facts(frames: list[Frame], kind: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(frame.data) for frame in frames if frame.event == kind]
