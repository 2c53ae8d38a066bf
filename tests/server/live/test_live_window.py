"""Conversations that outgrow a window which only the provider knows, over real HTTP: refused in each protocol's own
words, made smaller, known after a restart, and killed at every step of it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import ApiClient, LiveServer, eventually, lab_provider, run, serve_live
from support.server.narrow_model import REFUSALS, NarrowModel, long_turn

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem

TURNS = 6
NO_TOOLS = "enable = []"


async def talk(server: ApiClient, session: str, turns: range) -> list[dict[str, Any]]:
    views = []
    for turn in turns:
        reply = await server.post(f"/v1/sessions/{session}/messages", {"input": long_turn(turn)})
        assert reply.status == 202, reply.body
        views.append(await server.ended(reply.json["id"]))
    return views


@pytest.mark.requirement("I1", "I2", "I4")
@pytest.mark.parametrize("protocol", REFUSALS)
def test_a_refusal_in_each_protocol_s_words_is_healed_and_known_after_a_restart(
    tmp_path: Path, protocol: str
) -> None:
    model, names_it = NarrowModel(), "WINDOW" in json.dumps(REFUSALS[protocol])

    async def scenario() -> None:
        async with lab_provider(model) as behind:
            settings = {"protocol": protocol, "tools": NO_TOOLS, "server": "drain = 0"}
            async with serve_live(tmp_path, behind, **settings) as server:
                for session in ("a", "b"):
                    await server.post("/v1/sessions", {"id": session})
                views = await talk(server, "a", range(TURNS))
                assert [view["status"] for view in views] == ["completed"] * TURNS
                assert 1 <= model.refused <= (1 if names_it else TURNS)
                assert sum(view["context"]["compactions"] for view in views) >= 1
            async with serve_live(tmp_path, behind, **settings) as server:
                more = [*await talk(server, "a", range(TURNS, 9)), *await talk(server, "b", range(TURNS))]
                assert [view["status"] for view in more] == ["completed"] * len(more)
        if names_it:
            assert {view["context"]["window"] for view in (views[-1], *more)} == {model.window}
            assert model.refused == 1, "it need not refuse twice"

    run(scenario())


@pytest.mark.requirement("I1")
def test_the_window_of_a_session_is_that_of_the_route_which_answered(tmp_path: Path) -> None:
    def hello(_: LabRequest) -> Iterable[ScriptItem]:
        return (Say("Hello."), Finish())

    async def scenario(server: LiveServer) -> None:
        await server.post("/v1/sessions", {"id": "a"})
        for model, window in (("agent/lab", 9_000), ("agent/narrow", 3_000), ("agent/lab", 9_000)):
            said = await server.post("/v1/sessions/a/messages", {"input": "Hi.", "model": model})
            assert (await server.ended(said.json["id"]))["context"]["window"] == window
            assert (await server.get("/v1/sessions/a/context")).json["window"] == window

    narrow = (
        'context_window = 9000\n[[routes]]\nname = "narrow"\nprotocol = "openai_chat"\nmodel = "n"\n'
        'api_key = "any"\ncontext_window = 3000\nbase_url = "URL/v1"'
    )

    async def main() -> None:
        async with lab_provider(hello) as behind:
            route = narrow.replace("URL", behind.lab.url)
            async with serve_live(
                tmp_path, behind, route=route, tools=NO_TOOLS, server="drain = 0"
            ) as server:
                await scenario(server)

    run(main())


KILLS = {
    "at the summary call": ("", "openai_responses"),
    "behind the summary": ("before-append:Compacted:1", "gemini"),
    "behind the fact": ("after-append:Compacted:1", "anthropic"),
}


@pytest.mark.process
@pytest.mark.requirement("I6", "I3")
@pytest.mark.parametrize("fault, protocol", KILLS.values(), ids=KILLS)
def test_a_process_that_is_killed_inside_a_compaction_goes_on_with_the_same_conversation(
    tmp_path: Path, fault: str, protocol: str
) -> None:
    model = NarrowModel(waits=not fault)

    async def scenario(server: ServerProcess) -> None:
        await server.start(**({"TURNBUCKLE_FAULT": fault} if fault else {}))
        await server.post("/v1/sessions", {"id": "a"})
        runs: list[str] = []
        for turn in range(TURNS):
            said = {"input": long_turn(turn)}
            runs.append((await server.post("/v1/sessions/a/messages", said)).json["id"])
        if fault:
            await server.wait()
        else:
            await eventually(lambda: model.summaries)
            await server.kill()
        server.behind.gates.open(1)
        await server.start()
        views = [await server.ended(run) for run in runs]
        assert [view["status"] for view in views] == ["completed"] * TURNS
        told = [one for run in runs for one in await server.events(run)]
        kept = [frame for frame in told if frame.event == "compacted"]
        assert kept
        assert model.summaries <= len(kept) + 1, "only the one that was killed is made again"
        listed = (await server.get("/v1/sessions/a/messages?limit=100")).json["data"]
        words = [str(one) for one in listed]
        for turn in range(TURNS):
            assert sum(f"Turn {turn}. " in one for one in words) == 1
        last = await talk(server, "a", range(TURNS, TURNS + 1))
        assert last[0]["status"] == "completed"
        assert await server.stop() == 0

    run_process_scenario(scenario, tmp_path, model, protocol=protocol, tools=NO_TOOLS, gap=60)
