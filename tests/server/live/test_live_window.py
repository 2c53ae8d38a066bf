"""Conversations that outgrow a window which only the provider knows, over real HTTP: refused in each protocol's own
words, made smaller, known after a restart, and killed at every step of it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import ApiClient, LiveServer, eventually, lab_provider, run, serve_live
from support.server.narrow_model import NOTES, REFUSALS, NarrowModel, long_turn

from turnbuckle.lab.received import messages_of
from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.messages import text_of

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


NARROW = 2_500


class TwoModels:
    """The first writes no summaries. The second does, and refuses what is over its window, answer included."""

    def __init__(self) -> None:
        self.refused: list[int] = []
        self.summaries = 0

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        taken = len(json.dumps(request.body["messages"])) // 4
        asks = any("Write the notes now" in text_of(message.parts) for message in messages_of(request))
        if request.body["model"] == "n":
            if taken + request.body.get("max_completion_tokens", 0) > NARROW:
                self.refused.append(taken)
                return (
                    Status(400, body='{"error":{"code":"context_length_exceeded","message":"too long"}}'),
                )
            self.summaries += asks
            return (Say(NOTES), Finish(usage=Usage(input=taken, output=20)))
        if asks:
            return (Status(400, body='{"error":{"message":"no summaries here"}}'),)
        return (Say("One more. " * 60), Finish(usage=Usage(input=taken, output=150)))


@pytest.mark.requirement("I2", "I6")
@pytest.mark.parametrize("writer", ["", 'route = "narrow"'], ids=["falls back", "is named"])
def test_a_summary_by_a_route_of_a_smaller_window_is_asked_for_in_what_fits(
    tmp_path: Path, writer: str
) -> None:
    model = TwoModels()

    async def main() -> None:
        async with lab_provider(model) as behind:
            more = (
                '[[routes]]\nname = "narrow"\nprotocol = "openai_chat"\nmodel = "n"\napi_key = "any"\n'
                f'context_window = {NARROW}\nbase_url = "URL/v1"\n[context]\n{writer}'
            )
            settings = {"route": "context_window = 6000", "more": more, "tools": NO_TOOLS}
            async with serve_live(tmp_path, behind, server="drain = 0", **settings) as server:
                await server.post("/v1/sessions", {"id": "a"})
                views = await talk(server, "a", range(20))
                assert {view["status"] for view in views} == {"completed"}
                assert sum(view["context"]["compactions"] for view in views) >= 1

    run(main())
    assert model.summaries >= 1
    assert model.refused == []


class Windows:
    """Two models, each of which refuses what is over its own window, in words that name it or do not."""

    def __init__(self, names_it: bool, **windows: int) -> None:
        self.names_it, self.windows = names_it, windows
        self.asked: list[str] = []

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        model = request.body["model"]
        self.asked.append(model)
        taken, window = len(json.dumps(request.body["messages"])) // 4, self.windows[model]
        if taken > window:
            words = f"maximum context length is {window} tokens" if self.names_it else "prompt too long"
            return (Status(400, body=json.dumps({"error": {"message": words}})),)
        return (Say("Read."), Finish(usage=Usage(input=taken, output=2)))


@pytest.mark.requirement("I2", "B10")
@pytest.mark.parametrize("names_it", [True, False], ids=["the window is named", "no window is named"])
@pytest.mark.parametrize("wide", [50_000, 6_000], ids=["fits the other", "fits nobody"])
def test_a_message_that_fits_no_window_but_that_of_another_route_goes_there(
    tmp_path: Path, names_it: bool, wide: int
) -> None:
    """Also where the window is known before anybody is asked."""
    words, fits = "All of it: " + "word " * 8_000, wide > 10_000
    model = Windows(names_it, m=4_000, w=wide)

    async def main() -> None:
        async with lab_provider(model) as behind:
            other = (
                '[[routes]]\nname = "wide"\nprotocol = "openai_chat"\nmodel = "w"\napi_key = "any"\n'
                'base_url = "URL/v1"'
            )
            async with serve_live(tmp_path, behind, more=other, tools=NO_TOOLS, server="drain = 0") as server:
                views, asked = [], []
                for session, text in (("a", words), ("b", words), ("a", "And now?")):
                    view = await server.ended(await server.begin(text, session=session))
                    views.append(view["status"])
                    asked.append(model.asked)
                    model.asked = []
        assert views == [*["completed" if fits else "failed"] * 2, "completed"]
        assert asked[0] == ["m", "w"]
        assert asked[1] == (["w"] if fits else ["m"]) if names_it else ["m", "w"]
        assert len(asked[2]) < 10

    run(main())


@pytest.mark.requirement("I1", "I4")
@pytest.mark.parametrize("again", [False, True], ids=["the same server", "another server"])
def test_a_model_that_came_back_with_a_larger_window_is_asked_before_a_run_ends(
    tmp_path: Path, again: bool
) -> None:
    """It has named a window in which nothing has room. Nobody but its provider can know of another one."""
    model = Windows(True, m=20)

    async def said(server: LiveServer, words: str) -> tuple[str, int | None]:
        view = await server.ended(await server.begin(words, session="a"))
        return view["status"], view["context"]["window"]

    async def main() -> None:
        async with lab_provider(model) as behind:
            settings = {"tools": NO_TOOLS, "server": "drain = 0"}
            async with serve_live(tmp_path, behind, **settings) as server:
                assert (await said(server, "Hello."))[0] == "failed"
                model.windows["m"] = 20_000
                if not again:
                    assert (await said(server, "Hello?"))[0] == "completed"
                    assert await said(server, "And now?") == ("completed", None)
                    return
            async with serve_live(tmp_path, behind, **settings) as server:
                assert (await said(server, "Hello?"))[0] == "completed"
                assert await said(server, "And now?") == ("completed", None)

    run(main())
    assert len(model.asked) == 3


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.mark.requirement("I2", "I3")
def test_a_conversation_with_pictures_and_documents_is_made_smaller_and_goes_on(tmp_path: Path) -> None:
    asked: list[str] = []

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        told = json.dumps(request.body["messages"])
        if "Write the notes now" in told:
            asked.append(told)
            return (Say(NOTES), Finish())
        taken = len(told) // 4 + 1_000 * told.count("data:")
        return (Say("Seen. " * 40), Finish(usage=Usage(input=taken, output=60)))

    async def main() -> None:
        async with lab_provider(model) as behind:
            settings = {"route": "context_window = 9000", "tools": NO_TOOLS, "server": "drain = 0"}
            async with serve_live(tmp_path, behind, **settings) as server:
                for turn in range(9):
                    content = [
                        {"type": "text", "text": f"Picture {turn}: what is it?"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"}},
                    ]  # fmt: skip
                    body = {"model": "agent", "messages": [{"role": "user", "content": content}]}
                    reply = await server.post("/v1/chat/completions", body, x_turnbuckle_session="a")
                    assert reply.status == 200, reply.json
                assert (await server.get("/v1/sessions/a/context")).json["summary"] == NOTES
                listed = (await server.get("/v1/sessions/a/messages?limit=100")).json["data"]
                assert json.dumps(listed).count("Picture ") == 9
                found = (await server.get("/v1/sessions?q=Picture%201")).json["data"]
                assert [(one["id"], "Picture 1" in one["snippet"]) for one in found] == [("a", True)]
                runs = (await server.get("/v1/runs?session=a&limit=50")).json["data"]
                ledgers = [(await server.get(f"/v1/runs/{one['id']}/ledger")).json for one in runs]
                spent = [entry for ledger in ledgers for entry in ledger["entries"]]
                assert {entry["cause"] for entry in spent} == {"compaction"}
                assert all(entry["input_tokens"] and entry["output_tokens"] for entry in spent)
                last = json.dumps(behind.lab.requests[-1].body["messages"])
                assert "Picture 0: what is it? [a picture (image/png), which is no longer in sight]" in last
                assert last.count("data:image/png") < 9
                assert "Picture 8" in last
                assert PIXEL in last

    run(main())
    assert asked
    assert "[a picture (image/png)] [a document (a.pdf)]" in asked[0]
    assert PIXEL not in "".join(asked)


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
