"""Which headers of a provider's answer a client is told: its id of the request, and what is left of its limits."""

import pytest

from turnbuckle.call.attempt import is_told


@pytest.mark.requirement("J1", "I8")
@pytest.mark.parametrize(
    "header, told",
    [
        ("request-id", True),
        ("anthropic-ratelimit-requests-remaining", True),
        ("anthropic-ratelimit-unified-reset", True),
        ("x-ratelimit-limit-tokens", True),
        ("set-cookie", False),
        ("server", False),
        ("content-encoding", False),
        ("authorization", False),
        ("ratelimit", False),
    ],
)
def test_a_client_is_told_the_id_and_the_limits_and_nothing_else(header: str, told: bool):
    assert is_told(header) is told
