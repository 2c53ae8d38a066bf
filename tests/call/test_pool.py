"""How a request begins, over which connection it goes, and what its head may not hold."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from turnbuckle.call.pool import Pool, PostTarget
from turnbuckle.call.transport import Connections, ResponseHead, UpstreamExchange
from turnbuckle.vocab.failure import Failure

PROXY = "http://p.example:1"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def head_of(url: str, headers: dict[str, str], *, proxy: str | None = None, key: str | None = None) -> str:
    async def main() -> str:
        return PostTarget(url, proxy, key).head(headers, 5).decode()

    return asyncio.run(main())


@asynccontextmanager
async def provider(answers: list[bytes], heard: list[bytes]) -> AsyncIterator[str]:
    """Answers one request after the other on each connection, and notes their heads."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while answers:
                head = await reader.readuntil(b"\r\n\r\n")
                heard.append(head)
                if not head.startswith(b"CONNECT"):
                    await reader.readexactly(2)
                writer.write(answers.pop(0))
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def asked(
    answers: list[bytes], ask: Callable[[Connections, str], Awaitable[object]]
) -> tuple[list[bytes], object]:
    heard: list[bytes] = []

    async def main() -> object:
        async with asyncio.timeout(20), provider(answers, heard) as url, Connections() as connections:
            return await ask(connections, url)

    found = asyncio.run(main())
    return heard, found


async def whole(connections: Connections, url: str, headers: dict[str, str]) -> ResponseHead | Failure:
    """The head of an answer whose body was read to its end."""
    exchange = connections.exchange(url, headers, b"{}")
    head = await exchange.send()
    while isinstance(head, ResponseHead) and await exchange.read():
        pass
    exchange.finish()
    return head


def test_a_request_begins_with_its_place_its_host_and_what_we_say_of_us():
    assert head_of("https://h.example:8443/v1/chat?a=b%20c", {"Content-Type": "application/json"}) == (
        "POST /v1/chat?a=b%20c HTTP/1.1\r\nhost: h.example:8443\r\nuser-agent: turnbuckle\r\naccept: */*\r\n"
        "accept-encoding: identity\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\n"
    )


def test_a_header_of_the_route_takes_the_place_of_ours_however_it_is_written():
    head = head_of("http://h/v1", {"User-Agent": "mine", "HOST": "other", "accept": "x/y"})
    assert head == (
        "POST /v1 HTTP/1.1\r\nhost: other\r\nuser-agent: mine\r\naccept: x/y\r\n"
        "accept-encoding: identity\r\ncontent-length: 5\r\n\r\n"
    )


def test_nobody_else_says_how_long_a_body_is():
    head = head_of("http://h/v1", {"Content-Length": "7", "Transfer-Encoding": "chunked"})
    assert head.endswith("\r\naccept-encoding: identity\r\ncontent-length: 5\r\n\r\n")


@pytest.mark.parametrize(
    "url, begins, key",
    [
        ("http://h.example/v1?a=1", "POST http://h.example/v1?a=1 HTTP/1.1\r\n", "Basic x"),
        ("https://h.example/v1?a=1", "POST /v1?a=1 HTTP/1.1\r\n", None),
    ],
)
def test_a_proxy_is_told_the_whole_address_and_its_key_unless_there_is_a_tunnel(url, begins, key):
    head = head_of(url, {}, proxy=PROXY, key="Basic x")
    assert head.startswith(begins)
    assert ("proxy-authorization: Basic x\r\n" in head) == (key is not None)


@pytest.mark.parametrize(
    "headers", [{"x-a": "b\r\nx-evil: 1"}, {"x-a\r\nx-evil: 1": "b"}, {"x": "a\0b"}, {"x": "a\nb"}]
)
def test_a_header_with_a_line_of_its_own_is_a_failure_and_nothing_is_sent(headers):
    heard, found = asked([ANSWER], lambda connections, url: whole(connections, url, headers))
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable) == ("connect", False)
    assert found.message == "the request could not be made: a header holds a control character"
    assert heard == []


@pytest.mark.parametrize("url", ["ftp://h/v1", "http://", "h.example/v1", "http://[::1"])
def test_an_address_that_nothing_can_be_posted_to_is_a_failure(url):
    async def main() -> ResponseHead | Failure:
        async with Connections() as connections:
            return await connections.exchange(url, {}, b"{}").send()

    found = asyncio.run(main())
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable) == ("connect", False)


def test_a_connection_whose_answer_was_read_is_used_again():
    async def ask(connections: Connections, url: str) -> list[object]:
        return [await whole(connections, url, {}) for _ in range(3)]

    heard, found = asked([ANSWER] * 3, ask)
    assert isinstance(found, list)
    assert [each.status for each in found] == [200] * 3
    assert len(heard) == 3
    assert heard[0] == heard[1] == heard[2]


def test_over_a_free_connection_a_request_is_sent_before_anybody_else_has_a_turn():
    async def ask(connections: Connections, url: str) -> list[str]:
        await whole(connections, url, {})
        happened: list[str] = []
        exchange = connections.exchange(url, {}, b"{}")
        exchange.connected = lambda: happened.append("sent")
        asyncio.get_running_loop().call_soon(happened.append, "others")
        await exchange.send()
        exchange.finish()
        return happened

    assert asked([ANSWER] * 2, ask)[1] == ["sent", "others"]


def test_what_a_provider_says_before_its_answer_is_passed_over():
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    _, found = asked([hints + ANSWER], lambda connections, url: whole(connections, url, {}))
    assert isinstance(found, ResponseHead)
    assert (found.status, found.headers) == (200, {"content-length": "2"})


def test_a_tunnel_is_asked_for_with_the_key_of_the_proxy_and_what_it_refuses_is_told(monkeypatch):
    refused = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n"

    async def ask(connections: Connections, url: str) -> ResponseHead | Failure:
        monkeypatch.setenv("https_proxy", url.replace("http://", "http://user:pa%20ss@"))
        monkeypatch.delenv("no_proxy", raising=False)
        return await whole(connections, "https://model.example/v1", {"authorization": "Bearer secret"})

    heard, found = asked([refused], ask)
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable) == ("connect", False)
    assert "407" in found.message
    (head,) = heard
    assert head.startswith(b"CONNECT model.example:443 HTTP/1.1\r\n")
    assert aiohttp.encode_basic_auth("user", "pa ss").encode() in head
    assert b"secret" not in head


def test_connections_that_are_kept_are_found_under_the_key_under_which_new_ones_are_made():
    async def main() -> bool:
        target = PostTarget("https://h.example/v1", PROXY, "Basic x")
        pool = Pool()
        async with pool:
            loop = asyncio.get_running_loop()
            assert await pool.idle(target) is None
            first = target.request(loop)
            pool._update_proxy_auth_header_and_build_proxy_req(first)  # as the library does on the way
            return target.request(loop).connection_key == target.key

    assert asyncio.run(main())


class BrokenPool(Pool):
    """Its connections break before their request can be written."""

    async def connected(self, target: PostTarget) -> aiohttp.connector.Connection:
        made = await super().connected(target)
        assert made.transport is not None
        made.transport.abort()
        while made.transport is not None:
            await asyncio.sleep(0)
        return made


def test_a_connection_that_breaks_before_the_request_is_written_is_a_reset_and_is_given_back():
    async def main() -> ResponseHead | Failure:
        async with asyncio.timeout(20), provider([], []) as url:
            pool = BrokenPool()
            found = await UpstreamExchange(pool, url, {}, b"{}", set()).send()
            gc.collect()  # a connection that nobody gave back says so now
            await pool.close()
            return found

    found = asyncio.run(main())
    assert isinstance(found, Failure)
    assert (found.kind, found.retryable) == ("reset", True)
    assert found.message == "the connection was closed before an answer came"
