"""Tools of the client: a long call comes to it whole, however often its stream broke, and its result goes back."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import Frame, LiveServer, lab_provider, run, run_scenario, serve_live

from turnbuckle.lab.received import last_user_text, results_brought, shown_draft
from turnbuckle.lab.script import Call, Finish, KillAfter, LabRequest, Say, ScriptItem

LONG = "".join(
    f"{number:05}: each turn of the screw takes up a little more slack\n" for number in range(600)
)[:30_000]
SAID = "I keep all of it. "
KEPT = "It is kept."
RESULT = "kept 30000 characters"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CHAT_TOOL = {"type": "function", "function": {"name": "keep_text", "parameters": SCHEMA}}
RESPONSE_TOOL = {"type": "function", "name": "keep_text", "parameters": SCHEMA, "strict": False}
ASKED = {"role": "user", "content": "Keep this."}


def keeper(request: LabRequest) -> Iterable[ScriptItem]:
    """A call with 30,000 characters, from a provider that kills every stream after 4,000 of them."""
    if "kept 30000" in json.dumps(request.body):
        return (Say(KEPT), Finish())
    kill = KillAfter(arguments=4_000, how="reset")
    asked = shown_draft(last_user_text(request))
    if asked is None:
        return (kill, Say(SAID), Call("keep_text", {"text": LONG}, 40), Finish())
    tail = asked.tail
    rest = LONG[LONG.index(tail) + len(tail) :]
    return (kill, Call("finish_call", {"draft": asked.id, "after": tail[-60:], "rest": rest}, 40), Finish())


class Turn:
    """What one request gave: the client's own copy of it, and the calls in it as (id, name, arguments)."""

    def __init__(
        self, text: str, calls: list[tuple[str, str, str]], finish: str, items: list[dict[str, Any]]
    ) -> None:
        self.text = text
        self.calls = calls
        self.finish = finish
        self.items = items


def chat_turn(message: dict[str, Any], finish: str) -> Turn:
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message["tool_calls"]
    ]
    return Turn(message["content"], calls, finish, [message])


def folded(frames: list[Frame]) -> Turn:
    """A chat stream as a client folds it."""
    assert frames[-1].data == b"[DONE]"
    text, finish = "", ""
    calls: list[Any] = []
    for choice in (frame.json["choices"][0] for frame in frames[:-1]):
        text += choice["delta"].get("content") or ""
        finish = choice["finish_reason"] or finish
        for piece in choice["delta"].get("tool_calls", ()):
            if piece["index"] == len(calls):
                calls.append({"id": piece["id"], "type": "function", "function": {**piece["function"]}})
            else:
                calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return chat_turn({"role": "assistant", "content": text, "tool_calls": calls}, finish)


def response_turn(response: dict[str, Any]) -> Turn:
    items = response["output"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    calls = [
        (item["call_id"], item["name"], item["arguments"])
        for item in items
        if item["type"] == "function_call"
    ]
    return Turn("".join(texts), calls, response["status"], items)


async def first_turn(
    server: LiveServer, surface: str, tools: list[dict[str, Any]], model: str = "lab"
) -> Turn:
    if surface == "chat":
        reply = await server.post(
            "/v1/chat/completions", {"model": model, "messages": [ASKED], "tools": tools}
        )
        choice = reply.json["choices"][0]
        return chat_turn(choice["message"], choice["finish_reason"])
    if surface == "chat stream":
        body = {"model": model, "messages": [ASKED], "tools": tools, "stream": True}
        return folded(await server.read("/v1/chat/completions", body))
    body = {"model": model, "input": [ASKED], "tools": tools, "store": True}
    if surface == "response":
        return response_turn((await server.post("/v1/responses", body)).json)
    frames = await server.read("/v1/responses", {**body, "stream": True})
    deltas = [one.json["delta"] for one in frames if one.event == "response.function_call_arguments.delta"]
    made = response_turn(frames[-1].json["response"])
    assert "".join(deltas) == "".join(arguments for _, _, arguments in made.calls)
    return made


async def second_turn(
    server: LiveServer,
    surface: str,
    tools: list[dict[str, Any]],
    first: Turn,
    results: list[str],
    model: str = "lab",
) -> str:
    ids = [name for name, _, _ in first.calls]
    if surface.startswith("chat"):
        told = [
            {"role": "tool", "tool_call_id": one, "content": text}
            for one, text in zip(ids, results, strict=True)
        ]
        body = {"model": model, "messages": [ASKED, *first.items, *told], "tools": tools}
        return (await server.post("/v1/chat/completions", body)).json["choices"][0]["message"]["content"]
    told = [
        {"type": "function_call_output", "call_id": one, "output": text}
        for one, text in zip(ids, results, strict=True)
    ]
    body = {"model": model, "input": [ASKED, *first.items, *told], "tools": tools}
    return response_turn((await server.post("/v1/responses", body)).json).text


def check_legal(messages: list[dict[str, Any]]) -> None:
    """Every call is answered, once, right behind the message that made it, and nothing else is answered."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert waiting == []
        waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


SURFACES = ("chat", "chat stream", "response", "response stream")


@pytest.mark.requirement("F11", "B8", "C5")
@pytest.mark.parametrize("surface", SURFACES)
def test_a_long_call_comes_whole_and_its_result_goes_back_behind_what_the_model_said(
    surface: str, tmp_path: Path
):
    async def scenario(server: LiveServer):
        tools = [CHAT_TOOL if surface.startswith("chat") else RESPONSE_TOOL]
        first = await first_turn(server, surface, tools)
        asked = len(server.lab.requests)
        text = await second_turn(server, surface, tools, first, [RESULT])
        return first, asked, text, [request.body for request in server.lab.requests]

    first, asked, text, bodies = run_scenario(scenario, tmp_path, keeper)
    [(_, tool, arguments)] = first.calls
    assert (tool, json.loads(arguments)) == ("keep_text", {"text": LONG})
    assert first.text == SAID
    assert first.finish == ("tool_calls" if surface.startswith("chat") else "completed")
    assert asked > len(LONG) // 4_000
    assert text == KEPT
    # The provider gets what it said before, to the letter, and behind it only the result.
    assert len(bodies) == asked + 1
    check_legal(bodies[-1]["messages"])
    before, after = bodies[-2]["messages"], bodies[-1]["messages"]
    assert after[: len(before)] == before
    assert [message["content"] for message in after if message["role"] == "tool"].count(RESULT) == 1
    offered = [[one["function"]["name"] for one in body["tools"]] for body in bodies]
    assert offered == [["keep_text"], *[["keep_text", "finish_call"]] * (len(bodies) - 1)]


@pytest.mark.requirement("F11", "A10")
@pytest.mark.parametrize("protocol", ["openai_responses", "anthropic"])
@pytest.mark.parametrize("surface", ["chat stream", "response"])
def test_the_long_call_comes_whole_from_providers_of_the_other_protocols(
    surface: str, protocol: str, tmp_path: Path
):
    async def scenario(server: LiveServer):
        tools = [CHAT_TOOL if surface.startswith("chat") else RESPONSE_TOOL]
        first = await first_turn(server, surface, tools)
        return first, await second_turn(server, surface, tools, first, [RESULT])

    first, text = run_scenario(scenario, tmp_path, keeper, protocol=protocol)
    assert [(tool, json.loads(arguments)) for _, tool, arguments in first.calls] == [
        ("keep_text", {"text": LONG})
    ]
    assert text == KEPT


@pytest.mark.requirement("F11", "J1")
@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses", "anthropic"])
def test_a_server_of_this_kind_may_stand_behind_another_and_its_drafts_are_finished_in_front(
    protocol: str, tmp_path: Path
):
    """The one in front offers `finish_call` to its provider. To the one behind, that is a client's tool."""

    async def main() -> Turn:
        front, back = tmp_path / "front", tmp_path / "back"
        front.mkdir()
        back.mkdir()
        async with lab_provider(keeper) as lab, serve_live(back, lab, server="drain = 0") as behind:
            (front / "work").mkdir()
            url = f"http://127.0.0.1:{behind.port}"
            async with serve_live(front, lab, server="drain = 0", url=url, protocol=protocol) as server:
                return await first_turn(server, "chat stream", [CHAT_TOOL])

    [(_, tool, arguments)] = run(main()).calls
    assert (tool, json.loads(arguments)) == ("keep_text", {"text": LONG})


def mixed(request: LabRequest) -> Iterable[ScriptItem]:
    """A tool of the server and two calls of one of the client, in one reply."""
    if results_brought(request):
        return (Say(KEPT), Finish())
    return (
        Say(SAID),
        Call("keep_text", {"text": "one"}),
        Call("write_file", {"path": "note.txt", "content": "ours\n"}),
        Call("keep_text", {"text": "two"}),
        Finish(),
    )


@pytest.mark.requirement("F11", "C5", "F3")
@pytest.mark.parametrize("surface", SURFACES)
def test_of_a_reply_with_tools_of_both_ours_runs_here_and_the_others_are_handed_over(
    surface: str, tmp_path: Path
):
    async def scenario(server: LiveServer):
        tools = [CHAT_TOOL if surface.startswith("chat") else RESPONSE_TOOL]
        first = await first_turn(server, surface, tools, "agent")
        note = (server.work / "note.txt").read_text()
        (server.work / "note.txt").unlink()
        text = await second_turn(server, surface, tools, first, ["first is kept", "second is kept"], "agent")
        again = (server.work / "note.txt").exists()
        return first, note, again, text, [request.body["messages"] for request in server.lab.requests]

    first, note, again, text, histories = run_scenario(scenario, tmp_path, mixed)
    assert [(tool, json.loads(arguments)) for _, tool, arguments in first.calls] == [
        ("keep_text", {"text": "one"}),
        ("keep_text", {"text": "two"}),
    ]
    assert note == "ours\n"
    assert not again
    assert text == KEPT
    assert len(histories) == 2
    check_legal(histories[-1])
    [spoke] = [message for message in histories[-1] if message["role"] == "assistant"]
    assert spoke["content"] == SAID
    assert [call["function"]["name"] for call in spoke["tool_calls"]] == [
        "keep_text",
        "write_file",
        "keep_text",
    ]
    results = [message["content"] for message in histories[-1] if message["role"] == "tool"]
    assert [text for text in results if "kept" in text] == ["first is kept", "second is kept"]
    assert len(results) == 3


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("surface", ["chat", "response"])
def test_a_result_can_come_in_the_session_that_holds_the_call(surface: str, tmp_path: Path):
    """The client sends the result alone: the server has the rest."""

    async def scenario(server: LiveServer):
        if surface == "chat":
            path, named = "/v1/chat/completions", {"x_turnbuckle_session": "s"}
            one = await server.post(
                path, {"model": "agent", "messages": [ASKED], "tools": [CHAT_TOOL]}, **named
            )
            calls = one.json["choices"][0]["message"]["tool_calls"]
            told = [{"role": "tool", "tool_call_id": call["id"], "content": "it is kept"} for call in calls]
            two = await server.post(path, {"model": "agent", "messages": told, "tools": [CHAT_TOOL]}, **named)
            return two.json["choices"][0]["message"]["content"], server.lab.requests[-1].body["messages"]
        one = await server.post(
            "/v1/responses", {"model": "agent", "input": [ASKED], "tools": [RESPONSE_TOOL]}
        )
        turn = response_turn(one.json)
        told = [
            {"type": "function_call_output", "call_id": name, "output": "it is kept"}
            for name, _, _ in turn.calls
        ]
        body = {
            "model": "agent",
            "input": told,
            "tools": [RESPONSE_TOOL],
            "previous_response_id": one.json["id"],
        }
        two = await server.post("/v1/responses", body)
        return response_turn(two.json).text, server.lab.requests[-1].body["messages"]

    text, history = run_scenario(scenario, tmp_path, mixed)
    assert text == KEPT
    check_legal(history)
    assert [message["content"] for message in history if message["role"] == "tool"].count("it is kept") == 2


def in_rounds(request: LabRequest) -> Iterable[ScriptItem]:
    """A tool of the server, then one of the client, each behind words."""
    match results_brought(request):
        case 0:
            return (
                Say("First ours. "),
                Call("write_file", {"path": "note.txt", "content": "ours\n"}),
                Finish(),
            )
        case 1:
            return (Say("Then yours. "), Call("keep_text", {"text": "one"}), Finish())
        case _:
            return (Say(KEPT), Finish())


@pytest.mark.requirement("F11", "C5")
@pytest.mark.parametrize("surface", SURFACES)
def test_a_conversation_that_goes_on_tells_the_provider_the_same_as_before_and_more(
    surface: str, tmp_path: Path
):
    """The client's copy of a turn may be poorer than ours, and in other pieces."""

    async def scenario(server: LiveServer):
        tools = [CHAT_TOOL if surface.startswith("chat") else RESPONSE_TOOL]
        first = await first_turn(server, surface, tools, "agent")
        await second_turn(server, surface, tools, first, ["it is kept"], "agent")
        name = first.calls[0][0]
        if surface.startswith("chat"):
            said = [
                {"role": "tool", "tool_call_id": name, "content": "it is kept"},
                {"role": "assistant", "content": KEPT},
            ]
            body = {"model": "agent", "messages": [ASKED, *first.items, *said, ASKED], "tools": tools}
            await server.post("/v1/chat/completions", body)
        else:
            said = [
                {"type": "function_call_output", "call_id": name, "output": "it is kept"},
                {"role": "assistant", "content": KEPT},
            ]
            await server.post(
                "/v1/responses",
                {"model": "agent", "input": [ASKED, *first.items, *said, ASKED], "tools": tools},
            )
        return [request.body["messages"] for request in server.lab.requests]

    histories = run_scenario(scenario, tmp_path, in_rounds)
    assert len(histories) == 4
    for before, after in pairwise(histories):
        assert after[: len(before)] == before
        check_legal(after)
    spoken = [message.get("content") for message in histories[-1] if message["role"] == "assistant"]
    assert spoken == ["First ours. ", "Then yours. ", KEPT]
