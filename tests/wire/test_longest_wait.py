"""How long a provider may ask for, and what is no wait any more."""

import json

import pytest

from turnbuckle.wire.failures import from_response


@pytest.mark.parametrize(
    "headers, error",
    [
        ({"retry-after": "{}"}, {}),
        ({"retry-after-ms": "{}000"}, {}),
        ({"retry-after": "{}s"}, {}),
        ({}, {"retry_after": "{}"}),
        ({}, {"retry_after_ms": "{}000"}),
        ({}, {"details": [{"retryDelay": "{}s"}]}),
        ({}, {"message": "Please try again in {} seconds."}),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "{}s"}, {}),
    ],
)
def test_a_wait_of_a_day_is_believed_and_a_longer_one_is_a_broken_header(headers, error):
    """A number that no wait can be would bench a route forever, or end a turn that a moment would have saved."""

    def told(seconds):
        body = json.dumps({"error": {"message": "slow", **error}}).replace("{}", str(seconds))
        for key in ("retry_after", "retry_after_ms"):
            body = body.replace(f'"{key}": "{seconds}000"', f'"{key}": {seconds}000')
            body = body.replace(f'"{key}": "{seconds}"', f'"{key}": {seconds}')
        named = {name: value.format(seconds) for name, value in headers.items()}
        return from_response(429, named, body.encode()).retry_after

    assert told(86_400) == 86_400.0
    assert told(86_401) is None
