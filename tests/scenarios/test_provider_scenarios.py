"""What a provider's stream can do to a run, by the ids of the scenario catalogue (P)."""

from pathlib import Path

import pytest
from support.runs.run_harness import MAIN, RunHarness, RunRecord, run_case, run_scenario

from turnbuckle.lab.cases import find_case
from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.script import Finish, LabRequest, Say
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.dry_run import rehearse
from turnbuckle.turn.facts import Continue, GiveUp, Reask, Retry
from turnbuckle.vocab.events import Event, Skipped
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName
from turnbuckle.vocab.messages import text_of
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.registry import PROTOCOLS

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
HALF = ANSWER[:44]
ELSEWHERE = "happy"


def is_plain_success(record: RunRecord, requests: int = 1) -> bool:
    """It ended well, the reader saw the answer once, and nothing was asked more often than it had to be."""
    return (record.outcome.kind, record.shown, len(record.requests)) == ("completed", ANSWER, requests)


@pytest.mark.requirement("B1", "C4")
@EVERY
@pytest.mark.parametrize("case", ["tidy-end-in-text", "fin-in-text", "reset-in-text"])
def test_P9_a_tidy_close_without_the_protocols_end_is_incomplete(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """The body ends properly, but the protocol's own last event is missing: never taken for the end of the answer."""
    record = run_case(tmp_path, case, protocol=protocol)
    first = record.decided[0]
    assert first.verdict == "cut_by_transport"
    assert first.failure is not None
    assert first.failure.kind in ("incomplete", "reset")
    assert first.decision == Continue("text")
    assert record.outcome.kind == "partial"
    assert record.shown == HALF


@pytest.mark.requirement("C1", "C4")
@EVERY
def test_P11_a_cut_call_at_the_cap_is_cut_by_length_whatever_the_reply_says(
    tmp_path: Path, protocol: ProtocolName
):
    """ "Run these tools", says the reply, over a call that ends in mid-string at exactly the output cap."""
    record = run_case(
        tmp_path, "length-called-tool-calls", protocol=protocol, route={"max_output_tokens": 500}
    )
    assert {decided.verdict for decided in record.decided} == {"cut_by_length"}
    assert record.started == []
    assert not (record.workspace / "notes.md").exists()


@EVERY
def test_P12_whole_calls_run_also_when_the_reply_says_stop(tmp_path: Path, protocol: ProtocolName):
    """The reason says stop, the calls are whole: they run, and the model gets their result."""
    record = run_case(tmp_path, "stop-with-calls", protocol=protocol)
    assert is_plain_success(record, requests=2)
    assert [started.name for started in record.started] == ["get_weather"]
    assert "It is fine in Oslo." in record.body(1)


@EVERY
def test_P14_a_short_answer_that_ends_in_an_emoji_is_not_continued(tmp_path: Path, protocol: ProtocolName):
    """No full stop at its end, and yet it is over: nothing more is asked."""
    record = run_case(tmp_path, "emoji-ending", protocol=protocol)
    assert (record.outcome.kind, record.shown, len(record.requests)) == ("completed", "Done 👍", 1)


@EVERY
@pytest.mark.parametrize(
    "case, kind",
    [
        ("error-at-once", "overloaded"),
        ("error-in-stream", "server"),
        ("error-in-stream-flat", "server"),
        ("error-in-stream-nested", "server"),
        ("error-then-done", "server"),
    ],
)
def test_P15_an_error_inside_a_200_is_that_error(
    tmp_path: Path, protocol: ProtocolName, case: str, kind: str
):
    """The status was good and the stream holds an error: the attempt fails with it, also with [DONE] behind it."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert {decided.failure.kind for decided in record.decided if decided.failure is not None} == {kind}
    assert record.outcome.kind in ("failed", "partial")
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == kind


@pytest.mark.parametrize("case", ["network-error-reason", "native-network-error"])
def test_P16_a_reason_of_network_error_is_a_failure_of_the_host(tmp_path: Path, case: str):
    """Nothing came, and the host's own word for why is network_error: not an empty answer, but a failure to retry."""
    record = run_case(tmp_path, case)
    assert [decided.verdict for decided in record.decided] == ["cut_by_transport"] * 3
    assert isinstance(record.decided[0].decision, Retry)
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "server"


@pytest.mark.requirement("C2")
@EVERY
@pytest.mark.parametrize(
    "route, changed",
    [
        ({"max_output_tokens": 500, "most_output_tokens": 2000}, Reask("more_room")),
        ({"max_output_tokens": 500, "effort": "high"}, Reask("less_effort")),
    ],
    ids=["more room", "less effort"],
)
def test_P17_a_reply_of_thought_alone_is_asked_for_once_more_with_a_change(
    tmp_path: Path, protocol: ProtocolName, route: dict[str, object], changed: Reask
):
    """The cap was used up by thinking: one useful retry, and then the user is told why."""
    record = run_case(tmp_path, "thinking-used-it-up", protocol=protocol, route=route)
    assert record.decided[0].decision == changed
    assert len(record.requests) == 2
    assert record.body(0) != record.body(1)
    assert record.outcome.why == "the model used up its output limit by thinking"
    assert len(record.notices) == 2


@pytest.mark.requirement("C3")
def test_P18_a_call_that_the_provider_could_not_read_is_never_simply_asked_for_again(tmp_path: Path):
    """MALFORMED_FUNCTION_CALL, which only Chat Completions hosts say: each retry asks for smaller calls."""
    record = run_case(tmp_path, "malformed-function-call")
    assert len(record.requests) == 4
    assert all("Make smaller calls" in record.body(number) for number in (1, 2, 3))
    assert "Make smaller calls" not in record.body(0)


@EVERY
def test_P19_a_safety_block_is_not_tried_again(tmp_path: Path, protocol: ProtocolName):
    """A filter stopped it before the first word: asking again would change nothing."""
    record = run_case(tmp_path, "filtered", protocol=protocol)
    assert len(record.requests) == 1
    assert record.outcome.kind == "failed"
    assert record.outcome.why in ("a content filter stopped the answer", "the model declined")


@EVERY
def test_P21_a_payment_error_ends_the_turn_unless_it_says_when_to_come_back(
    tmp_path: Path, protocol: ProtocolName
):
    """402 alone: over at once. 402 or 429 with Retry-After: waited for, as far as the turn's budget goes."""
    broke = run_case(tmp_path, "out-of-money", protocol=protocol)
    assert (broke.outcome.kind, len(broke.requests), broke.seconds) == (
        "failed",
        1,
        pytest.approx(0, abs=0.1),
    )

    for case, seconds in (("payment-due-once", 5.0), ("rate-limited-once", 1.0)):
        waited = run_case(tmp_path, case, protocol=protocol)
        assert is_plain_success(waited, requests=2)
        assert waited.decided[0].decision == Retry(seconds)
        assert waited.requests[1].arrived - waited.requests[0].arrived == pytest.approx(seconds, abs=0.1)

    too_long = run_case(tmp_path, "rate-limited-for-an-hour", protocol=protocol)
    assert len(too_long.requests) == 1
    assert "wait 3600 s" in too_long.outcome.why


@EVERY
def test_P22_one_bad_event_is_skipped_and_logged(tmp_path: Path, protocol: ProtocolName):
    """An event that is no JSON stands among good ones: the stream goes on, and the journal has what was skipped."""
    record = run_case(tmp_path, "bad-event-among-good", protocol=protocol)
    assert is_plain_success(record)
    (skipped,) = (event for event in record.events if isinstance(event, Skipped))
    assert "oops" in skipped.sample


@EVERY
def test_P23_how_bytes_are_split_changes_nothing(tmp_path: Path, protocol: ProtocolName):
    """Each byte in a read of its own, and every split in two: the same events. CRLF and many-byte characters too."""
    by_byte = run_case(tmp_path, "byte-by-byte", protocol=protocol)
    assert by_byte.shown == f"{ANSWER} 漢字"
    assert by_byte.reasoning == THOUGHT

    # Every split of one body is a matter of the decoder alone.
    played = rehearse((Say("Grüße, 漢字 👍", 3), Finish()), LabRequest(protocol, body={"model": "m"}))
    body = played.body.replace(b"\n", b"\r\n")

    def events(*chunks: bytes) -> list[Event]:
        decoder = open_answer(protocol, status=200, headers=played.headers)
        return [event for chunk in chunks for event in decoder.feed(chunk)] + list(decoder.close())

    whole = events(body)
    assert fold(whole).text == "Grüße, 漢字 👍"
    assert [at for at in range(1, len(body)) if events(body[:at], body[at:]) != whole] == []


@EVERY
def test_P24_a_line_separator_inside_a_string_ends_no_line(tmp_path: Path, protocol: ProtocolName):
    """U+2028 in the text, character by character: it arrives as it is."""
    record = run_case(tmp_path, "unicode", protocol=protocol)
    assert "\u2028 a line separator" in record.shown
    assert record.outcome.kind == "completed"


@EVERY
def test_P25_the_same_sentence_for_ever_is_stopped_and_kept_out_of_the_history(
    tmp_path: Path, protocol: ProtocolName
):
    """One sentence 300 times: the attempt is ended early, the journal names the passage, the history stays clean."""
    record = run_case(tmp_path, "repeats-itself", protocol=protocol)
    sentence = "I will try again."
    assert record.shown.count(sentence) < 200
    assert record.requests[0].progress.over == "client left"
    assert record.outcome.kind == "partial"
    assert sentence in record.decided[0].failure.message  # type: ignore[union-attr]
    assert not any(sentence in text_of(message.parts) for message in record.turn.messages)


@EVERY
def test_P26_a_table_whose_rows_are_rightly_alike_is_left_alone(tmp_path: Path, protocol: ProtocolName):
    """60 equal rows: that is what a table may look like."""
    record = run_case(tmp_path, "table", protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown.count("| shackle | in order |") == 60


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "case",
    [
        "reasoning",
        "reasoning-as-reasoning",
        "reasoning-as-content",
        "reasoning-as-details",
        "reasoning-twice",
    ],
)
@EVERY
def test_P28_reasoning_has_one_stream_of_its_own_in_every_spelling(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """Whatever the host calls it, the reader gets the thought as reasoning, once, and no tag in the text."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert is_plain_success(record)
    assert record.reasoning.strip() == THOUGHT


@pytest.mark.requirement("A7", "A10")
@pytest.mark.parametrize(
    "protocol", [name for name, protocol in PROTOCOLS.items() if "think" in protocol.quirks]
)
def test_P28_think_tags_in_the_text_never_show(tmp_path: Path, protocol: ProtocolName):
    """Inline tags, cut into pieces of three characters: the thought is reasoning, and the text has no tag."""
    record = run_case(tmp_path, "think-tags", protocol=protocol)
    assert is_plain_success(record)
    assert record.reasoning.strip() == THOUGHT


@pytest.mark.requirement("B2")
@EVERY
def test_P29_a_fallback_before_anything_was_shown_shows_in_nothing_but_the_attempts(
    tmp_path: Path, protocol: ProtocolName
):
    """The first route fails three times without a word: the other one answers, and there is no notice."""
    record = run_case(tmp_path, {MAIN: "server-error", "other": ELSEWHERE}, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown == ANSWER
    assert record.notices == []
    assert [asked.route for asked in record.asked] == [MAIN, MAIN, MAIN, "other"]
    assert record.turn.messages[-1].parts[-1].text == ANSWER  # type: ignore[union-attr]
    assert len(record.turn.messages) == 2


@pytest.mark.requirement("B3", "B10")
@EVERY
def test_P30_a_model_that_takes_no_prefill_is_asked_to_go_on_by_a_user_message(
    tmp_path: Path, protocol: ProtocolName
):
    """Text was shown, then the route broke; the other model refuses to go on from its own words. It is asked
    as a user would, the seam is clean, and the first error stays in the journal."""
    record = run_case(
        tmp_path,
        {MAIN: "reset-in-text", "other": "takes-no-prefill"},
        protocol=protocol,
        policy={"stream_retries": 0},
    )
    assert record.outcome.kind == "completed"
    assert record.shown == ANSWER
    assert record.decided[0].failure is not None
    assert record.decided[0].failure.kind == "reset"
    assert [request.case for request in record.requests][-1] == "takes-no-prefill"
    assert len(record.to("takes-no-prefill")) == 1


@pytest.mark.requirement("B3")
@EVERY
@pytest.mark.parametrize(
    "case", ["continues-with-overlap", "continues-with-long-overlap", "reset-once-then-works"]
)
def test_P31_what_a_continuation_repeats_is_shown_once(tmp_path: Path, protocol: ProtocolName, case: str):
    """It says the last 24 or 200 characters once more, or starts from the top: the reader gets each of them once."""
    whole = ANSWER
    if case == "continues-with-long-overlap":
        first, second = (str(script[0].text) for script in find_case(case).requests)  # type: ignore[union-attr]
        assert first[200:] == second[:200]
        whole = first + second[200:]
    record = run_case(tmp_path, case, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown == whole
    assert record.turn.shown == whole


@pytest.mark.requirement("B11")
@EVERY
def test_P33_two_stalls_in_a_row_bench_a_route_for_all_sessions(tmp_path: Path, protocol: ProtocolName):
    """Each run leaves it at its first silence, and the third, of another session, does not even ask it."""

    async def scenario(harness: RunHarness) -> tuple[list[RunRecord], str]:
        stories = [await harness.run() for _ in range(3)]
        return stories, harness.health.of(RouteName(MAIN)).standing(harness.call_clock.now())

    stories, standing = run_scenario(
        tmp_path, {MAIN: "silent", "other": ELSEWHERE}, scenario, protocol=protocol
    )
    routes = [[asked.route for asked in record.asked] for record in stories]
    assert routes == [[MAIN, "other"], [MAIN, "other"], ["other"]]
    assert standing == "benched"
    assert len({record.turn.session for record in stories}) == 3


@pytest.mark.requirement("B12")
@EVERY
@pytest.mark.parametrize(
    "case", ["server-error", "reset-before-headers", "rate-limited", "silent", "fin-in-text"]
)
def test_P34_every_request_that_goes_out_is_one_of_the_turns_own(
    tmp_path: Path, protocol: ProtocolName, case: str
):
    """Nothing below the turn retries: the provider saw exactly as many requests as the journal has."""
    record = run_case(tmp_path, case, protocol=protocol)
    assert len(record.requests) == len(record.asked) == len(record.decided) > 1
    assert isinstance(record.decided[-1].decision, GiveUp)
    assert [asked.attempt for asked in record.asked] == list(range(1, len(record.asked) + 1))
