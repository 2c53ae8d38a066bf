"""Requests that are wrong already as HTTP: each is refused once, and nothing hidden in one is carried out."""

import pytest
from support.http.raw_connection import raw_connection, request
from support.server.owners_server import owners_server

HOST = b"host: 127.0.0.1\r\n"
JSON = b"content-type: application/json\r\n"
BODY = b'{"input": "hello"}'
HIDDEN = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with owners_server(tmp_path_factory.mktemp("owners")) as made:
        yield made


@pytest.fixture
def key(built):
    return b"authorization: Bearer %b\r\n" % built.keys["ann"].encode()


def exchanged(built, data, *, then_ends=True):
    """All that a server answers to some bytes until it hangs up."""
    with raw_connection(built.server.port) as line:
        line.send(data)
        if then_ends:
            line.end()
        replies = line.replies()
    for reply in replies:
        assert reply.status < 500, reply
        assert reply.headers["x-request-id"]
    return replies


def is_well(built):
    with raw_connection(built.server.port) as line:
        line.send(request("GET", "/readyz"))
        return line.reply().status == 200


TWO_WAYS = {
    "two lengths": b"content-length: 18\r\ncontent-length: 5\r\n\r\n" + BODY,
    "a list of lengths": b"content-length: 18, 5\r\n\r\n" + BODY,
    "a length below zero": b"content-length: -1\r\n\r\n" + BODY,
    "a length with a sign": b"content-length: +18\r\n\r\n" + BODY,
    "a length in hex": b"content-length: 0x12\r\n\r\n" + BODY,
    "a length that no number holds": b"content-length: " + b"9" * 40 + b"\r\n\r\n" + BODY,
    "a length that is no number": b"content-length: many\r\n\r\n" + BODY,
    "length and chunks": b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks of another kind": b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunks, then packed": b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a space before the colon": b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a bare carriage return": b"x: a\rtransfer-encoding: chunked\r\n\r\n" + HIDDEN,
    "a NUL in a header": b"x: a\x00b\r\n\r\n" + HIDDEN,
    "a header without a name": b": a\r\n\r\n" + HIDDEN,
    "a header without a colon": b"nothing\r\n\r\n" + HIDDEN,
    "a folded header": b"x: a\r\n b\r\n\r\n" + HIDDEN,
}


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("name", TWO_WAYS)
def test_a_request_that_can_be_read_in_two_ways_is_refused_and_hides_nothing(built, key, name):
    before = built.runs("ann")
    head = b"POST /v1/runs HTTP/1.1\r\n" + HOST + key + JSON
    replies = exchanged(built, head + TWO_WAYS[name], then_ends=False)
    assert [reply.status for reply in replies] in ([400], [413], []), replies
    assert built.runs("ann") == before


BAD_CHUNKS = {
    "a size that is no number": b"zz\r\nabc\r\n0\r\n\r\n",
    "a size below zero": b"-1\r\na\r\n0\r\n\r\n",
    "a size that no number holds": b"f" * 20 + b"\r\na\r\n0\r\n\r\n",
    "no end of line": b"5\r\n{    0\r\n\r\n",
    "more than was said": b"2\r\n{}}}\r\n0\r\n\r\n",
    "nothing": b"\r\n\r\n",
}


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("name", BAD_CHUNKS)
def test_a_body_in_broken_chunks_is_not_carried_out(built, key, name):
    before = built.runs("ann")
    head = b"POST /v1/runs HTTP/1.1\r\n" + HOST + key + JSON + b"transfer-encoding: chunked\r\n\r\n"
    replies = exchanged(built, head + BAD_CHUNKS[name], then_ends=False)
    assert [reply.status for reply in replies] in ([400], []), replies
    assert built.runs("ann") == before


@pytest.mark.requirement("F1")
def test_extensions_and_trailers_of_chunks_are_read_over(built, key):
    head = b"POST /v1/runs HTTP/1.1\r\n" + HOST + key + JSON + b"transfer-encoding: chunked\r\n\r\n"
    data = head + b'12;a=b;c="d"\r\n' + BODY + b"\r\n0\r\nx-trailer: a\r\n\r\n"
    with raw_connection(built.server.port) as line:
        line.send(data)
        assert line.reply().status == 202


@pytest.mark.requirement("F9")
@pytest.mark.parametrize("encoding", ["length", "chunks"])
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_a_body_that_is_cut_anywhere_begins_nothing(built, key, path, encoding):
    body = b'{"model": "agent", "input": "hello", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}'
    said = (
        b"content-length: %d\r\n\r\n" % len(body)
        if encoding == "length"
        else b"transfer-encoding: chunked\r\n\r\n"
    )
    sent = body if encoding == "length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    before = built.runs("ann")
    for cut in range(0, len(sent), 7):
        data = b"POST %b HTTP/1.1\r\n" % path.encode() + HOST + key + JSON + said + sent[:cut]
        assert exchanged(built, data) == []
    assert built.runs("ann") == before
    assert is_well(built)


NO_REQUESTS = {
    "nothing": b"",
    "a line": b"\r\n\r\n",
    "another protocol": b"SSH-2.0-x\r\n",
    "encryption": bytes.fromhex("16030100c8010000c40303"),
    "the next version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a version that there is not": b"GET /healthz HTTP/9.9\r\n" + HOST + b"\r\n",
    "no version": b"GET /healthz \r\n" + HOST + b"\r\n",
    "a method that there is not": b"FETCH /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "a method in small letters": b"get /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "an address with a space": b"GET /v1/ru ns HTTP/1.1\r\n" + HOST + b"\r\n",
    "an address with NUL": b"GET /v1/\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "an address of no text": b"GET /v1/\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    "an address without a slash": b"GET v1/runs HTTP/1.1\r\n" + HOST + b"\r\n",
    "only bytes": bytes(range(256)) * 8,
    "a long line": b"G" * 300_000,
    "many small headers": b"GET / HTTP/1.1\r\n"
    + b"".join(b"x-%d: y\r\n" % n for n in range(20_000))
    + b"\r\n",
    "a header without an end": b"GET / HTTP/1.1\r\nx: " + b"y" * 300_000,
}


@pytest.mark.requirement("F1", "F9")
@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_is_no_request_is_refused_once_and_the_connection_is_closed(built, name):
    replies = exchanged(built, NO_REQUESTS[name])
    assert [reply.status for reply in replies] in ([400], [404], [405], [431], []), replies
    assert all(reply.headers["connection"] == "close" for reply in replies if reply.status in (400, 431))
    assert is_well(built)


@pytest.mark.requirement("F1")
def test_an_old_client_gets_its_answer_and_the_connection_is_closed(built, key):
    with raw_connection(built.server.port) as line:
        line.send(b"GET /v1/models HTTP/1.0\r\n" + key + b"\r\n")
        reply = line.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert line.reply() is None


@pytest.mark.requirement("F1")
def test_many_requests_sent_ahead_are_answered_in_order_whatever_they_are(built, key):
    """Good ones, unknown ones, refused ones, and a stream in between."""
    run = built.things["ann"].ids["run"][0].encode()
    mixed = [
        (b"GET /v1/models HTTP/1.1\r\n" + HOST + key + b"\r\n", 200),
        (b"GET /v1/runs/none HTTP/1.1\r\n" + HOST + key + b"\r\n", 404),
        (b"GET /v1/runs/%b/events HTTP/1.1\r\n" % run + HOST + key + b"\r\n", 200),
        (b"POST /v1/sessions HTTP/1.1\r\n" + HOST + key + JSON + b"content-length: 2\r\n\r\n{}", 201),
        (
            b"POST /v1/sessions HTTP/1.1\r\n"
            + HOST
            + key
            + b"content-type: text/plain\r\ncontent-length: 2\r\n\r\n{}",
            415,
        ),
        (b"GET /v1/runs HTTP/1.1\r\n" + HOST + b"\r\n", 401),
        (b"PUT /v1/runs HTTP/1.1\r\n" + HOST + key + b"content-length: 3\r\n\r\nabc", 405),
    ] * 12
    with raw_connection(built.server.port) as line:
        line.send(b"".join(data for data, _ in mixed))
        found = [line.reply() for _ in mixed]
    assert [reply.status for reply in found] == [status for _, status in mixed]
    assert all(reply.whole for reply in found)
    streams = [reply.body for reply in found if "transfer-encoding" in reply.headers]
    assert len(streams) == 12
    assert len(set(streams)) == 1
    assert b"event: run_ended" in streams[0]


@pytest.mark.requirement("F9")
def test_whoever_asks_first_sends_no_body_that_would_be_refused(built, key):
    head = b"POST /v1/runs HTTP/1.1\r\n" + HOST + key + JSON + b"expect: 100-continue\r\n"
    with raw_connection(built.server.port) as line:
        line.send(head + b"content-length: 99999999999\r\n\r\n")
        assert line.reply().status == 413
        assert b"100 Continue" not in line.buffer
    with raw_connection(built.server.port) as line:
        line.send(head + b"content-length: %d\r\n\r\n" % len(BODY))
        assert line.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        line.send(BODY)
        assert line.reply().status == 202


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "header",
    [
        b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: YQ==\r\nsec-websocket-version: 13\r\n",
        b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AA\r\n",
        b"connection: close\r\n",
        b"connection: keep-alive, x\r\n",
        b"range: bytes=0-1\r\n",
        b"if-none-match: *\r\n",
        b"accept: application/xml\r\n",
        b"accept-encoding: gzip, br, zstd\r\n",
        b"te: trailers\r\n",
        b"expect: something\r\n",
        b"traceparent: 00-" + b"f" * 32 + b"-" + b"0" * 16 + b"-ff\r\n",
        b"traceparent: \xff\xfe\r\ntracestate: =,=\r\n",
        b"x-forwarded-for: 1.2.3.4\r\nx-forwarded-host: evil.example\r\nforwarded: host=evil.example\r\n",
        b"cookie: a=b\r\n",
        b"user-agent: \xe2\x82\xac\r\n",
    ],
    ids=lambda header: header.split(b":")[0].decode(),
)
def test_what_a_header_wishes_for_in_vain_changes_nothing(built, key, header):
    with raw_connection(built.server.port) as line:
        line.send(b"GET /v1/models HTTP/1.1\r\n" + HOST + key + header + b"\r\n")
        reply = line.reply()
    assert reply.status == 200
    assert reply.json["object"] == "list"


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "hosts", [(b"evil.example", b"127.0.0.1"), (b"127.0.0.1", b"evil.example"), (b"127.0.0.1:80", b"evil")]
)
def test_two_hosts_are_none_of_ours(built, key, hosts):
    lines = b"".join(b"host: %b\r\n" % host for host in hosts)
    [reply] = exchanged(
        built, b"GET /v1/runs HTTP/1.1\r\n" + lines + key + b"connection: close\r\n\r\n", then_ends=False
    )
    assert reply.status in (400, 421)


@pytest.mark.requirement("F9", "R12")
def test_a_request_of_the_newer_kind_without_a_host_is_refused_and_an_older_one_needs_none(built, key):
    for version, status in ((b"1.1", 400), (b"1.0", 200)):
        sent = b"GET /v1/models HTTP/" + version + b"\r\n" + key + b"connection: close\r\n\r\n"
        [reply] = exchanged(built, sent, then_ends=False)
        assert reply.status == status


@pytest.mark.requirement("F9")
def test_an_address_that_names_another_host_is_not_for_us(built, key):
    """Whatever the header says: the address counts."""
    for target, status in (("http://evil.example/v1/models", 421), ("http://127.0.0.1/v1/models", 200)):
        with raw_connection(built.server.port) as line:
            line.send(b"GET %b HTTP/1.1\r\n" % target.encode() + HOST + key + b"\r\n")
            assert line.reply().status == status
