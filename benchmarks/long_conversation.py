"""A conversation of thousands of turns through a small window, and what a long tool run costs.

    python benchmarks/long_conversation.py [--turns 2000] [--window 32000] [--steps 60]

The model is scripted and counts tokens as a provider does; runs, sessions and the SQLite journal are the
real ones. First: the conversation, in tenths, with CPU and bytes for each turn, and a fact of turn 3 that
is asked for near the end. In the middle another process takes over, which knows only the journal. Second:
one run of so many tool calls over HTTP, with and without compaction, in front of a provider with a prompt
cache. What it has found there, and what it has kept, is its own count (`lab/prompt_cache.py`); money is what
the run says, by the list prices below, per million tokens.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from turnbuckle import Agent, Result, tool
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.lab.prompt_cache import PromptCache
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Call, Case, Finish, LabRequest, Say, ScriptItem
from turnbuckle.testing.world.long_talk import ASKS, LongTalk
from turnbuckle.upkeep import folder_size

SECRET = "Remember that the harbour password is zephyr-17."
INPUT, CACHED, WRITTEN, OUTPUT = 3.0, 0.3, 3.75, 15.0
"""Dollars for a million tokens: new input, input from the cache, input that goes to it, output."""
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


class Steps:
    """A model that makes so many calls and then answers, behind a provider with a prompt cache."""

    def __init__(self, steps: int) -> None:
        self._cache = PromptCache()
        self._left = steps

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        usage = self._cache.usage(request, output=REPLY)
        if is_summary(request):
            return (Say("The task: look at all of it, part by part."), Finish(usage=usage))
        self._left -= 1
        if self._left < 0:
            return (Say("It is done."), Finish(usage=usage))
        return (Call("look", {"query": f"part {self._left}"}, 0), Finish("calls", usage=usage))


def is_summary(request: LabRequest) -> bool:
    """Only a request for a summary offers no tools."""
    return not request.body.get("tools")


@tool(effect="read")
def look(query: str) -> str:
    """Look at a part."""
    return f"{query}: " + "some words of what stands there; " * 200


async def tool_run(protocol: str, steps: int, window: int) -> Result:
    async with Provider(Case("steps", "so many calls", ((Steps(steps),),))) as lab:
        route = {
            "name": "lab",
            "protocol": protocol,
            "base_url": f"{lab.url}/v1beta" if protocol == "gemini" else f"{lab.url}/v1",
            "api_key": "any",
            "model": "m",
            "context_window": window,
            "price": {"input": INPUT, "cached": CACHED, "cache_written": WRITTEN, "output": OUTPUT},
        }
        settings = {"routes": [route], "turn.max_calls": 500}
        async with Agent(config=None, data=":memory:", tools=[look], enable=[], settings=settings) as agent:
            return await agent.run("Look at all of it, part by part.")


async def tool_runs(steps: int, window: int) -> None:
    print(f"\none run of {steps} tool calls with results of 6,600 characters, as the provider counted it")
    print(f"{'':<38} {'tokens sent':>12} {'cached':>7} {'written':>8} {'no cache':>9} {'cache':>8}  end")
    for protocol in ("openai_responses", "anthropic"):
        for name, size in (("without compaction", 10**7), (f"window of {window:,}", window)):
            result = await tool_run(protocol, steps, size)
            usage = result.usage
            plain = (usage.input * INPUT + usage.output * OUTPUT) / 1e6
            print(
                f"{protocol + ', ' + name:<38} {usage.input:>12,} {usage.cached / usage.input:>6.0%} "
                f"{usage.cache_written / usage.input:>7.0%} {plain:>8.2f}$ {result.cost or 0:>7.2f}$  "
                f"{result.outcome}, {result.context.compactions} compactions"
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
