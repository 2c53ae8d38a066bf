"""Items of an earlier response that a request only names: found for whoever owns them, and for nobody else."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import ApiClient, LiveServer, run_scenario

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Reason, Say, ScriptItem

CREATE = "/v1/responses"
ASKED = {"role": "user", "content": "Write it down."}
NEXT = {"role": "user", "content": "And then?"}


def writer(request: LabRequest) -> Iterable[ScriptItem]:
    if results_brought(request):
        return (Say("It is written."), Finish())
    return (
        Reason("Let me see."),
        Say("I will."),
        Call("write_file", {"path": "a.txt", "content": "a"}),
        Finish(),
    )


async def first(client: ApiClient, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await client.post(CREATE, {"model": "agent", "input": [ASKED], **more})).json
    return made


def naming(response: dict[str, Any]) -> dict[str, Any]:
    """The next request, as a client sends it that believes the server to have kept everything."""
    named = [{"type": "item_reference", "id": item["id"]} for item in response["output"]]
    return {"model": "agent", "input": [ASKED, *named, NEXT]}


@pytest.mark.requirement("F4", "C5")
def test_items_that_are_only_named_are_the_items_themselves(tmp_path: Path):
    async def scenario(server: LiveServer):
        response = await first(server)
        by_name = await server.post(CREATE, naming(response))
        whole = await server.post(CREATE, {"model": "agent", "input": [ASKED, *response["output"], NEXT]})
        return response, by_name, whole, [request.body["messages"] for request in server.lab.requests]

    response, by_name, whole, asked = run_scenario(scenario, tmp_path, writer)
    assert [item["type"] for item in response["output"]] == ["reasoning", "message", "mcp_call", "message"]
    assert (by_name.status, whole.status) == (200, 200)
    _, _, named, sent = asked
    assert named == sent
    roles = [message["role"] for message in named if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    (call,) = next(message["tool_calls"] for message in named if message.get("tool_calls"))
    assert call["function"]["name"] == "write_file"


@pytest.mark.requirement("F4", "F9")
@pytest.mark.parametrize("why", ["another owner", "not stored", "deleted", "never made"])
def test_items_that_are_not_there_for_this_client_are_told_by_their_name(why: str, tmp_path: Path):
    async def scenario(server: LiveServer):
        ann, bob = server.owner("ann"), server.owner("bob")
        response = await first(ann, store=why != "not stored")
        if why == "deleted":
            await ann.ask("DELETE", f"{CREATE}/{response['id']}")
        if why == "never made":
            response["output"][0]["id"] = "rs_r20260101-000000-abcdef_0"
        asked = len(server.lab.requests)
        reply = await (bob if why == "another owner" else ann).post(CREATE, naming(response))
        return response["output"][0]["id"], reply, len(server.lab.requests) - asked

    item, reply, asked = run_scenario(scenario, tmp_path, writer)
    assert (reply.status, reply.json["error"]["code"], reply.json["error"]["param"]) == (
        400,
        "item_not_found",
        "input[1].id",
    )
    assert item in reply.json["error"]["message"]
    assert asked == 0
