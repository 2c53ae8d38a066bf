"""A route is tried over real HTTP, in every protocol, and the result is told in words that help."""

from collections.abc import Iterable
from typing import Any

import pytest
from support.calls.attempts import AttemptHarness, route_to, run_scenario

from turnbuckle.call.presets import PRESETS, Preset
from turnbuckle.cli.doctor.finding import Finding, all_well
from turnbuckle.cli.init.search import FoundProvider, for_chat, keys_found, models_of, servers_found
from turnbuckle.cli.init.trial import RouteTrial, advice, findings, try_route
from turnbuckle.lab.cases import find_case
from turnbuckle.lab.script import Call, Case, Finish, LabRequest, Say, ScriptItem, Status
from turnbuckle.vocab.failure import Failure, FailureKind, failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName


def good(request: LabRequest) -> Iterable[ScriptItem]:
    """What a fit model does: counts, and calls the tool that it is given."""
    if request.body.get("tools"):
        return (Call("note_word", {"word": "tea"}), Finish())
    return (Say("one, two, three, four, five, six"), Finish())


GOOD = Case("good", "counts, and calls what it is given", ((good,),))
NO_TOOLS = Case(
    "no-tools",
    "takes no tools",
    (
        (
            lambda request: (
                (Status(400, "tools are not supported"),) if request.body.get("tools") else good(request)
            ),
        ),
    ),
)


def tried(case: Case | str, protocol: ProtocolName, **fields: Any) -> RouteTrial:
    async def scenario(harness: AttemptHarness) -> RouteTrial:
        return await try_route(
            route_to(harness.provider.url + "/v1", protocol, **fields), clock=harness.clock
        )

    return run_scenario(find_case(case) if isinstance(case, str) else case, scenario)


@pytest.mark.requirement("H2")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_fit_route_answers_streams_and_calls(protocol: ProtocolName) -> None:
    trial = tried(GOOD, protocol)
    assert (trial.failure, trial.streams, trial.calls) == (None, True, True)
    told = findings(trial, "x")
    assert [finding.level for finding in told] == ["ok", "ok", "ok"]
    assert "streams" in told[1].what


BROKEN: list[tuple[str, FailureKind, str]] = [
    ("unauthorized", "auth", "does not take this key"),
    ("unknown-model", "not_found", "no such model"),
    ("out-of-money", "billing", "billing page"),
    ("quota-used-up", "billing", "billing page"),
    ("rate-limited", "rate_limited", "try again in a minute"),
    ("overloaded", "overloaded", "try again in a minute"),
    ("server-error", "server", "try again in a minute"),
    ("refusal", "invalid", "check protocol and model"),
    ("html-page", "garbage", "check base_url"),
    ("random-bytes", "garbage", "check base_url"),
    ("empty-body", "incomplete", "check base_url"),
    ("reset-before-headers", "reset", "proxy or a firewall"),
    ("silent", "stalled", "still be loading"),
    ("stalls-in-text", "stalled", "still be loading"),
]


@pytest.mark.requirement("H2")
@pytest.mark.parametrize(
    ("protocol", "case", "kind", "words"),
    [
        (protocol, *broken)
        for broken in BROKEN
        for protocol in PROTOCOL_NAMES
        if (broken[0], protocol) != ("refusal", "gemini")  # it has no word for a refusal
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    protocol: ProtocolName, case: str, kind: FailureKind, words: str
) -> None:
    trial = tried(case, protocol)
    assert trial.failure is not None
    assert trial.failure.kind == kind
    (told,) = findings(trial, "x")
    assert (told.level, words in told.fix) == ("wrong", True), told


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_a_route_that_does_not_stream_is_tried_plain(protocol: ProtocolName) -> None:
    trial = tried("no-streaming", protocol)
    assert (trial.failure, trial.streams) == (None, False)
    assert any("does not stream" in finding.what for finding in findings(trial, "x"))


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("case", ["happy", NO_TOOLS])
def test_a_model_that_calls_no_tool_is_found_out(protocol: ProtocolName, case: Case | str) -> None:
    told = findings(tried(case, protocol), "x")
    assert not all_well(told)
    assert "does not call tools" in told[-1].what
    assert ("tools are not supported" in told[-1].what) == (case is NO_TOOLS)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("the certificate of x is not trusted: self-signed", "SSL_CERT_FILE"),
        ("the proxy refused the connection: 407", "HTTPS_PROXY"),
        ("no such host: x", "name server"),
        ("no connection to x:1: refused", "Nothing listens"),
        ("no connection after 10 s (limit 10 s, configured)", "firewall"),
    ],
)
def test_each_way_of_not_connecting_has_its_own_advice(said: str, words: str) -> None:
    assert words in advice(failure("connect", said))


def test_a_wrong_model_gets_the_nearest_ones_that_there_are() -> None:
    why = Failure("not_found", "no such model", False, status=404)
    assert "such as big-model-2" in advice(
        why, models=("big-model-2", "small", "big-modle"), model="big-modle"
    )


def test_where_the_key_comes_from_is_named_and_the_key_is_not() -> None:
    trial = tried("unauthorized", "openai_chat")
    assert "It comes from OPENAI_API_KEY." in findings(trial, "x", "OPENAI_API_KEY")[0].fix


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_the_models_of_a_provider_are_listed(protocol: ProtocolName) -> None:
    async def scenario(harness: AttemptHarness) -> Any:
        return await models_of(route_to(harness.provider.url + "/v1", protocol))

    assert "lab:happy" in run_scenario(find_case("happy"), scenario)


def test_a_provider_without_a_list_says_why() -> None:
    async def scenario(harness: AttemptHarness) -> Any:
        return await models_of(route_to(harness.provider.url + "/elsewhere"))

    assert run_scenario(find_case("happy"), scenario).kind == "not_found"


def test_servers_that_answer_on_this_machine_are_found_and_others_are_not() -> None:
    async def scenario(harness: AttemptHarness) -> list[FoundProvider]:
        here = Preset("openai_chat", harness.provider.url + "/v1")
        nobody = Preset("openai_chat", "http://127.0.0.1:9/v1")
        away = Preset("openai_chat", "https://api.example.org/v1")
        no_list = Preset("openai_chat", harness.provider.url + "/elsewhere")
        found = await servers_found({"here": here, "nobody": nobody, "away": away, "no_list": no_list})
        assert all("authorization" not in request.headers for request in harness.provider.requests)
        return found

    (found,) = run_scenario(GOOD, scenario)
    assert found.preset == "here"
    assert "lab:good" in found.models


def test_keys_in_the_environment_are_found_by_their_usual_names_and_once_each() -> None:
    environment = {
        "OPENAI_API_KEY": "x",
        "ANTHROPIC_API_KEY": " ",
        "OLLAMA_API_KEY": "x",
        "AZURE_OPENAI_API_KEY": "x",
    }
    assert [found.preset for found in keys_found(environment)] == ["openai"]
    every = {preset.key: "x" for preset in PRESETS.values()}
    assert len(keys_found(every)) == len({found.why for found in keys_found(every)}) > 10


def test_models_that_do_not_chat_are_left_out_unless_nothing_else_is_there() -> None:
    assert for_chat(("text-embedding-3", "a-model", "whisper-1")) == ("a-model",)
    assert for_chat(("whisper-1",)) == ("whisper-1",)


def test_a_finding_is_shown_with_its_fix_below_it_and_fits_a_screen() -> None:
    lines = Finding("wrong", "route", "it is broken " * 20, "Mend it.").lines()
    assert lines[0].startswith("  WRONG  route: it is broken")
    assert lines[-1] == "         Mend it."
    assert max(map(len, lines)) <= 96
