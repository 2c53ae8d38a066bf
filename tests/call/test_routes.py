"""Routes as people write them down."""

import pytest

from turnbuckle.call.limits import StallSettings
from turnbuckle.call.presets import PRESETS
from turnbuckle.call.routes import Route, RouteError, Secret, is_local, resolve
from turnbuckle.vocab.ids import PROTOCOL_NAMES
from turnbuckle.vocab.quirks import CAP_FIELDS, CapField, Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.openai_chat import request as openai_chat

WRITTEN = {"name": "main", "protocol": "openai_chat", "base_url": "https://a.example/v1", "model": "m"}


def test_a_route_is_read_from_its_table():
    route = resolve(
        {
            **WRITTEN,
            "api_key": "env:KEY",
            "headers": {"X-Team": "env:TEAM"},
            "quirks": {"short_call_ids": True},
            "stall": {"gap": 45},
            "max_output_tokens": 9000,
            "effort": "high",
        },
        {"KEY": "k1\n", "TEAM": "blue"},
        StallSettings(connect=3.0, gap=99.0),
    )
    assert (route.name, route.protocol, route.base_url, route.model) == (
        "main",
        "openai_chat",
        WRITTEN["base_url"],
        "m",
    )
    assert route.api_key.reveal() == "k1"
    assert route.headers == {"x-team": "blue"}
    assert route.quirks.short_call_ids
    assert (route.stall.connect, route.stall.gap) == (3.0, 45.0)
    assert (route.facts.name, route.facts.cap, route.facts.effort) == ("main", 9000, "high")
    assert route.facts.quirks == route.quirks


@pytest.mark.parametrize(
    "written, complaint",
    [
        ({**WRITTEN, "modle": "m"}, "route main: modle is not known; did you mean model?"),
        ({**WRITTEN, "protocol": "soap"}, "route main: Invalid enum value 'soap'"),
        ({**WRITTEN, "protocol": None}, "route main: protocol is missing; it is one of openai_chat"),
        ({**WRITTEN, "model": ""}, "route main: model is missing"),
        ({**WRITTEN, "model": 4}, "route main: Expected `str`, got `int`"),
        ({**WRITTEN, "base_url": ""}, "route main: base_url is missing; give it, or a preset"),
        ({**WRITTEN, "base_url": "ftp://x"}, "route main: base_url must be like https://host/v1"),
        ({**WRITTEN, "base_url": "a.example/v1"}, "route main: base_url must be like https://host/v1"),
        ({**WRITTEN, "base_url": "http://[::1"}, "route main: base_url must be like https://host/v1"),
        ({**WRITTEN, "base_url": "https://me:pw@h/v1"}, "route main: base_url holds credentials"),
        ({**WRITTEN, "preset": "opnai"}, "route main: there is no preset opnai; did you mean openai?"),
        ({**WRITTEN, "api_key": "env:NOPE"}, "route main: api_key: the environment has no NOPE"),
        ({**WRITTEN, "api_key": "a\nb"}, "route main: api_key holds a line break"),
        ({**WRITTEN, "headers": {"x y": "1"}}, "route main: 'x y' is not a header name"),
        ({**WRITTEN, "headers": {"x": "1\r\nhost: evil"}}, "route main: header x holds a line break"),
        (
            {**WRITTEN, "quirks": {"thnk": "off"}},
            "route main, quirks: thnk is not known; did you mean think?",
        ),
        (
            {**WRITTEN, "protocol": "anthropic", "quirks": {"stream_usage": False}},
            "route main, quirks: stream_usage is not known",
        ),
        ({**WRITTEN, "stall": {"gap": "soon"}}, "route main, stall: "),
        ({**WRITTEN, "stall": {"gap": -1}}, "route main, stall: "),
        ({}, "route (without a name): protocol is missing"),
    ],
)
def test_a_mistake_is_named_with_what_to_change(written, complaint: str):
    with pytest.raises(RouteError) as told:
        resolve(written, {})
    assert str(told.value).startswith(complaint)
    assert "pw" not in str(told.value)


@pytest.mark.parametrize(
    "url, made",
    [
        ("https://a.example", "https://a.example/v1"),
        ("https://a.example/", "https://a.example/v1"),
        ("https://a.example/v1/", "https://a.example/v1"),
        ("https://a.example/api/v4", "https://a.example/api/v4"),
        ("http://localhost:11434", "http://localhost:11434/v1"),
    ],
)
def test_a_bare_host_means_the_usual_place(url: str, made: str):
    assert resolve({**WRITTEN, "base_url": url}, {}).base_url == made


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_needs_only_a_model_and_finds_its_key(name: str):
    preset = PRESETS[name]
    written = {"preset": name, "model": "m"}
    if not preset.base_url:
        written["base_url"] = "https://mine.example/openai/v1"
    route = resolve(written, {preset.key: "k"})
    assert (route.name, route.api_key.reveal()) == (name, "k")
    assert route.protocol in PROTOCOL_NAMES
    assert route.base_url == (preset.base_url or written["base_url"])
    assert route.local is ("localhost" in route.base_url)


def test_what_is_written_wins_over_the_preset():
    written = {"preset": "deepseek", "model": "m", "api_key": "mine", "base_url": "http://10.0.0.3:9/v1"}
    route = resolve(
        {**written, "max_output_tokens": 5, "quirks": {"reasoning_with_calls": False}},
        {"DEEPSEEK_API_KEY": "k"},
    )
    assert (route.api_key.reveal(), route.base_url, route.max_output_tokens) == (
        "mine",
        "http://10.0.0.3:9/v1",
        5,
    )
    assert not route.quirks.reasoning_with_calls
    assert route.quirks.reasoning_field == "reasoning_content"


def test_a_large_call_has_room_by_default():
    assert resolve({"preset": "anthropic", "model": "m"}, {}).max_output_tokens == 32_000


@pytest.mark.parametrize(
    "url, local",
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://192.168.1.9/v1", True),
        ("http://10.1.2.3/v1", True),
        ("http://gpu-box:8000/v1", True),
        ("http://box.local/v1", True),
        ("https://8.8.8.8/v1", False),
        ("https://api.example.com/v1", False),
    ],
)
def test_a_local_address_is_known_as_one(url: str, local: bool):
    assert is_local(url) is local
    assert resolve({**WRITTEN, "base_url": url}, {}).local is local
    assert resolve({**WRITTEN, "base_url": url, "local": not local}, {}).local is not local


def test_a_route_never_shows_its_secrets():
    route: Route = resolve({**WRITTEN, "api_key": "hush-1", "headers": {"x-key": "hush-2"}}, {})
    shown = f"{route} {route!r} {route.api_key} {route.__rich_repr__()}"
    assert "hush" not in shown
    assert "x-key" in shown


def test_secrets_are_equal_by_what_they_hide():
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert not Secret("")


@pytest.mark.parametrize(
    "written, field",
    [
        ({"base_url": "http://localhost:8080"}, "max_tokens"),
        ({"base_url": "http://192.168.1.5:1234/v1"}, "max_tokens"),
        ({"base_url": "https://models.example.com/v1"}, "max_tokens"),
        ({"base_url": "https://notopenai.com/v1"}, "max_tokens"),
        ({"base_url": "https://api.openai.com.example.org/v1"}, "max_tokens"),
        ({"base_url": "https://api.openai.com/v1"}, "max_completion_tokens"),
        ({"base_url": "https://eu.api.openai.com/v1"}, "max_completion_tokens"),
        ({"base_url": "https://me.openai.azure.com/openai/v1"}, "max_completion_tokens"),
        ({"base_url": "https://me.services.ai.azure.com/openai/v1"}, "max_completion_tokens"),
        ({"preset": "openai-chat"}, "max_completion_tokens"),
        ({"preset": "openai-chat", "base_url": "http://localhost:9/v1"}, "max_tokens"),
        ({"preset": "azure", "base_url": "https://gateway.example.com/v1"}, "max_completion_tokens"),
        ({"preset": "groq"}, "max_completion_tokens"),
        ({"preset": "llama.cpp"}, "max_tokens"),
        (
            {"base_url": "http://localhost:1/v1", "quirks": {"output_cap_field": "max_completion_tokens"}},
            "max_completion_tokens",
        ),
        ({"preset": "openai-chat", "quirks": {"output_cap_field": "max_tokens"}}, "max_tokens"),
    ],
)
def test_the_output_cap_goes_by_the_name_that_the_host_knows(written, field: str):
    route = resolve({"protocol": "openai_chat", "model": "m", **written}, {})
    request = ModelRequest("m", (), max_output_tokens=9)
    body = openai_chat.build(request, route.quirks)
    assert {name: body[name] for name in CAP_FIELDS if name in body} == {field: 9}


@pytest.mark.parametrize("field", CAP_FIELDS)
@pytest.mark.parametrize("usual", CAP_FIELDS)
def test_a_client_that_named_the_output_cap_itself_is_taken_at_its_word(field: CapField, usual: CapField):
    request = ModelRequest("m", (), max_output_tokens=9, cap_field=field)
    body = openai_chat.build(request, Quirks(output_cap_field=usual))
    assert {name: body[name] for name in CAP_FIELDS if name in body} == {field: 9}
