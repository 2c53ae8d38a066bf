"""Following a run by its journal: what is shown is what is stored, and nothing else.

Writing to a terminal or a pipe can block for as long as nobody reads. So it happens in one thread of its own,
in order, and the run goes on meanwhile.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from turnbuckle.cli.pieces import Line, Piece, PieceRenderer
from turnbuckle.cli.screen import Screen
from turnbuckle.cli.waiting import words as waiting_words
from turnbuckle.journal.port import Item, Reader
from turnbuckle.journal.tail import read_all, tail
from turnbuckle.server.faces.events import event_line
from turnbuckle.turn.facts import RunEnded, decode
from turnbuckle.turn.ledger import Ledger, Waste, total
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import money_text

TICK = 0.5
STATUS_AFTER = 1.5
"""Seconds of silence before a terminal shows what is waited for."""
PIPE_EVERY = 30.0
"""The same for a pipe, which gets a line each time."""


class Follower:
    """Shows one run from a cursor to its end."""

    def __init__(
        self, journal: Reader, run: str, screen: Screen, *, reasoning: bool = False, as_json: bool = False
    ):
        self.outcome: Outcome | None = None
        self._journal = journal
        self._run = run
        self._screen = screen
        self._as_json = as_json
        self._renderer = PieceRenderer(reasoning)
        self._waiting = self._renderer.narration.waiting
        self._ledger = Ledger()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="screen")
        self._told_at = 0.0

    async def follow(self, after: int = 0) -> None:
        """Show everything behind the cursor and what comes, to the end of the run."""
        ticking = asyncio.create_task(self._tick())
        try:
            async for items in tail(self._journal, self._run, after):
                await self._take(items)
                if self.outcome is not None:
                    return
        finally:
            ticking.cancel()
            await asyncio.wait({ticking})
            await self._write(self._screen.clear_status)

    async def catch_up(self) -> None:
        """Show what is stored at this moment."""
        async for items in read_all(self._journal, self._run):
            await self._take(items)

    async def skip(self, after: int, to: int) -> None:
        """Take in what was shown before, without showing it again."""
        while after < to and (items := await self._journal.read(self._run, after)):
            for item in items:
                fact = decode(item.data)
                self._renderer.take(fact)
                self._ledger.take(fact)
            after = items[-1].seq

    def close(self) -> None:
        self._writer.shutdown(wait=False)

    @property
    def wastes(self) -> tuple[Waste, ...]:
        return self._ledger.entries

    async def say(self, pieces: list[Piece]) -> None:
        """Show something that is not a fact of the run."""
        if not self._as_json:
            await self._write(lambda: self._screen.show(pieces))

    async def _take(self, items: list[Item]) -> None:
        pieces: list[Piece] = []
        for item in items:
            fact = decode(item.data)
            self._ledger.take(fact)
            if isinstance(fact, RunEnded):
                self.outcome = fact.outcome
            pieces.extend(self._renderer.take(fact))
        if self._as_json:
            lines = b"".join(map(event_line, items)).decode()
            if self.outcome is not None:
                ledger = {"type": "ledger", "entries": self.wastes, "total": total(self.wastes)}
                lines += msgspec.json.encode(ledger).decode() + "\n"
            await self._write(lambda: self._screen.raw(lines))
        elif pieces:
            await self._write(lambda: self._screen.show(pieces))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            now = time.time()
            silent = now - self._waiting.since
            words = waiting_words(self._waiting, now)
            if not words or self._as_json:
                continue
            if self._screen.live and silent >= STATUS_AFTER:
                await self._write(lambda words=words: self._screen.status(words))  # type: ignore[misc]
            elif not self._screen.live and silent >= PIPE_EVERY and now - self._told_at >= PIPE_EVERY:
                self._told_at = now
                await self.say([Line(words)])

    async def _write(self, write: Callable[[], Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writer, write)


def waste_lines(wastes: tuple[Waste, ...]) -> list[Piece]:
    """The ledger in two lines at most; nothing if nothing was lost."""
    if not wastes:
        return []
    all_of_it = total(wastes)
    causes = ", ".join(f"{waste.cause} ×{waste.times}" for waste in wastes)
    tokens = all_of_it.input_tokens + all_of_it.output_tokens
    known = all_of_it.money is not None
    parts = (
        (f"{all_of_it.characters:,} characters", all_of_it.characters),
        (f"about {tokens:,} tokens", tokens),
        (money_text(all_of_it.money, unpriced=0 if known else 1), known or tokens),
    )
    words = ", ".join((f"{all_of_it.seconds:.1f} s", *(words for words, count in parts if count)))
    return [Line(f"wasted: {words} ({causes})")]
