"""A value of a header that the document does not know is refused by every endpoint that reads the header."""

import json
from typing import Any

import pytest
from support.http.all_endpoints import DOCUMENT
from support.server.live_server import run_scenario

from turnbuckle.lab.script import Finish, Say

MESSAGES = [{"role": "user", "content": "Hello."}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "agent", "messages": MESSAGES},
    "/v1/responses": {"model": "agent", "input": "Hello."},
    "/v1/responses/compact": {"model": "agent", "input": "Hello."},
    "/v1/messages": {"model": "agent", "messages": MESSAGES, "max_tokens": 10},
    "/v1/runs": {"input": "Hello."},
    "/v1/sessions/{session}/messages": {"input": "Hello."},
}
ODD = {
    "X-Turnbuckle-Session": "a b",
    "X-Turnbuckle-Busy": "odd",
    "X-Turnbuckle-Events": "odd",
    "X-Turnbuckle-On-Disconnect": "odd",
    "X-Turnbuckle-Strict": "odd",
    "Idempotency-Key": "k" * 256,
    "Last-Event-ID": "odd",
}
FREE = ("anthropic-version", "anthropic-beta")
"""They go to the provider, which knows its versions."""


def headers_read() -> list[tuple[str, str, str]]:
    return [
        (method, path, parameter["name"])
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if parameter.get("in") == "header" and parameter["name"] not in FREE
    ]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("model", ["agent", "lab"])
def test_an_odd_value_of_a_header_is_refused_wherever_the_header_is_read(tmp_path, model):
    async def scenario(live):
        made = await live.post("/v1/sessions/s/messages", {"input": "Hello."})
        run = json.loads(made.body)["id"]
        answers = {}
        for method, path, name in headers_read():
            given = BODIES.get(path, {})
            body = {**given, "model": model} if given else None if method == "get" else {}
            where = path.replace("{session}", "s").replace("{run}", run)
            reply = await live.ask(method.upper(), where, body, **{name.replace("-", "_"): ODD[name]})
            answers[method, path, name] = reply.status, name in reply.body.decode()
        return answers

    answers = run_scenario(scenario, tmp_path, lambda request: (Say("Hello."), Finish()))
    assert len(answers) > 30
    assert {asked: answer for asked, answer in answers.items() if answer != (400, True)} == {}
