"""Requests and answers over real sockets: every answer is in the known shape, whatever was sent."""

import asyncio
import logging

import pytest
from support.http.memory_server import memory_server

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.openapi import Operation
from turnbuckle.server.settings import ServerSettings

DOC = Operation("extra", "Extra", "sample")
SMALL = ServerSettings(port=0, max_body=1024)


def asked(method, path, settings=ServerSettings(port=0), **more):
    async def main():
        async with memory_server(settings) as built:
            return await built.ask(method, path, **more)

    return asyncio.run(main())


@pytest.mark.requirement("F1")
@pytest.mark.parametrize(
    "method, path, body, status, code",
    [
        ("GET", "/nothing/here", None, 404, "unknown_url"),
        ("GET", "/v1/models/none", None, 404, "model_not_found"),
        ("GET", "/echo", None, 405, "method_not_allowed"),
        ("TRACE", "/echo", None, 405, "method_not_allowed"),
        ("POST", "/echo", b"{", 400, "invalid_json"),
        ("POST", "/echo", b'{"text": 1}', 400, "invalid_type"),
        ("POST", "/echo", b"\xff\xfe", 400, "invalid_json"),
        ("POST", "/echo", b"[" * 2000, 400, "invalid_type"),
        ("GET", "/runs/r1/events?after=x", None, 400, "invalid_value"),
        ("GET", "/runs/r1/events?" + "a&" * 300, None, 400, None),
        ("GET", "/fail", None, 500, "internal_error"),
    ],
)
def test_every_problem_is_told_in_the_known_shape_with_a_request_id(method, path, body, status, code):
    reply = asked(method, path, body=body)
    assert reply.status == status
    assert reply.error["code"] == code
    assert set(reply.error) == {"message", "type", "param", "code"}
    assert reply.headers["x-request-id"].startswith("req_")
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/fail", "/v1/models"])
def test_no_answer_may_be_cached_or_guessed_at(path):
    headers = asked("GET", path).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_a_method_that_is_not_for_an_address_is_told_which_ones_are():
    assert asked("DELETE", "/echo").headers["allow"] == "POST, OPTIONS"
    assert asked("POST", "/healthz", body=b"{}").headers["allow"] == "GET, HEAD, OPTIONS"


def test_what_went_wrong_inside_stays_inside_and_is_in_the_log(caplog):
    with caplog.at_level(logging.ERROR, "turnbuckle.server"):
        reply = asked("GET", "/fail")
    assert b"secret" not in reply.body
    assert reply.headers["x-request-id"] in reply.error["message"]
    assert reply.headers["x-should-retry"] == "false"
    assert reply.headers["x-request-id"] in caplog.text
    assert "a secret of the handler" in caplog.text


def test_a_head_request_gets_the_head_of_the_answer_alone():
    async def main():
        async with memory_server() as built, built.client() as client:
            first = await client.ask("HEAD", "/v1/models")
            second = await client.ask("HEAD", "/runs/r1/events")
            third = await client.ask("GET", "/healthz")  # on the same connection, so nothing else was sent
            return first, second, third

    first, second, third = asyncio.run(main())
    assert (first.status, second.status, third.status) == (200, 200, 200)
    assert int(first.headers["content-length"]) > 0
    assert second.headers["content-type"].startswith("text/event-stream")


def test_options_tell_what_is_allowed():
    assert asked("OPTIONS", "/echo").headers["allow"] == "POST, OPTIONS"
    assert asked("OPTIONS", "/nothing").status == 404


@pytest.mark.requirement("F9")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_that_a_page_can_send_without_asking_is_refused(kind):
    reply = asked("POST", "/echo", body=b'{"text": "x"}', headers={"content-type": kind})
    assert (reply.status, reply.error["code"]) == (415, "unsupported_media_type")
    assert "application/json" in reply.error["message"]


@pytest.mark.parametrize(
    "kind", [None, "application/json", "Application/JSON; charset=utf-8", "application/a+json"]
)
def test_json_is_read_under_any_of_its_names_and_without_one(kind):
    reply = asked("POST", "/echo", body=b'{"text": "x"}', headers={"content-type": kind})
    assert reply.json["text"] == "x"


def test_a_packed_body_is_refused_by_name():
    reply = asked("POST", "/echo", body=b"x", headers={"content-encoding": "gzip"})
    assert (reply.status, reply.error["code"]) == (415, "unsupported_encoding")


@pytest.mark.requirement("F9")
def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_is_sent():
    async def main():
        async with memory_server(SMALL) as built, built.client() as client:
            await client.send(
                "POST", "/echo", headers={"content-length": str(10**12), "content-type": "application/json"}
            )
            return await client.reply()

    reply = asyncio.run(main())
    assert (reply.status, reply.error["code"]) == (413, "body_too_large")
    assert "server.max_body" in reply.error["message"]


@pytest.mark.requirement("F9")
def test_a_body_that_does_not_say_how_large_it_is_is_counted():
    async def main():
        async with memory_server(SMALL) as built, built.client() as client:
            await client.send("POST", "/echo", headers={"transfer-encoding": "chunked"})
            for _ in range(3):
                client.writer.write(b"200\r\n" + b" " * 512 + b"\r\n")
            return await client.reply()

    assert asyncio.run(main()).status == 413


def test_the_connection_stays_good_behind_a_body_that_was_too_large():
    async def main():
        async with memory_server(SMALL) as built, built.client() as client:
            first = await client.ask("POST", "/echo", body=b" " * 200_000)
            second = await client.ask("POST", "/echo", body=b'{"text": "x"}')
            return first.status, second.status

    assert asyncio.run(main()) == (413, 200)


def test_a_body_in_pieces_is_read_whole():
    async def main():
        async with memory_server() as built, built.client() as client:
            await client.send("POST", "/echo", headers={"transfer-encoding": "chunked"})
            for piece in (b'{"te', b'xt": "a', b'b"}'):
                client.writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            client.writer.write(b"0\r\n\r\n")
            return await client.reply()

    assert asyncio.run(main()).json["text"] == "ab"


def test_a_client_that_waits_for_a_word_before_it_sends_its_body_gets_it():
    async def main():
        async with memory_server() as built, built.client() as client:
            await client.send("POST", "/echo", headers={"content-length": "13", "expect": "100-continue"})
            between = await client.reader.readuntil(b"\r\n\r\n")
            client.writer.write(b'{"text": "x"}')
            return between, await client.reply()

    between, reply = asyncio.run(main())
    assert between.startswith(b"HTTP/1.1 100")
    assert reply.json["text"] == "x"


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing_behind():
    async def main():
        async with memory_server() as built:
            async with built.client() as client:
                await client.send("POST", "/echo", headers={"content-length": "1000"})
                client.writer.write(b"{")
            while not built.served:
                await asyncio.sleep(0)
            return built.served[0]

    served = asyncio.run(main())
    assert (served.endpoint, served.status) == ("/echo", 499)


@pytest.mark.parametrize(
    "sent", [b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02"]
)
def test_what_is_no_request_is_answered_in_the_known_shape(sent):
    async def main():
        async with memory_server() as built, built.client() as client:
            client.writer.write(sent)
            reply = await client.reply()
            return reply, await client.reader.read()

    reply, rest = asyncio.run(main())
    assert (reply.status, rest) == (400, b"")
    assert reply.error["message"]


@pytest.mark.parametrize("piece", [b"x-more: 1\r\n", b"x" * 1000])
def test_a_head_without_an_end_is_refused_at_its_limit(piece):
    async def main():
        async with memory_server() as built, built.client() as client:
            client.writer.write(b"GET /healthz HTTP/1.1\r\n")
            for _ in range(70_000 // len(piece)):
                client.writer.write(piece)
            reply = await client.reply()
            return reply.status

    assert asyncio.run(main()) == 431


def test_requests_that_are_sent_ahead_are_answered_in_order():
    async def main():
        async with memory_server() as built, built.client() as client:
            for word in ("a", "b", "c"):
                await client.send("POST", "/echo", body=b'{"text": "%s"}' % word.encode())
            return [(await client.reply()).json["text"] for _ in range(3)]

    assert asyncio.run(main()) == ["a", "b", "c"]


def test_a_client_that_wants_another_protocol_is_answered_in_this_one():
    headers = {"connection": "upgrade", "upgrade": "websocket"}
    assert asked("GET", "/healthz", headers=headers).status == 200


def test_values_of_headers_can_not_break_the_answer():
    async def odd(exchange: Exchange) -> Answer:
        return json_answer({}, headers=(("x-odd", "a\r\nset-cookie: b"), ("x-far", "→ü")))

    async def main():
        async with memory_server(endpoints=[Endpoint("GET", "/odd", odd, DOC)]) as built:
            return await built.ask("GET", "/odd")

    headers = asyncio.run(main()).headers
    assert headers["x-odd"] == "a??set-cookie: b"
    assert headers["x-far"] == "?ü"


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (409, "invalid_request_error"),
        (429, "rate_limit_error"),
        (503, "server_error"),
    ],
)
def test_the_type_of_a_problem_follows_from_its_status(status, kind):
    assert Problem(status, "").type == kind


def test_a_problem_says_when_to_come_back_and_whether_to_try_again():
    async def busy(exchange: Exchange) -> Answer:
        raise Problem(
            503, "busy", retry_after=0.2, should_retry=True, param="x", headers=(("x-turnbuckle-run", "r1"),)
        )

    async def main():
        async with memory_server(endpoints=[Endpoint("GET", "/busy", busy, DOC)]) as built:
            return await built.ask("GET", "/busy")

    reply = asyncio.run(main())
    assert (reply.headers["retry-after"], reply.headers["x-should-retry"]) == ("1", "true")
    assert reply.headers["x-turnbuckle-run"] == "r1"
    assert reply.error["param"] == "x"


@pytest.mark.requirement("F1")
def test_models_are_the_agent_and_one_for_each_route():
    listed = asked("GET", "/v1/models").json
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == [
        "agent",
        "agent/main",
        "agent/meta/llama",
        "main",
        "meta/llama",
    ]
    assert [model["kind"] for model in listed["data"]] == [*["agent"] * 3, "relay", "relay"]
    for model in listed["data"]:
        assert (model["object"], model["created"], model["owned_by"]) == (
            "model",
            1_700_000_000,
            "turnbuckle",
        )
        assert model["description"]


@pytest.mark.requirement("F1")
@pytest.mark.parametrize("path", ["agent", "main", "meta/llama", "meta%2Fllama"])
def test_one_model_is_found_by_its_id_also_if_that_has_a_slash(path):
    assert asked("GET", f"/v1/models/{path}").json["id"] == path.replace("%2F", "/")


@pytest.mark.requirement("F1")
def test_the_server_tells_what_it_can_do():
    told = asked("GET", "/openapi.json").json
    assert told["openapi"].startswith("3.1")
    assert {"/v1/models", "/v1/models/{model}", "/healthz", "/openapi.json", "/echo"} <= set(told["paths"])


def test_every_request_is_reported_once_under_the_name_of_its_endpoint():
    async def main():
        async with memory_server() as built:
            for path in ("/healthz", "/v1/models/agent", "/v1/models/x", "/nothing"):
                await built.ask("GET", path)
            return built.served

    served = asyncio.run(main())
    assert [(each.endpoint, each.status, each.owner) for each in served] == [
        ("/healthz", 200, ""),
        ("/v1/models/{model*}", 200, "local"),
        ("/v1/models/{model*}", 404, "local"),
        ("", 404, ""),
    ]
    assert len({each.request_id for each in served}) == 4
