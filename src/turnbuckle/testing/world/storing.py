"""A process whose store fails once, at any of its operations and by any kind of error, and what must come of
it.

One session with two messages and a run without a session are under way. Whoever was not told that something
was taken sends it again, as a client with a key of its own does; whoever read a run and was let go of reads
on from its cursor. The process does not die and is not started again: it must come to rest by itself.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from turnbuckle.errors import RunHeld, SessionBusy
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import (
    Append,
    Changes,
    Closed,
    Conflict,
    Damaged,
    Fenced,
    FolderGone,
    Grade,
    JournalError,
    Landed,
    StorageError,
    StorageFailed,
    StorageFull,
    StreamQuery,
)
from turnbuckle.journal.tail import items_of, tail
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, NewRun
from turnbuckle.runtime.session_messages import IncomingMessage
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.testing.world.sessions import Plot, SessionWorld, message
from turnbuckle.turn.facts import RunEnded, Streamed, decode
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome

SOLO, FIRST, SECOND, NEXT = RunId("solo"), RunId("r-first"), RunId("r-second"), RunId("r-next")
LONG_ENOUGH = 600.0
"""Seconds in which everything must have come to its end. Most of it is a claim that could not be given
back."""
_AGAIN = 1.0
_MOST_TRIES = 60
Side = Literal["before", "after"]

KINDS: dict[str, Callable[[], Exception]] = {
    "full": lambda: StorageFull("no room"),
    "failed": lambda: StorageFailed("disk I/O error"),
    "gone": lambda: FolderGone("the folder is gone"),
    "damaged": lambda: Damaged("a stream", 3, "the checksum does not fit"),
    "closed": lambda: Closed("the journal is closed"),
    "fenced": lambda: Fenced("a stream", 0, 1),
    "conflict": lambda: Conflict("a stream", 1, 2),
    "timeout": lambda: TimeoutError("it does not answer"),
    "unexpected": lambda: RuntimeError("nobody expects this"),
}


class Misfortune(Struct, frozen=True):
    """The operation with this number fails by this kind of error, with its work done or not. `times`
    operations behind each other fail."""

    kind: str
    at: int
    side: Side = "before"
    times: int = 1


class FailingJournal(MemoryJournal):
    """Counts its operations once it is armed."""

    def __init__(self, clock: VirtualClock, wall: Callable[[], float]) -> None:
        super().__init__(monotonic=clock.now, wall=wall)
        self.count = 0
        self.failed: list[str] = []
        self.misfortune: Misfortune | None = None

    async def _do(self, name: str, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        struck = self._strike(name)
        if struck is not None and (struck.side == "before" or name == "wait"):
            raise KINDS[struck.kind]()
        result = await work(*args, **named)
        if struck is not None:
            raise KINDS[struck.kind]()
        return result

    def _strike(self, name: str) -> Misfortune | None:
        """Count an operation. What it fails by, if it does."""
        wanted = self.misfortune
        number, self.count = self.count, self.count + 1
        if wanted is None or not wanted.at <= number < wanted.at + wanted.times:
            return None
        self.failed.append(name)
        return wanted

    async def read(self, *args: Any, **named: Any) -> Any:
        return await self._do("read", super().read, *args, **named)

    async def streams(self, *args: Any, **named: Any) -> Any:
        return await self._do("streams", super().streams, *args, **named)

    async def append(self, *args: Any, **named: Any) -> Any:
        return await self._do("append", super().append, *args, **named)

    def append_soon(self, stream: str, item: bytes, *, after: int, epoch: int, landed: Landed) -> bool:
        wanted = [Append(stream, (item,), after, epoch)]
        try:
            self._check_open()
            self._check_appends(wanted)
        except JournalError:
            return False
        asyncio.get_running_loop().call_soon(self._land, wanted, landed)
        return True

    def _land(self, wanted: list[Append], landed: Landed) -> None:
        (one,), struck = wanted, self._strike("append_soon")
        error: StorageError | None = None
        if struck is not None:
            why = KINDS[struck.kind]()
            error = why if isinstance(why, StorageError) else StorageFailed(str(why))
        head = one.after
        if struck is None or struck.side == "after":
            try:
                self._check_appends(wanted)  # it may have been taken over meanwhile
                head = self._append(one.stream, one.items, one.epoch, Grade.FLUSHED, None)
            except JournalError as refusal:
                error = StorageFailed(str(refusal))
        landed(head, error)

    async def claim(self, *args: Any, **named: Any) -> Any:
        return await self._do("claim", super().claim, *args, **named)

    async def renew(self, *args: Any, **named: Any) -> Any:
        return await self._do("renew", super().renew, *args, **named)

    async def release(self, *args: Any, **named: Any) -> Any:
        return await self._do("release", super().release, *args, **named)

    async def note(self, *args: Any, **named: Any) -> Any:
        return await self._do("note", super().note, *args, **named)

    async def change_all(self, changes: Changes) -> Any:
        return await self._do("change_all", super().change_all, changes)

    async def wait(self, *args: Any, **named: Any) -> Any:
        return await self._do("wait", super().wait, *args, **named)


class StoringResult(Struct, frozen=True):
    """What became of it. `ends` is what the reader of each run saw, by run; `operations` how many there
    were."""

    misfortune: Misfortune | None
    ends: dict[str, Outcome]
    unfinished: tuple[str, ...]
    done: dict[str, int]
    failed: tuple[str, ...]
    operations: int
    lost: tuple[str, ...]
    """Readers and senders that gave up."""
    doubled: tuple[str, ...] = ()
    """Runs in which the same burst stands twice."""


class StorageWorld:
    """One world. `play` once, on the loop of its clock."""

    def __init__(self, clock: VirtualClock, misfortune: Misfortune | None = None) -> None:
        self._clock = clock
        self._world = SessionWorld(Plot(()), clock)
        moments = itertools.count(1)
        self._journal = FailingJournal(clock, lambda: clock.now() + next(moments) * 1e-6)
        self._world.journal = self._journal
        self._misfortune = misfortune
        self._ends: dict[str, Outcome] = {}
        self._lost: list[str] = []

    async def play(self) -> StoringResult:
        await self._world.start()
        self._journal.count, self._journal.misfortune = 0, self._misfortune
        people = [
            self._talk(FIRST, "tool first"),
            self._talk(SECOND, "second"),
            self._solo(),
        ]
        await self._all(people)
        operations = self._journal.count
        self._journal.misfortune = None
        await self._all([self._talk(NEXT, "next")])
        unfinished = await self._journal.streams(StreamQuery(kind=RUN, status=RUNNING))
        done = Counter(one.key for one in self._world.effects())
        await self._world.end()
        return StoringResult(
            self._misfortune,
            self._ends,
            tuple(row.name for row in unfinished),
            dict(done),
            tuple(self._journal.failed),
            operations,
            tuple(self._lost),
            tuple([run for run in (SOLO, FIRST, SECOND, NEXT) if await self._is_doubled(run)]),
        )

    async def _is_doubled(self, run: RunId) -> bool:
        facts = [decode(item.data) for item in await items_of(self._journal, run)]
        bursts = Counter((fact.attempt, fact.events) for fact in facts if isinstance(fact, Streamed))
        return any(count > 1 for count in bursts.values())

    async def _all(self, works: Sequence[Any]) -> None:
        tasks = [asyncio.ensure_future(work) for work in works]
        clock = asyncio.ensure_future(self._clock.sleep(LONG_ENOUGH))
        while not clock.done() and not all(task.done() for task in tasks):
            waits = [clock, *(task for task in tasks if not task.done())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in (clock, *tasks):
            task.cancel()
        await asyncio.gather(clock, *tasks, return_exceptions=True)

    async def _talk(self, run: RunId, text: str) -> None:
        """Say something until somebody says that it was taken, then read its run to the end."""
        said = IncomingMessage((message(text),), "queue", run=run)
        for _ in range(_MOST_TRIES):
            try:
                taken = await self._world.in_worker(lambda worker: worker.say(said))
            except (JournalError, SessionBusy, RunHeld, OSError, RuntimeError):
                await self._clock.sleep(_AGAIN)
                continue
            await self._follow(taken.run)
            return
        self._lost.append(f"{run} was never taken")

    async def _solo(self) -> None:
        world = self._world
        new = NewRun((message("tool solo"),), run=SOLO, user="local")
        for _ in range(_MOST_TRIES):
            try:
                if await self._journal.head(SOLO):
                    await world.service.go_on(SOLO)
                else:
                    world.service.watch.began(await world.runs.begin(new), new.user)
            except (JournalError, RunHeld, OSError, RuntimeError):
                await self._clock.sleep(_AGAIN)
                continue
            await self._follow(SOLO)
            return
        self._lost.append(f"{SOLO} was never taken")

    async def _follow(self, run: RunId) -> None:
        """Read a run to its end, as a client that comes back does."""
        after = 0
        for _ in range(_MOST_TRIES):
            try:
                async for items in tail(self._journal, run, after):
                    after = items[-1].seq
                    last = decode(items[-1].data)
                    if isinstance(last, RunEnded):
                        self._ends[run] = last.outcome
                        return
            except (JournalError, OSError, RuntimeError):
                await self._clock.sleep(_AGAIN)
        self._lost.append(f"a reader of {run} gave up")


def check_storage(told: StoringResult) -> Iterator[str]:
    """What must hold, whatever failed."""
    for run in (SOLO, FIRST, SECOND, NEXT):
        if run not in told.ends:
            yield f"the reader of {run} got no end"
    yield from (f"{run} has no end" for run in told.unfinished)
    yield from (f"{key} was done {count} times" for key, count in told.done.items() if count > 1)
    yield from told.lost
    yield from (f"a burst of {run} is stored twice" for run in told.doubled)
    if (end := told.ends.get(NEXT)) is not None and end.kind != "completed":
        yield f"the next message ended as {end.kind}: {end.why}"
    yield from (
        f"{run} ended as {end.kind} without a word" for run, end in told.ends.items() if _is_mute(end)
    )


def _is_mute(end: Outcome) -> bool:
    return end.kind != "completed" and not end.why


def play(misfortune: Misfortune | None = None) -> StoringResult:
    """One world, on a loop of its own."""
    clock = VirtualClock()
    return clock.run(lambda: StorageWorld(clock, misfortune).play(), quiet=0)
