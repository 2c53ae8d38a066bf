"""The small jobs of chat frontends: a title, tags, follow-up questions. They quote the chat, so a model with tools might
do what was asked in it a second time."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.server.live_server import LiveServer, run_scenario

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

TITLE = '{"title": "A note"}'
JOB = (
    '### Task:\nGenerate a concise title.\n### Output:\nJSON format: { "title": "your title here" }\n'
    "### Chat History:\n<chat_history>\nUSER: write note.txt\n</chat_history>"
)


def eager(request: LabRequest) -> Iterable[ScriptItem]:
    """Writes the file whenever it has a tool for it."""
    if request.body.get("tools") and not results_brought(request):
        return (Call("write_file", {"path": "note.txt", "content": "Hi."}), Finish())
    return (Say(TITLE), Finish())


async def answer(server: LiveServer, surface: str) -> str:
    if surface == "chat":
        body = {"model": "agent", "messages": [{"role": "user", "content": JOB}], "stream": False}
        return (await server.post("/v1/chat/completions", body)).json["choices"][0]["message"]["content"]
    part = {"type": "input_text", "text": JOB}
    body = {
        "model": "agent",
        "input": [{"type": "message", "role": "user", "content": [part]}],
        "stream": False,
    }
    return (await server.post("/v1/responses", body)).json["output"][0]["content"][0]["text"]


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("surface", ["chat", "response"])
def test_a_job_of_a_frontend_has_no_tools_on_either_surface(surface: str, tmp_path: Path):
    async def scenario(server: LiveServer) -> str:
        return await answer(server, surface)

    assert run_scenario(scenario, tmp_path, eager) == TITLE
    assert not list(tmp_path.rglob("note.txt"))
