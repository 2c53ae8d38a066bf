"""What a turn costs as its conversation grows: bytes in the journal and time, turn by turn.

    python -m benchmarks.conversation [turns]

One session, a model that answers 2 kB at once, SQLite on a real disk. The last column is against the first.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from turnbuckle.agent.agent import Agent

QUESTION = "Say " + "word " * 400 + "."
STEPS = (20, 100, 200, 500, 1000, 2000)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal.db*"))


async def measure(turns: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {"model": "rehearsal", "workspace": folder, "data": folder, "config": None, "environment": {}}
        async with Agent(**given) as agent:  # type: ignore[arg-type]
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


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
