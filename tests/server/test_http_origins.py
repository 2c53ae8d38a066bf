"""A page of another origin cannot drive the server; a named one can."""

import asyncio

import pytest
from support.http.memory_server import END, memory_server

from turnbuckle.errors import ConfigError
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.http.origins import Origins
from turnbuckle.server.settings import ServerSettings

APP = "https://app.example"
NAMED = ServerSettings(port=0, origins=(APP,))
ALLOW, EXPOSE = "access-control-allow-origin", "access-control-expose-headers"


def asked(settings, *requests, **more):
    async def main():
        async with memory_server(settings, **more) as built:
            return [
                await built.ask(method, path, headers=headers, **rest)
                for method, path, headers, rest in requests
            ]

    return asyncio.run(main())


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/runs/r1/events", None),
        ("GET", "/v1/models", None),
        ("GET", "/healthz", None),
        ("GET", "/nothing", None),
        ("POST", "/echo", b'{"text": "x"}'),
        ("OPTIONS", "/echo", None),
        ("HEAD", "/healthz", None),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://app.example.evil.example"},
        {"origin": "http://app.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
def test_a_page_of_another_origin_is_refused_everywhere_and_learns_nothing(method, path, body, headers):
    [reply] = asked(NAMED, (method, path, headers, {"body": body}))
    assert reply.status == 403
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.requirement("F9")
def test_a_named_origin_may_read_answers_errors_and_streams():
    async def main():
        async with memory_server(NAMED) as built:
            headers = {"origin": APP, "sec-fetch-site": "cross-site"}
            plain = await built.ask("GET", "/v1/models", headers=headers)
            wrong = await built.ask("GET", "/nothing", headers=headers)
            broken = await built.ask("GET", "/fail", headers=headers)
            await built.say(END)
            async with built.client() as client:
                stream = await client.stream("/runs/r1/events", headers=headers)
            return plain, wrong, broken, stream

    replies = asyncio.run(main())
    assert [reply.status for reply in replies] == [200, 404, 500, 200]
    for reply in replies:
        assert reply.headers[ALLOW] == APP
        assert reply.headers["vary"] == "origin"
        assert "x-request-id" in reply.headers[EXPOSE]
        assert "x-turnbuckle-run" in reply.headers[EXPOSE]


@pytest.mark.requirement("F9")
def test_a_browser_that_asks_first_is_told_without_a_key():
    headers = {
        "origin": APP,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, content-type, x-stainless-os",
        "access-control-request-private-network": "true",
    }
    [reply] = asked(NAMED, ("OPTIONS", "/echo", headers, {}), keys=["tb-some-key"])
    assert reply.status == 204
    assert reply.headers[ALLOW] == APP
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert reply.headers["access-control-allow-headers"] == "authorization, content-type, x-stainless-os"
    assert reply.headers["access-control-allow-private-network"] == "true"


@pytest.mark.requirement("F9")
def test_a_page_of_the_server_itself_needs_no_permission():
    async def main():
        async with memory_server() as built:
            origin = {"origin": f"http://127.0.0.1:{built.port}", "sec-fetch-site": "same-origin"}
            return await built.ask("POST", "/echo", body=b'{"text": "x"}', headers=origin)

    reply = asyncio.run(main())
    assert reply.status == 200
    assert ALLOW not in reply.headers


@pytest.mark.parametrize(
    "origin, host, same",
    [
        ("http://127.0.0.1:8765", "127.0.0.1:8765", True),
        ("http://LocalHost:8765", "localhost:8765", True),
        ("http://[::1]:8765", "[::1]:8765", True),
        ("http://localhost", "localhost", True),
        ("https://localhost", "localhost:443", True),
        ("https://localhost:443", "localhost", True),
        ("http://127.0.0.1:8765", "127.0.0.1:8766", False),
        ("http://127.0.0.1", "127.0.0.1:8765", False),
        ("ftp://127.0.0.1:8765", "127.0.0.1:8765", False),
        ("http://", "127.0.0.1", False),
        ("http://127.0.0.1:bad", "127.0.0.1", False),
        ("null", "127.0.0.1", False),
    ],
)
def test_the_same_origin_is_the_same_name_and_port(origin, host, same):
    origins = Origins((), "127.0.0.1", needs_key=False)
    headers = {"origin": origin, "host": host}
    if same:
        assert origins.check(headers) == ()
    else:
        with pytest.raises(Problem) as caught:
            origins.check(headers)
        assert caught.value.status == 403


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "localhost.evil.example", "192.168.1.5", "a, b", "[", "@"]
)
def test_a_name_that_was_made_to_point_here_is_refused(host):
    origins = Origins((), "127.0.0.1", needs_key=False)
    for headers in (
        {"host": host},
        {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"},
    ):
        with pytest.raises(Problem) as caught:
            origins.check(headers)
        assert (caught.value.status, caught.value.code) == (421, "wrong_host")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9", "localhost:8765", "[::1]:8765", "a.localhost", ""]
)
def test_this_machine_is_known_by_its_names(host):
    assert Origins((), "127.0.0.1", needs_key=False).check({"host": host}) == ()


def test_behind_a_proxy_the_name_of_a_named_origin_is_ours_too():
    origins = Origins(("https://box.example",), "127.0.0.1", needs_key=True)
    assert origins.check({"host": "box.example"}) == ()
    with pytest.raises(Problem, match=r"server\.origins"):
        origins.check({"host": "other.example"})


def test_a_server_for_others_has_any_name():
    origins = Origins((), "0.0.0.0", needs_key=True)
    assert origins.check({"host": "whatever.example"}) == ()
    assert origins.check({"host": "whatever.example", "origin": "https://whatever.example"}) == ()
    with pytest.raises(Problem):
        origins.check({"host": "whatever.example", "origin": "https://evil.example"})


@pytest.mark.requirement("F9")
def test_every_page_may_be_allowed_only_where_a_key_is_needed():
    with pytest.raises(ConfigError, match=r"server\.origins allows every page"):
        Origins(("*",), "127.0.0.1", needs_key=False)
    headers = dict(Origins(("*",), "127.0.0.1", needs_key=True).check({"origin": "https://any.example"}))
    assert headers[ALLOW] == "https://any.example"


@pytest.mark.parametrize("asked_for", ["x" * 5000, "a\x01b", "ü"])
def test_a_list_of_headers_that_is_none_is_not_repeated(asked_for):
    origins = Origins((APP,), "127.0.0.1", needs_key=False)
    made = dict(origins.preflight({"access-control-request-headers": asked_for}, ["GET"]))
    assert "access-control-allow-headers" not in made
