"""Fetching pages, from a real server on this machine."""

import asyncio
import gzip
import ipaddress
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from support.tools.toolbox import Toolbox

from turnbuckle.tools.builtin.page_worker import text_of_html
from turnbuckle.tools.builtin.web import LARGEST_BODY, PublicResolver, is_public
from turnbuckle.tools.spec import ToolError
from turnbuckle.vocab.tooling import ToolOutcome

PAGE = """<html><head><title>A page</title><style>p {}</style><script>alert("no")</script></head>
<body><h1>Head &amp; toe</h1><p>One  <b>bold</b>
word.</p><ul><li>first<li>second</ul><!-- unseen --></body></html>"""


async def page(request: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


async def plain(request: web.Request) -> web.Response:
    return web.Response(
        body="größe".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}
    )


async def image(request: web.Request) -> web.Response:
    return web.Response(body=b"\x89PNG\0", content_type="image/png")


async def gone(request: web.Request) -> web.Response:
    return web.Response(status=404, text="not here")


async def big(request: web.Request) -> web.Response:
    return web.Response(body=b"x" * (LARGEST_BODY + 100_000), content_type="text/plain")


async def bomb(request: web.Request) -> web.Response:
    return web.Response(
        body=gzip.compress(b"x" * 50_000_000),
        headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"},
    )


async def ring(request: web.Request) -> web.Response:
    raise web.HTTPFound("/ring")


async def moved(request: web.Request) -> web.Response:
    raise web.HTTPFound("/page")


async def inward(request: web.Request) -> web.Response:
    raise web.HTTPFound("file:///etc/passwd")


HANDLERS = (page, plain, image, gone, big, bomb, ring, moved, inward)


async def served(act: Callable[[str], Awaitable[ToolOutcome]]) -> ToolOutcome:
    app = web.Application()
    app.add_routes([web.get(f"/{handler.__name__}", handler) for handler in HANDLERS])
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return await act(f"http://{host}:{port}")
    finally:
        await runner.cleanup()


def fetched(box: Toolbox, path: str) -> ToolOutcome:
    return asyncio.run(served(lambda server: box.run("fetch_url", url=f"{server}/{path}")))


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path, allow_private_addresses=True)


@pytest.mark.requirement("D7")
def test_a_page_comes_as_words(box: Toolbox):
    outcome = fetched(box, "page")
    head, words = outcome.text.split("\n\n", 1)
    assert "(200, text/html," in head
    assert words == "A page\nHead & toe\nOne bold\nword.\nfirst\nsecond"


@pytest.mark.parametrize(
    "path, status, words",
    [
        ("plain", "finished", "größe"),
        ("image", "finished", "not a text"),
        ("moved", "finished", "Head & toe"),
        ("gone", "failed", "not here"),
        ("ring", "failed", "more than 5 times"),
        ("inward", "failed", "not an http or https"),
    ],
)
def test_other_answers_are_told_as_what_they_are(box: Toolbox, path: str, status: str, words: str):
    outcome = fetched(box, path)
    assert outcome.status == status
    assert words in outcome.text


@pytest.mark.requirement("D5")
@pytest.mark.parametrize("path", ["big", "bomb"])
def test_a_huge_body_is_cut_also_when_it_was_packed(box: Toolbox, path: str):
    outcome = fetched(box, path)
    assert outcome.status == "finished"
    assert f"{LARGEST_BODY:,} bytes, cut at the cap" in outcome.text


@pytest.mark.requirement("D5")
def test_a_server_that_says_nothing_is_left_at_a_stop_and_the_connection_is_closed(box: Toolbox):
    async def main() -> ToolOutcome:
        stop, left = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            stop.set()
            assert await reader.read() == b""
            writer.close()
            left.set()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            outcome = await box.with_settings(stop=stop).run("fetch_url", url=f"http://{host}:{port}/")
            await left.wait()
            return outcome

    assert asyncio.run(main()).status == "killed"


@pytest.mark.requirement("D7")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "169.254.169.254",
        "10.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "2130706433",
        "0x7f000001",
        "0X7F.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "0",
        "①②⑦.⓪.⓪.①",
        "１２７.0.0.1",
        "127。0。0。1",
        "me:you@127.0.0.1",
        "public.example@127.0.0.1",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[::127.0.0.1]",
        "[fe80::1%25lo]",
        "[::1%25lo]",
        "LOCALHOST",
    ],
)
def test_private_addresses_are_refused_unless_allowed(tmp_path: Path, host: str):
    outcome = Toolbox(tmp_path).do("fetch_url", url=f"http://{host}:9/")
    assert outcome.status == "failed"
    assert "private address" in outcome.text


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/", "example", "http://", "gopher://x:70/"])
def test_only_web_addresses_are_fetched(box: Toolbox, url: str):
    assert box.do("fetch_url", url=url).status == "failed"


@pytest.mark.parametrize(
    "address, public",
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("64:ff9b:1::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("::127.0.0.1", False),
        ("::ffff:0:127.0.0.1", False),
        ("::ffff:0:93.184.216.34", False),
        ("fec0::1", False),
        ("100::1", False),
        ("2001::1", False),
        ("2001:0:7f00:1::80ff:fffe", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("fd00:ec2::254", False),
        ("192.0.0.192", False),
        ("168.63.129.16", False),
        ("100.100.100.200", False),
        ("198.18.0.1", False),
        ("240.0.0.1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool):
    assert is_public(ipaddress.ip_address(address)) is public


def test_a_name_that_stands_for_a_private_address_is_not_resolved():
    async def main() -> None:
        with pytest.raises(ToolError, match="private"):
            await PublicResolver(False).resolve("localhost", 80)
        assert await PublicResolver(True).resolve("localhost", 80)

    asyncio.run(main())


def test_broken_pages_still_give_their_words():
    assert text_of_html("<p>a<p>b</script></style><div>c &lt;d&gt; &nosuch;") == "a\nb\nc <d> &nosuch;"


def test_a_question_goes_to_the_user_or_says_that_there_is_none(tmp_path: Path):
    async def answer(question: str) -> str:
        return f"{question} Yes."

    box = Toolbox(tmp_path)
    nobody = box.do("ask_user", question="Shall I?")
    assert (nobody.status, "nobody to ask" in nobody.text) == ("failed", True)
    assert box.with_settings(ask=answer).do("ask_user", question="Shall I?").text == "Shall I? Yes."
