"""A conversation of thousands of turns through a small window, and what a long tool run costs.

    python benchmarks/long_conversation.py [--turns 2000] [--window 32000] [--steps 60]

The model is scripted and counts tokens as a provider does; runs, sessions and the SQLite journal are the
real ones. First: the conversation, in tenths, with CPU and bytes for each turn, and a fact of turn 3 that
is asked for near the end. In the middle another process takes over, which knows only the journal. Second:
one run of so many tool calls, with and without compaction. "cached" is what a provider with a prompt
cache could take from the request before: the part of each request that begins as that one did. Money is
by the list prices below, per million tokens.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from turnbuckle.app import folder_size
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.testing.world.compaction_rules import is_for_summary, windowed
from turnbuckle.testing.world.long_talk import ASKS, LongTalk, TalkingModel
from turnbuckle.testing.world.model import Step
from turnbuckle.turn.window import estimate, tokens_of_tools
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.request import ModelRequest

SECRET = "Remember that the harbour password is zephyr-17."
INPUT, CACHED, OUTPUT = 3.0, 0.3, 15.0
"""Dollars for a million tokens: new input, input from the cache, output."""
REPLY = 60


async def talk(turns: int, window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        journal = SqliteJournal(data)
        long = LongTalk(window, 3_000, journal)
        found, compactions, failed = "", 0, 0
        cpu, size = time.process_time(), folder_size(data)
        print(f"{'turns':>12} {'CPU ms/turn':>12} {'bytes/turn':>11} {'tokens/turn':>12} {'compactions':>12}")
        sent, so_far = 0, 0
        for turn in range(1, turns + 1):
            text = f"Tell me of thing number {turn}, please."
            if turn == 3:
                text = SECRET
            elif turn == turns - 10:
                text = f"{ASKS} the harbour password?"
            if turn == turns // 2:
                await long.restart()
            said = await long.say(text)
            found = said.text if turn == turns - 10 else found
            compactions += len(said.compactions)
            failed += said.outcome != "completed"
            if turn % (turns // 10) == 0:
                now, bytes_now, step = time.process_time(), folder_size(data), turns // 10
                print(
                    f"{turn - step + 1:>5}-{turn:<6} {(now - cpu) * 1000 / step:>12.1f} "
                    f"{(bytes_now - size) // step:>11,} {(long.model.sent - sent) // step:>12,} "
                    f"{compactions - so_far:>12}"
                )
                cpu, size, sent, so_far = time.process_time(), bytes_now, long.model.sent, compactions
        await long.close()
        await journal.close()
    print(f"refused requests: {long.model.refused}, turns that failed: {failed}, compactions: {compactions}")
    print(
        f"the fact of turn 3, asked for in turn {turns - 10}: {'found' if 'zephyr-17' in found else 'LOST'}"
    )


class Steps(TalkingModel):
    """A model that makes so many calls and then answers. It compares each request with the one before."""

    def __init__(self, window: int, steps: int) -> None:
        super().__init__(window)
        self.cached = self.replies = 0
        self._left = steps
        self._before: tuple[Message, ...] = ()
        self._brain = windowed(self._answer, window)

    def _answer(self, request: ModelRequest, number: int) -> list[Step]:
        self._left -= 1
        if self._left < 0:
            return [Say("It is done."), Finish()]
        return [Call("look", {"query": f"part {self._left}"}, 0), Finish()]

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        self.replies += 1
        if not is_for_summary(request):
            same = 0
            while same < min(len(self._before), len(request.messages)) and (
                self._before[same] == request.messages[same]
            ):
                same += 1
            if same:
                self.cached += estimate(request.messages[:same]) + tokens_of_tools(request.tools)
            self._before = request.messages
        async for events in super().attempt(route, request, stop):
            yield events


async def tool_run(steps: int, window: int, results: int) -> tuple[Steps, str, int]:
    long = LongTalk(window, results)
    model = Steps(window, steps)
    long.use(model)
    said = await long.say("Look at all of it, part by part.")
    await long.close()
    return model, said.outcome, len(said.compactions)


async def tool_runs(steps: int, window: int) -> None:
    print(f"\none run of {steps} tool calls with results of 6,000 characters")
    print(f"{'':<22} {'tokens sent':>12} {'cached':>8} {'no cache':>9} {'cache':>8}  end")
    for name, size in (("without compaction", 10**9), (f"window of {window:,}", window)):
        model, outcome, made = await tool_run(steps, size, 6_000)
        out = model.replies * REPLY * OUTPUT / 1e6
        plain = model.sent * INPUT / 1e6 + out
        cached = (model.sent - model.cached) * INPUT / 1e6 + model.cached * CACHED / 1e6 + out
        print(
            f"{name:<22} {model.sent:>12,} {model.cached / model.sent:>7.0%} {plain:>8.2f}$ {cached:>7.2f}$  "
            f"{outcome}, {made} compactions"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--steps", type=int, default=60)
    asked = parser.parse_args()
    asyncio.run(talk(asked.turns, asked.window))
    asyncio.run(tool_runs(asked.steps, asked.window))


if __name__ == "__main__":
    main()
