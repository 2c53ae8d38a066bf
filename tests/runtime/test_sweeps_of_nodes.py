"""Several nodes sweep one database at the same moment: everything that is due is done once, and nothing else."""

import asyncio

import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.port import Grade, IndexUpdate
from turnbuckle.journal.tail import items_of
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.idempotency import IdempotencyStore, New
from turnbuckle.runtime.retention import Keeping, Retention
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.turn.facts import ModelAsked, RunEnded, RunStarted, Streamed, decode, encode
from turnbuckle.vocab.events import Ended, TextDelta
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.origin import Origin
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions

HOUR = 3600.0
RUNS = 12


async def stored(journal, name: str, at: float, *, own_tools: bool) -> None:
    claim = await journal.claim(name, "p", 10)
    words = Message("user", (TextPart("hello"),))
    options = RunOptions(own_tools=own_tools)
    facts = [
        RunStarted(at, RunId(name), SessionId(""), (words,), 1, options, Origin("chat")),
        ModelAsked(at, 1, RouteName("main"), "openai_chat", "m", "first"),
        *(Streamed(at, 1, (TextDelta(0, letter),)) for letter in "abcdef"),
        Streamed(at, 1, (Ended("stop"),)),
        RunEnded(at, Outcome("completed")),
    ]
    note = IndexUpdate(kind=RUN, status="completed")
    items = [encode(fact) for fact in facts]
    await journal.append(name, items, after=0, epoch=0, grade=Grade.SYNCED, note=note)
    await journal.release(claim)


def text_of(items) -> str:
    facts = [decode(item.data) for item in items]
    events = [event for fact in facts if isinstance(fact, Streamed) for event in fact.events]
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def nothing(run) -> None:
    pass


@pytest.mark.requirement("K7")
def test_nodes_that_sweep_at_once_are_not_in_each_others_way(tmp_path):
    async def main():
        bench = await PostgresBench().open()
        journals = [bench.journal, await bench.another(), await bench.another()]
        for number in range(RUNS):
            await stored(bench.journal, f"kept-{number}", bench.time.now(), own_tools=True)
            await stored(bench.journal, f"relay-{number}", bench.time.now(), own_tools=False)
        made = iter(range(1000))
        environment = Environment("n", bench.time.now, asyncio.sleep, lambda kind: f"{kind}{next(made)}")
        stores = [IdempotencyStore(journal, environment) for journal in journals]
        for number in range(RUNS):
            assert isinstance(await stores[0].reserve("ann", f"k{number}", "f"), New)
        bench.pass_time(48 * HOUR)
        keeping = Keeping(deltas=24 * HOUR, relays=24 * HOUR)
        sweeps = [
            Retention(journal, keeping, tmp_path, wall=bench.time.now, deleted=nothing).sweep()
            for journal in journals
        ]
        async with asyncio.timeout(100):
            swept = await asyncio.gather(*sweeps)
            dropped = await asyncio.gather(*(store.sweep(24 * HOUR) for store in stores))
        names = [row.name for row in await journals[1].streams(limit=500) if row.kind == RUN]
        texts = {text_of(await items_of(journals[2], name)) for name in names}
        lengths = {len(await items_of(journals[0], name)) for name in names}
        again = await stores[1].reserve("ann", "k0", "other")
        for journal in journals[1:]:
            await journal.close()
        await bench.close()
        return sum(one.deleted for one in swept), sum(dropped), sorted(names), texts, lengths, type(again)

    deleted, dropped, names, texts, lengths, again = asyncio.run(main())
    assert names == sorted(f"kept-{number}" for number in range(RUNS))
    assert (texts, lengths) == ({"abcdef"}, {5})  # the bursts are one, and what was said is what was said
    assert deleted == RUNS <= dropped  # a key may be dropped by two at once, which says the same of it
    assert again is New
