"""What a server between client and provider costs: ours beside its peers, in one run.

    make bench-server [ARGS="--rounds 3 --only direct,turnbuckle,litellm --measure burst,paced"]

One provider and one load, each in a process of its own. All servers run at once; one is asked at a time, and
they take turns in every round, so that a noisy machine troubles them alike. Medians of the rounds. CPU is
what the server's process and its children used, of all threads; it is told for each chunk that the provider
sent.

- direct: the load asks the provider itself; its CPU is the provider's own. splice: bytes from socket to
  socket, unread. proxy: an ASGI proxy without any logic. floor: the least that stores before it shows.
- turnbuckle: a route by its name, journal on, every event stored before it is shown. turnbuckle agent: the
  same with our own tools offered to the model.
- naive: FastAPI and the official package. litellm: its proxy. hermes: the API server of hermes-agent.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from serving import measures, tables
from serving.contender import MODEL, Contender
from serving.measures import Broken, Measure, Numbers
from serving.servers import RECIPES, NotRunning, Provider, Server, version, why_not

OFTEN: dict[str, Measure] = {
    "first": measures.first_text,
    "burst": measures.burst,
    "paced": measures.paced,
}
CROWDS: dict[str, Measure] = {"50": measures.crowd(50), "200": measures.crowd(200)}
ONCE: dict[str, Measure] = {
    "chat": measures.held_chats,
    "events": measures.held_events,
    "unread": measures.unread,
}
NAMES = (*OFTEN, *CROWDS, *ONCE, "start")
SLOW = {"hermes": {"50", "200"}}  # takes minutes, so once is enough
LEFT_OUT = {
    "splice": {"events"},
    "proxy": {"events"},
    "floor": {"events", "unread"},  # it keeps whatever its client does not read
    "naive": {"events"},
    "litellm": {"events"},
    "hermes": {"events", "chat"},  # it holds a thread for each stream, and has only a few
}


class Run:
    """The whole benchmark: who takes part, and what was measured."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.folder = folder
        self.wanted: set[str] = set(asked.only.split(",")) if asked.only else {"direct", *RECIPES}
        self.measures: set[str] = set(asked.measure.split(",")) if asked.measure else set(NAMES)
        self.rounds: int = asked.rounds
        self.few: int = min(asked.rounds, asked.few)
        self.provider = Provider()
        self.servers: list[Server] = []
        self.contenders: list[Contender] = []
        self.taken: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def begin(self) -> None:
        """Starts everybody, and proves that the whole text comes through."""
        port = self.provider.port
        if "direct" in self.wanted:
            self.contenders.append(Contender("direct", port, MODEL, self.provider.process.pid))
        for name in RECIPES:
            if name not in self.wanted:
                continue
            try:
                if why := why_not(name):
                    raise NotRunning(why)
                server = Server(name, self.folder / name, port)
            except NotRunning as why_left:
                print(f"without {name}: {why_left}")
                continue
            self.servers.append(server)
            print(f"{name} {version(name)}".rstrip())
            self.contenders.append(Contender(name, server.port, MODEL, server.process.pid))
            if name == "turnbuckle":
                self.contenders.append(
                    Contender("turnbuckle agent", server.port, "agent", server.process.pid)
                )
        for contender in list(self.contenders):
            try:
                measures.proof(contender)
            except Broken as broken:
                print(f"without {contender.name}: {broken}")
                self.contenders.remove(contender)

    def note(self, contender: Contender, numbers: Numbers) -> None:
        for name, value in numbers.items():
            self.taken[contender.name][name].append(value)

    def take_turns(self, measures_now: dict[str, Measure], rounds: int) -> None:
        for number in range(rounds):
            for name, measure in measures_now.items():
                if name not in self.measures:
                    continue
                print(f"round {number + 1}: {name}", flush=True)
                for contender in self.contenders:
                    if not (number and name in SLOW.get(contender.name, ())):
                        self.try_one(name, measure, contender)

    def try_one(self, name: str, measure: Measure, contender: Contender) -> None:
        try:
            self.note(contender, measure(contender))
        except Broken as broken:
            print(f"{contender.name}, {name}: {broken}", flush=True)

    def start_again(self) -> None:
        """What wants a server that has done nothing yet: the start itself, and how memory grows."""
        wanted = [name for name in ONCE if name in self.measures]
        if "start" in self.measures:
            wanted += ["start"] * (self.few - len(wanted))
        for number, name in enumerate(wanted):
            print(f"from the start: {name}", flush=True)
            for running in self.servers:
                if name in LEFT_OUT.get(running.name, ()):
                    continue
                server = Server(running.name, self.folder / f"{running.name}-{number}", self.provider.port)
                contender = Contender(running.name, server.port, MODEL, server.process.pid)
                try:
                    self.note(contender, {"start": server.seconds, **measures.idle(contender)})
                    if name in ONCE:
                        self.try_one(name, ONCE[name], contender)
                finally:
                    server.stop()

    def end(self) -> None:
        for server in self.servers:
            server.stop()
        self.provider.stop()

    def medians(self) -> tables.Figures:
        return {
            contender.name: {
                name: statistics.median(values) for name, values in self.taken[contender.name].items()
            }
            for contender in self.contenders
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of first text, burst and paced")
    parser.add_argument("--few", type=int, default=3, help="rounds of crowds and starts")
    parser.add_argument("--only", default="", help=f"of {', '.join(('direct', *RECIPES))}")
    parser.add_argument("--measure", default="", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path, help="a file for all numbers of all rounds")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # the servers are stopped on the way out
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        run = Run(asked, Path(folder))
        try:
            run.begin()
            run.take_turns(OFTEN, run.rounds)
            run.take_turns(CROWDS, run.few)
            run.start_again()
        finally:
            run.end()
    if asked.json:
        asked.json.write_text(json.dumps(run.taken, indent=1))
    print(f"\nmedians of {run.rounds} rounds on {os.cpu_count()} cores")
    tables.show(run.medians())


if __name__ == "__main__":
    main()
