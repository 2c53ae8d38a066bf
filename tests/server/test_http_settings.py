"""The settings of the server: their limits, and what a mistake is told."""

import pytest

from turnbuckle.config import api_keys_of, load
from turnbuckle.errors import ConfigError


def loaded(tmp_path, text, environment=None):
    (tmp_path / "turnbuckle.toml").write_text(text)
    return load(folder=tmp_path, environment=environment or {}).settings


@pytest.mark.requirement("F9")
def test_defaults_are_for_one_machine(tmp_path):
    server = loaded(tmp_path, "").server
    assert (server.host, server.port, server.api_keys, server.origins) == ("127.0.0.1", 8765, (), ())
    assert (server.keepalive, server.noop, server.send_timeout, server.drain) == (15, 30, 60, 10)
    assert (server.max_body, server.requests_per_minute) == (32 * 1024 * 1024, 1200)
    assert (server.max_runs, server.max_runs_per_owner, server.idempotency_hours, server.log) == (
        500,
        200,
        24,
        "text",
    )


@pytest.mark.parametrize(
    "line, words",
    [
        ("port = 70000", "server.port: a whole number of at most 65535 is wanted (turnbuckle.toml, line 2)"),
        ("keepalive = 0", "server.keepalive: a number above 0 is wanted"),
        ("noop = -1", "server.noop: a number above 0 is wanted"),
        ("send_timeout = 0", "server.send_timeout: a number above 0 is wanted"),
        ("drain = -1", "server.drain: a number of at least 0 is wanted"),
        ("max_body = 1", "server.max_body: a whole number of at least 1024 is wanted"),
        ("max_runs = 0", "server.max_runs: a whole number of at least 1 is wanted"),
        ("requests_per_minute = -1", "server.requests_per_minute: a whole number of at least 0 is wanted"),
        ("log = 'xml'", "server.log: 'xml' is not one of text, json"),
        ("origins = ['evil.example']", "'evil.example' must be like https://host"),
        ("origins = ['https://a.example/path']", "'https://a.example/path' must be like https://host"),
        ("origins = ['null']", "'null' must be like https://host"),
        ("origin = ['https://a.example']", "server.origin is not known; did you mean origins?"),
    ],
)
def test_a_setting_that_can_not_be_is_told_by_name(tmp_path, line, words):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, f"[server]\n{line}\n")
    assert words in str(caught.value)


@pytest.mark.parametrize("origin", ["https://a.example", "http://localhost:3000", "*"])
def test_an_origin_is_a_scheme_and_a_host(tmp_path, origin):
    assert loaded(tmp_path, f"[server]\norigins = ['{origin}']\n").server.origins == (origin,)


@pytest.mark.requirement("F9")
def test_keys_are_looked_up_in_the_environment_and_never_printed(tmp_path):
    settings = loaded(tmp_path, "[server]\napi_keys = ['env:MY_KEY', 'written-here']\n")
    assert api_keys_of(settings, {"MY_KEY": " from-there "}) == ("from-there", "written-here")
    assert "written-here" not in repr(settings)
    with pytest.raises(ConfigError, match=r"server\.api_keys: the environment has no MY_KEY"):
        api_keys_of(settings, {})


@pytest.mark.parametrize("key", ["", "two words", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused(tmp_path, key):
    settings = loaded(tmp_path, f"[server]\napi_keys = ['{key}']\n")
    with pytest.raises(ConfigError, match="ASCII characters") as caught:
        api_keys_of(settings, {})
    assert not key or key not in str(caught.value)
