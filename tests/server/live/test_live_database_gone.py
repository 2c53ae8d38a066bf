"""A database that goes away under a server and comes back: everybody is told, work waits, and nothing is lost or done
twice."""

import asyncio
import signal

import pytest
from support.postgres.cluster import own_cluster
from support.postgres.server import address_in
from support.server.live_server import gate, run_scenario, said_in
from support.server.scripted_models import OUTSIDE

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process
CHAT = "/v1/chat/completions"


def asked(text: str, **more):
    return {"model": "agent", "messages": [{"role": "user", "content": text}], **more}


def worker(request):
    """Says something, and while nobody can store it goes on to a command that must run once."""
    if results_brought(request):
        return (Say("It is done."), Finish())
    return (
        Say("One half"),
        gate(1),
        Say(" and the other. "),
        Call("shell", {"command": "echo ran >> ran.txt"}),
        Finish(),
    )


@pytest.mark.requirement("K6")
@pytest.mark.parametrize(
    "how, session",
    [(signal.SIGINT, "s"), (signal.SIGQUIT, "")],
    ids=["it restarts under a session", "it crashes under a run"],
)
def test_work_waits_for_a_database_that_is_gone_and_goes_on_when_it_is_back(how, session, tmp_path):
    headers = {"x_turnbuckle_session": session} if session else {}

    async def scenario(live):
        async with live.listen(CHAT, asked("work", stream=True), **headers) as listener:
            await listener.until(b"One half")
            run_id = listener.reply.headers["x-turnbuckle-run"]
            async with live.listen(f"/v1/runs/{run_id}/events") as watcher:
                await watcher.until(b"One half")
                await asyncio.to_thread(cluster.stop, how)
                live.behind.gates.open(1)
                await listener.until(b": waiting for storage")
                ready = await live.get("/readyz")
                await asyncio.to_thread(cluster.start)
                stream, watched = await listener.rest(), await watcher.rest()
        events = await live.events(run_id)
        ran = (tmp_path / "work" / "ran.txt").read_text()
        after = await live.post(CHAT, asked("again"), **headers)
        return ready, stream, watched, events, ran, after

    with own_cluster() as cluster:
        ready, stream, watched, events, ran, after = run_scenario(
            scenario, tmp_path, worker, place=address_in(cluster.folder, "live"), tools=OUTSIDE
        )
    assert (ready.status, ready.json["code"]) == (503, "storage_away")
    assert stream[-1].data == b"[DONE]"
    assert said_in(events) == "One half and the other. It is done."
    assert [frame.raw for frame in watched if frame.id] == [frame.raw for frame in events][-len(watched) :]
    assert ran == "ran\n"
    assert after.status == 200
