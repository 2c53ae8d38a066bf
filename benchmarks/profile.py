"""Where the CPU time of a beginning and of a lone chunk goes, part by part, beside an ASGI proxy without
logic.

    python benchmarks/profile.py [--rounds 3] [--litellm]

A lone chunk: 20 streams, one chunk each 20 ms, so that every read brings one frame. A beginning: a turn of 5
chunks that come at once, 20 such turns at a time; it holds the end of the turn, too. The provider, the load
and each server have a process of their own, and the servers take turns. Totals are of servers that nobody
watches; the shares of parts are of one with a clock at its seams (`serving/parts.py`). `floor` is the least
program that stores every word before it shows it (`peers/floor.py`). What the beginnings
of the paced streams cost is taken off before their chunks are counted. With `--litellm` its proxy takes part,
if `make bench-server` has installed it.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from serving import servers
from serving.contender import HERE, MODEL, Contender, told_by
from serving.parts import LOOP, MADE, SEAMS
from serving.processes import cpu_seconds
from serving.script import Script
from serving.servers import RECIPES, Provider, Recipe, Server, Start

TURN, CROWDS = Script(5), 8
PACED, STREAMS = Script(150, 20), 20
WATCHED = "watched"
PATIENCE = 10.0
TOTALS = "proxy", "floor", "turnbuckle"
PEER = "litellm"
PARTS = *SEAMS, LOOP, "other threads"
Numbers = dict[str, float]


def watched(python: Path, folder: Path, port: int, provider: int) -> Start:
    """Ours, with a clock at its seams."""
    servers.turnbuckle(python, folder, port, provider)
    command = [str(python), str(HERE / "serving" / "parts.py"), "serve"]
    return Start(command, {"PROFILE_TO": str(folder / "parts.json")})


class NoAnswer(Exception):
    """The watched server says nothing, or streams were not whole."""


def parts_of(server: Server, folder: Path) -> Numbers:
    """The totals of all parts so far, in microseconds, and how many things were made."""
    target = folder / WATCHED / "parts.json"
    target.unlink(missing_ok=True)
    os.kill(server.process.pid, signal.SIGUSR1)
    until = time.monotonic() + PATIENCE
    while not target.exists():
        if time.monotonic() > until:
            raise NoAnswer(server.last_words())
        time.sleep(0.01)
    found: Numbers = json.loads(target.read_text())
    return {name: found.get(name, 0) / (1 if name in MADE else 1e3) for name in (*PARTS, *MADE)}


def spent(server: Server, folder: Path) -> Numbers:
    if server.name == WATCHED:
        return parts_of(server, folder)
    return {server.name: cpu_seconds(server.process.pid) * 1e6}


def measured(server: Server, folder: Path, script: Script, crowds: int) -> Numbers:
    """What these streams cost, all together."""
    contender = Contender(server.name, server.port, MODEL, server.process.pid)
    before = spent(server, folder)
    for _ in range(crowds):
        told = told_by(contender, script, mode="crowd", streams=STREAMS)
        if told["whole"] != STREAMS:
            raise NoAnswer(f"{server.name}: {STREAMS - told['whole']} of {STREAMS} streams failed")
    after = spent(server, folder)
    return {name: after[name] - before[name] for name in after}


def one_round(server: Server, folder: Path) -> tuple[Numbers, Numbers]:
    """By name, for one beginning and for one lone chunk."""
    turns = measured(server, folder, TURN, CROWDS)
    begun = {name: value / (CROWDS * STREAMS) for name, value in turns.items()}
    paced = measured(server, folder, PACED, 1)
    chunks = STREAMS * (PACED.chunks - TURN.chunks)
    return begun, {name: (value - STREAMS * begun[name]) / chunks for name, value in paced.items()}


def show(begun: Numbers, chunk: Numbers) -> None:
    print(f"{'':<16}{'a lone chunk':>24}{'a beginning':>24}")
    for name in (*TOTALS, PEER):
        if name in begun:
            print(f"{name:<16}{chunk[name]:>21,.0f} µs{begun[name]:>21,.0f} µs")
    if PEER in begun:
        shares = [values["turnbuckle"] / values[PEER] for values in (chunk, begun)]
        print(f"{f'x {PEER}':<16}{shares[0]:>24.3f}{shares[1]:>24.3f}")
    ratios = [values["turnbuckle"] / values["proxy"] for values in (chunk, begun)]
    print(f"{'x the proxy':<16}{ratios[0]:>24.2f}{ratios[1]:>24.2f}\n")
    wholes = [sum(values[part] for part in PARTS) for values in (chunk, begun)]
    for part in PARTS:
        shares = [values[part] / whole for values, whole in zip((chunk, begun), wholes, strict=True)]
        cells = [
            f"{share:>12.1%}{share * ratio:>10.2f} x" for share, ratio in zip(shares, ratios, strict=True)
        ]
        print(f"{part:<16}{''.join(cells)}")
    print()
    for made in MADE:
        print(f"{made:<16}{chunk[made]:>24.2f}{begun[made]:>24.1f}")


def medians(rounds: list[Numbers]) -> Numbers:
    return {name: statistics.median([one[name] for one in rounds]) for name in rounds[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--litellm", action="store_true", help="with its proxy beside ours")
    asked = parser.parse_args()
    rounds: int = asked.rounds
    others = [WATCHED, PEER] if asked.litellm else [WATCHED]
    RECIPES[WATCHED] = Recipe(RECIPES["turnbuckle"].python, watched)
    taken: dict[str, tuple[list[Numbers], list[Numbers]]] = defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder, running = Path(name), list[Server]()
        provider = Provider()
        try:
            for each in (*TOTALS, *others):
                running.append(Server(each, folder / each, provider.port))
                measured(running[-1], folder, TURN, 2)  # what comes only once
            for _ in range(rounds):
                for server in running:
                    for values, found in zip(taken[server.name], one_round(server, folder), strict=True):
                        values.append(found)
        finally:
            for server in running:
                server.stop()
            provider.stop()
    begun, chunk = (
        {name: value for both in taken.values() for name, value in medians(both[at]).items()} for at in (0, 1)
    )
    print(f"medians of {rounds} rounds on {os.cpu_count()} cores\n")
    show(begun, chunk)


if __name__ == "__main__":
    main()
