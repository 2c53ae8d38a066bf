"""What one more turn costs by how long its conversation is already.

    python benchmarks/turn_length.py [--turns 20] [--chunks 20] [--rounds 5]

For each length a session is begun with so many messages of 1 kB, and then goes on turn by turn: the whole
way from the service over the SQLite journal to a provider in a process of its own and back. CPU is that of
this process; the best of the rounds counts, which take the lengths in turn. "bytes" is what sending and
reading as much costs a bare HTTP client; "apart" is a turn without that, and "x" is against the shortest
conversation. The turn that opens a session and the first one behind it are not counted: they make legal and
encode all of it, once.
"""

import argparse
import asyncio
import math
import multiprocessing
import tempfile
import time
from pathlib import Path

import aiohttp
import call

from turnbuckle.agent.agent import Agent
from turnbuckle.call.loop import new_loop
from turnbuckle.runtime.runs import NewRun
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart

LENGTHS = (10, 100, 1000, 2000)
WORDS = "word " * 200


def conversation(length: int) -> tuple[Message, ...]:
    roles = ("user", "assistant")
    return tuple(
        Message(roles[place % 2], (TextPart(f"{place} {WORDS}"),))  # type: ignore[arg-type]
        for place in range(length)
    )


async def turns(agent: Agent, session: str, count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        await agent.run("And now?", session=session)
    return (time.process_time() - began) / count * 1000


async def bare(url: str, size: int, count: int) -> float:
    """The same bytes by a client without any logic."""
    body = b'"' + b"x" * size + b'"'
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        began = time.process_time()
        for _ in range(count):
            async with session.post(url + "/chat/completions", data=body) as response:
                await response.read()
        return (time.process_time() - began) / count * 1000


async def measure(url: str, count: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {"base_url": url, "workspace": folder, "data": folder, "config": None, "environment": {}}
        async with Agent("m", **given) as agent:  # type: ignore[arg-type]
            await turns(agent, "warm", 5)
            opening = {length: await opened(agent, length) for length in LENGTHS}
            costs = dict.fromkeys(LENGTHS, math.inf)
            sent = dict(costs)
            for _ in range(rounds):
                for length in LENGTHS:
                    costs[length] = min(costs[length], await turns(agent, f"s{length}", count))
                    sent[length] = min(sent[length], await bare(url, length * len(WORDS), count))
    print(f"{'messages':>9}{'CPU ms/turn':>13}{'bytes':>8}{'apart':>8}{'x':>6}{'opening ms':>12}")
    first = costs[LENGTHS[0]] - sent[LENGTHS[0]]
    for length in LENGTHS:
        apart = costs[length] - sent[length]
        print(
            f"{length:>9}{costs[length]:>13.2f}{sent[length]:>8.2f}{apart:>8.2f}{apart / first:>6.2f}"
            f"{opening[length]:>12.1f}"
        )


async def opened(agent: Agent, length: int) -> float:
    """Begin a session with so many messages; what the first turn behind that costs."""
    assert agent._work is not None
    session = f"s{length}"
    new = NewRun((*conversation(length - 2), task()), SessionId(session))
    handle = await agent._work.runs.begin(new, first=())
    await agent._work.result(handle.run)
    return await turns(agent, session, 1)


def task() -> Message:
    return Message("user", (TextPart("Go on."),))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=20)
    asked = parser.parse_args()
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    provider = multiprocessing.Process(target=call.serve, args=(asked.chunks, port), daemon=True)
    provider.start()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(measure(f"http://127.0.0.1:{port.get()}/burst", asked.turns, asked.rounds))
    provider.terminate()


if __name__ == "__main__":
    main()
