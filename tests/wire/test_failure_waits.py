"""How long a provider asks us to wait, wherever and however it says so."""

import json

import pytest

from turnbuckle.wire.failures import from_error, from_response


def _body(**error):
    return json.dumps({"error": error}).encode()


def _read(status, body=b"", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return from_response(status, named, body)


# How long to wait

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after_ms": "250.5"}, 0.2505),
        ({"retry_after_ms": "1500", "retry_after": "60"}, 1.5),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": " 0.5 "}, 0.5),
        ({"retry_after": "0"}, 0.0),
        ({"retry_after": "1m30s"}, 90.0),
        ({"retry_after": "350ms"}, 0.35),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": DATE}, 30.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": DATE}, 0.0),
        ({"retry_after": "2026-10-21T07:28:45Z", "date": DATE}, 45.0),
        ({"retry_after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-5"}, None),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "99999999"}, None),
        ({"retry_after_ms": "later", "retry_after": "2"}, 2.0),
        ({}, None),
    ],
)
def test_the_wait_is_read_from_headers_in_every_spelling(headers, seconds):
    assert _read(429, b"", **headers).retry_after == pytest.approx(seconds)


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "6s"}, 6.0),
        ({"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "1m30s"}, 90.0),
        ({"x_ratelimit_remaining_tokens": "0", "x_ratelimit_reset_tokens": "12ms"}, 0.012),
        ({"x_ratelimit_remaining_tokens": "5", "x_ratelimit_reset_tokens": "1m"}, None),
        (
            {
                "x_ratelimit_remaining_requests": "0",
                "x_ratelimit_reset_requests": "1s",
                "x_ratelimit_remaining_tokens": "0",
                "x_ratelimit_reset_tokens": "9s",
            },
            9.0,
        ),
        (
            {
                "anthropic_ratelimit_input_tokens_remaining": "0",
                "anthropic_ratelimit_input_tokens_reset": "2026-10-21T07:28:20Z",
                "date": DATE,
            },
            20.0,
        ),
    ],
)
def test_a_429_without_a_wait_opens_with_its_used_up_limit(headers, seconds):
    assert _read(429, b"", **headers).retry_after == seconds
    assert _read(500, b"", **headers).retry_after is None


@pytest.mark.parametrize(
    "message, seconds",
    [
        ("Rate limit reached. Please try again in 1.2s.", 1.2),
        ("Please try again in 350ms. Visit the page.", 0.35),
        ("Try again in 20 seconds", 20.0),
        ("Please try again in 6m30s.", 390.0),
        ("Please try again in 1m 5s", 65.0),
        ("Please retry after 3 seconds", 3.0),
        ("Please retry in 8.5s.", 8.5),
        ("Please retry after 2 minutes.", 120.0),
        ("try again later", None),
        ("try again in a while", None),
        ("in 5s", None),
    ],
)
def test_the_wait_may_hide_in_the_sentence(message, seconds):
    assert from_error({"code": "rate_limit_exceeded", "message": message}).retry_after == pytest.approx(
        seconds
    )


@pytest.mark.parametrize(
    "error, seconds",
    [
        (
            {
                "details": [
                    {"@type": "google.rpc.Help"},
                    {"@type": "google.rpc.RetryInfo", "retryDelay": "8s"},
                ]
            },
            8.0,
        ),
        ({"details": [{"retryDelay": "1.5s"}]}, 1.5),
        ({"details": [{"retryDelay": "?"}]}, None),
        ({"details": "none"}, None),
        ({"retry_after": 4}, 4.0),
        ({"retry_after_ms": 250}, 0.25),
        ({"retryAfter": 2.5}, 2.5),
        ({"retry_after": True}, None),
        ({"retry_after": "soon"}, None),
    ],
)
def test_the_wait_may_stand_in_the_error_object(error, seconds):
    assert from_error({"code": 429, **error}).retry_after == seconds


def test_headers_know_the_wait_better_than_sentences():
    found = _read(429, _body(message="try again in 9s"), retry_after="3")
    assert found.retry_after == 3.0
