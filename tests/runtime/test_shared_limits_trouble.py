"""Slots of owners among nodes, when what stands around them fails."""

import asyncio

import pytest
from support.journals.postgres_bench import PostgresBench
from support.runs.approval_runs import HELLO, POLICY, CountingTools, ScriptedReplies

from turnbuckle.journal.nodes import PINNED
from turnbuckle.journal.port import EVERY_STREAM, Grade, IndexUpdate, StorageAway
from turnbuckle.journal.quotas import QuotaUse
from turnbuckle.journal.wrapped import WrappedJournal
from turnbuckle.runtime.runs import NewRun, RunRules, Runs
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.service.limits import Slots
from turnbuckle.service.services import make_services
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart

SAID = NewRun((Message("user", (TextPart("go"),)),), SessionId("s"), user="ann")


class NoLabels(WrappedJournal):
    """It is away whenever labels are looked up."""

    async def streams(self, wanted=EVERY_STREAM, after=None, limit=50):
        if wanted.kind == PINNED:
            raise StorageAway("gone for a moment")
        return await super().streams(wanted, after, limit)


def services_on(journal, nodes, slots):
    environment = VirtualClock().environment("a")
    runs = Runs(journal, RunRules(POLICY), ScriptedReplies(HELLO), lambda run: CountingTools(), environment)
    return make_services(journal, runs, SessionRules(), slots=slots, nodes=nodes)


def played(scene):
    async def main():
        bench = await PostgresBench().open()
        try:
            async with asyncio.timeout(100):
                return await scene(bench)
        finally:
            await bench.close()

    return asyncio.run(main())


@pytest.mark.requirement("K7")
def test_a_message_that_fails_between_its_slot_and_its_session_gives_the_slot_back():
    async def scene(bench):
        nodes, slots = bench.journal.nodes, Slots(9, 9)
        services = services_on(NoLabels(bench.journal), nodes, slots)
        with pytest.raises(StorageAway):
            await services.runs.begin(SAID, first=())
        return len(slots), await nodes.quotas.use("ann")

    assert played(scene) == (0, QuotaUse(0, 0.0))


@pytest.mark.requirement("K7")
def test_an_end_that_cannot_be_read_keeps_no_other_run_from_being_settled():
    async def scene(bench):
        dying = await bench.another()
        for run in ("r1", "r2"):
            await dying.nodes.quotas.admit("ann", run, 9, 9.0)
            dying.nodes.quotas.spend(run, 1.0)
            claim = await dying.claim(run, "two", 10.0)
            note = IndexUpdate(kind="run", status="completed")
            await dying.append(run, [b"x"], after=0, epoch=claim.epoch, grade=Grade.SYNCED, note=note)
        await dying.nodes.quotas.flush()
        await bench.end(dying)
        nodes = bench.journal.nodes
        found = await nodes.quotas.abandoned()
        await services_on(bench.journal, nodes, Slots(9, 9)).lifecycle.settle_abandoned(nodes.quotas)
        return found, await nodes.quotas.abandoned(), await nodes.quotas.use("ann")

    assert played(scene) == (["r1", "r2"], [], QuotaUse(0, 2.0))
