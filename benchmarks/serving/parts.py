"""Our server with a clock at the seams between its parts.

    cd some-folder && python benchmarks/serving/parts.py serve

Functions are wrapped at run time; nothing in the server knows of it. At every moment the CPU time of the
loop's thread belongs to one part: the innermost that is at work. What is in none of them is the loop's own:
polling, reading sockets, stepping tasks. At a SIGUSR1 the totals so far are written to the file that
`PROFILE_TO` names. The clock itself costs, so this tells shares; how much a server costs is asked of one
without.
"""

import asyncio
import contextvars
import functools
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import uvloop

LOOP = "loop"
SEAMS = {
    "read": (
        "aiohttp.client_proto:ResponseHandler.data_received",
        "turnbuckle.call.pool:PoolHandler.data_received",
        "turnbuckle.call.attempt:Attempt._arrived",
        "turnbuckle.call.attempt:Attempt._next",
    ),
    "decode": ("turnbuckle.wire.decoder:ReplyDecoder.feed",),
    "fold": (
        "turnbuckle.reply.free_text:FreeTextCalls.take",
        "turnbuckle.runtime.stream_filter:StreamFilter.take",
        "turnbuckle.runtime.halt:Halt.look",
        "turnbuckle.turn.fold:TurnFold.take",
    ),
    "append": (
        "turnbuckle.runtime.log:RunLog.append",
        "turnbuckle.runtime.log:RunLog.append_soon",
        "turnbuckle.runtime.log:RunLog.append_to_beginning",
        "turnbuckle.runtime.log:RunLog.store_beginning",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.append",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.append_soon",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.claim",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.note",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.release",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.change_all",
    ),
    "commit": (
        "turnbuckle.journal.sqlite.committer:Committer._flush",
        "turnbuckle.journal.sqlite.committer:Committer._hand_over",
        "turnbuckle.journal.sqlite.committer:Committer._store",
    ),
    "wake-up": (
        "turnbuckle.journal.sqlite.committer:Committer._settle",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.read",
        "turnbuckle.journal.sqlite.journal:SqliteJournal.wait",
    ),
    "encode": (
        "turnbuckle.server.faces.chat.renderer:ChatRenderer.take",
        "turnbuckle.server.streaming.first_word:FirstWord.take",
    ),
    "write": (
        "turnbuckle.server.http.cycle:Cycle.send",
        "turnbuckle.server.http.cycle:Cycle.push",
        "turnbuckle.server.http.cycle:Cycle._flush",
    ),
    "serve": (
        "turnbuckle.server.http.connection:HttpConnection.data_received",
        "turnbuckle.server.http.cycle:Cycle.run",
    ),
    "begin": ("turnbuckle.service.runs:RunService.begin",),
    "drive": ("turnbuckle.runtime.driver:Driver.go_on", "turnbuckle.runtime.hearing:Hearing.take"),
    "request": (
        "turnbuckle.runtime.room:RoomKeeper.size",
        "turnbuckle.runtime.sending:Sending.prepared",
        "turnbuckle.call.body_cache:BodyCache.encode",
    ),
    "ask": (
        "turnbuckle.call.attempt:Attempt._begin",
        "turnbuckle.call.transport:UpstreamExchange._answered",
    ),
    "observe": ("turnbuckle.observe.run_observer:RunObserver.__call__",),
    "log line": ("turnbuckle.observe.logs:LineWriter.emit",),
}
"""What belongs to each part, as `module:Class.method`."""
MADE = ("tasks", "futures", "callbacks")


class Parts:
    """Whose time it is, on the loop's thread."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, int] = defaultdict(int)
        self.made = dict.fromkeys(MADE, 0)
        self.thread = threading.get_ident()
        self._inside = [LOOP]
        self._since = time.thread_time_ns()

    def count(self) -> None:
        """What has passed belongs to whoever is innermost."""
        now = time.thread_time_ns()
        self.spent[self._inside[-1]] += now - self._since
        self._since = now

    def enter(self, part: str) -> None:
        self.count()
        self._inside.append(part)

    def leave(self) -> None:
        self.count()
        self._inside.pop()

    def told(self) -> dict[str, float]:
        self.count()
        beside = time.process_time_ns() - time.thread_time_ns()
        return {**self.spent, "other threads": beside, **self.made}


class Steps:
    """A coroutine whose steps are timed, and whose waits are not."""

    def __init__(self, parts: Parts, part: str, work: Coroutine[Any, Any, Any]) -> None:
        self.parts, self.part, self.work = parts, part, work

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            self.parts.enter(self.part)
            try:
                waits_for = self.work.send(None) if error is None else self.work.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self.parts.leave()
            error = None
            try:
                yield waits_for
            except GeneratorExit:
                self.work.close()
                raise
            except BaseException as thrown:
                error = thrown


def timed(parts: Parts, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def step_by_step(*args: Any, **kwargs: Any) -> Any:
            return await Steps(parts, part, function(*args, **kwargs))

        return step_by_step

    @functools.wraps(function)
    def at_once(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != parts.thread:
            return function(*args, **kwargs)
        parts.enter(part)
        try:
            return function(*args, **kwargs)
        finally:
            parts.leave()

    return at_once


def wrap(parts: Parts) -> None:
    for part, places in SEAMS.items():
        for place in places:
            module, _, name = place.partition(":")
            owner, _, method = name.partition(".")
            holder = getattr(importlib.import_module(module), owner)
            setattr(holder, method, timed(parts, part, getattr(holder, method)))


def count_what_is_made(parts: Parts) -> None:
    """Tasks, futures and callbacks of the loop, as far as they are made through it."""
    create_task, create_future = uvloop.Loop.create_task, uvloop.Loop.create_future
    call_soon = uvloop.Loop.call_soon

    def task(self: uvloop.Loop, *args: Any, **kwargs: Any) -> "asyncio.Task[Any]":
        parts.made["tasks"] += 1
        return create_task(self, *args, **kwargs)

    def future(self: uvloop.Loop) -> "asyncio.Future[Any]":
        parts.made["futures"] += 1
        return create_future(self)

    def soon(
        self: uvloop.Loop,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        parts.made["callbacks"] += 1
        return call_soon(self, callback, *args, context=context)

    for name, counted in {"create_task": task, "create_future": future, "call_soon": soon}.items():
        setattr(uvloop.Loop, name, counted)


def main() -> None:
    parts = Parts()
    wrap(parts)
    count_what_is_made(parts)
    target = Path(os.environ["PROFILE_TO"])

    def tell(*_: object) -> None:
        beside = target.with_suffix(".new")
        beside.write_text(json.dumps(parts.told()))
        beside.replace(target)

    signal.signal(signal.SIGUSR1, tell)
    from turnbuckle.cli.main import main as turnbuckle  # noqa: PLC0415 - what it imports is wrapped by now

    turnbuckle(sys.argv[1:])


if __name__ == "__main__":
    main()
