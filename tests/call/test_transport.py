"""The transport below an attempt: what goes out, what is made of trouble, and that nothing leaks."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from support.calls.attempts import (
    AttemptHarness,
    case_of,
    failure_of,
    reply_of,
    request_of,
    route_to,
    run_scenario,
)

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.pool import check_library, open_socket, proxy_for
from turnbuckle.call.transport import Connections, from_exception
from turnbuckle.lab.script import CutOff, Finish, Raw, Say
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.events import Event
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ToolSpec

FAST = StallSettings(connect=5, first_event=20, gap=10)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def against(handler: Handler, *, secure: bool = False, **fields: Any) -> tuple[list[list[Event]], float]:
    """One attempt against a server that behaves as `handler` does, in virtual time."""
    clock = VirtualClock()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not secure:
                await reader.readuntil(b"\r\n\r\n")
            await handler(reader, writer)
        finally:
            writer.close()

    async def main() -> tuple[list[list[Event]], float]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Connections() as connections:
            route = route_to(f"{'https' if secure else 'http'}://127.0.0.1:{port}/v1", stall=FAST)
            attempt = Attempt(route, request_of(), connections=connections, clock=clock, **fields)
            batches = [batch async for batch in attempt]
            ended = clock.now()
            await asyncio.sleep(0.2)
            return batches, ended

    return clock.run(main)


async def forever(seconds: float = 10_000.0) -> None:
    await asyncio.sleep(seconds)


def test_the_request_carries_what_the_route_says_and_asks_for_no_compression():
    async def scenario(harness: AttemptHarness):
        route = route_to(
            harness.provider.url + "/v1",
            "anthropic",
            model="claude",
            headers={"x-team": "blue"},
            extra={"metadata": {"user_id": "u"}},
            quirks=Quirks(anthropic_auth="x-api-key"),
            max_output_tokens=777,
        )
        request = request_of(tools=(ToolSpec("f"),))
        attempt = Attempt(route, request, connections=harness.connections, clock=harness.clock)
        _ = [batch async for batch in attempt]
        return harness.provider.requests[0]

    seen = run_scenario("happy", scenario)
    assert seen.path == "/v1/messages"
    assert seen.headers["accept-encoding"] == "identity"
    assert seen.headers["x-team"] == "blue"
    assert seen.headers["user-agent"] == "turnbuckle"
    assert seen.headers["anthropic-version"]
    assert (seen.body["model"], seen.body["max_tokens"]) == ("claude", 777)
    assert seen.body["metadata"] == {"user_id": "u"}
    assert seen.body["tools"][0]["eager_input_streaming"] is True


def test_what_the_request_says_wins_over_the_route():
    async def scenario(harness: AttemptHarness):
        route = route_to(
            harness.provider.url + "/v1", max_output_tokens=777, effort="low", extra={"seed": 1, "top_k": 2}
        )
        request = request_of(model="other", max_output_tokens=5, effort="high", extra={"seed": 9})
        attempt = Attempt(route, request, connections=harness.connections, clock=harness.clock)
        _ = [batch async for batch in attempt]
        return harness.provider.requests[0].body

    body = run_scenario("happy", scenario)
    found = [body[key] for key in ("model", "max_completion_tokens", "reasoning_effort", "seed", "top_k")]
    assert found == ["other", 5, "high", 9, 2]


@pytest.mark.requirement("A9")
def test_no_listener_is_a_failure_to_connect():
    async def scenario(harness: AttemptHarness):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # bound but not listening, so nobody else can answer there
            return await harness.run(url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1")

    failure = failure_of(run_scenario("happy", scenario))
    assert (failure.kind, failure.retryable) == ("connect", True)


def test_a_host_without_tls_is_a_failure_to_connect():
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    batches, _ = against(handler, secure=True)
    assert failure_of(batches).kind == "connect"


def test_a_handshake_that_never_ends_is_cut_by_the_connect_clock_and_its_socket_is_closed():
    async def handler(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            pass
        closed.append(True)

    closed: list[bool] = []
    batches, ended = against(handler, secure=True)
    failure = failure_of(batches)
    assert (failure.kind, failure.clock) == ("stalled", "connect")
    assert ended == pytest.approx(5, abs=0.5)
    assert closed == [True]


def test_an_answer_that_is_not_http_is_garbage():
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        await writer.drain()

    batches, _ = against(handler)
    assert failure_of(batches).kind == "garbage"


def test_a_body_shorter_than_it_said_is_incomplete():
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n" + b'{"a"'
        )
        await writer.drain()

    batches, _ = against(handler)
    assert failure_of(batches).kind == "incomplete"


def test_a_body_that_ends_with_its_connection_is_judged_by_the_protocol():
    async def scenario(harness: AttemptHarness):
        return await harness.run()

    batches = run_scenario(case_of(Say("hi"), Raw("data: [DONE]\n\n"), CutOff("fin")), scenario)
    assert reply_of(batches).text == "hi"


def test_the_body_of_an_error_that_never_comes_is_not_waited_for_long():
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\ncontent-length: 999\r\n\r\n")
        await writer.drain()
        await forever()

    batches, ended = against(handler)
    failure = failure_of(batches)
    assert (failure.kind, failure.retry_after) == ("rate_limited", 7)
    assert ended <= 11


def test_a_stop_in_the_body_of_an_error_is_a_stop():
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\ncontent-length: 999\r\n\r\n{")
        await writer.drain()
        stop.set()
        await forever()

    stop = asyncio.Event()
    batches, ended = against(handler, stop=stop)
    assert failure_of(batches).kind == "cancelled"
    assert ended < 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_body_that_is_none_is_a_failure_and_not_an_exception(encoding: str):
    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {encoding}\r\n\r\n"
        writer.write(head.encode() + b"data: {}\n\n")
        await writer.drain()

    batches, _ = against(handler)
    assert failure_of(batches).kind in ("incomplete", "garbage")


def test_a_peer_that_accepts_and_never_reads_is_dropped_in_the_middle_of_a_large_request():
    """The request does not fit into the buffers, so a polite close would wait for the peer."""
    clock = VirtualClock()

    async def main() -> tuple[list[list[Event]], int]:
        loop = asyncio.get_running_loop()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(8)
            listener.setblocking(False)
            async with Connections() as connections:
                route = route_to(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", stall=FAST)
                attempt = Attempt(route, request_of("x" * 20_000_000), connections=connections, clock=clock)
                batches = [batch async for batch in attempt]
                peer, _ = await loop.sock_accept(listener)
                with peer:
                    await _until_closed(loop, peer)
                return batches, round(clock.now())

    batches, ended = clock.run(main)
    assert (failure_of(batches).clock, ended) == ("first_event", 20)


async def _until_closed(loop: asyncio.AbstractEventLoop, peer: socket.socket) -> None:
    peer.setblocking(False)
    try:
        while await loop.sock_recv(peer, 1 << 20):
            pass
    except ConnectionResetError:
        return


def test_proxies_of_the_environment_are_used(monkeypatch):
    async def scenario(harness: AttemptHarness):
        monkeypatch.setenv("http_proxy", harness.provider.url.replace("http://", "http://user:pa%20ss@"))
        batches = await harness.run(url="http://model.example/v1")
        return batches, harness.provider.requests

    batches, requests = run_scenario(case_of(Say("by proxy"), Finish()), scenario)
    assert reply_of(batches).text == "by proxy"
    assert requests[0].headers["host"] == "model.example"
    assert requests[0].headers["proxy-authorization"] == aiohttp.encode_basic_auth("user", "pa ss")


@pytest.mark.parametrize(
    "environment, url, proxy",
    [
        ({}, "https://a.example/v1", None),
        ({"https_proxy": "http://p:1"}, "https://a.example/v1", "http://p:1"),
        ({"https_proxy": "p:1"}, "https://a.example/v1", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://a.example/v1", None),
        ({"all_proxy": "http://p:2"}, "https://a.example/v1", "http://p:2"),
        ({"https_proxy": "http://p:1", "no_proxy": "a.example"}, "https://a.example/v1", None),
        ({"https_proxy": "http://p:1", "no_proxy": "*"}, "https://a.example/v1", None),
        ({"http_proxy": "http://p:1"}, "http://127.0.0.1:8000/v1", None),
        ({"http_proxy": "http://p:1"}, "http://localhost:11434/v1", None),
        ({"http_proxy": "http://p:1"}, "http://[::1]:8000/v1", None),
    ],
)
def test_the_environment_names_the_proxy(monkeypatch, environment, url: str, proxy: str | None):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url)[0] == proxy


def test_sockets_notice_a_peer_that_is_gone():
    with open_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


def _payload_error(cause: BaseException | None) -> aiohttp.ClientPayloadError:
    error = aiohttp.ClientPayloadError("Response payload is not completed")
    error.__cause__ = cause
    return error


KEY: Any = aiohttp.client_reqrep.ConnectionKey("h.example", 443, True, True, None, None, None)
INFO: Any = None


@pytest.mark.requirement("A9")
@pytest.mark.parametrize(
    "error, kind, retryable",
    [
        (aiohttp.ClientConnectorError(KEY, ConnectionRefusedError(111, "refused")), "connect", True),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "unknown")), "connect", True),
        (aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "handshake")), "connect", True),
        (aiohttp.ClientConnectorCertificateError(KEY, ssl.CertificateError("self-signed")), "connect", False),
        (aiohttp.ClientProxyConnectionError(KEY, OSError(111, "refused")), "connect", True),
        (aiohttp.ClientHttpProxyError(INFO, (), status=407, message="auth"), "connect", False),
        (aiohttp.ClientHttpProxyError(INFO, (), status=503, message="busy"), "connect", True),
        (aiohttp.InvalidURL("x"), "connect", False),
        (aiohttp.ServerDisconnectedError(), "reset", True),
        (aiohttp.ClientOSError(104, "reset"), "reset", True),
        (ConnectionResetError(104, "reset"), "reset", True),
        (ssl.SSLError(1, "bad record"), "reset", True),
        (_payload_error(None), "incomplete", True),
        (_payload_error(ConnectionResetError(104, "reset")), "reset", True),
        (aiohttp.ClientResponseError(INFO, (), status=400, message="bad header"), "garbage", True),
        (RuntimeError("Session is closed"), "connect", False),
        (ValueError("odd header"), "connect", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_every_exception_becomes_a_failure(error: BaseException, kind: str, retryable: bool):
    made = from_exception(error)
    assert isinstance(made, Failure)
    assert (made.kind, made.retryable) == (kind, retryable)
    assert made.message


@pytest.mark.parametrize(
    "error, words",
    [
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "the connection broke: connection reset by peer",
        ),
        (aiohttp.ClientOSError(32, "Broken pipe"), "the connection broke: broken pipe"),
        (OSError("no number"), "the connection broke: no number"),
        (
            ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 9)"),
            "the connection broke: connection refused",
        ),
    ],
)
def test_numbers_of_the_system_are_not_told_to_people(error: BaseException, words: str):
    assert from_exception(error).message == words


def test_an_answer_whose_body_has_not_ended_yet_is_let_go_of_when_the_pool_is_closed():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[DONE]")
        left.set_result(await reader.read())
        writer.close()

    async def scenario() -> bytes:
        nonlocal left
        left = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, Connections() as connections:
            exchange = connections.exchange(
                f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", {}, b"{}"
            )
            await exchange.send()
            assert await exchange.read() == b"[DONE]"
            exchange.finish()
            await connections.close()
            return await left

    left: asyncio.Future[bytes]
    assert asyncio.run(scenario()) == b"{}"
    gc.collect()  # what still held the connection would complain here


def test_a_pool_that_is_closed_is_a_failure_too():
    async def scenario(harness: AttemptHarness):
        await harness.connections.close()
        return await harness.run()

    failure = failure_of(run_scenario("happy", scenario))
    assert (failure.kind, failure.retryable) == ("connect", False)


class Reader:
    _buffer = _buffer_offset = _http_chunk_splits = ()


class Connector:
    _factory = _loop = _get = ()


@pytest.mark.parametrize("name", ["_buffer", "_buffer_offset", "_http_chunk_splits"])
def test_a_library_whose_buffers_we_do_not_know_is_refused_at_the_start(monkeypatch, name):
    check_library(Reader, Connector())
    monkeypatch.delattr(Reader, name)
    with pytest.raises(RuntimeError, match=f"its Reader has no {name};"):
        check_library(Reader, Connector())


@pytest.mark.parametrize("name", ["_factory", "_loop", "_get"])
def test_a_library_whose_connections_we_do_not_know_is_refused_at_the_start(monkeypatch, name):
    monkeypatch.delattr(Connector, name)
    with pytest.raises(RuntimeError, match=f"its connector has no {name};"):
        check_library(Reader, Connector())
