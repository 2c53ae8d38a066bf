"""Large values and kept files in an object store: read at any node, gone with their session, told when it is away."""

import asyncio
import base64
import socket
from pathlib import Path

import msgspec
import pytest
from support.objects.s3_server import new_bucket, store_at
from support.postgres.server import shared_server
from support.server.live_server import lab_provider, run, run_scenario, serve_one, two_nodes

from turnbuckle.config import load
from turnbuckle.journal.opening import move_journal
from turnbuckle.lab.script import Call, Finish, LabRequest, Say
from turnbuckle.objects.folder import FolderObjects
from turnbuckle.objects.owned import OWNER
from turnbuckle.objects.settings import S3Address
from turnbuckle.testing.conformance.objects import keys_of
from turnbuckle.upkeep import compact_journal

PICTURE = base64.b64encode(bytes(range(256)) * 200).decode()


def looks(request: LabRequest):
    """Makes a long output at first, reads the end of it when asked again."""
    asked = [message.get("content") for message in request.body["messages"]]
    results = [text for text in asked if isinstance(text, str) and "path " in text and "kept" in text]
    wants = msgspec.json.encode(asked[-1]).decode()
    if "make" in wants:
        yield Call("shell", {"command": "seq 1 20000"})
        yield Finish("tool_calls")
    elif "read" in wants:
        path = results[-1].rsplit("path ", 1)[1].split("]")[0]
        yield Call("read_file", {"path": path, "start": 15_000, "lines": 1})
        yield Finish("tool_calls")
    else:
        yield Say("done")
        yield Finish("stop")


def in_bucket(address: S3Address, endpoint: str = "") -> str:
    return (
        f'[objects]\nstore = "s3://{address.bucket}"\nendpoint = "{endpoint or address.endpoint}"\n'
        f'region = "us-east-1"\naccess_key = "{address.access_key}"\nsecret_key = "{address.secret_key}"\nover = 4096\ntimeout = 90'
    )


def picture_of(text: str) -> dict:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture]}


@pytest.mark.requirement("K8")
def test_what_one_node_kept_is_read_by_another_and_goes_with_the_session(tmp_path: Path):
    address = new_bucket()

    async def main():
        settings = {"server": "drain = 0", "more": in_bucket(address)}
        store = store_at(address)
        async with (
            lab_provider(looks) as behind,
            two_nodes(tmp_path, behind, **settings) as (one, other),
            asyncio.timeout(100),
        ):
            body = {"model": "agent", "messages": [picture_of("make it")]}
            made = await one.post("/v1/chat/completions", body, x_turnbuckle_session="s")
            areas = {key.split("/")[1] for key in await keys_of(store) if key != OWNER}
            body = {"model": "agent", "messages": [{"role": "user", "content": "read it"}]}
            read = await other.post("/v1/chat/completions", body, x_turnbuckle_session="s")
            sent = msgspec.json.encode(behind.lab.requests[-1].body).decode()
            exported = await other.get("/v1/sessions/s/export")
            gone = await other.ask("DELETE", "/v1/sessions/s")
        return (
            (made.status, read.status, gone.status),
            areas,
            PICTURE in sent,
            "15000" in sent,
            PICTURE.encode() in exported.body,
            await keys_of(store),
        )

    statuses, areas, seen, was_read, exported, left = run(main())
    assert statuses == (200, 200, 200)
    assert areas == {"items", "kept"}
    assert (seen, was_read, exported) == (True, True, True)
    assert left == [OWNER]


@pytest.mark.requirement("K8")
def test_while_the_store_is_away_everything_goes_on_and_is_kept_in_the_journal(tmp_path: Path):
    address = new_bucket()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"

    async def scenario(server):
        body = {"model": "agent", "messages": [picture_of("hello")]}
        made = await server.post("/v1/chat/completions", body, x_turnbuckle_session="s")
        ready = await server.get("/readyz")
        exported = await server.get("/v1/sessions/s/export")
        return made.status, ready.status, PICTURE.encode() in exported.body

    found = run_scenario(scenario, tmp_path, looks, more=in_bucket(address, nowhere))
    assert found == (200, 200, True)


@pytest.mark.requirement("K8", "K9")
def test_a_journal_that_is_moved_takes_its_values_along_and_a_sweep_leaves_what_is_used(tmp_path: Path):
    (tmp_path / "objects").mkdir()
    more = f'[objects]\nstore = "{tmp_path / "objects"}"\nover = 4096\ntimeout = 90'
    place = shared_server().url(f"moved_{tmp_path.name[-20:]}".replace("-", "_"))

    async def main():
        async with lab_provider(looks) as behind:
            async with serve_one(tmp_path, behind, more=more) as server:
                body = {"model": "agent", "messages": [picture_of("hello")]}
                await server.post("/v1/chat/completions", body, x_turnbuckle_session="s")
            loaded = load(tmp_path / "turnbuckle.toml", environment={})
            source = loaded.settings.data
            swept = await compact_journal(loaded)
            await move_journal(source, place, lambda _: None)
            async with serve_one(tmp_path, behind, place=place, more=more) as server:
                exported = await server.get("/v1/sessions/s/export")
        kept = await keys_of(FolderObjects(tmp_path / "objects", 60.0))
        return swept, PICTURE.encode() in exported.body, kept

    swept, exported, kept = run(main())
    assert swept is not None
    assert swept.swept.objects == 0
    assert exported
    assert len(kept) >= 1
