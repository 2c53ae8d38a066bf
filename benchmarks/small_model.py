"""How well does a real, small model finish what was cut, and is anything wrong ever called done?

    python benchmarks/small_model.py --base-url http://127.0.0.1:8099/v1 --model qwen2.5-coder-1.5b \
        [--key sk-local] [--count 10] [--seeds 1,2] [--ways ladder,text,prefill,whole,anchored,finish_call] \
        [--kinds file,text]

Files and texts whose content is given in the task are cut at known places, in a line, at a line end or inside
an escape: the first reply is made here, up to the cut, and everything behind it comes from the model, through
the real turn. `ladder`: all ways, prefill first; `text`: without prefill; `finish_call`: as a strong model is
asked. `prefill`, `whole` and `anchored` are one way alone: what it does not finish is not tried in another.
Counted are results that are right to the letter (but for white space at the end), those that the run itself
calls partial or failed, and those that are wrong and called done. Needs a real model, takes long, and belongs
to no test suite; differences of three in twelve are noise.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from difflib import ndiff
from typing import Any

from msgspec.structs import replace

from turnbuckle.app import process_environment
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.health import HealthBook
from turnbuckle.call.loop import new_loop
from turnbuckle.call.models import Models
from turnbuckle.call.routes import resolve
from turnbuckle.call.transport import Connections
from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.driver import Driver
from turnbuckle.runtime.log import RunLog
from turnbuckle.runtime.plain_rest import WayBook
from turnbuckle.runtime.ports import Model, Publish, Seen, Tools
from turnbuckle.tools.registry import FINISH_CALL_SPEC
from turnbuckle.turn.facts import ModelAsked, RunStarted, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy, ToolFacts
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import CallArgs, CallStarted, Cut, Ended, Event, FinishNoted, TextDelta
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.vocab.tooling import ToolOutcome, finished

WAYS: dict[str, dict[str, str]] = {
    "ladder": {"drafts": "text", "prefill": "plain"},
    "text": {"drafts": "text", "prefill": ""},
    "prefill": {"drafts": "text", "prefill": "plain"},
    "whole": {"drafts": "text", "prefill": ""},
    "anchored": {"drafts": "text", "prefill": ""},
    "finish_call": {"drafts": "calls", "prefill": ""},
}
SINGLE = ("prefill", "whole", "anchored")
"""One way alone. Cut text knows no `whole`; there `anchored` is the note that asks for the last words."""
WRITE = ToolSpec(
    "write_file",
    "Write a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)
FACTS = {"write_file": ToolFacts("write", draftable="content", subject="path")}
_NOUNS = ("river", "garden", "engine", "letter", "window", "market", "bridge", "winter", "signal", "kettle")


def file_of(number: int) -> tuple[str, str]:
    """A small file of a kind that small models write."""
    luck = random.Random(number)
    names = luck.sample(_NOUNS, 5)
    match number % 3:
        case 0:
            parts = [f"def {name}(value):\n    return value * {luck.randint(2, 99)}\n" for name in names]
            return f"part_{number}.py", "\n\n".join(parts)
        case 1:
            rows = ",\n".join(f'  {{"name": "{name}", "count": {luck.randint(1, 999)}}}' for name in names)
            return f"data_{number}.json", f"[\n{rows}\n]\n"
        case _:
            items = "\n".join(f"  <li>The {name} has {luck.randint(2, 99)} parts.</li>" for name in names)
            return f"page_{number}.html", f"<html>\n<body>\n<ul>\n{items}\n</ul>\n</body>\n</html>\n"


def text_of(number: int) -> str:
    luck = random.Random(number)
    names = luck.sample(_NOUNS, 5)
    return " ".join(f"The {name} was seen {luck.randint(2, 99)} times in the last year." for name in names)


def cut_of(text: str, number: int) -> int:
    """In a line, behind a line, or before the last thing of a line, in turn."""
    luck = random.Random(number * 7)
    at = int(len(text) * luck.uniform(0.45, 0.8))
    line = text.rfind("\n", 0, at) + 1
    return line if number % 3 == 1 and line > len(text) // 3 else at


class OneWay(WayBook):
    """As if this way had worked before, so that it is the first."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    def best(self, route: RouteName, model: str) -> str:
        return self._way


class CutFirst(Model):
    """A model whose first reply is known and cut. What follows is the real one's, but for the words behind a
    result. With `tries` it is not asked more often than that."""

    def __init__(self, live: Models, first: list[Event], seed: int, tries: int | None = None) -> None:
        self._live = live
        self._first: list[Event] | None = first
        self._seed = seed
        self._tries = tries

    def note(self, route: RouteName, events: list[Event]) -> None:
        self._live.note(route, events)

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        if self._first is not None:
            first, self._first = self._first, None
            yield first
            return
        if request.messages[-1].role == "tool" and "written" in str(request.messages[-1]):
            yield [TextDelta(0, "Done."), FinishNoted("stop", "stop"), Ended("benchmark")]
            return
        if self._tries is not None:
            if not self._tries:
                yield [Cut(failure("permission", "it is not asked again"))]
                return
            self._tries -= 1
        seeded = replace(request, temperature=0.1, extra={**request.extra, "seed": self._seed})
        async for events in self._live.attempt(route, seeded, stop):
            yield events


class Files(Tools):
    """The one tool: it writes into memory."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def specs(self) -> tuple[ToolSpec, ...]:
        return (WRITE, FINISH_CALL_SPEC)

    async def run(
        self, call: SoundCall, key: str, publish: Publish, stop: StopSignal, seen: Seen = None
    ) -> ToolOutcome:
        self.files[str(call.arguments.get("path"))] = str(call.arguments.get("content"))
        return finished("written")


async def trial(options: argparse.Namespace, way: str, kind: str, number: int, seed: int) -> tuple[str, str]:
    """How one cut thing ended, and in which ways it was asked for."""
    if kind == "file":
        path, wanted = file_of(number)
        task = f"Write the file {path} with exactly this content:\n```\n{wanted}```"
        arguments = json.dumps({"path": path, "content": wanted})
        inside = cut_of(wanted, number)
        at = len(json.dumps({"path": path, "content": wanted[:inside]})) - 2
        first: list[Event] = [CallStarted(0, "c1", "write_file"), CallArgs(0, arguments[:at])]
    else:
        path, wanted = "", text_of(number)
        task = f"Say this text again, exactly, and nothing else:\n{wanted}"
        first = [TextDelta(0, wanted[: cut_of(wanted, number)])]
    written = {
        "name": "model",
        "protocol": "openai_chat",
        "base_url": options.base_url,
        "model": options.model,
    }
    route = resolve(
        {**written, "api_key": options.key, "max_output_tokens": 600, "quirks": WAYS[way], "stall": SLOW}, {}
    )
    policy = Policy((route.facts,), FACTS)
    journal, clock, files = MemoryJournal(), SystemClock(), Files()
    async with Connections() as connections:
        model = CutFirst(
            Models([route], connections, clock, HealthBook()),
            [*first, Cut(failure("reset", "cut"))],
            seed,
            tries=1 if way in SINGLE else None,
        )
        claim = await journal.claim("r", "benchmark", 6_000.0)
        assert isinstance(claim, Claim)
        log = RunLog(journal, claim, TurnFold(policy))
        ways = OneWay(way if way in SINGLE else "")
        driver = Driver(log, model, files, process_environment(clock.sleep), ways)
        said = (Message("user", (TextPart(task),)),)
        outcome = await driver.start(RunStarted(time.time(), RunId("r"), SessionId("s"), said))
        asked = [fact for fact in await facts(journal) if isinstance(fact, ModelAsked)]
    got = files.files.get(path, "") if kind == "file" else driver.turn.shown
    tried = ", ".join(fact.way or fact.why for fact in asked[1:])
    if outcome.kind != "completed":
        return "partial", f"{tried}: {outcome.why}"
    if got.rstrip() == wanted.rstrip():
        return "right", tried
    differs = "\n".join(ndiff(wanted.splitlines(), got.splitlines()))
    return "wrong, and called done", f"{tried}:\n{differs}\n"


SLOW = {"connect": 30.0, "first_event": 1_200.0, "gap": 600.0, "gap_in_call": 600.0, "silence": 1_200.0}


async def facts(journal: MemoryJournal) -> list[Any]:
    found: list[Any] = []
    while items := await journal.read("r", found[-1][0] if found else 0):
        found += [(item.seq, decode(item.data)) for item in items]
    return [fact for _, fact in found]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--key", default="")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--begin", type=int, default=0, help="the number of the first trial")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--kinds", default="file,text")
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        for way in options.ways.split(","):
            ends: Counter[str] = Counter()
            for seed in (int(one) for one in options.seeds.split(",")):
                for number in range(options.begin, options.begin + options.count):
                    began = time.monotonic()
                    with asyncio.Runner(loop_factory=new_loop) as runner:
                        end, how = runner.run(trial(options, way, kind, number, seed))
                    ends[end] += 1
                    took = time.monotonic() - began
                    print(f"{kind} {number}, {way}, seed {seed}: {end} ({how}), {took:.0f} s", flush=True)
            print(f"{kind}, {way}: {dict(ends)} of {ends.total()}\n", flush=True)


if __name__ == "__main__":
    main()
