"""A client's own wish to make its conversation smaller: what it gets stands for the conversation."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.script import Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.wire.openai_responses.compaction import LONGEST, MARK, opened, sealed

INPUT = [
    {"type": "message", "role": "user", "content": "We launch on Tuesday and tell support first."},
    {"type": "message", "role": "assistant", "content": "Understood: Tuesday, support first. " * 60},
]
SHORT = [INPUT[0], {"type": "message", "role": "assistant", "content": "Understood."}]


NOTHING_KNOWN = "".join(f"I know nothing of {number}. " for number in range(60))


def model(request: LabRequest) -> Iterable[ScriptItem]:
    """Writes notes if it is asked for them, else says what it was told."""
    told = str(request.body["messages"])
    if "Write the notes now" in told:
        return (Say("Task: launch. Decisions: Tuesday."), Finish())
    return (Say("I know of it" if "Decisions: Tuesday" in told else NOTHING_KNOWN), Finish())


@pytest.mark.realtime
@pytest.mark.requirement("J3", "I5")
def test_the_compacted_output_is_the_input_of_a_new_chain(tmp_path: Path):
    async def scenario(server: LiveServer):
        made = await server.post(
            "/v1/responses/compact", {"model": "lab", "input": INPUT, "prompt_cache_key": "k"}
        )
        more = [*made.json["output"], {"type": "message", "role": "user", "content": "Go on."}]
        after = await server.post("/v1/responses", {"model": "lab", "input": more})
        listed = await server.get(f"/v1/responses/{after.json['id']}/input_items?order=asc")
        return made.json, after.json, listed.json["data"], [request.body for request in server.lab.requests]

    made, after, listed, requests = run_scenario(scenario, tmp_path, model)
    assert made["object"] == "response.compaction"
    assert [item["type"] for item in made["output"]] == ["message", "compaction"]
    assert made["output"][0]["content"] == [{"type": "input_text", "text": INPUT[0]["content"]}]
    assert opened(made["output"][1]["encrypted_content"]) == "Task: launch. Decisions: Tuesday."
    assert made["usage"]["total_tokens"] > 0
    assert after["output"][0]["content"][0]["text"] == "I know of it"
    assert [item["type"] for item in listed] == ["message", "compaction", "message"]
    assert "tools" not in requests[0]


@pytest.mark.realtime
@pytest.mark.requirement("J3")
def test_a_stored_conversation_is_compacted_by_its_last_response(tmp_path: Path):
    async def scenario(server: LiveServer):
        first = (await server.post("/v1/responses", {"model": "lab", "input": "Tuesday it is"})).json["id"]
        made = await server.post("/v1/responses/compact", {"model": "agent", "previous_response_id": first})
        return made.json, str(server.lab.requests[-1].body["messages"])

    made, told = run_scenario(scenario, tmp_path, model)
    assert [item["type"] for item in made["output"]] == ["compaction"]
    assert "Tuesday it is" in told
    assert "I know nothing" in told


def long_summary(request: LabRequest) -> Iterable[ScriptItem]:
    """Writes notes that are longer than any conversation here."""
    if "Write the notes now" in str(request.body["messages"]):
        return (Say("".join(f"Task {number}. " for number in range(900))), Finish())
    return (Say("Gladly."), Finish())


@pytest.mark.requirement("J3", "I2")
@pytest.mark.parametrize(
    "input_items, asked, notice",
    [
        (SHORT, 0, "there is nothing to make smaller"),
        (INPUT, 1, "there is nothing to make smaller: with a summary it would take "),
    ],
    ids=["too short for a summary", "its summary is too long"],
)
def test_what_would_not_be_smaller_comes_back_as_it_is(tmp_path: Path, input_items, asked: int, notice: str):
    async def scenario(server: LiveServer):
        going_on = {"type": "message", "role": "user", "content": "Go on."}
        await server.post("/v1/responses", {"model": "lab", "input": [*input_items, going_on]})
        made = (await server.post("/v1/responses/compact", {"model": "lab", "input": input_items})).json
        after = await server.post("/v1/responses", {"model": "lab", "input": [*made["output"], going_on]})
        again = (await server.post("/v1/responses/compact", {"model": "lab", "input": made["output"]})).json
        stored = after.json["id"]
        chained = await server.post("/v1/responses/compact", {"model": "lab", "previous_response_id": stored})
        more = [*chained.json["output"], going_on]
        await server.post("/v1/responses", {"model": "lab", "input": more})
        return made, again, [request.body for request in server.lab.requests]

    made, again, requests = run_scenario(scenario, tmp_path, long_summary)

    assert made["object"] == "response.compaction"
    assert [item["type"] for item in made["output"]] == ["message", "message", "compaction"]
    assert made["turnbuckle"]["notices"][0].startswith(notice)
    summaries = [one for one in requests if "Write the notes now" in str(one["messages"])]
    assert len(summaries) == 3 * asked
    assert bool(made["usage"]["total_tokens"]) == bool(asked), "what a summary cost is told, used or not"
    answers = [one["messages"] for one in requests if one not in summaries]
    assert answers[1] == answers[0], "the model is told the same as before"
    said = {"role": "assistant", "content": "Gladly."}
    assert answers[2] == [*answers[0], said, answers[0][-1]]
    assert [one["type"] for one in again["output"]] == ["message", "message", "compaction"]


@pytest.mark.realtime
@pytest.mark.requirement("J3")
@pytest.mark.parametrize(
    "body, status, code",
    [
        ({"input": INPUT}, 400, "missing_required_parameter"),
        ({"model": "lab"}, 400, "missing_required_parameter"),
        ({"model": "nobody", "input": INPUT}, 404, "model_not_found"),
        ({"model": "lab", "previous_response_id": "resp_no"}, 404, "previous_response_not_found"),
    ],
)
def test_what_cannot_be_compacted_is_told(body, status: int, code: str | None, tmp_path: Path):
    async def scenario(server: LiveServer):
        return await server.post("/v1/responses/compact", body)

    reply = run_scenario(scenario, tmp_path, model)
    assert (reply.status, reply.json["error"]["code"]) == (status, code)


@pytest.mark.realtime
def test_a_provider_that_fails_is_told_and_nothing_is_taken_for_a_summary(tmp_path: Path):
    def broken(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(400, '{"error": {"message": "no", "type": "invalid_request_error"}}'),)

    async def scenario(server: LiveServer):
        return await server.post("/v1/responses/compact", {"model": "lab", "input": INPUT})

    reply = run_scenario(scenario, tmp_path, broken)
    assert reply.status >= 400
    assert reply.json["error"]["message"]


@pytest.mark.requirement("J3", "I3")
def test_a_model_of_a_small_window_is_told_less_and_a_picture_leaves_room_for_words(tmp_path: Path):
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{'QUJD' * 20_000}"}
    words = {"type": "input_text", "text": "We launch on Tuesday."}
    shown = {"type": "message", "role": "user", "content": [words, picture]}
    long = [{"type": "message", "role": "assistant", "content": f"{n}. " + "word " * 700} for n in range(20)]
    refused: list[int] = []

    def narrow(request: LabRequest) -> Iterable[ScriptItem]:
        taken = len(str(request.body["messages"])) // 4
        if taken > 5_000:
            refused.append(taken)
            error = '{"error": {"message": "maximum context length is 5000 tokens", "code": "context_length_exceeded"}}'
            return (Status(400, error),)
        return model(request)

    async def scenario(server: LiveServer):
        body = {"model": "lab", "input": [INPUT[0], *long, shown]}
        return await server.post("/v1/responses/compact", body, idempotency_key="k")

    reply = run_scenario(scenario, tmp_path, narrow)
    assert reply.status == 200, reply.json["error"]
    assert len(refused) <= 4
    first, last, summary = reply.json["output"]
    assert first["content"] == [{"type": "input_text", "text": INPUT[0]["content"]}]
    assert last["content"] == [
        words,
        {"type": "input_text", "text": "[a picture, which is no longer in sight]"},
    ]
    assert opened(summary["encrypted_content"]) == "Task: launch. Decisions: Tuesday."


@pytest.mark.parametrize("text", ["", "tb1.%%%", "tb1.\ud800", "gAAAAprovider", MARK + "A" * LONGEST])
def test_what_is_not_ours_or_damaged_is_not_opened(text: str):
    assert opened(text) is None


def test_a_summary_comes_back_as_it_was():
    assert opened(sealed("Ünï → 🎉")) == "Ünï → 🎉"


@pytest.mark.requirement("I5", "I3")
def test_a_session_is_made_smaller_over_http_with_what_is_to_be_kept(tmp_path: Path):
    def noting(request: LabRequest) -> Iterable[ScriptItem]:
        told = str(request.body["messages"])
        return (Say("Task: launch." if "Write the notes now" in told else "Understood. " * 40), Finish())

    async def scenario(server: LiveServer):
        for words in ("We launch on Tuesday.", "Support is told first.", "Go on.", "And on."):
            await server.ended(await server.begin(words * 40, session="s"))
        before = len(server.lab.requests)
        done = await server.post("/v1/sessions/s/compact", {"keep": "the word zephyr"})
        assert (done.status, done.json["did"]) == (200, "compacting")
        view = await server.ended(done.json["run"])
        assert view["status"] == "completed"
        assert "compacted" in view["output"].lower()
        used = (await server.get("/v1/sessions/s/context")).json["used"]
        assert (view["context"]["compactions"], view["context"]["used"]) == (1, used)
        told = str([request.body for request in list(server.lab.requests)[before:]])
        assert "the word zephyr" in told
        assert (await server.get("/v1/sessions/s/context")).json["summary"] == "Task: launch."
        wrong = await server.post("/v1/sessions/s/compact", {"keep": 7})
        assert wrong.status == 400
        again = await server.post("/v1/sessions/s/compact")
        assert again.status == 200
        await server.ended(again.json["run"])
        undone = await server.post("/v1/sessions/s/messages", {"input": "/undo compaction"})
        answer = await server.ended(undone.json["id"])
        assert answer["output"].startswith("Undone: the model gets the full history again")
        assert answer["spent"] == {}, "no model was asked"
        assert (await server.get("/v1/sessions/s/context")).json["summary"] == ""

    run_scenario(scenario, tmp_path, noting)


@pytest.mark.requirement("J3", "I8")
def test_a_summary_is_what_the_model_said_and_no_thought_or_unknown_part_of_it(tmp_path: Path):
    odd = {"type": "odd", "text": 5}
    said = {"type": "output_text", "text": "Task: launch.", "annotations": []}
    hidden = [{"type": "reasoning_text", "text": "Hm."}]
    thought: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "content": hidden}
    message: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    output = [thought, {**message, "content": [said, odd]}]
    body = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": output}

    async def scenario(server: LiveServer):
        return await server.post("/v1/responses/compact", {"model": "lab", "input": INPUT})

    def whole(request: LabRequest) -> Iterable[ScriptItem]:
        return (Status(200, body=json.dumps(body)),)

    reply = run_scenario(scenario, tmp_path, whole, protocol="openai_responses")
    assert reply.status == 200, reply.json["error"]
    assert opened(reply.json["output"][-1]["encrypted_content"]) == "Task: launch."
