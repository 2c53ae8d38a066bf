"""Chat completions in a session: the server keeps the conversation, and clients may send all of it or only the new."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, eventually, lab_provider, run, run_scenario, serve_live
from support.server.scripted_models import LAST, model_by_phase

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

PATH = "/v1/chat/completions"
PICTURE = "data:image/png;base64,iVBORw0KGgo="
RULE = {"role": "system", "content": "Speak of screws only."}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def echo(request: LabRequest) -> Iterable[ScriptItem]:
    """Says again what it was told last."""
    return (Say(f"You said: {last_user_text(request)}"), Finish())


async def say(server: LiveServer, *messages: dict[str, Any], session: str = "s", **more: Any):
    return await server.post(
        PATH, {"model": "agent", "messages": messages, **more}, x_turnbuckle_session=session
    )


def asked_of(server: LiveServer) -> list[list[dict[str, Any]]]:
    """What the provider was told, each time, without our own agent's instructions."""
    return [request.body["messages"][1:] for request in server.lab.requests]


@pytest.mark.requirement("F1", "G6")
@pytest.mark.parametrize("sends_all", [False, True])
def test_a_session_keeps_what_was_said_whether_the_client_sends_all_of_it_or_only_the_new(
    sends_all: bool, tmp_path: Path
):
    async def main():
        async with lab_provider(echo) as behind:
            replies, said = [], []
            for number in range(3):
                async with serve_live(
                    tmp_path, behind, server="drain = 0"
                ) as server:  # a restart between any two
                    said.append(user(f"number {number}"))
                    replies.append(await say(server, *(said if sends_all else said[-1:])))
                    said.append(replies[-1].json["choices"][0]["message"])
                    histories = asked_of(server)
                    messages = (await server.get("/v1/sessions/s/messages")).json["data"]
            return replies, histories, messages

    replies, histories, messages = run(main())
    assert {reply.headers["x-turnbuckle-session"] for reply in replies} == {"s"}
    told = [
        message
        for n in range(3)
        for message in (("user", f"number {n}"), ("assistant", f"You said: number {n}"))
    ]
    assert [(one["role"], one["content"]) for one in histories[-1]] == told[:-1]
    assert [(one["role"], one["text"]) for one in messages] == told


@pytest.mark.requirement("F1")
def test_pictures_and_instructions_are_kept_in_a_session(tmp_path: Path):
    async def scenario(server: LiveServer):
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
        await say(server, RULE, user(parts))
        await say(server, RULE, user("And now?"))
        return asked_of(server)[-1], (await server.get("/v1/sessions/s/messages")).json["data"]

    history, messages = run_scenario(scenario, tmp_path, echo)
    assert [one["role"] for one in history] == ["system", "user", "assistant", "user"]
    assert history[0]["content"] == RULE["content"]
    assert {"type": "image_url", "image_url": {"url": PICTURE}} in history[1]["content"]
    assert [part["type"] for part in messages[0]["parts"]] == ["image"]


@pytest.mark.requirement("F1", "F3")
def test_what_tools_of_the_server_did_is_part_of_the_session(tmp_path: Path):
    def writer(request: LabRequest) -> Iterable[ScriptItem]:
        if not results_brought(request):
            return (Call("write_file", {"path": "a.txt", "content": "a\n"}), Finish())
        return (Say(LAST), Finish())

    async def scenario(server: LiveServer):
        await say(server, user("write"))
        await say(server, user("what did you do?"))
        return asked_of(server)[-1], (await server.get("/v1/sessions/s/messages")).json["data"]

    history, messages = run_scenario(scenario, tmp_path, writer)
    assert [one["role"] for one in history] == ["user", "assistant", "tool", "assistant", "user"]
    assert history[1]["tool_calls"][0]["function"]["name"] == "write_file"
    assert "Wrote a.txt" in history[2]["content"]
    kinds = [part["type"] for one in messages for part in one["parts"]]
    assert kinds == ["call", "result"]


@pytest.mark.requirement("F1")
def test_without_a_session_the_clients_own_history_is_the_conversation(tmp_path: Path):
    messages = [
        RULE,
        user("one"),
        {"role": "assistant", "content": "", "tool_calls": [call("c1", "look", '{"at":"a"}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing there"},
        {"role": "assistant", "content": "Nothing."},
        user([{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": PICTURE}}]),
    ]

    async def scenario(server: LiveServer):
        body = {"model": "agent", "messages": messages}
        replies = [
            await server.post(PATH, body),
            await server.post(PATH, {**body, "messages": [user("alone")]}),
        ]
        sessions = (await server.get("/v1/sessions")).json["data"]
        return asked_of(server), {reply.headers["x-turnbuckle-session"] for reply in replies}, sessions

    (history, alone), sessions, listed = run_scenario(scenario, tmp_path, echo)
    assert [one["role"] for one in history] == [one["role"] for one in messages]
    assert history[2]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":"a"}'}
    assert (history[3]["tool_call_id"], history[3]["content"]) == (
        history[2]["tool_calls"][0]["id"],
        "nothing there",
    )
    assert {"type": "image_url", "image_url": {"url": PICTURE}} in history[-1]["content"]
    assert alone == [user("alone")]
    assert len(sessions) == 2
    assert listed == []


def call(name: str, tool: str, arguments: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


@pytest.mark.requirement("F1", "E4")
def test_each_answer_of_a_conversation_has_a_stream_of_its_own(tmp_path: Path):
    """C17."""

    async def scenario(server: LiveServer):
        body = {"model": "agent", "stream": True}
        streams = []
        for number in range(2):
            asked = {**body, "messages": [user(f"tab {number}")]}
            async with server.listen(PATH, asked, x_turnbuckle_session="s") as listener:
                streams.append((listener.run, await listener.rest()))
        return streams, [await server.events(name) for name, _ in streams]

    streams, events = run_scenario(scenario, tmp_path, echo)
    (one, first), (other, second) = streams
    assert one != other
    assert {frame.json["id"] for frame in first[:-1]} == {f"chatcmpl-{one}"}
    assert {frame.json["id"] for frame in second[:-1]} == {f"chatcmpl-{other}"}
    assert [kept[0].json["run"] for kept in events] == [one, other]


@pytest.mark.requirement("G1")
def test_a_second_message_waits_for_its_turn_and_has_the_first_answer_before_it(tmp_path: Path):
    """M7."""

    async def scenario(server: LiveServer):
        first = asyncio.create_task(say(server, user("text")))
        await server.behind.asked(1)
        second = asyncio.create_task(say(server, user("whole")))
        await eventually(lambda: len(server.service.heartbeat) == 2)
        server.behind.gates.open(1)
        return await first, await second, asked_of(server)

    first, second, histories = run_scenario(scenario, tmp_path, model_by_phase())
    assert first.status == second.status == 200
    assert first.headers["x-turnbuckle-run"] != second.headers["x-turnbuckle-run"]
    assert [(one["role"], one["content"]) for one in histories[-1]] == [
        ("user", "text"),
        ("assistant", LAST),
        ("user", "whole"),
    ]
    assert len(histories) == 2


@pytest.mark.requirement("F4", "G6")
def test_a_response_goes_on_in_the_session_that_its_header_names_as_a_chat_does(tmp_path: Path):
    async def scenario(server: LiveServer):
        await say(server, user("one"))
        body = {"model": "agent", "input": "two"}
        reply = await server.post("/v1/responses", body, x_turnbuckle_session="s")
        same = await server.post("/v1/responses", {**body, "conversation": "s"}, x_turnbuckle_session="s")
        refused = [
            await server.post("/v1/responses", {**body, **other}, x_turnbuckle_session="s")
            for other in ({"conversation": "t"}, {"previous_response_id": reply.json["id"]})
        ]
        return asked_of(server), reply, same, refused

    histories, reply, same, refused = run_scenario(scenario, tmp_path, echo)
    assert [one["content"] for one in histories[1]] == ["one", "You said: one", "two"]
    assert (reply.headers["x-turnbuckle-session"], same.status) == ("s", 200)
    assert [(one.status, one.json["error"]["param"]) for one in refused] == [
        (400, "conversation"),
        (400, "previous_response_id"),
    ]
    assert len(histories) == 3
