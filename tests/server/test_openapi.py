"""The OpenAPI document is a good one, tells of every endpoint, and real answers are what it says."""

import re
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from support.http.all_endpoints import DOCUMENT, ENDPOINTS, operations
from support.http.document_checks import STREAM, check_answer, content_type_of
from support.server.live_server import ApiClient
from support.server.owners_server import MARKS, leave_process, owners_server

from turnbuckle.vocab.failure import Failure
from turnbuckle.wire.openai_chat.parse_request import read_chat
from turnbuckle.wire.openai_responses.parse_request import read_response

SCHEMAS = DOCUMENT["components"]["schemas"]
ANN = MARKS["ann"]
HELLO = [{"role": "user", "content": f"hello {ANN}"}]
BROUGHT = [{"type": "function", "function": {"name": "theirs"}}]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners")) as made:
        yield made


@pytest.mark.requirement("F1")
def test_the_document_follows_the_standard():
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


@pytest.mark.requirement("F1")
def test_every_endpoint_of_the_table_is_in_the_document_once():
    table = {(row.method.lower(), re.sub(r"\*\}", "}", row.path)): row.doc.name for row in ENDPOINTS}
    told = {(method, path): operation["operationId"] for method, path, operation in operations()}
    assert told == table
    assert len(set(told.values())) == len(told) == len(ENDPOINTS)


@pytest.mark.requirement("F1")
def test_the_server_gives_this_document_to_everybody(built):
    reply = built.call(ApiClient(built.server.port).get("/openapi.json"))
    assert reply.status == 200
    served = reply.json
    served["info"]["version"] = DOCUMENT["info"]["version"]
    assert served == DOCUMENT


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_nothing_in_the_document_is_missing_or_left_over():
    wanted = set(references(DOCUMENT))
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "responses", "headers")
        for name in DOCUMENT["components"][kind]
    }
    assert wanted <= there
    assert there <= wanted


def test_people_are_told_what_each_thing_is():
    tags = {tag["name"] for tag in DOCUMENT["tags"] if tag["description"]}
    for _, _, operation in operations():
        assert operation["summary"]
        assert set(operation["tags"]) <= tags
        assert all(parameter["description"] for parameter in operation["parameters"])
    for name in (
        "ChatBody",
        "ResponseBody",
        "RunBody",
        "ChatMessage",
        "InputItem",
        "OutputItem",
        "ChatEvent",
        "RunEvent",
    ):
        assert SCHEMAS[name]["description"]


WRONG = [[1]]
"""A list in a list: no field of any request takes it."""
BODIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "ChatBody": (read_chat, {"messages": HELLO}),
    "ResponseBody": (read_response, {"input": "hello"}),
}


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "body, name", [(body, name) for body in BODIES for name in SCHEMAS[body]["properties"]], ids=str
)
def test_every_field_that_the_document_names_is_read(body, name):
    """A mistake in it is told by its name, so nobody's wish is dropped without a word."""
    read, usual = BODIES[body]
    found = read(msgspec.json.encode({"model": "agent", **usual, name: WRONG}))
    assert isinstance(found, Failure)
    assert found.param.startswith(name)


EVERYTHING = {
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "theirs", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": f"hello {ANN}", "name": "ann"},
    ],
    "tools": BROUGHT,
    "tool_choice": {"type": "function", "function": {"name": "theirs"}},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    },
    "temperature": 0.5,
    "stop": ["END"],
    "max_completion_tokens": 100,
}


class Visitor:
    """Asks as one owner, and checks every answer against the document."""

    def __init__(self, owners_server, owner):
        self.owners = owners_server
        self.at = ApiClient(owners_server.server.port, owners_server.keys[owner])
        self.seen = set()

    def __call__(self, method, path, json=None, *, raw=None, headers=None, query="", **ids):
        url = re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], path) + query
        body = raw if json is None else msgspec.json.encode(json)
        return self.owners.call(self._ask(method, path, url, body, headers or {}))

    async def _ask(self, method, path, url, body, headers):
        async with self.at.client() as client:
            reply = await client.ask(method, url, body=body, headers=self.at._headers(headers))
            content = reply.body
            if content_type_of(reply.headers) == STREAM:
                content = await client.rest()
        check_answer(method, path, reply.status, reply.headers, content)
        self.seen.add((method.lower(), path, str(reply.status), content_type_of(reply.headers)))
        return reply.json if content_type_of(reply.headers) == "application/json" else content


def look_around(visit, things):
    """Use every endpoint at least once, and each kind of answer that it has."""
    run, session = things.ids["run"][0], things.ids["session"][0]
    for model in ("agent", "lab"):
        visit("POST", "/v1/chat/completions", {"model": model, "messages": HELLO})
        for events in ("tools", "hermes", "none"):
            visit(
                "POST",
                "/v1/chat/completions",
                {
                    "model": model,
                    "messages": HELLO,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                },
                headers={"x-turnbuckle-events": events},
            )
    visit("POST", "/v1/chat/completions", {"model": "lab", **EVERYTHING})
    visit("POST", "/v1/responses/compact", {"model": "agent", "input": f"list {ANN}"})
    for stream in (True, False):
        task = [{"role": "user", "content": f"brought {ANN}"}]
        visit(
            "POST",
            "/v1/chat/completions",
            {"model": "agent", "messages": task, "tools": BROUGHT, "stream": stream},
        )
        for model, words in (("agent", f"list {ANN}"), ("lab", f"hello {ANN}")):
            said = [{"role": "user", "content": words}]
            visit(
                "POST", "/v1/messages", {"model": model, "max_tokens": 99, "messages": said, "stream": stream}
            )
        visit("POST", "/v1/messages/count_tokens", {"model": "lab", "messages": said})
        visit("POST", "/v1/responses", {"model": "agent", "input": f"list {ANN}", "stream": stream})
        visit("POST", "/v1/responses", {"model": "agent", "input": f"draft {ANN}", "stream": stream})
    for response in things.ids["response"]:
        visit("GET", "/v1/responses/{response}", response=response)
    visit(
        "GET",
        "/v1/responses/{response}",
        response=things.ids["response"][0],
        query="?stream=true&starting_after=1",
    )
    visit("GET", "/v1/responses/{response}/input_items", response=things.ids["response"][0])
    visit("POST", "/v1/responses/{response}/cancel", {}, response=things.ids["response"][1])
    visit("DELETE", "/v1/responses/{response}", response=things.ids["response"][1])
    conversation = visit("POST", "/v1/conversations", {"metadata": {"a": "b"}})["id"]
    for name in (conversation, things.ids["conversation"][0]):
        visit("GET", "/v1/conversations/{conversation}", conversation=name)
        visit("GET", "/v1/conversations/{conversation}/items", conversation=name)
    visit("DELETE", "/v1/conversations/{conversation}", conversation=conversation)
    look_at_runs(visit, things, run)
    look_at_sessions(visit, things, session)
    for headers in ({}, {"anthropic-version": "2023-06-01"}):
        visit("GET", "/v1/models", headers=headers)
        visit("GET", "/v1/models/{model}", model="agent", headers=headers)
    for file in ("main.js", "base.css"):
        visit("GET", "/console/{file}", file=file)
    for path in ("/", "/v1/settings", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        visit("GET", path)


def look_at_runs(visit, things, run):
    begun = visit("POST", "/v1/runs", {"input": f"hello {ANN}"})["id"]
    for query in ("", "?told=true", "?told=true&joined=true"):
        visit("GET", "/v1/runs/{run}/events", run=begun, query=query)
    visit("POST", "/v1/runs/{run}/resume", {}, run=begun)
    visit("DELETE", "/v1/runs/{run}", run=begun)
    writing = visit("POST", "/v1/runs", {"input": f"write {ANN}"})["id"]
    visit("GET", "/v1/runs/{run}/events", run=writing)
    (file,) = visit("GET", "/v1/runs/{run}/changes", run=writing)["data"]
    visit("POST", "/v1/runs/{run}/changes/undo", {"path": file["path"]}, run=writing)
    visit("GET", "/v1/runs")
    visit("GET", "/v1/runs", query="?limit=1&status=completed")
    visit("GET", "/v1/approvals")
    for name in things.ids["run"][:-2]:
        visit("GET", "/v1/runs/{run}", run=name)
        visit("GET", "/v1/runs/{run}", run=name, query="?brief=true")
        for path in ("approvals", "drafts", "ledger"):
            visit("GET", f"/v1/runs/{{run}}/{path}", run=name)
        for approval in visit("GET", "/v1/runs/{run}/approvals", run=name)["data"]:
            yes = "allow_always" if approval["always"] else "allow"
            decision = "answer" if approval["kind"] == "question" else yes
            visit(
                "POST",
                "/v1/runs/{run}/approvals/{approval}",
                {"decision": decision, "text": ANN},
                run=name,
                approval=approval["id"],
            )
        for draft in visit("GET", "/v1/runs/{run}/drafts", run=name)["data"]:
            visit("GET", "/v1/runs/{run}/drafts/{draft}", run=name, draft=draft["id"])
        visit("POST", "/v1/runs/{run}/stop", {}, run=name)
        visit("POST", "/v1/runs/{run}/interrupt", {}, run=name)
        visit("GET", "/v1/runs/{run}/events", run=name)
        for draft in visit("GET", "/v1/runs/{run}/drafts", run=name)["data"]:
            body = {"path": f"{draft['id']}.txt"}
            visit("POST", "/v1/runs/{run}/drafts/{draft}/save", body, run=name, draft=draft["id"])


def look_at_sessions(visit, things, session):
    visit("POST", "/v1/sessions", {"title": ANN})
    visit("GET", "/v1/sessions", query=f"?q={ANN}")
    visit("GET", "/v1/sessions")
    visit("GET", "/v1/sessions/{session}", session=session)
    visit("PATCH", "/v1/sessions/{session}", {"title": f"Another {ANN}"}, session=session)
    visit("POST", "/v1/sessions/{session}/fork", {}, session=session)
    said = visit("POST", "/v1/sessions/{session}/messages", {"input": f"hello again {ANN}"}, session=session)
    visit("GET", "/v1/runs/{run}/events", run=said["id"])
    visit("GET", "/v1/sessions/{session}/messages", session=session)
    visit("GET", "/v1/sessions/{session}/inbox", session=session)
    visit("GET", "/v1/sessions/{session}/processes", session=session)
    lines = visit("GET", "/v1/sessions/{session}/export", session=session)
    visit("POST", "/v1/sessions/import", raw=lines, headers={"content-type": "application/x-ndjson"})
    visit("GET", "/v1/sessions/{session}/context", session=session)
    visit("GET", "/v1/sessions/{session}/usage", session=session)
    visit("GET", "/v1/usage")
    for rule in visit("GET", "/v1/rules")["data"]:
        visit("DELETE", "/v1/rules/{rule}", rule=rule["id"])
    visit("GET", "/v1/nodes")
    visit("GET", "/v1/overview")
    for path in ("retry", "stop", "undo", "compact", "undo_compaction", "new", "reset", "stop"):
        visit("POST", f"/v1/sessions/{{session}}/{path}", {}, session=session)
    visit("DELETE", "/v1/sessions/{session}", session=f"{session}-fork")


@pytest.mark.requirement("F1", "F4", "F5")
def test_every_kind_of_answer_is_given_and_is_what_the_document_says(built):
    visit = Visitor(built, "ann")
    look_around(visit, built.populate("ann"))
    built.call(leave_process(built.at("ann"), ANN))
    for process in visit("GET", "/v1/processes")["data"]:
        visit("POST", "/v1/processes/{process}/stop", {}, process=process["id"])
    promised = {
        (method, path, status, kind)
        for method, path, operation in operations()
        for status, response in operation["responses"].items()
        if status < "300"
        for kind in response.get("content", {})
    }
    assert visit.seen & promised == promised


def is_list(response: dict[str, Any]) -> bool:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    whole = SCHEMAS[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return "has_more" in whole.get("properties", {})


@pytest.mark.requirement("E11")
def test_every_list_is_bounded_and_can_be_turned_page_by_page():
    lists = {
        path: {one["name"] for one in operation.get("parameters", ())}
        for method, path, operation in operations()
        if method.upper() == "GET" and is_list(operation["responses"].get("200", {}))
    }
    assert len(lists) >= 10
    assert {path for path, names in lists.items() if not {"limit", "after"} <= names} == set()


@pytest.mark.requirement("F4")
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_items_of_a_conversation_can_be_turned_page_by_page(built, order):
    at, conversation = built.at("ann"), built.populate("ann").ids["conversation"][0]
    path = f"/v1/conversations/{conversation}/items?order={order}"
    whole = built.call(at.get(path)).json["data"]
    assert len(whole) == 2
    first = built.call(at.get(f"{path}&limit=1")).json
    second = built.call(at.get(f"{path}&limit=1&after={first['last_id']}")).json
    assert [first["has_more"], second["has_more"]] == [True, False]
    assert first["data"] + second["data"] == whole
    assert built.call(at.get(f"{path}&after=none")).status == 400


@pytest.mark.requirement("F1", "F9")
def test_problems_are_what_the_document_says(built):
    visit = Visitor(built, "ann")
    session = built.populate("ann").ids["session"][0]
    visit("POST", "/v1/chat/completions", {"model": "agent", "messages": []})
    visit("POST", "/v1/chat/completions", {"model": "none", "messages": HELLO})
    visit("POST", "/v1/messages", {"model": "agent", "max_tokens": 9, "messages": []})
    visit("POST", "/v1/messages", {"model": "none", "max_tokens": 9, "messages": HELLO})
    visit("POST", "/v1/messages/count_tokens", {"model": "none", "messages": HELLO})
    visit(
        "POST",
        "/v1/chat/completions",
        {"model": "agent", "messages": [{"role": "user", "content": f"fail {ANN}"}]},
    )
    visit("POST", "/v1/runs", {"input": "hello"}, headers={"idempotency-key": ""})
    visit("POST", "/v1/sessions", {"id": session})
    visit("GET", "/v1/runs/{run}", run="none")
    visit("GET", "/v1/runs", headers={"authorization": "Bearer wrong"})
    visit("GET", "/v1/runs", headers={"origin": "https://evil.example"})
    visit("GET", "/v1/runs", headers={"host": "evil.example"})
    visit(
        "DELETE", "/v1/sessions/{session}", session=session, raw=b"x", headers={"content-type": "text/plain"}
    )
    visit("POST", "/v1/sessions", {}, headers={"content-length": "99999999999"})
    visit("GET", "/v1/runs", headers={"x-long": "x" * 70_000})
    assert {status for _, _, status, _ in visit.seen} == set("400 401 403 404 409 413 415 421 431".split())
