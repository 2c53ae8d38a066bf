"""Two programs on one data folder: one writes, the others are told so, or only read."""

import asyncio
from pathlib import Path

import pytest
from support.processes.commands import Ran, command, start
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.scripted_models import LAST, answer

from turnbuckle.cli.exits import FAILED
from turnbuckle.journal.sqlite.folder import FolderLock

pytestmark = pytest.mark.process


async def beside(server: ServerProcess, *arguments: str) -> Ran:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: command(server.folder, *arguments))


@pytest.mark.requirement("E6", "G7")
def test_a_second_server_is_refused_and_readers_work_beside_the_first(tmp_path: Path):
    """M1, M5."""

    async def scenario(server: ServerProcess):
        await server.start()
        assert (await server.post("/v1/sessions", {"id": "talk", "title": "About screws"})).status == 201
        reply = await server.post("/v1/sessions/talk/messages", {"input": "go"})
        run = reply.json["id"]
        await server.ended(run)
        second = await beside(server, "serve", "--port", "0")
        writer = await beside(server, "run", "do something")
        runs = await beside(server, "runs", "list")
        shown = await beside(server, "runs", "show", run)
        again = await server.post("/v1/sessions/talk/messages", {"input": "go on"})
        view = await server.ended(again.json["id"])
        return server.pid, run, (second, writer), (runs, shown), view, await server.stop()

    pid, run, refused, readers, view, code = run_process_scenario(scenario, tmp_path, answer)
    for ran in refused:
        assert ran.code == FAILED, ran
        assert str(pid) in ran.err
        assert "stop it, or use another data folder" in " ".join(ran.err.split())
        assert "Traceback" not in ran.err
    listed, shown = readers
    assert (listed.code, shown.code) == (0, 0), readers
    assert run in listed.out
    assert LAST in shown.out
    assert (view["status"], view["output"]) == ("completed", LAST)
    assert code == 0


@pytest.mark.requirement("E6", "H2")
@pytest.mark.parametrize("arguments", [["chat"], ["serve"], ["doctor"]])
def test_a_server_of_another_folder_is_never_taken_for_the_one_that_has_this_journal(
    tmp_path: Path, arguments
):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    server = start(theirs, "serve", "--port", "0")
    lock = FolderLock(ours / ".turnbuckle")
    try:
        port = server.stdout.readline().strip().rpartition(":")[2]
        ran = command(ours, *arguments, TURNBUCKLE_SERVER__PORT=port)
    finally:
        lock.release()
        server.terminate()
        server.communicate(timeout=100)
    told = " ".join((ran.out + ran.err).split())
    assert "goes through" not in told
    assert "which listens on" not in told
    assert "has this folder" not in told
    assert "another turnbuckle" in told
