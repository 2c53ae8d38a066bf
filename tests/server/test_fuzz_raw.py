"""Bytes that no well-behaved client sends: each gets a clean refusal or an answer, and the server stays well."""

import random
import re
from typing import Any

import pytest
from support.http.all_endpoints import DOCUMENT, ENDPOINTS, operations
from support.http.raw_connection import raw_connection, request
from support.server.owners_server import MARKS, owners_server

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners"), server=SERVER) as made:
        yield made


SERVER = """drain = 0
keepalive = 0.5
requests_per_minute = 0
max_runs = 5000
max_runs_per_owner = 2000
max_body = 2_000_000
"""


class Attacker:
    """Sends bytes with a good key, and holds every answer against what must always be so."""

    def __init__(self, owners_server):
        self.owners = owners_server
        self.port = owners_server.server.port
        self.key = {"authorization": f"Bearer {owners_server.keys['ann']}"}

    def __call__(self, data, *, head_only=False, ends=True):
        """One request on a connection of its own. None: the server hung up without a word."""
        with raw_connection(self.port) as line:
            line.send(data)
            if ends:
                line.end()
            reply = line.reply(head_only=head_only)
        if reply is not None:
            self.look(reply)
        return reply

    def ask(self, method, path, headers=None, body=b"", **more):
        """A request that is well formed, whatever is in it."""
        data = request(method, path, {**self.key, **(headers or {})}, body, **more)
        return self(data, head_only=method == "HEAD", ends=False)

    def look(self, reply):
        assert reply.status < 500, reply
        assert reply.whole, reply
        assert reply.headers["x-request-id"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert MARKS["bob"].encode() not in reply.body
        if reply.status >= 400 and reply.body:
            of_messages = reply.json.get("type") == "error"
            shape = {"message", "type", "details"} if of_messages else {"message", "type", "param", "code"}
            assert set(reply.json["error"]) == shape

    def is_well(self):
        with raw_connection(self.port) as line:
            line.send(request("GET", "/readyz"))
            assert line.reply().status == 200


@pytest.fixture
def attack(built):
    made = Attacker(built)
    yield made
    made.is_well()


def paths(built, *, spoiled=None):
    """Every address of the table with ids that there are; `spoiled` makes something else of each id."""
    things = built.things["ann"].ids

    def name(found):
        known = things.get(found[1].strip("*"), ["agent"])[0]
        return known if spoiled is None else spoiled(known)

    return [(row, re.sub(r"\{(\w+\*?)\}", name, row.path)) for row in ENDPOINTS]


DEEP = 100_000
WHOLE_BODIES = {
    "nothing": b"",
    "a space": b" ",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "a number": b"0",
    "half an object": b'{"input": "x',
    "a byte too much": b"{}x",
    "no UTF-8": b'{"input": "\xff\xfe", "title": "\xc3"}',
    "UTF-16": '{"input": "x"}'.encode("utf-16"),
    "a mark in front": b'\xef\xbb\xbf{"input": "x"}',
    "deep lists": b"[" * DEEP,
    "deep closed lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a key twice": b'{"title": "a", "title": "b", "input": "a", "input": "b"}',
    "a key of NUL": b'{"\\u0000": 1, "input": "x"}',
    "a long key": b'{"' + b"k" * 1_000_000 + b'": 1}',
    "many keys": b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(50_000)) + b"}",
    "a long number": b'{"after": ' + b"9" * 100_000 + b"}",
}
VALUES = {
    "a NUL": b'"\\u0000"',
    "half a pair": b'"\\ud800"',
    "control characters": b'"\\r\\nx: y\\u001b[2J"',
    "a long text": b'"' + b"x" * 300_000 + b'"',
    "a long number": b"1" + b"0" * 400,
    "more than 64 bits": b"18446744073709551616",
    "less than nothing": b"-9223372036854775809",
    "too large a fraction": b"1e308",
    "infinity": b"1e999",
    "not a number": b"NaN",
    "a deep list": b"[" * 5000 + b"]" * 5000,
    "a deep object": b'{"type":"function","x":' * 900 + b"1" + b"}" * 900,
    "a list of everything": b'[null, true, 1, "x", [], {}, -1.5]',
    "true": b"true",
}
USUAL = {
    "ChatBody": {"model": b'"agent"', "messages": b'[{"role": "user", "content": "hello"}]'},
    "ResponseBody": {"model": b'"agent"', "input": b'"hello"'},
    "RunBody": {"input": b'"hello"'},
    "RenameBody": {"title": b'"x"'},
    "AnswerBody": {"decision": b'"deny"'},
}


def with_bodies(built):
    """Every endpoint that reads a body, with the fields that the body may have."""
    known = dict(zip([row.doc.name for row in ENDPOINTS], [path for _, path in paths(built)], strict=True))
    for method, _, told in operations():
        content = told.get("requestBody", {}).get("content", {})
        if (
            "application/json" in content and told["operationId"] != "sayInSession"
        ):  # which is read as createRun is
            schema = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            fields = list(DOCUMENT["components"]["schemas"][schema]["properties"])
            yield method.upper(), known[told["operationId"]], USUAL.get(schema, {}), fields


@pytest.mark.requirement("F1", "F9")
@pytest.mark.parametrize("name", WHOLE_BODIES)
def test_a_body_that_makes_no_sense_is_refused_wherever_it_goes(built, attack, name):
    """X9: no depth, size or encoding of a body is an error of ours."""
    built.populate("ann")
    for method, path, _, _ in with_bodies(built):
        reply = attack.ask(method, path, JSON, WHOLE_BODIES[name])
        assert reply is not None, (method, path)


@pytest.mark.requirement("F1", "F9")
@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_makes_no_sense_is_refused_in_whichever_field(built, attack, name):
    built.populate("ann")
    for method, path, usual, fields in with_bodies(built):
        for field in fields:
            given = {**usual, field: VALUES[name]}
            body = b"{" + b",".join(b'"%b":%b' % (key.encode(), value) for key, value in given.items()) + b"}"
            reply = attack.ask(method, path, JSON, body)
            assert reply is not None, (method, path, field)


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "x",
        "/",
    ],
)
def test_a_body_of_another_type_is_never_read(built, attack, kind):
    for method, path, _, _ in with_bodies(built):
        assert attack.ask(method, path, {"content-type": kind}, b'{"input": "hello"}').status == 415


SPOILED = {
    "NUL": "{}%00",
    "only NUL": "%00",
    "a byte of no text": "{}%ff",
    "a slash": "{}%2f",
    "up": "..%2f..%2f{}",
    "two dots": "..",
    "two dots in code": "%2e%2e",
    "code of code": "%252e%252e%252f{}",
    "a long way to write a slash": "..%c0%af{}",
    "half a code": "{}%",
    "no code": "{}%zz",
    "another way of code": "%u0072{}",
    "a backslash": "..%5c{}",
    "a new line": "{}%0d%0aset-cookie:%20a",
    "a semicolon": "{};a=b",
    "a space": "{}%20",
    "a plus": "+{}",
    "capitals": "X{}",
    "another writing": "%ef%bd%92{}",
    "very long": "{}" + "x" * 60_000,
    "a quote": "{}'%20or%20'1'='1",
    "a pattern": "%25",
    "another pattern": "*",
}


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_id_is_an_unknown_one(built, attack, name):
    """No encoding of a path leads anywhere else than where it stands."""
    for row, path in paths(built, spoiled=SPOILED[name].format):
        if "{" in row.path and "*" not in row.path:
            reply = attack.ask(row.method, path, JSON, b"{}" if row.method in ("POST", "PATCH") else b"")
            assert reply.status in (400, 404, 431), (row.path, path, reply)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "path",
    [
        "/v1/runs/../../healthz",
        "/v1//runs",
        "//v1/runs",
        "/v1/runs/",
        "/V1/runs",
        "/v1/%72uns",
        "/v1/runs/%2e%2e/approvals",
        "/../etc/passwd",
        "/v1/runs;a",
        "/" + "a/" * 30_000,
        "/%",
        "/" + "%2f" * 20_000,
        "*",
        "http://evil.example/v1/runs",
    ],
    ids=lambda path: path[:30],
)
def test_a_path_that_is_not_in_the_table_is_nowhere(attack, path):
    reply = attack.ask("GET", path)
    assert reply.status in (400, 404, 421), reply


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "query",
    [
        "&" * 60_000,
        "a=" * 500,
        "limit=%00",
        "limit=%ff",
        "after=%",
        "limit=1&limit=x",
        "=",
        "after=e30",
        "after=W10",
    ],
)
def test_a_query_that_makes_no_sense_is_refused_or_ignored(built, attack, query):
    for row, path in paths(built):
        if row.method == "GET" and "events" not in path and "model" not in path:
            reply = attack.ask("GET", f"{path}?{query}")
            assert reply is not None, path
            assert reply.status in (200, 400, 404, 426, 431), (path, reply)


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "method", ["HEAD", "OPTIONS", "PUT", "TRACE", "PATCH", "DELETE", "POST", "GET", "PROPFIND", "QUERY"]
)
def test_every_method_on_every_address_is_answered(built, attack, method):
    """Also where a stream would be: the head of one has an end."""
    built.populate("ann")
    known: dict[Any, Any] = {}
    for row, path in paths(built):
        known.setdefault(path, set()).add(row.method)
    for path, methods in known.items():
        if "events" in path and method == "GET":
            continue
        reply = attack.ask(method, path, JSON)
        if method == "OPTIONS":
            assert reply.status == 204
            assert methods <= set(reply.headers["allow"].upper().split(", "))
        elif method not in methods and not (method == "HEAD" and "GET" in methods):
            assert reply.status in (400, 405), (method, path, reply)


LINES = {"content-type": "application/x-ndjson"}


def damaged(lines):
    """What may become of a file on its way: cut, changed, shuffled, doubled."""
    chance = random.Random(7)
    rows = lines.splitlines(keepends=True)
    yield from (lines[: len(lines) * part // 12] for part in range(12))
    yield from (b"".join(rows[:place] + rows[place + 1 :]) for place in range(min(len(rows), 8)))
    yield from (
        b"".join(rows[:place] + rows[place : place + 1] * 2 + rows[place + 1 :]) for place in range(4)
    )
    for _ in range(40):
        changed = bytearray(lines)
        for _ in range(3):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed)
    yield from (b"\n" * 1000, b"{}\n" * 1000, b"[" * 100_000, b"\x00" * 1000, lines + lines)


@pytest.mark.requirement("F9", "G7")
def test_a_damaged_export_is_refused_or_is_a_session_of_ones_own(built, attack):
    theirs = built.populate("bob").ids["run"][0]
    before = built.snapshot("bob")
    things = built.populate("ann").ids
    mine = built.call(built.at("ann").get(f"/v1/sessions/{things['session'][0]}/export")).body
    for lines in damaged(mine):
        assert attack.ask("POST", "/v1/sessions/import", LINES, lines).status in (201, 400)
    taken = mine.replace(things["run"][0].encode(), theirs.encode())
    assert taken != mine
    made = attack.ask("POST", "/v1/sessions/import", LINES, taken)
    said = built.call(built.at("ann").get(f"/v1/sessions/{made.json['id']}/messages")).json["data"]
    assert said
    assert all(one["run"] != theirs for one in said)
    assert built.snapshot("bob") == before
