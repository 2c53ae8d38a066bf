"""What a page of another origin can do, which is nothing, and what one owner can take from another, which is nothing."""

import re

import msgspec
import pytest
from support.http.all_endpoints import ENDPOINTS
from support.http.raw_connection import raw_connection, request
from support.server.owners_server import LOCAL, MARKS, SERVER, owners_server

APP = "https://app.example"
JSON = {"content-type": "application/json"}
FOREIGN = {
    "another origin": {"origin": "https://evil.example"},
    "a file": {"origin": "null"},
    "another port": {"origin": "http://127.0.0.1:1"},
    "an origin that looks like a named one": {"origin": "https://app.example.evil.example"},
    "another site, as the browser says": {"sec-fetch-site": "cross-site"},
    "the same site, as the browser says": {"sec-fetch-site": "same-site"},
    "a name that was made to point here": {"host": "evil.example"},
    "such a name, with its own origin": {"host": "evil.example:80", "origin": "http://evil.example:80"},
    "such a name, of the same origin": {"host": "evil.example", "sec-fetch-site": "same-origin"},
}
BODIES = {
    "createChatCompletion": {"model": "agent", "messages": [{"role": "user", "content": "hello"}]},
    "createResponse": {"model": "agent", "input": "hello", "background": True},
    "createRun": {"input": "hello"},
    "sayInSession": {"input": "hello"},
    "renameSession": {"title": "taken over"},
    "answerApproval": {"decision": "allow"},
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A server without keys on one's own machine: whoever reaches it may use it."""
    with owners_server(
        tmp_path_factory.mktemp("owners"), (LOCAL,), server=f'{SERVER}origins = ["{APP}"]\n'
    ) as made:
        yield made


def requests(built, owner):
    """A request for every endpoint that would work, and would change something if it can."""
    ids = built.things[owner].ids
    for row in ENDPOINTS:
        path = re.sub(r"\{(\w+)\*?\}", lambda found: ids.get(found[1], ["agent"])[0], row.path)
        body = msgspec.json.encode(BODIES.get(row.doc.name, {})) if row.method in ("POST", "PATCH") else b""
        yield row, path, body


def asked(built, method, path, headers, body=b""):
    with raw_connection(built.server.port) as line:
        line.send(request(method, path, headers, body))
        return line.reply(head_only=method == "HEAD")


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("name", FOREIGN)
def test_a_page_of_another_origin_can_not_drive_any_endpoint(alone, name):
    """X12: refused everywhere, by every method, and nothing has happened. The page may not read why, either."""
    runs, before = alone.runs(LOCAL), alone.snapshot(LOCAL)
    for row, path, body in requests(alone, LOCAL):
        for method in (row.method, "OPTIONS", "HEAD"):
            reply = asked(
                alone, method, path, {**JSON, **FOREIGN[name]}, body if method == row.method else b""
            )
            assert reply.status in (403, 421), (method, path, reply)
            assert not [header for header in reply.headers if header.startswith("access-control")]
    assert alone.runs(LOCAL) == runs
    assert alone.snapshot(LOCAL) == before


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_what_a_form_can_send_is_refused_even_without_an_origin(alone, kind):
    """X12: old browsers name no origin, and a form needs no permission."""
    runs = alone.runs(LOCAL)
    for row, path, body in requests(alone, LOCAL):
        if row.method != "GET":
            assert asked(alone, row.method, path, {"content-type": kind}, body or b"{}").status == 415
    assert alone.runs(LOCAL) == runs


@pytest.mark.requirement("F9")
def test_a_named_origin_may_ask_first_and_then_use_every_endpoint(alone):
    alone.populate(LOCAL)
    preflight = {"access-control-request-headers": "authorization, content-type", "origin": APP}
    for row, path, body in requests(alone, LOCAL):
        told = asked(alone, "OPTIONS", path, {**preflight, "access-control-request-method": row.method})
        assert told.status == 204
        assert told.headers["access-control-allow-origin"] == APP
        assert row.method in told.headers["access-control-allow-methods"].upper().split(", ")
        assert told.headers["access-control-allow-headers"] == "authorization, content-type"
        assert "access-control-allow-credentials" not in told.headers
        reply = asked(alone, row.method, path, {**JSON, "origin": APP, "sec-fetch-site": "cross-site"}, body)
        assert reply.status < 500, (row.path, reply)
        assert reply.headers["access-control-allow-origin"] == APP, (row.path, reply)
        assert "origin" in reply.headers["vary"]
        assert "x-turnbuckle-run" in reply.headers["access-control-expose-headers"]


@pytest.mark.requirement("F2", "F9")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_a_named_origin_may_read_streams_and_errors(alone, path):
    body = {
        "model": "agent",
        "max_tokens": 100,
        "input": "hello",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
    }
    named = {**JSON, "origin": APP}
    stream = asked(alone, "POST", path, named, msgspec.json.encode(body))
    wrong = asked(alone, "POST", path, named, b"{}")
    assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert wrong.status == 400
    assert (
        stream.headers["access-control-allow-origin"] == wrong.headers["access-control-allow-origin"] == APP
    )


# Owners


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners")) as made:
        yield made


@pytest.mark.requirement("F9")
def test_nothing_that_an_owner_does_with_the_ids_of_another_shows_or_changes_anything(built):
    """X1: neither in what is told nor in what is left."""
    built.populate("bob")
    before = built.snapshot("bob")
    key = {"authorization": f"Bearer {built.keys['ann']}", **JSON}
    for row, path, body in requests(built, "bob"):
        if row.doc.name == "sayInSession":
            continue  # makes a session of one's own, as the next test tells
        reply = asked(built, row.method, path, key, body)
        assert MARKS["bob"].encode() not in reply.body, (row.path, reply)
        if "{" in row.path and "model" not in row.path:
            assert reply.status == 404, (row.path, reply)
    assert built.snapshot("bob") == before


@pytest.mark.requirement("F9")
def test_what_an_owner_names_like_the_thing_of_another_is_its_own(built):
    """X1: the same name of a session, the same key of a request, and an earlier answer of somebody else."""
    session = built.populate("bob").ids["session"][0]
    before = built.snapshot("bob")
    ann = built.at("ann")
    made = built.call(ann.begin("hello annsmarmalade", session=session))
    built.call(ann.ended(made))
    said = built.call(ann.get(f"/v1/sessions/{session}/messages")).json["data"]
    assert next(one["text"] for one in said) == "hello annsmarmalade"
    assert all(one["run"] == made for one in said)
    key = f"{MARKS['bob']}-{built.populated}"
    again = built.call(ann.begin("draft annsmarmalade", headers={"idempotency-key": key}))
    assert again not in built.things["bob"].ids["run"]
    theirs = built.things["bob"].ids["response"][0]
    body = {"model": "agent", "input": "go on", "previous_response_id": theirs}
    chained = built.call(ann.post("/v1/responses", body))
    unknown = built.call(ann.post("/v1/responses", {**body, "previous_response_id": "resp_none"}))
    assert (chained.status, unknown.status) == (404, 404)
    assert chained.body.replace(theirs.encode(), b"resp_none") == unknown.body
    item = built.call(built.at("bob").get(f"/v1/responses/{theirs}")).json["output"][-1]["id"]
    named = [{"type": "item_reference", "id": item}, {"role": "user", "content": "go on"}]
    answer = built.call(ann.post("/v1/responses", {"model": "agent", "input": named}))
    assert (answer.status, answer.error["code"]) == (400, "item_not_found")
    assert built.snapshot("bob") == before


@pytest.mark.requirement("F9")
def test_words_of_others_are_not_found(built):
    built.populate("bob")
    found = built.call(built.at("ann").get(f"/v1/sessions?q={MARKS['bob']}")).json
    assert found["data"] == []
    assert built.call(built.at("bob").get(f"/v1/sessions?q={MARKS['bob']}")).json["data"]


# Limits


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    limits = "drain = 0\nmax_body = 4000\nrequests_per_minute = 0\nmax_runs = 3\nmax_runs_per_owner = 2\n"
    with owners_server(tmp_path_factory.mktemp("owners"), populated=False, server=limits) as made:
        yield made


def with_body(built):
    key = {"authorization": f"Bearer {built.keys['ann']}", **JSON}
    for row in ENDPOINTS:
        if row.doc.body is not None:
            yield row.method, re.sub(r"\{\w+\}", "x", row.path), {**key, "content-type": row.doc.body_type}


@pytest.mark.requirement("F9")
def test_a_body_over_the_limit_is_refused_by_every_endpoint_however_it_is_sent(narrow):
    large = b'{"input": "' + b"x" * 5000 + b'"}'
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(large), large)
    for method, path, headers in with_body(narrow):
        said = asked(narrow, method, path, headers, large)
        counted = asked(narrow, method, path, {**headers, "transfer-encoding": "chunked"}, chunked)
        for reply in (said, counted):
            assert reply.status in (413, 404), (path, reply)
            if reply.status == 413:
                assert "server.max_body" in reply.json["error"]["message"]
    assert narrow.runs("ann") == 0


@pytest.mark.requirement("F9")
def test_runs_at_once_are_limited_for_each_owner_and_for_all_on_every_way_to_begin_one(narrow):
    ann, bob = narrow.at("ann"), narrow.at("bob")
    asks = "question annsmarmalade"
    mine = [narrow.call(ann.begin(asks)) for _ in range(2)]
    ways = (
        ("/v1/runs", {"input": "hello"}),
        ("/v1/chat/completions", BODIES["createChatCompletion"]),
        ("/v1/responses", BODIES["createResponse"]),
        ("/v1/sessions/fresh/messages", {"input": "hello"}),
    )
    for path, body in ways:
        reply = narrow.call(ann.post(path, body))
        assert (reply.status, reply.error["code"]) == (429, "too_many_runs"), (path, reply)
        assert "server.max_runs_per_owner" in reply.error["message"]
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.headers["x-should-retry"] == "true"
    theirs = narrow.call(bob.begin(asks))
    full = narrow.call(bob.post("/v1/runs", {"input": "hello"}))
    assert (full.status, "server.max_runs)" in full.error["message"]) == (429, True)
    for owner, run in ((ann, mine[0]), (bob, theirs)):
        assert narrow.call(owner.post(f"/v1/runs/{run}/stop")).json["stopped"]
    again = narrow.call(ann.begin("hello"))
    assert narrow.call(ann.ended(again))["status"] == "completed"


@pytest.mark.requirement("F9")
def test_requests_in_a_minute_are_limited_for_each_owner_alone(tmp_path):
    with owners_server(tmp_path, populated=False, server="drain = 0\nrequests_per_minute = 5\n") as made:
        replies = [made.call(made.at("ann").get("/v1/models")) for _ in range(7)]
        theirs = made.call(made.at("bob").get("/v1/models"))
        health = made.call(made.at("ann").get("/healthz"))
    assert [reply.status for reply in replies] == [200] * 5 + [429] * 2
    assert (theirs.status, health.status) == (200, 200)
    assert replies[-1].error["code"] == "rate_limit_exceeded"
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 60
    assert "server.requests_per_minute" in replies[-1].error["message"]
