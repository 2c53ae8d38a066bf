"""Sessions that only nodes with certain labels may work on, and a folder of its own for each session."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.postgres.server import shared_server
from support.server.live_server import gate, lab_provider, run, run_scenario, said_in, serve_one

from turnbuckle.lab.script import Call, Finish, LabRequest, Say

WAITS = "a server with the label disk-a; none that runs now has it"


def speaks(request: LabRequest):
    yield Say("done")
    yield Finish("stop")


def waits_at_a_gate(request: LabRequest):
    yield Say("one ")
    yield gate(1)
    yield Say("two")
    yield Finish("stop")


def writes(request: LabRequest):
    """Writes what it is asked to once, and says what the shell sees."""
    messages = request.body["messages"]
    results = [message for message in messages if message["role"] == "tool"]
    said = str([message for message in messages if message["role"] == "user"][-1]["content"])
    if not results or messages[-1]["role"] == "user":
        yield Call("write_file", {"path": "a.txt", "content": said})
        yield Call("shell", {"command": "cat a.txt; cat ../one/a.txt 2>/dev/null | wc -c"})
        yield Finish("tool_calls")
    else:
        yield Say(str(results[-1]["content"]))
        yield Finish("stop")


@asynccontextmanager
async def node(folder: Path, name: str, behind, place: str, more: str = "", **settings):
    """A server of its own folder on one database."""
    (folder / name).mkdir(exist_ok=True)
    settings.setdefault("server", "drain = 0\nnoop = 1")
    about = f'[node]\nname = "{name}"\n{more}'
    async with serve_one(folder / name, behind, place=place, more=about, **settings) as server:
        yield server


def played(folder: Path, model, scenario):
    place = shared_server().url(f"labels_{abs(hash(folder))}")

    async def main():
        async with lab_provider(model) as behind, asyncio.timeout(100):
            return await scenario(behind, place)

    return run(main())


PINS = 'labels = ["disk-a"]\nneeds = ["disk-a"]'
HAS = 'labels = ["disk-a", "gpu"]'


@pytest.mark.requirement("K8", "G9")
@pytest.mark.parametrize("session", [{"session": "s"}, {}], ids=["in a session", "alone"])
def test_what_needs_a_label_waits_for_a_node_that_has_it_and_says_so(tmp_path: Path, session):
    async def scenario(behind, place):
        async with node(tmp_path, "plain", behind, place, 'needs = ["disk-a"]') as plain:
            begun = await plain.begin("go", **session)
            body = {"model": "agent", "messages": [{"role": "user", "content": "hi"}], "stream": True}
            async with (
                plain.listen(f"/v1/runs/{begun}/events") as reader,
                plain.listen("/v1/chat/completions", body) as chat,
            ):
                await reader.until(WAITS.encode())
                await chat.until(WAITS.encode())
                view = await plain.run(begun)
                asked = len(behind.lab.requests)
                assert b"turnbuckle_runs_unheld 2.0" in (await plain.get("/metrics")).body
                async with (
                    node(tmp_path, "other", behind, place, 'labels = ["gpu"]'),
                    node(tmp_path, "has", behind, place, HAS) as has,
                ):
                    seen = await reader.rest()
                    told = b"".join(frame.raw for frame in await chat.rest())
                    nodes = (await plain.get("/v1/nodes")).json["data"]
                    ended = await has.run(begun)
        labels = {row["name"]: row["labels"] for row in nodes}
        return view["waiting_on"]["detail"], asked, said_in(seen), b"done" in told, labels, ended["status"]

    detail, asked, said, chat, labels, status = played(tmp_path, speaks, scenario)
    assert detail == WAITS
    assert asked == 0
    assert said == "done"
    assert labels == {"plain": [], "other": ["gpu"], "has": ["disk-a", "gpu"]}
    assert status == "completed"
    assert chat


@pytest.mark.requirement("K8")
def test_a_session_stays_with_nodes_that_have_its_label_when_the_first_of_them_goes(tmp_path: Path):
    async def scenario(behind, place):
        async with node(tmp_path, "plain", behind, place) as plain:
            async with node(tmp_path, "first", behind, place, PINS) as first:
                begun = await first.begin("go", session="s")
                async with first.listen(f"/v1/runs/{begun}/events") as reader:
                    await reader.until(b"one ")
            queued = await plain.begin("more", session="s")
            views = [await plain.run(one) for one in (begun, queued)]
            behind.gates.open(1)
            async with node(tmp_path, "second", behind, place, HAS) as second:
                ends = [(await plain.ended(one))["status"] for one in (begun, queued)]
                listed = (await second.get("/v1/nodes")).json["data"]
        waiting = [view["waiting_on"]["detail"] for view in views]
        return waiting, views[1]["status"], ends, [row["name"] for row in listed]

    waiting, status, ends, names = played(tmp_path, waits_at_a_gate, scenario)
    assert waiting == [WAITS, WAITS]
    assert status == "queued"
    assert ends == ["completed", "completed"]
    assert names == ["plain", "second"]


@pytest.mark.requirement("K8")
def test_what_waits_for_a_node_can_be_stopped_at_any(tmp_path: Path):
    async def scenario(behind, place):
        async with node(tmp_path, "plain", behind, place, 'needs = ["disk-a"]') as plain:
            ends = []
            for session in ({"session": "s"}, {}):
                begun = await plain.begin("go", **session)
                await plain.post(f"/v1/runs/{begun}/stop")
                ends.append((await plain.run(begun))["status"])
        return ends, len(behind.lab.requests)

    assert played(tmp_path, speaks, scenario) == (["cancelled", "cancelled"], 0)


@pytest.mark.requirement("K8")
def test_each_session_has_a_folder_of_its_own_that_goes_with_it_if_it_is_empty(tmp_path: Path):
    async def scenario(server):
        texts = []
        for session in ("one", "two"):
            begun = await server.begin(f"text of {session}", session=session)
            texts.append(said_in(await server.events(begun)))
        undone = await server.post(f"/v1/runs/{begun}/changes/undo", {"path": "a.txt"})
        before = sorted(entry.name for entry in server.work.iterdir())
        assert not (server.work / "two" / "a.txt").exists()
        for session in ("one", "two"):
            assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 200
        return texts, undone.status, before

    texts, undone, before = run_scenario(scenario, tmp_path, writes, head="workspace_per_session = true")
    work = tmp_path / "work"
    assert before == ["one", "two"]
    assert [entry.name for entry in work.iterdir()] == ["one"]  # what is in it is somebody's work
    assert (work / "one" / "a.txt").read_text() == "text of one"
    assert [text.strip() for text in texts] == ["text of one11", "text of two0"]
    assert undone == 200
