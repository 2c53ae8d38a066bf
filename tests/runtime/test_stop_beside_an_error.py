"""Stopping a run at the moment in which its session's worker closes because of an error."""

import asyncio

import pytest
from support.runs.approval_runs import HANG, HELLO, ApprovalHarness

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Conflict
from turnbuckle.runtime.runs import NewRun
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.service.services import make_services
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart

HERE = SessionId("s")


class Stumbling(MemoryJournal):
    """Takes its time with the session, and does not take what comes once."""

    stumbles = 0

    async def append(self, stream, items, **more):
        if stream == HERE and self.stumbles:
            self.stumbles -= 1
            for _ in range(5):
                await asyncio.sleep(0)
            raise Conflict(stream, 1, 2)
        return await super().append(stream, items, **more)


def said(text):
    return NewRun((Message("user", (TextPart(text),)),), HERE, user="local")


@pytest.mark.requirement("E10")
def test_a_run_is_stopped_although_its_sessions_worker_closes_meanwhile():
    clock = VirtualClock()

    async def main():
        world = ApprovalHarness(clock, HANG, HELLO, journal=Stumbling)
        services = make_services(world.journal, world.process(), SessionRules())
        first = await services.runs.begin(said("go"), first=())
        world.journal.stumbles = 1
        second, stopped = await asyncio.gather(
            services.runs.begin(said("and on"), first=()),
            services.runs.stop(first.run, "local", "ann"),
            return_exceptions=True,
        )
        view = await services.runs.view(first.run, "local")
        third = await services.runs.begin(said("again"), first=())
        await services.runs.live(third.run).over()
        answered = await services.runs.view(third.run, "local")
        await services.stores.manager.close()
        return second, stopped, view.status, answered.status

    second, stopped, status, answered = clock.run(main, quiet=0)
    assert isinstance(second, Conflict), "the worker did not stumble"
    assert stopped.stopped
    assert (status, answered) == ("cancelled", "completed")
