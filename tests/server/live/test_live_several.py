"""A relay passes several answers on (`n`): each as its provider tells it, and each with a truthful end."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai
import pytest
from support.processes.server_process import ServerProcess, run_process_scenario
from support.server.live_server import LiveServer, gate, run_scenario

from turnbuckle.lab.script import CutOff, Finish, Frame, LabRequest, Raw, Say, ScriptItem, Status

DONE = Raw("data: [DONE]\n\n")
ASKED: dict[str, Any] = {"model": "lab", "messages": [{"role": "user", "content": "Hi."}], "n": 3}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": ""}, "odd": 1}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
LOGPROBS = [{"token": "B", "logprob": -0.5}]


def chunk(index: int, delta: dict[str, Any], finish: str | None = None, **beside: Any) -> Frame:
    choice = {"index": index, "delta": delta, "finish_reason": finish, **beside}
    return Frame({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def three(*, until: int = 100) -> Iterable[ScriptItem]:
    """Choice 1 speaks first; 2 calls a tool, in pieces; all interleave. Cut behind `until` chunks."""
    frames = [
        chunk(1, {"role": "assistant", "content": "B"}, logprobs={"content": LOGPROBS}, seen="x"),
        chunk(0, {"role": "assistant", "content": "A"}),
        chunk(2, {"role": "assistant", "tool_calls": [{"index": 0, **CALL}]}),
        chunk(1, {"content": "b.", "reasoning_content": "hm"}),
        chunk(2, {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]}),
        chunk(0, {"content": "a."}),
        chunk(0, {}, "stop"),
        chunk(2, {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}),
        chunk(1, {}, "length", native_finish_reason="MAX"),
        chunk(2, {}, "tool_calls"),
    ]
    if until < len(frames):
        return [*frames[:until], CutOff("reset")]
    usage = {"prompt_tokens": 3, "completion_tokens": 9}
    return [*frames, Frame({"id": "c", "model": "m", "choices": [], "usage": usage}), DONE]


def put_together(frames: list[Any]) -> dict[int, dict[str, Any]]:
    """What a client has of each choice in the end."""
    made: dict[int, dict[str, Any]] = {}
    for one in frames:
        for choice in [] if one.data == b"[DONE]" else one.json.get("choices", []):
            known = made.setdefault(choice["index"], {"text": "", "calls": [], "finish": None})
            delta = choice["delta"]
            known["text"] += delta.get("content") or ""
            known["calls"] += delta.get("tool_calls", [])
            known["finish"] = known["finish"] or choice["finish_reason"]
    return made


@pytest.mark.requirement("I8")
def test_several_choices_come_through_in_a_stream_each_by_its_index(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        async with server.listen("/v1/chat/completions", body) as listener:
            frames = await listener.rest()
            run = listener.run
        assert server.lab.requests[-1].body["n"] == 3
        made = put_together(frames)
        assert [(made[at]["text"], made[at]["finish"]) for at in range(3)] == [
            ("Aa.", "stop"),
            ("Bb.", "length"),
            ("", "tool_calls"),
        ]
        (call,) = made[2]["calls"]
        assert call == {**CALL, "index": 0, "function": {"name": "look", "arguments": '{"a": 1}'}}
        choices = [choice for one in frames if one.data != b"[DONE]" for choice in one.json["choices"]]
        assert {"content": LOGPROBS} in [one.get("logprobs") for one in choices if one["index"] == 1]
        assert [one["native_finish_reason"] for one in choices if "native_finish_reason" in one] == ["MAX"]
        assert frames[-1].data == b"[DONE]"
        assert (await server.ended(run))["status"] == "completed"
        assert len(server.lab.requests) == 1

    run_scenario(scenario, tmp_path, lambda _: three())


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("whole", [False, True], ids=["streamed by the provider", "in one piece"])
def test_several_choices_come_through_in_one_piece(tmp_path: Path, whole: bool) -> None:
    def model(_: LabRequest) -> Iterable[ScriptItem]:
        if not whole:
            return three()
        message = {"role": "assistant", "content": None, "tool_calls": [{**CALL}]}
        message["tool_calls"][0]["function"] = {"name": "look", "arguments": '{"a": 1}'}  # type: ignore[index]
        choices = [
            {"index": 0, "message": {"role": "assistant", "content": "Aa."}, "finish_reason": "stop"},
            {
                "index": 1,
                "message": {"role": "assistant", "content": "Bb.", "reasoning_content": "hm"},
                "finish_reason": "length",
                "logprobs": {"content": LOGPROBS},
            },
            {"index": 2, "message": message, "finish_reason": "tool_calls"},
        ]
        return (Status(200, body=json.dumps({"id": "c", "model": "m", "choices": choices})),)

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", {**ASKED, "tools": [TOOL]})
        choices = reply.json["choices"]
        assert [one["index"] for one in choices] == [0, 1, 2]
        assert [one["finish_reason"] for one in choices] == ["stop", "length", "tool_calls"]
        assert [one["message"]["content"] for one in choices] == ["Aa.", "Bb.", None]
        assert choices[1]["message"]["reasoning_content"] == "hm"
        assert choices[1]["logprobs"]["content"] == LOGPROBS
        (call,) = choices[2]["message"]["tool_calls"]
        assert call == {**CALL, "function": {"name": "look", "arguments": '{"a": 1}'}}

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("until", range(1, 10))
def test_a_cut_in_several_choices_ends_each_truthfully_and_nothing_is_asked_twice(
    tmp_path: Path, until: int
) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        async with server.listen("/v1/chat/completions", body) as listener:
            frames = await listener.rest()
            run = listener.run
        made = put_together(frames)
        for at, (text, whole) in enumerate((("Aa.", until > 6), ("Bb.", until > 8), ("", until > 9))):
            if at not in made:
                continue
            told, note, _ = made[at]["text"].partition("[Not finished")
            assert text.startswith(told.strip()), made[at]
            assert bool(note) is not whole
            if not whole:
                assert (made[at]["finish"], made[at]["calls"]) == ("length", [])
        if until > 6:
            assert made[0] == {"text": "Aa.", "calls": [], "finish": "stop"}
        if until > 8:
            assert (made[1]["text"], made[1]["finish"]) == ("Bb.", "length")
        assert (await server.ended(run))["outcome"]["kind"] == "partial"
        assert len(server.lab.requests) == 1
        plain = await server.post("/v1/chat/completions", {**ASKED, "tools": [TOOL]})
        assert plain.headers["x-turnbuckle-outcome"] == "partial"
        ends = {one["index"]: one["finish_reason"] for one in plain.json["choices"]}
        assert ends == {at: told["finish"] for at, told in made.items()}

    run_scenario(scenario, tmp_path, lambda _: three(until=until))


@pytest.mark.requirement("I8")
@pytest.mark.parametrize("until", [6, 100], ids=["cut", "whole"])
def test_several_choices_are_stored_and_told_again_as_they_were(tmp_path: Path, until: int) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        first, again = [
            put_together(await server.read("/v1/chat/completions", body, idempotency_key="k"))
            for _ in range(2)
        ]
        assert first == again
        assert len(server.lab.requests) == 1

    run_scenario(scenario, tmp_path, lambda _: three(until=until))


@pytest.mark.requirement("I8")
def test_before_anything_was_shown_several_answers_are_asked_for_again(tmp_path: Path) -> None:
    def model(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(503),) if request.number == 1 else three()

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", {**ASKED, "tools": [TOOL]})
        assert [one["finish_reason"] for one in reply.json["choices"]] == ["stop", "length", "tool_calls"]
        assert [request.body["n"] for request in server.lab.requests] == [3, 3]

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8")
def test_a_choice_without_an_end_is_not_told_as_whole(tmp_path: Path) -> None:
    def model(_: LabRequest) -> Iterable[ScriptItem]:
        return (chunk(0, {"content": "A."}, "stop"), chunk(1, {"content": "B"}), DONE)

    async def scenario(server: LiveServer) -> None:
        reply = await server.post("/v1/chat/completions", {**ASKED, "n": 2})
        first, second = reply.json["choices"]
        assert (first["message"]["content"], first["finish_reason"]) == ("A.", "stop")
        assert second["message"]["content"].startswith("B\n\n[Not finished: ")
        assert second["finish_reason"] == "length"

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("finish", ["length", "content_filter", "error"])
def test_calls_of_a_choice_that_stopped_short_are_not_handed_over(tmp_path: Path, finish: str) -> None:
    custom = {"id": "c1", "type": "custom", "custom": {"name": "sh", "input": "rm -r /tmp/a"}}  # …/b/c

    def model(_: LabRequest) -> Iterable[ScriptItem]:
        called = chunk(1, {"tool_calls": [{"index": 0, **custom}]})
        return (chunk(0, {"content": "A."}, "stop"), called, chunk(1, {}, finish), DONE)

    async def scenario(server: LiveServer) -> None:
        made = put_together(await server.read("/v1/chat/completions", {**ASKED, "n": 2, "stream": True}))
        assert made == {
            0: {"text": "A.", "calls": [], "finish": "stop"},
            1: {"text": "", "calls": [], "finish": finish},
        }

    run_scenario(scenario, tmp_path, model)


@pytest.mark.requirement("I8", "A1")
@pytest.mark.parametrize("stream", [False, True])
def test_a_choice_that_its_provider_failed_at_makes_the_run_partial_and_the_others_keep_their_ends(
    tmp_path: Path, stream: bool
) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "n": 2}
        if stream:
            async with server.listen("/v1/chat/completions", {**body, "stream": True}) as listener:
                made = put_together(await listener.rest())
            view = await server.ended(listener.run)
            assert view["outcome"]["kind"] == "partial"
            assert "choice 1" in view["outcome"]["why"]
        else:
            reply = await server.post("/v1/chat/completions", body)
            assert reply.headers["x-turnbuckle-outcome"] == "partial"
            made = {
                one["index"]: {"text": one["message"]["content"], "calls": [], "finish": one["finish_reason"]}
                for one in reply.json["choices"]
            }
        assert made == {
            0: {"text": "A.", "calls": [], "finish": "stop"},
            1: {"text": "B", "calls": [], "finish": "error"},
        }
        assert len(server.lab.requests) == 1

    def model(_: LabRequest) -> Iterable[ScriptItem]:
        return (chunk(0, {"content": "A."}, "stop"), chunk(1, {"content": "B"}), chunk(1, {}, "error"), DONE)

    run_scenario(scenario, tmp_path, model)


def halfway(_: LabRequest) -> Iterable[ScriptItem]:
    """All three have begun and the second has ended, when nothing more comes."""
    frames = list(three(until=9))[:-1]
    return [*frames[:3], frames[8], frames[3], gate(1), *frames[4:8]]


@pytest.mark.requirement("I8")
def test_a_stop_ends_every_choice_truthfully_and_hands_over_no_call(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        async with server.listen("/v1/chat/completions", body) as listener:
            await listener.until(b"b.")
            assert (await server.post(f"/v1/runs/{listener.run}/stop")).status == 200
            await listener.rest()
            made = put_together(listener.frames)
        assert made[0] == {"text": "A\n\n[Stopped.]", "calls": [], "finish": "length"}
        assert (made[1]["text"], made[1]["finish"]) == ("Bb.", "length")
        assert made[2] == {"text": "[Stopped.]", "calls": [], "finish": "length"}
        assert (await server.ended(listener.run))["outcome"]["kind"] == "cancelled"
        assert len(server.lab.requests) == 1

    run_scenario(scenario, tmp_path, halfway)


@pytest.mark.requirement("I8", "E4")
def test_a_reader_that_comes_back_by_its_cursor_gets_the_rest_of_every_choice_once(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        run = ""
        async with server.listen(
            "/v1/chat/completions", body, x_turnbuckle_on_disconnect="detach"
        ) as listener:
            await listener.until(b"b.")
            run = listener.run
        server.behind.gates.open(1)
        await server.ended(run)
        whole = await server.events(run)
        for place, frame in enumerate(whole, 1):
            rest = await server.events(run, int(frame.id))
            assert [one.raw for one in rest] == [one.raw for one in whole[place:]]
        pieces = [one.json for one in whole if b'"choice"' in one.data]
        assert sum(str(piece).count("'b.'") for piece in pieces) == 1

    run_scenario(scenario, tmp_path, halfway)


@pytest.mark.process
@pytest.mark.requirement("I8", "E1")
def test_a_kill_in_the_midst_of_several_answers_ends_each_as_far_as_it_was_shown(tmp_path: Path) -> None:
    async def scenario(server: ServerProcess) -> None:
        await server.start()
        body = {**ASKED, "stream": True, "tools": [TOOL]}
        async with server.listen("/v1/chat/completions", body, idempotency_key="k") as listener:
            await listener.until(b"b.")
            run = listener.run
            await server.kill()
        server.behind.gates.open(1)
        await server.start()
        assert (await server.ended(run))["outcome"]["kind"] == "partial"
        made = put_together(await server.read("/v1/chat/completions", body, idempotency_key="k"))
        assert [made[at]["text"].partition("\n")[0].partition("[")[0] for at in range(3)] == ["A", "Bb.", ""]
        assert [made[at]["finish"] for at in range(3)] == ["length"] * 3
        assert "[Not finished" in made[0]["text"]
        assert "[Not finished" not in made[1]["text"]
        assert made[2]["calls"] == []
        assert len(server.behind.lab.requests) == 1
        assert await server.stop() == 0

    run_process_scenario(scenario, tmp_path, halfway, gap=60)


def hello(_: LabRequest) -> Iterable[ScriptItem]:
    return (Say("Hello."), Finish())


@pytest.mark.requirement("I8")
def test_where_there_is_one_answer_several_are_refused_or_named(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        agent = await server.post("/v1/chat/completions", {**ASKED, "model": "agent"})
        session = await server.post("/v1/chat/completions", ASKED, x_turnbuckle_session="s")
        run = await server.post("/v1/runs", {"input": "Hi.", "model": "lab", "n": 2})
        many = await server.post("/v1/chat/completions", {**ASKED, "n": 129})
        for refused in (agent, session, run, many):
            assert (refused.status, refused.json["error"]["param"]) == (400, "n")
        assert not server.lab.requests
        across = await server.post("/v1/chat/completions", ASKED)
        assert across.headers["x-turnbuckle-left-out"] == "n"
        assert [one["message"]["content"] for one in across.json["choices"]] == ["Hello."]

    run_scenario(scenario, tmp_path, hello, protocol="anthropic")


@pytest.mark.requirement("I8")
def test_the_official_package_puts_several_choices_together(tmp_path: Path) -> None:
    async def scenario(server: LiveServer) -> None:
        address = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(base_url=address, api_key="any", max_retries=0) as client:
            asked: Any = {key: ASKED[key] for key in ("model", "messages", "n")}
            async with client.chat.completions.stream(**asked) as stream:
                async for _ in stream:
                    pass
                whole = await stream.get_final_completion()
        told = [(one.message.content, one.finish_reason) for one in whole.choices]
        assert told == [("Aa.", "stop"), ("Bb.", "stop")]

    def two(_: LabRequest) -> Iterable[ScriptItem]:
        yield chunk(1, {"role": "assistant", "content": "Bb."})
        yield chunk(0, {"role": "assistant", "content": "Aa."})
        yield chunk(1, {}, "stop")
        yield chunk(0, {}, "stop")
        yield DONE

    run_scenario(scenario, tmp_path, two)
