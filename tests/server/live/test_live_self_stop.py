"""A run whose own command stops the server: the next start asks a person instead of doing it again."""

import signal

import pytest
from support.processes.server_process import run_process_scenario
from support.server.live_server import asked_until, eventually
from support.server.scripted_models import OUTSIDE

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, Say
from turnbuckle.turn.crash_suspects import QUESTION

pytestmark = pytest.mark.process


def does_it(request):
    """Runs what the user says, as a command."""
    if results_brought(request):
        return (Say("So it is."), Finish())
    return (Call("shell", {"command": last_user_text(request)}), Finish())


async def asked_by(server):
    """Wait until the run, which is taken up behind the start, has asked."""
    return (await asked_until(lambda reply: reply.json["data"], server.get, "/v1/approvals")).json["data"]


@pytest.mark.requirement("G5", "G6")
@pytest.mark.parametrize(
    "decision, ends, asks, starts", [("allow", "completed", 2, 3), ("deny", "cancelled", 1, 1)]
)
def test_it_is_asked_about_after_each_start_until_somebody_answers_and_never_done_again(
    tmp_path, decision, ends, asks, starts
):
    """S6."""

    async def scenario(server):
        await server.start()
        run = await server.begin(f"echo once >>count; kill -9 {server.pid}; sleep 300")
        assert await server.wait() == -signal.SIGKILL
        for _ in range(starts):  # the last of three would be one too many, if waiting counted as a try
            await server.close()
            await server.start()
            waiting = await asked_by(server)
            assert [(one["run"], one["question"], one["status"]) for one in waiting] == [
                (run, QUESTION, "pending")
            ]
        path = f"/v1/runs/{run}/approvals/{waiting[0]['id']}"
        assert (await server.post(path, {"decision": decision})).status == 200
        view = await server.ended(run)
        await eventually(lambda: len(server.behind.lab.requests) >= asks)
        return view, (server.work / "count").read_text(), len(server.behind.lab.requests)

    view, count, asked = run_process_scenario(scenario, tmp_path, does_it, tools=OUTSIDE)
    assert (view["status"], count, asked) == (ends, "once\n", asks)
