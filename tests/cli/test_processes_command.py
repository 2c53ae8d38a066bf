"""`turnbuckle processes`: what runs in the background is seen and ended, without a server too."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest
from support.http.all_endpoints import DOCUMENT
from support.processes.commands import command

from turnbuckle.lab.clock import RealClock
from turnbuckle.tools.background import BackgroundProcess, Processes


async def started(folder: Path) -> BackgroundProcess:
    where = os.open(folder, os.O_RDONLY)
    try:
        return await Processes(folder / ".turnbuckle", RealClock()).start(
            ["/bin/sh", "-c", "sleep 300"],
            "sleep 300",
            run="r1",
            session="s1",
            key="k",
            where=where,
            folder=".",
            environment={"PATH": "/usr/bin:/bin"},
        )
    finally:
        os.close(where)


@pytest.mark.process
@pytest.mark.requirement("D10")
def test_a_process_is_listed_and_ended_by_a_command(tmp_path: Path):
    nothing = command(tmp_path, "processes", "list")
    assert (nothing.code, "no background processes" in nothing.err) == (0, True)
    one = asyncio.run(started(tmp_path))
    listed = command(tmp_path, "processes", "list")
    assert all(word in listed.out for word in (one.id, "running", "r1", "sleep 300"))
    stopped = command(tmp_path, "processes", "stop", one.id)
    assert (stopped.code, stopped.out.strip()) == (0, f"{one.id}: stopped")
    (row,) = msgspec.json.decode(command(tmp_path, "processes", "list", "--json").out)
    assert row["state"] == "stopped"
    assert set(row) - {"session"} == set(DOCUMENT["components"]["schemas"]["ProcessView"]["properties"])
    unknown = command(tmp_path, "processes", "stop", "none")
    assert (unknown.code, "there is no background process none" in unknown.err) == (2, True)
