"""HTTP/1.1 between a socket and an ASGI app: whatever pieces the bytes come in, the app gets one request and the
client one answer that ends as its head says."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from turnbuckle.server.http.connection import HttpConnection, Listening

HOST = b"host: here\r\n"


async def echo(scope, receive, send):
    """Answers with what it got. `/stream` has no length, `/short` promises more than it says."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    said = b"%b %b?%b %b" % (scope["method"].encode(), scope["raw_path"], scope["query_string"], body)
    headers = [(b"content-length", b"%d" % (len(said) + 5 * (scope["path"] == "/short")))]
    streamed = scope["path"] == "/stream"
    await send({"type": "http.response.start", "status": 200, "headers": [] if streamed else headers})
    half = len(said) // 2
    if streamed:
        await send({"type": "http.response.body", "body": said[:half], "more_body": True})
        await send({"type": "http.response.body", "body": said[half:], "more_body": False})
    else:
        await send({"type": "http.response.body", "body": said, "more_body": False})


@asynccontextmanager
async def listening(app=echo, most=100):
    shared = Listening(app, 10.0, most)
    server = await asyncio.get_running_loop().create_server(lambda: HttpConnection(shared), "127.0.0.1", 0)
    try:
        yield shared, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(shared.connections):
            connection.abort()


@asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def said(port, *pieces):
    """All that comes back until the server hangs up."""
    async with connected(port) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return await asyncio.wait_for(reader.read(), 100.0)


def answered(*pieces, app=echo):
    async def scenario():
        async with listening(app) as (_, port):
            return await said(port, *pieces)

    return asyncio.run(scenario())


POST = b"POST /a?b=c HTTP/1.1\r\n" + HOST + b"connection: close\r\ncontent-length: 5\r\n\r\nhello"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\nPOST /a?b=c hello"


@pytest.mark.requirement("F1")
def test_a_request_is_the_same_wherever_it_is_split():
    async def scenario():
        async with listening() as (_, port):
            return {await said(port, POST[:place], POST[place:]) for place in range(1, len(POST))}

    assert asyncio.run(scenario()) == {ANSWER.replace(b"15", b"17")}


@pytest.mark.requirement("F1")
def test_requests_sent_ahead_are_answered_in_their_order():
    first = b"POST /1 HTTP/1.1\r\n" + HOST + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    last = b"GET /2 HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
    heard = answered(first * 20 + last)
    assert heard.count(b"HTTP/1.1 200 OK") == 21
    assert heard.count(b"POST /1? abc") == 20
    assert heard.endswith(b"GET /2? ")


@pytest.mark.requirement("F2")
def test_an_answer_without_a_length_comes_in_chunks_and_its_head_with_the_first():
    heard = answered(b"GET /stream HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert body == b"6\r\nGET /s\r\n7\r\ntream? \r\n0\r\n\r\n"


@pytest.mark.requirement("F2")
def test_a_stream_that_has_nothing_to_say_yet_begins_all_the_same():
    async def silent(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass

    async def scenario():
        async with listening(silent) as (_, port), connected(port) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 100.0)

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "head, ends",
    [
        (b"GET /stream HTTP/1.0\r\n\r\n", b"connection: close\r\n\r\nGET /stream? "),
        (b"GET /a HTTP/1.0\r\n\r\n", b"content-length: 8\r\nconnection: close\r\n\r\nGET /a? "),
        (
            b"GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n",
            b"content-length: 8\r\nconnection: close\r\n\r\nGET /b? ",
        ),
    ],
    ids=["no length", "a length", "kept alive"],
)
@pytest.mark.requirement("F1")
def test_an_old_client_gets_no_chunks(head, ends):
    heard = answered(head)
    assert b"chunked" not in heard
    assert heard.endswith(ends)


@pytest.mark.requirement("F1")
def test_the_head_alone_has_no_body_and_the_next_answer_follows():
    heard = answered(
        b"HEAD /a HTTP/1.1\r\n" + HOST + b"\r\nGET /b HTTP/1.1\r\n" + HOST + b"connection: close\r\n\r\n"
    )
    first, second = heard.split(b"\r\n\r\n", 1)
    assert b"content-length: 9" in first
    assert second.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.requirement("B1")
def test_an_answer_that_breaks_its_promise_ends_the_connection():
    heard = answered(b"GET /short HTTP/1.1\r\n" + HOST + b"\r\nGET /never HTTP/1.1\r\n" + HOST + b"\r\n")
    assert heard.endswith(b"GET /short? ")


@pytest.mark.requirement("B1")
def test_an_app_that_fails_in_the_middle_gives_no_proper_end():
    async def broken(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError("a mistake")

    async def scenario():
        async with listening(broken) as (_, port):
            try:
                return await said(port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            except ConnectionResetError:
                return b"(reset)"

    assert b"0\r\n\r\n" not in asyncio.run(scenario())


@pytest.mark.parametrize(
    "hosts",
    [b"", b"host: a\r\nhost: a\r\n"],
    ids=["none", "two"],
)
@pytest.mark.requirement("F9")
def test_a_request_without_one_host_is_refused(hosts):
    assert answered(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
@pytest.mark.requirement("F1")
def test_a_wish_for_another_protocol_is_answered_as_if_it_had_not_been_there(protocol):
    asked = b"POST /a HTTP/1.1\r\n" + HOST + b"connection: upgrade\r\nupgrade: " + protocol
    for framed in (b"content-length: 2\r\n\r\nhi", b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"):
        whole = asked + b"\r\n" + framed
        for place in range(1, len(whole)):
            heard = answered(whole[:place], whole[place:])
            assert heard.endswith(b"connection: close\r\n\r\nPOST /a? hi"), place
    assert answered(asked + b"\r\n\r\n").endswith(b"connection: close\r\n\r\nPOST /a? ")


@pytest.mark.requirement("F1")
def test_whoever_waits_for_leave_to_send_gets_it_when_the_body_is_wanted():
    async def scenario():
        async with listening() as (_, port), connected(port) as (reader, writer):
            writer.write(
                b"POST /a HTTP/1.1\r\n"
                + HOST
                + b"connection: close\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
            )
            leave = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 100.0)
            writer.write(b"hi")
            return leave, await asyncio.wait_for(reader.read(), 100.0)

    leave, heard = asyncio.run(scenario())
    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert heard.endswith(b"POST /a? hi")


@pytest.mark.requirement("E5")
def test_a_body_that_nobody_takes_stops_its_sender_and_goes_on_when_it_is_taken():
    size = 8 * 1024 * 1024
    door = asyncio.Event()

    async def slow(scope, receive, send):
        await door.wait()
        taken, more = 0, True
        while more:
            message = await receive()
            taken, more = taken + len(message["body"]), message["more_body"]
        body = b"%d" % taken
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"7")]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def scenario():
        async with listening(slow) as (_, port), connected(port) as (reader, writer):
            writer.write(
                b"POST / HTTP/1.1\r\n" + HOST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % size
            )
            writer.write(bytes(size))
            while writer.transport.get_write_buffer_size() > size - 64 * 1024:
                await asyncio.sleep(0)
            left = writer.transport.get_write_buffer_size()
            door.set()
            return left, await asyncio.wait_for(reader.read(), 100.0)

    left, heard = asyncio.run(scenario())
    assert left > 0
    assert heard.endswith(b"8388608")


@pytest.mark.requirement("R12")
def test_one_connection_too_many_is_refused_with_words_and_the_others_are_served():
    ask = b"GET /a HTTP/1.1\r\n" + HOST + b"\r\n"

    async def scenario():
        async with listening(most=2) as (shared, port), connected(port) as one, connected(port) as two:
            for reader, writer in (one, two):
                writer.write(ask)
                await reader.readuntil(b"GET /a? ")
            refused = await said(port)
            one[1].close()
            await one[1].wait_closed()
            while len(shared.connections) > 1:
                await asyncio.sleep(0)
            async with connected(port) as (reader, writer):
                writer.write(ask)
                return refused, await reader.readuntil(b"GET /a? ")

    refused, served = asyncio.run(scenario())
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in refused
    assert b"server.max_connections" in refused
    assert served.startswith(b"HTTP/1.1 200 ")
