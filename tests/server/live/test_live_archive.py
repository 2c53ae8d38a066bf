"""Sessions go out of a server and come in again by HTTP; and what was merged is told to whoever comes back to it."""

import asyncio

import msgspec
import pytest
from support.server.live_server import run_scenario, said_in

from turnbuckle.config import load
from turnbuckle.lab.script import Finish, Say
from turnbuckle.upkeep import compact_journal

LINES = "application/x-ndjson"


def chatty(request):
    return (*(Say(f"word{number} ") for number in range(30)), Finish("stop"))


def plain(request):
    return (Say("Fine."), Finish("stop"))


async def talked(server, session="talk", text="how are you"):
    reply = await server.post(f"/v1/sessions/{session}/messages", {"input": text})
    assert reply.status == 202
    await server.ended(reply.json["id"])
    return reply.json["id"]


async def told(server, session):
    page = (await server.get(f"/v1/sessions/{session}/messages")).json
    return [(message["role"], message["text"]) for message in page["data"]]


async def sent(server, body, query="", content_type=LINES):
    async with server.client() as client:
        headers = server._headers({"content-type": content_type})
        return await client.ask("POST", f"/v1/sessions/import{query}", body=body, headers=headers)


@pytest.mark.requirement("G7")
def test_an_exported_session_comes_in_again_and_goes_on(tmp_path):
    async def scenario(server):
        await talked(server)
        exported = await server.get("/v1/sessions/talk/export")
        assert (exported.status, exported.headers["content-type"]) == (200, LINES)
        assert all(msgspec.json.decode(line) for line in exported.body.splitlines())
        copy = await sent(server, exported.body)
        assert copy.status == 201
        assert copy.json["id"] != "talk"
        assert await told(server, copy.json["id"]) == await told(server, "talk")
        await talked(server, copy.json["id"], "and now")
        history = [message["content"] for message in server.lab.requests[-1].body["messages"]]
        assert "how are you" in history
        assert (await server.ask("DELETE", "/v1/sessions/talk")).status == 200
        again = await sent(server, exported.body)
        assert (again.status, again.json["id"]) == (201, "talk")
        named = await sent(server, exported.body, "?id=other", "application/json")
        assert (named.status, named.json["id"]) == (201, "other")
        assert (await sent(server, exported.body, "?id=other")).status == 409

    run_scenario(scenario, tmp_path, plain)


@pytest.mark.requirement("G7", "F9")
def test_what_is_wrong_is_refused_and_nothing_of_it_is_there(tmp_path):
    async def scenario(server):
        await talked(server)
        whole = (await server.get("/v1/sessions/talk/export")).body
        before = (await server.get("/v1/sessions")).body
        for body in (b"", b"{}", whole[:-50], whole.replace(b'"version":1', b'"version":9', 1)):
            refused = await sent(server, body)
            assert (refused.status, refused.json["error"]["code"]) == (400, "import_refused")
        assert (await sent(server, whole, "?id=no/such")).status == 400
        assert (await sent(server, whole, "?id=import")).status == 400
        assert (await sent(server, whole, content_type="text/plain")).status == 415
        assert (await server.ask("POST", "/v1/runs", {"input": "x"}, content_type=LINES)).status == 415
        assert (await server.get("/v1/sessions")).body == before
        assert (await server.get("/v1/sessions/nobody/export")).status == 404

    run_scenario(scenario, tmp_path, plain)


@pytest.mark.requirement("G7", "F9")
def test_each_owner_exports_only_what_is_its_own_and_owns_what_it_imports(tmp_path):
    async def scenario(server):
        ann, bob = server.owner("ann"), server.owner("bob")
        await talked(ann)
        assert (await bob.get("/v1/sessions/talk/export")).status == 404
        exported = (await ann.get("/v1/sessions/talk/export")).body
        assert msgspec.json.decode(exported.splitlines()[0])["session"] == "talk"
        made = await sent(bob, exported)
        assert made.json["id"] == "talk"  # his own, beside hers
        assert await told(bob, "talk") == await told(ann, "talk")
        await talked(bob, "talk", "and now")
        assert len(await told(bob, "talk")) == 4
        assert len(await told(ann, "talk")) == 2

    run_scenario(scenario, tmp_path, plain)


@pytest.mark.requirement("E4")
def test_a_client_that_comes_back_after_its_events_were_merged_gets_a_reset_and_never_a_gap(tmp_path):
    """Scenario C3: an id older than what is kept gets an explicit reset with a snapshot."""
    seen = {}

    async def first(server):
        seen["run"] = run = await talked(server)
        seen["events"] = await server.events(run)
        reply = await server.post("/v1/responses", {"model": "agent", "input": "hello"})
        seen["response"] = reply.json["id"]
        stream = await server.read(f"/v1/responses/{reply.json['id']}?stream=true")
        seen["numbers"] = [event.json["sequence_number"] for event in stream]

    run_scenario(first, tmp_path, chatty)
    file = tmp_path / "turnbuckle.toml"
    changes = {"session.keep_deltas_days": 1e-9}
    compacted = asyncio.run(compact_journal(load(file, environment={}, changes=changes)))
    assert compacted is not None
    assert compacted.swept.merged == 2

    async def second(server):
        run, before = seen["run"], seen["events"]
        text = said_in(before)
        resets = 0
        for cursor in [int(event.id) for event in before]:
            events = await server.events(run, cursor)
            kept = [event for event in before if int(event.id) <= cursor]
            if events and events[0].event == "reset":
                resets += 1
                told = events[0].json
                kept = [event for event in kept if int(event.id) <= told["after"]]
                shown = "".join(one["text"] for one in told["snapshot"]["events"] if one["type"] == "text")
                assert said_in(kept) + shown + said_in(events) == text
            else:
                assert said_in(kept) + said_in(events) == text
        assert resets  # how many there are depends on how many words one write of the journal had
        address = f"/v1/responses/{seen['response']}"
        refused = await server.get(f"{address}?stream=true&starting_after={seen['numbers'][5]}")
        assert (refused.status, refused.json["error"]["code"]) == (400, "events_not_kept")
        whole = await server.read(f"{address}?stream=true")
        assert whole[-1].event == "response.completed"
        assert whole[-1].json["response"]["output"] == (await server.get(address)).json["output"]

    run_scenario(second, tmp_path, chatty)
