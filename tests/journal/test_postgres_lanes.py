"""Nobody waits forever for somebody else: lanes of the journal, and calls for work among nodes."""

import asyncio

import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.journal.nodes import NodeState
from turnbuckle.journal.port import Claim, Grade
from turnbuckle.journal.postgres.journal import open_postgres


@pytest.mark.requirement("K1", "I4")
def test_a_claim_that_nobody_waits_for_any_more_does_not_keep_the_journal_from_closing():
    """A task that is ended with its process was just about to claim something."""

    async def main():
        bench = await PostgresBench().open()
        other = await bench.another()
        try:
            claiming = asyncio.create_task(bench.journal.claim("run", "one", 60.0))
            await asyncio.sleep(0)  # it is in the line
            claiming.cancel()
            async with asyncio.timeout(100):
                await bench.journal.close()
                return await other.claim("run", "two", 60.0)
        finally:
            await other.close()
            await bench.close()

    assert isinstance(asyncio.run(main()), Claim)


def test_who_cannot_hear_what_became_of_an_item_keeps_nobody_else_from_storing(caplog):
    async def main():
        bench = await PostgresBench().open()
        try:
            claim = await bench.journal.claim("run", "one", 60.0)
            await bench.journal.append("run", [b"1"], after=0, epoch=claim.epoch, grade=Grade.SYNCED)
            assert bench.journal.append_soon("run", b"2", after=1, epoch=claim.epoch, landed=lambda *_: 1 / 0)
            async with asyncio.timeout(100):
                await bench.journal.append("run", [b"3"], after=2, epoch=claim.epoch, grade=Grade.FLUSHED)
                return [item.data for item in await bench.journal.read("run")]
        finally:
            await bench.close()

    assert asyncio.run(main()) == [b"1", b"2", b"3"]
    assert "could not be told to whoever stored it" in caplog.text


@pytest.mark.requirement("K2")
def test_a_call_for_work_waits_for_nothing_that_a_node_is_about_to_ask():
    """Neither where it is made nor where it is heard."""

    async def main():
        bench = await PostgresBench().open()
        nodes = [await open_postgres(bench.url, beside=True) for _ in range(2)]
        stuck, heard = [asyncio.Event(), asyncio.Event()], asyncio.Event()
        never = asyncio.Event()

        async def perform(_: bytes) -> bytes:
            return b""

        def gets_stuck(event: asyncio.Event):
            async def share() -> None:
                event.set()
                await never.wait()

            return share

        calls = 0

        def look() -> None:
            nonlocal calls
            calls += 1
            if all(event.is_set() for event in stuck):
                heard.set()

        try:
            for journal, event in zip(nodes, stuck, strict=True):
                journal.nodes.with_each_look(gets_stuck(event))
                await journal.nodes.join("node", "1", NodeState, perform, look)
            async with asyncio.timeout(100):
                for event in stuck:
                    await event.wait()
                before = calls
                nodes[0].nodes.call()
                await heard.wait()
            return calls > before
        finally:
            for journal in nodes:
                await journal.nodes.leave()
                await journal.close()
            await bench.close()

    assert asyncio.run(main())
