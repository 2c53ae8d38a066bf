"""The catalogue: every case, in every protocol, streamed and plain, ends as its name says."""

import re

import pytest

from turnbuckle.lab.cases import CASES, find_case
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, LabRequest
from turnbuckle.lab.script_text import ScriptError
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.cut_points import broken_by
from turnbuckle.testing.dry_run import rehearse
from turnbuckle.testing.stream_invariants import check_stream
from turnbuckle.vocab.events import Cut, Event
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.registry import PROTOCOLS

FAILURES = {
    "bare-done-behind-a-call": "incomplete",
    "bare-done-in-text": "incomplete",
    "cut-in-arguments": "reset",
    "long-write-killed-every-4000": "reset",
    "long-write-by-drafts": "incomplete",
    "long-write-by-smaller-calls": "incomplete",
    "long-write-stubborn": "incomplete",
    "silent": "stalled",
    "opens-then-silent": "stalled",
    "stalls-in-text": "stalled",
    "stalls-in-reasoning": "stalled",
    "comments-only": "stalled",
    "pings-only": "stalled",
    "closed-before-headers": "incomplete",
    "reset-before-headers": "reset",
    "fin-in-text": "incomplete",
    "reset-in-text": "reset",
    "tidy-end-in-text": "incomplete",
    "cut-inside-a-frame": "incomplete",
    "cut-inside-a-character": "incomplete",
    "drips-then-reset": "reset",
    "reset-once-then-works": "reset",
    "silent-once-then-works": "stalled",
    "continues-with-overlap": "reset",
    "continues-with-long-overlap": "reset",
    "answers-something-else": "reset",
    "cut-in-a-document": "reset",
    "cut-in-shell": "reset",
    "cut-in-edit": "reset",
    "draft-with-overlap": "reset",
    "draft-in-a-fence": "reset",
    "draft-behind-a-preface": "reset",
    "draft-of-equal-blocks": "reset",
    "draft-with-wrong-anchor": "reset",
    "draft-without-flags": "reset",
    "small-model-copies-the-tail": "reset",
    "small-model-shortens-the-file": "reset",
    "small-model-answers-in-text": "reset",
    "native-network-error": "server",
    "payment-due-once": "billing",
    "call-unreadable-once": "malformed_call",
    "gateway-failed-once": "server",
    "can-only-afford": "billing",
    "rate-limited-for-an-hour": "rate_limited",
    "rate-limited-once": "rate_limited",
    "fails-twice-then-works": "server",
    "restarts": "overloaded",
    "come-back-at-once": "rate_limited",
    "rate-limited": "rate_limited",
    "quota-used-up": "billing",
    "out-of-money": "billing",
    "server-error": "server",
    "overloaded": "overloaded",
    "unauthorized": "auth",
    "unknown-model": "not_found",
    "prompt-too-long": "context",
    "no-streaming": "unstreamable",
    "error-in-stream": "server",
    "error-at-once": "overloaded",
    "error-in-stream-flat": "server",
    "error-in-stream-nested": "server",
    "error-then-done": "server",
    "html-page": "garbage",
    "html-page-502": "server",
    "foreign-json": "garbage",
    "random-bytes": "garbage",
    "plain-text": "garbage",
    "empty-body": "incomplete",
}
"""How the first request of a case fails when it is streamed. Cases that are not listed end properly."""

WHOLE_IF_PLAIN = {
    "long-write-killed-every-4000",
    "long-write-by-drafts",
    "long-write-by-smaller-calls",
    "no-streaming",
    "no-terminal-event",
}
DIFFERS = {"no-terminal-event", "network-error-reason", "no-reason", "hole-in-text"}
"""Cases whose end depends on the protocol; they have tests of their own."""


def _events(
    case: Case, protocol: ProtocolName, stream: bool, number: int = 1, quirks: Quirks | None = None
) -> list[Event]:
    request = LabRequest(protocol, stream=stream, number=number, body={"model": "m", "stream": stream})
    played = rehearse(case.script_for(number), request, longest=400)
    decoder = open_answer(protocol, status=played.status or 200, headers=played.headers, quirks=quirks)
    ends = {"tidy": broken_by("tidy"), "fin": broken_by("incomplete"), "reset": broken_by("reset")}
    fed = decoder.feed(played.body)
    return fed + decoder.close(ends[played.end] if played.end else broken_by("stalled"))


def _how_it_ended(events: list[Event]) -> str:
    last = events[-1]
    return last.failure.kind if isinstance(last, Cut) else "ended"


@pytest.mark.requirement("H4", "A10")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "plain"])
def test_every_case_ends_as_its_name_says(protocol: ProtocolName, stream: bool) -> None:
    expected = {case.name: FAILURES.get(case.name, "ended") for case in CASES if case.name not in DIFFERS}
    if not stream:
        expected |= dict.fromkeys(WHOLE_IF_PLAIN & set(expected), "ended")
    got = {
        case.name: _how_it_ended(_events(case, protocol, stream)) for case in CASES if case.name in expected
    }
    if stream and protocol == "openai_chat":  # the only one whose end mark is not its terminal event
        expected |= dict.fromkeys(("bare-done-behind-a-call", "bare-done-in-text"), "no_reason")
    assert got == expected


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_case_gives_a_sound_stream(protocol: ProtocolName) -> None:
    problems = {case.name: check_stream(_events(case, protocol, True)) for case in CASES}
    assert {name: found for name, found in problems.items() if found} == {}


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_cases_that_work_later_do_work_later(protocol: ProtocolName) -> None:
    for case in CASES:
        if len(case.requests) > 1:
            assert _how_it_ended(_events(case, protocol, True, len(case.requests))) == "ended", case.name


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    "name",
    [
        "parallel-tools",
        "same-index",
        "interleaved-without-ids",
        "whole-calls-without-index",
        "calls-in-finish-chunk",
    ],
)
def test_two_calls_arrive_as_two_calls_in_whatever_way(protocol: ProtocolName, name: str) -> None:
    reply = fold(_events(find_case(name), protocol, True))
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("get_weather", '{"city":"Oslo"}'),
        ("get_weather", '{"city":"Bergen"}'),
    ]


def test_without_a_terminal_event_a_protocol_that_has_one_calls_the_reply_incomplete() -> None:
    case = find_case("no-terminal-event")
    assert _how_it_ended(_events(case, "anthropic", True)) == "incomplete"
    assert _how_it_ended(_events(case, "openai_responses", True)) == "incomplete"


def test_a_reply_whose_reason_is_an_error_of_the_network_failed() -> None:
    assert _how_it_ended(_events(find_case("network-error-reason"), "openai_chat", True)) == "server"


def test_a_terminal_event_without_a_reason_is_an_end() -> None:
    case = find_case("no-reason")
    assert _how_it_ended(_events(case, "openai_chat", True, quirks=Quirks(bare_done=True))) == "ended"
    assert _how_it_ended(_events(case, "anthropic", True)) == "ended"


@pytest.mark.requirement("A14")
def test_an_end_mark_alone_is_no_end_where_nothing_is_known_of_the_host() -> None:
    assert _how_it_ended(_events(find_case("no-reason"), "openai_chat", True)) == "no_reason"


@pytest.mark.requirement("A15")
@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_text_behind_a_hole_is_not_shown(protocol: ProtocolName) -> None:
    events = _events(find_case("hole-in-text"), protocol, True)
    assert _how_it_ended(events) == "garbage"
    assert fold(events).text == ANSWER[:44]


@pytest.mark.requirement("A13")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize(
    "name", ["same-object-twice", "empty-object-first", "whole-message-last", "other-ids-at-the-end"]
)
def test_a_call_that_is_told_twice_is_one_call(protocol: ProtocolName, name: str) -> None:
    reply = fold(_events(find_case(name), protocol, True))
    assert [(call.name, call.arguments) for call in reply.calls] == [("get_weather", '{"city":"Oslo"}')]
    assert reply.text in ("", "Let me look.")


def test_a_killed_long_write_received_exactly_4000_characters() -> None:
    for name, protocol in PROTOCOLS.items():
        reply = fold(_events(find_case("long-write-killed-every-4000"), name, True))
        received = [len(call.arguments) for call in reply.calls]
        assert received == ([4000] if protocol.streams_arguments else [])


def test_the_catalogue_is_large_and_its_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 30
    assert len(set(names)) == len(names)


def test_each_case_fits_one_line_of_a_terminal() -> None:
    width = max(len(case.name) for case in CASES) + 2
    too_long = [case.name for case in CASES if width + len(case.summary) > 80 or "\n" in case.summary]
    assert too_long == []
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", case.name) for case in CASES)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ScriptError, match='unknown case "hapy"; did you mean "happy"'):
        find_case("hapy")
