"""Pages and servers that want to hold everybody up, or to be asked for what is not public."""

import asyncio
import socket
import string
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yarl
from aiohttp import web
from aiohttp.resolver import ThreadedResolver
from hypothesis import given, settings
from hypothesis import strategies as st
from support.server.loop_watch import LONGEST, held_while
from support.tools.toolbox import Toolbox

from turnbuckle.tools.builtin import web as fetching
from turnbuckle.tools.builtin.page_worker import CHARSETS, decoded, text_of_html
from turnbuckle.tools.spec import ToolError
from turnbuckle.vocab.tooling import ToolOutcome

HOSTILE = {
    "open tags": "<a ",
    "open tags with names": "<a b",
    "open quotes": "<a b='",
    "attributes": "x=1 ",
    "comments": "<!--",
    "doctypes": "<!",
    "ends": "</",
    "titles": "<title>",
    "almost closed": "<script></scrip",
    "deep": "<div>",
    "formatting": "<b><p>",
    "entities": "&amp",
    "numbers": "&#9",
    "one number": "9",
    "lines": "\n<p>",
}


async def answered(head: bytes, body: bytes, act: Callable[[str], Awaitable[ToolOutcome]]) -> ToolOutcome:
    """Serve these bytes to whoever asks, as they are."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        return await act(f"http://{host}:{port}/")


def fetched(tmp_path: Path, body: bytes, kind: str = "text/html") -> tuple[ToolOutcome, float]:
    box = Toolbox(tmp_path, allow_private_addresses=True)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return asyncio.run(held_while(lambda: answered(head, body, lambda url: box.run("fetch_url", url=url))))


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("name", ["open tags", "deep", "almost closed"])
def test_a_hostile_page_does_not_hold_the_loop(tmp_path: Path, name: str):
    outcome, held = fetched(tmp_path, (HOSTILE[name] * (24_000 // len(HOSTILE[name]))).encode())
    assert outcome.status == "finished"
    assert held < LONGEST


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("charset", ["punycode", "idna", "zip", "hex", "unicode_escape", "utf-7", "nosuch"])
def test_a_charset_that_is_not_on_the_list_is_read_as_utf_8(tmp_path: Path, charset: str):
    outcome, held = fetched(tmp_path, b"gr\xc3\xb6\xc3\x9fe " * 20_000, f"text/plain; charset={charset}")
    assert "größe" in outcome.text
    assert held < LONGEST


@pytest.mark.requirement("R1", "R12")
def test_a_page_that_is_too_hard_is_given_up_and_the_model_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetching, "READING_MEMORY", 24 << 20)
    outcome, held = fetched(tmp_path, b"<p>" * 1_600_000)
    assert "its reader was stopped" in outcome.text
    assert held < LONGEST


@pytest.mark.requirement("R12")
def test_interim_answers_are_counted(tmp_path: Path):
    box = Toolbox(tmp_path, allow_private_addresses=True)
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    end = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nhi"
    many = asyncio.run(answered(hint * 10_000, end, lambda url: box.run("fetch_url", url=url)))
    assert (many.status, "interim answers" in many.text) == ("failed", True)
    few = asyncio.run(answered(hint, end, lambda url: box.run("fetch_url", url=url)))
    assert few.text.endswith("hi")


@pytest.mark.requirement("R8")
def test_the_other_end_of_the_connection_is_judged_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A resolver that lets everything through stands for any way round the first look."""
    heard: list[str] = []

    async def page(request: web.Request) -> web.Response:
        heard.append(request.path)
        return web.Response(text="inner")

    async def main() -> ToolOutcome:
        app = web.Application()
        app.add_routes([web.get("/", page)])
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            return await Toolbox(tmp_path).run("fetch_url", url=f"http://localhost:{runner.addresses[0][1]}/")
        finally:
            await runner.cleanup()

    open_resolver = fetching.PublicResolver
    monkeypatch.setattr(fetching, "PublicResolver", lambda _: open_resolver(True))
    outcome = asyncio.run(main())
    assert (outcome.status, "private address" in outcome.text, heard) == ("failed", True, [])


@pytest.mark.requirement("R1")
@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_page_takes_linear_time(name: str):
    piece = HOSTILE[name]
    head = "<a " if name == "attributes" else "&#" if name == "one number" else ""

    def seconds(size: int) -> float:
        page = head + piece * (size // len(piece))
        before = time.process_time()
        text_of_html(page)
        return time.process_time() - before

    seconds(10_000)
    small, large = min(seconds(250_000) for _ in range(3)), seconds(2_000_000)
    assert large < max(small, 0.002) * 8 * 4


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("<>/!-='\"& \n;#xab" + "title"), max_size=200))
def test_any_page_gives_some_text(page: str):
    assert "\n\n" not in text_of_html(page)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet=string.ascii_letters + " äöü&", max_size=50))
def test_words_survive_any_markup_around_them(words: str):
    shown = " ".join(words.replace("&", " ").split())
    page = f"<!doctype html><!-- <p> --><p class='a>b' title=\"<q>\">{words.replace('&', ' ')}</p><script>if (a<b) '</p>'</script>"
    assert text_of_html(page) == shown


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([*sorted(CHARSETS), "rot13", "bz2", "", "\0", "utf-8;x"]))
def test_any_bytes_in_any_charset_give_some_text(body: bytes, charset: str):
    assert isinstance(decoded(body, charset), str)


def test_the_usual_names_of_charsets_are_known():
    for name, text in [
        ("ISO-8859-1", "größe"),
        ("windows-1251", "привет"),
        ("Shift_JIS", "日本"),
        ("gb2312", "中文"),
        ("EUC-KR", "한국"),
        ("utf-16le", "größe"),
        ("US-ASCII", "plain"),
        ("koi8-r", "привет"),
        ("ISO-8859-15", "10 €"),
    ]:
        assert decoded(text.encode(name), name) == text, name


@pytest.mark.requirement("R8")
@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/inner",
        "http://2130706433:{port}/inner",
        "http://[::ffff:127.0.0.1]:{port}/inner",
        "http://x@127.0.0.1:{port}/inner",
        "//127.0.0.1:{port}/inner",
        "/inner",
    ],
)
def test_every_hop_is_judged_and_nothing_inner_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
):
    """The first hop is taken for public, as a real one would be; whatever it leads to is not."""
    heard: list[str] = []
    judged = fetching.is_public

    async def main() -> ToolOutcome:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode())
            monkeypatch.setattr(fetching, "is_public", judged)
            place = target.format(port=port)
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setattr(fetching, "is_public", lambda _: True)
            return await Toolbox(tmp_path).run("fetch_url", url=f"http://127.0.0.1:{port}/first")

    outcome = asyncio.run(main())
    assert (outcome.status, "private address" in outcome.text, heard) == ("failed", True, ["/first"])


@pytest.mark.requirement("R8")
def test_a_name_that_means_another_machine_the_second_time_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """DNS rebinding: public for the judge, and then this machine. There is no second look-up, and no way in."""
    asked: list[str] = []

    async def resolve(self: object, host: str, port: int = 0, family: int = 0) -> list[dict[str, object]]:
        asked.append(host)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET,
                "proto": 0,
                "flags": 0,
            }
        ]

    monkeypatch.setattr(ThreadedResolver, "resolve", resolve)

    async def main() -> None:
        connector = fetching._PublicConnector(False)
        try:
            places = await connector._resolve_host("rebound.example", 80)
            assert [place["host"] for place in places] == ["93.184.216.34"]
            with pytest.raises(ToolError, match="private"):
                await connector._resolve_host("rebound.example", 80)
        finally:
            await connector.close()

    asyncio.run(main())
    assert asked == ["rebound.example"] * 2


@pytest.mark.requirement("R8")
def test_a_proxy_of_the_environment_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It stands inside, and would fetch whatever it is told."""
    heard: list[bytes] = []

    async def main() -> ToolOutcome:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readline())
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy)
            for name in ("NO_PROXY", "no_proxy"):
                monkeypatch.delenv(name, raising=False)
            return await Toolbox(tmp_path).run("fetch_url", url="http://nowhere.invalid/")

    assert (asyncio.run(main()).status, heard) == ("failed", [])


@pytest.mark.requirement("R8")
@settings(max_examples=200)
@given(
    st.from_regex(r"(?:https?|HTTP|file|)://?[\w.:@%\[\]#?/\\-]{0,30}", fullmatch=True) | st.text(max_size=30)
)
def test_any_address_is_judged_without_falling_over(address: str):
    url, refusal = None, ""
    try:
        url = yarl.URL(address)
        fetching._judge(url, False)
    except (ToolError, ValueError) as error:
        refusal = str(error)
    assert refusal or (url is not None and url.scheme in ("http", "https") and url.host)


@pytest.mark.requirement("R8")
@given(st.ip_addresses(network="127.0.0.0/8") | st.ip_addresses(network="10.0.0.0/8"), st.integers(0, 5))
def test_no_spelling_of_a_private_address_passes(address: object, form: int):
    number = int(address)  # type: ignore[call-overload]
    parts = [number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255]
    host = [
        str(number),
        hex(number),
        f"0{number:o}",
        ".".join(f"0{part:o}" for part in parts),
        ".".join(map(hex, parts)),
        f"{parts[0]}.{number & 0xFFFFFF}",
    ][form]
    with pytest.raises(ToolError, match="private"):
        fetching._judge(yarl.URL(f"http://{host}/"), False)
