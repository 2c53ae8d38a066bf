"""Two messages right behind each other, the second one from somebody who saw the first one's end before the worker did."""

import pytest
from support.runs.approval_runs import HANG, HELLO, run_scenario

from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import IncomingMessage, SessionRules
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import Message, TextPart

SESSION = SessionId("s")


@pytest.mark.requirement("G1")
def test_a_run_that_begins_in_the_moment_in_which_the_last_one_ends_is_the_only_one():
    async def scenario(harness):
        runs = harness.process()
        await Sessions(harness.journal, runs).create(SESSION, "ann")
        manager = SessionManager(harness.journal, runs, SessionRules(), began=lambda running, user: None)
        worker = await manager.open(SESSION, "ann")
        said = IncomingMessage((Message("user", (TextPart("Hello?"),)),))
        first = await worker.say(said)
        await runs.live(first.run).outcome()
        second = await worker.say(said)
        await harness.journal.wait(second.run, 2)
        await worker.say(said)
        assert [running.run for running in runs.all_live] == [second.run]
        assert len(worker.state.waiting) == 1
        await worker.stop("user")
        await manager.close()

    run_scenario(scenario, HELLO, HANG)
