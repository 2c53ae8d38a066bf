"""The provider's own reading of requests."""

import pytest

from turnbuckle.lab.http1 import (
    MAX_BODY,
    MAX_HEAD,
    BadRequest,
    Request,
    RequestReader,
    chunk_bytes,
    head_bytes,
)

PLAIN = b"POST /v1/messages?beta=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nX-Lab-Case: happy\r\n\r\n{}"
CHUNKED = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\n\r\n"


def _take_all(*chunks: bytes) -> list[Request | BadRequest]:
    reader = RequestReader()
    found: list[Request | BadRequest] = []
    for chunk in chunks:
        reader.feed(chunk)
        while (request := reader.take()) is not None:
            found.append(request)
            if isinstance(request, BadRequest):
                return found
    return found


def test_a_request_with_a_length_is_read() -> None:
    (request,) = _take_all(PLAIN)
    assert request == Request(
        "POST",
        "/v1/messages?beta=1",
        {"host": "x", "content-length": "2", "x-lab-case": "happy"},
        b"{}",
    )


def test_a_chunked_request_is_read() -> None:
    (request,) = _take_all(CHUNKED)
    assert isinstance(request, Request)
    assert request.body == b"hello!"


@pytest.mark.parametrize("data", [PLAIN, CHUNKED])
def test_a_request_is_the_same_however_it_is_split(data: bytes) -> None:
    assert _take_all(*(bytes([byte]) for byte in data)) == _take_all(data)


def test_what_follows_the_last_chunk_is_not_looked_at() -> None:
    trailed = CHUNKED[:-2] + b"x-trailer: 1\r\n\r\n"
    assert _take_all(trailed, PLAIN) == _take_all(CHUNKED, PLAIN)


def test_requests_behind_each_other_are_told_apart() -> None:
    assert len(_take_all(PLAIN + CHUNKED + b"\r\n" + PLAIN)) == 3


@pytest.mark.parametrize(
    "first_line, wish, kept",
    [
        ("GET / HTTP/1.1", "", True),
        ("GET / HTTP/1.1", "Connection: close\r\n", False),
        ("GET / HTTP/1.0", "", False),
    ],
)
def test_a_connection_is_kept_as_the_client_wishes(first_line: str, wish: str, kept: bool) -> None:
    (request,) = _take_all(f"{first_line}\r\n{wish}\r\n".encode())
    assert isinstance(request, Request)
    assert request.keep_alive is kept


@pytest.mark.parametrize(
    "data, status",
    [
        (b"hello\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY + 1), 413),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_HEAD, 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (MAX_HEAD + 1), 431),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx: " + b"x" * MAX_HEAD, 431),
    ],
)
def test_a_request_that_can_not_be_read_gets_a_status(data: bytes, status: int) -> None:
    (problem,) = _take_all(data)
    assert isinstance(problem, BadRequest)
    assert problem.status == status


def test_a_client_that_waits_before_its_body_is_noticed() -> None:
    reader = RequestReader()
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.take() is None
    assert reader.wants_continue


def test_an_answer_says_how_its_body_ends() -> None:
    assert b"content-length: 3\r\n" in head_bytes(200, {}, length=3, chunked=False, keep_alive=True)
    assert b"transfer-encoding: chunked\r\n" in head_bytes(
        200, {}, length=None, chunked=True, keep_alive=True
    )
    assert head_bytes(529, {}, length=0, chunked=False, keep_alive=False).startswith(
        b"HTTP/1.1 529 Unknown\r\n"
    )
    assert chunk_bytes(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"
