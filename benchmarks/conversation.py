"""What a turn costs as its conversation grows, and what the whole of it costs: bytes in the journal and time.

    python -m benchmarks.conversation [turns]

Two sessions, one of 20 turns and one of many; a model that answers 2 kB at once; SQLite on a real disk. The
last columns are against the first turns, and against the short session.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from turnbuckle.agent.agent import Agent
from turnbuckle.service.sessions import SessionService

QUESTION = "Say " + "word " * 400 + "."
STEPS = (20, 100, 200, 500, 1000, 2000)
SHORT = 20
PAGE = 20


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal.db*"))


async def measure(turns: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {"model": "rehearsal", "workspace": folder, "data": folder, "config": None, "environment": {}}
        async with Agent(**given) as agent:  # type: ignore[arg-type]
            for _ in range(SHORT):
                await agent.run(QUESTION, session="short")
            print(f"{'turn':>6}{'CPU ms/turn':>13}{'kB/turn':>10}{'x':>6}")
            last, first = 0, 0.0
            for step in (step for step in STEPS if step <= turns):
                before, began = size(folder), time.process_time()
                for _ in range(last, step):
                    await agent.run(QUESTION, session="long")
                spent = (time.process_time() - began) / (step - last)
                first = first or spent
                grown = (size(folder) - before) / (step - last) / 1000
                print(f"{step:>6}{spent * 1000:>13.1f}{grown:>10.1f}{spent / first:>6.1f}", flush=True)
                last = step
            began = time.process_time()
        async with Agent(**given) as agent:  # type: ignore[arg-type]
            await agent.run(QUESTION, session="long")
            print(f"opened again, with one more turn: {time.process_time() - began:.2f} s of CPU")
            assert agent._work is not None
            await measure_whole(agent._work.sessions, last + 1)


async def spent_on(work: Callable[[], Awaitable[Any]], times: int = 1) -> float:
    began = time.process_time()
    for _ in range(times):
        await work()
    return 1000 * (time.process_time() - began) / times


async def measure_whole(sessions: SessionService, turns: int) -> None:
    """Each thing once for the short session and once for the long one."""

    async def costs(name: str) -> dict[str, float]:
        row = await sessions.row(name)

        async def exported() -> None:
            async for _ in sessions.export(row, None, 0.0):
                pass

        made = {
            f"last page of {PAGE}": await spent_on(
                lambda: sessions.messages(row, None, PAGE, newest_first=True), 20
            ),
            f"first page of {PAGE}": await spent_on(
                lambda: sessions.messages(row, None, PAGE, newest_first=False), 20
            ),
            "its line in a list": await spent_on(lambda: sessions.line(row, None), 20),
            "a fork": await spent_on(lambda: sessions.fork(row, None, f"{name}-fork")),
        }
        fork = await sessions.row(f"{name}-fork")
        made["last page of the fork"] = await spent_on(
            lambda: sessions.messages(fork, None, PAGE, newest_first=True), 20
        )
        made["an export, per turn"] = await spent_on(exported) / (turns if name == "long" else SHORT)
        made["a delete, per turn"] = await spent_on(lambda: sessions.delete(row)) / (
            turns if name == "long" else SHORT
        )
        return made

    short, many = await costs("short"), await costs("long")
    print(f"{'CPU ms':>24}{SHORT:>10}{turns:>10}{'x':>6}")
    for what, few in short.items():
        print(f"{what:>24}{few:>10.2f}{many[what]:>10.2f}{many[what] / few:>6.1f}")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
