"""Whole outputs that tools leave: read again by later runs of their owner, and by nobody else."""

import re
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say

ALLOWED = 'approval = { shell = "allow" }'


def reader(request: LabRequest) -> tuple[Any, ...]:
    """Prints much, or reads what it is told to."""
    if results_brought(request):
        return (Say("Done."), Finish())
    words = last_user_text(request).split()
    match words:
        case ["print"]:
            return (Call("shell", {"command": "seq 1 9000; echo the secret of ann"}), Finish())
        case [tool, path]:
            more: dict[str, dict[str, Any]] = {
                "search_files": {"pattern": "secret"},
                "read_file": {"start": 9001},
            }
            return (Call(tool, {"path": path, **more.get(tool, {})}), Finish())
    raise AssertionError(words)


@pytest.mark.requirement("R2", "K8")
def test_a_whole_output_is_read_by_runs_of_its_owner_and_by_nobody_else(tmp_path: Path):
    (tmp_path / "objects").mkdir()

    async def scenario(live: LiveServer) -> dict[tuple[str, str], bool]:
        owners = {name: live.owner(name) for name in ("ann", "bob")}

        async def result(name: str, words: str) -> str:
            run = await owners[name].begin(words)
            await owners[name].ended(run)
            return str(live.lab.requests[-1].body["messages"][-1])

        told = await result("ann", "print")
        kept = re.search(r"[^ \"']*kept/[^ \"']*\.txt", told)
        assert kept is not None, told
        folder = kept[0].rpartition("/")[0]
        found = {}
        for name in owners:
            for tool, path in (
                ("read_file", kept[0]),
                ("search_files", kept[0]),
                ("search_files", folder),
                ("list_files", folder),
                ("read_file", f"{folder}/../{folder.rpartition('/')[2]}/{kept[0].rpartition('/')[2]}"),
            ):
                shown = await result(name, f"{tool} {path}")
                found[name, f"{tool} {path}"] = ("shell-" if tool == "list_files" else "the secret") in shown
        return found

    store = f'[objects]\nstore = "{tmp_path}/objects"'
    found = run_scenario(scenario, tmp_path, reader, tools=ALLOWED, more=store)
    assert not any(is_shown for (who, _), is_shown in found.items() if who == "bob"), found
    assert [is_shown for (who, _), is_shown in found.items() if who == "ann"][:2] == [True, True]
