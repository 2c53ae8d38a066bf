"""What a whole turn costs: from the socket to the journal, per round of a long history, and on coming back.

    python benchmarks/turn.py [--chunks 2000] [--rounds 5]

- socket to journal: CPU per chunk of a run that streams one long answer from a provider in a process of its
  own, every event stored in SQLite before it counts. Beside it, in the same rounds: the attempt alone, and
  the official client.
- history: what one more model call costs in a turn of many tool rounds, apart from the network: making the
  history legal and building the request. The bytes that are sent are the measure; the cost may not grow
  faster than they do.
- resume: the time to fold a run of many events again, and to be ready to go on.
"""

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import call
import msgspec

from turnbuckle.app import process_environment
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.health import HealthBook
from turnbuckle.call.loop import new_loop
from turnbuckle.call.models import Models
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.journal.port import Claim, Grade
from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.reply.repair import repair
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.toolbox import Toolbox
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import ToolContext
from turnbuckle.turn.facts import ModelAsked, RunStarted, Streamed, encode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.events import TextDelta
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.registry import PROTOCOLS

HELLO = (Message("user", (TextPart("hello"),)),)


async def claimed(journal: SqliteJournal, run: str) -> Claim:
    claim = await journal.claim(run, "benchmark", 60.0)
    assert isinstance(claim, Claim)
    return claim


async def turn(url: str) -> int:
    """One run over a live route, all of it journalled. Returns the number of items in its journal."""
    route = Route(RouteName("bench"), "openai_chat", url, "m")
    policy = Policy((route.facts,))
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder))
        clock = SystemClock()
        context = ToolContext(workspace=Path(folder), data=Path(folder), clock=clock)
        tools = Toolbox(Dispatcher(Registry(())), context)
        try:
            async with Connections() as connections:
                models = Models([route], connections, clock, HealthBook())
                log = RunLog(journal, await claimed(journal, "r"), TurnFold(policy))
                driver = Driver(log, models, tools, process_environment(clock.sleep))
                outcome = await driver.start(RunStarted(time.time(), RunId("r"), SessionId("s"), HELLO))
                assert outcome.kind == "completed", outcome
                return log.head
        finally:
            await journal.close()


def report_streaming(chunks: int, rounds: int) -> None:
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    server = context.Process(target=call.serve, args=(chunks, port), daemon=True)
    server.start()
    contenders: dict[str, tuple[call.Client, Callable[[], asyncio.AbstractEventLoop]]] = {
        "attempt alone": (call.attempt, new_loop),
        "turn with journal": (turn, new_loop),
        "SDK stream": (call.sdk, asyncio.new_event_loop),
    }
    try:
        base = f"http://127.0.0.1:{port.get(timeout=30)}"
        print(f"socket to journal, {chunks} chunks, best of {rounds} rounds\n")
        print(f"{'':<8}{'contender':<20}{'µs/chunk':>10}{'x attempt':>11}")
        for how in ("burst", "paced"):
            best = dict.fromkeys(contenders, float("inf"))
            for _ in range(rounds):
                for name, (client, loop) in contenders.items():
                    best[name] = min(best[name], call.cost(client, loop, f"{base}/{how}/v1"))
            for name, seconds in best.items():
                print(
                    f"{how:<8}{name:<20}{seconds / chunks * 1e6:>9.1f}{seconds / best['attempt alone']:>8.1f}"
                )
            print()
    finally:
        server.terminate()
        server.join()


def long_history(rounds: int) -> tuple[Message, ...]:
    """A turn of so many tool rounds."""
    messages = [Message("system", (TextPart("You are an agent."),)), *HELLO]
    for at in range(rounds):
        name = f"call_{at}"
        asked = CallPart(name, "read_file", f'{{"path":"notes/{at}.md","lines":40}}')
        messages.append(Message("assistant", (TextPart(f"Now file {at}."), asked)))
        messages.append(Message("tool", (ResultPart(name, (TextPart("a line of text\n" * 40),)),)))
    return tuple(messages)


def one_more_call(protocol: ProtocolName, history: tuple[Message, ...]) -> int:
    """All that a new model call costs apart from the network. Returns how many bytes are sent."""
    wire = PROTOCOLS[protocol]
    legal = repair(history, wire.rules, model="m", to_ask=True).messages
    body = wire.build(ModelRequest("m", legal), Quirks())
    return len(msgspec.json.encode(body))


def report_history(rounds: int) -> None:
    print("one more model call in a long turn\n")
    print(f"{'protocol':<18}{'50 rounds':>12}{'200 rounds':>12}{'growth':>9}{'growth of bytes':>17}")
    for protocol in PROTOCOL_NAMES:
        spent, sizes = [], []
        for length in (50, 200):
            history = long_history(length)
            best = float("inf")
            for _ in range(rounds):
                started = time.process_time()
                size = one_more_call(protocol, history)
                best = min(best, time.process_time() - started)
            spent.append(best * 1e3)
            sizes.append(size)
        grown, bytes_grown = spent[1] / spent[0], sizes[1] / sizes[0]
        print(f"{protocol:<18}{spent[0]:>9.1f} ms{spent[1]:>9.1f} ms{grown:>9.2f}{bytes_grown:>17.2f}")
    print()


async def resume(events: int, folder: Path) -> tuple[float, float]:
    """Seconds to read the bare items, and seconds to fold them to a turn."""
    policy = Policy((Route(RouteName("bench"), "openai_chat", "http://lab/v1", "m").facts,))
    journal = SqliteJournal(folder)
    claim = await claimed(journal, "r")
    asked = ModelAsked(0.0, 1, RouteName("bench"), "openai_chat", "m", "first")
    head = await journal.append(
        "r",
        [encode(RunStarted(0.0, RunId("r"), SessionId("s"), HELLO)), encode(asked)],
        after=claim.head,
        epoch=claim.epoch,
        grade=Grade.SYNCED,
    )
    for start in range(0, events, 500):
        burst = [
            encode(Streamed(float(at), 1, (TextDelta(0, f"word {at} "),))) for at in range(start, start + 500)
        ]
        head = await journal.append("r", burst, after=head, epoch=claim.epoch, grade=Grade.FLUSHED)
    started = time.perf_counter()
    after = 0
    while items := await journal.read("r", after):
        after = items[-1].seq
    bare = time.perf_counter() - started
    started = time.perf_counter()
    log = RunLog(journal, claim, TurnFold(policy))
    await log.load()
    folded = time.perf_counter() - started
    await journal.close()
    return bare, folded


def report_resume(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bare, folded = asyncio.run(resume(events, Path(folder)))
    print(
        f"resume of a run of {events:,} events: {folded * 1e3:.0f} ms, {folded / bare:.1f} x a bare read "
        "of them\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    report_streaming(asked.chunks, asked.rounds)
    report_history(asked.rounds)
    report_resume(100_000)


if __name__ == "__main__":
    main()
