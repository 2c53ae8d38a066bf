"""What can happen to a turn as a whole, by the ids of the scenario catalogue (L)."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.runs.run_harness import MAIN, RunHarness, RunRecord, run_case, run_scenario

from turnbuckle.call.limits import StallSettings, limits_for
from turnbuckle.config import load, routes_of
from turnbuckle.lab.cases import CASES, find_case
from turnbuckle.lab.cases.whole import ANSWER
from turnbuckle.lab.script import Case, Finish, Frame, Pace, Say
from turnbuckle.reply.repair import repair
from turnbuckle.reply.rules import violations
from turnbuckle.runtime.request_tools import offered
from turnbuckle.turn.facts import Decided, GiveUp, ModelAsked, Reask, Retry, RunEnded
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import Ledger, total
from turnbuckle.turn.policy import TurnLimits
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName, RouteName
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart, text_of
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, RunOptions
from turnbuckle.wire.anthropic import request as anthropic
from turnbuckle.wire.registry import PROTOCOLS, rules_of

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
IN_PIECES = pytest.mark.parametrize(
    "protocol", [name for name, protocol in PROTOCOLS.items() if protocol.streams_arguments]
)
"""Protocols in which a call can be cut; elsewhere it is there whole or not at all."""
HASTY = StallSettings(connect=1, first_event=1, gap=1, gap_in_call=1, thinking=1, silence=1)
FACTS = 9


def illegal(messages: tuple[Message, ...]) -> dict[str, Any]:
    """What each protocol would refuse in the history that the next request sends."""
    history = (*messages, Message("user", (TextPart("And now?"),)))
    found = {protocol: repair(history, rules_of(protocol), to_ask=True) for protocol in PROTOCOL_NAMES}
    return {
        protocol: left
        for protocol, made in found.items()
        if (left := (*made.left, *violations(made.messages, rules_of(protocol), to_ask=True)))
    }


@pytest.mark.requirement("C5")
@EVERY
def test_L1_the_history_is_legal_behind_every_case_of_the_lab(tmp_path: Path, protocol: ProtocolName):
    """However a stream ends, what is stored can be sent to any provider as it is repaired."""

    async def scenario(harness: RunHarness) -> dict[str, Any]:
        found = {}
        for case in CASES:
            harness.set_up({MAIN: case})
            record = await harness.run()
            if wrong := illegal(record.turn.messages):
                found[case.name] = wrong
        return found

    setting: dict[str, Any] = {
        "stall": HASTY,
        "limits": TurnLimits(model_calls=5),
        "policy": {"stream_retries": 0},
    }
    assert run_scenario(tmp_path, "happy", scenario, protocol=protocol, **setting) == {}


@pytest.mark.requirement("C5", "G2")
@EVERY
@pytest.mark.parametrize("count", range(1, FACTS))
def test_L1_a_stop_behind_any_fact_leaves_a_history_that_goes_on(
    tmp_path: Path, protocol: ProtocolName, count: int
):
    """Stopped before, in and behind a call: the next task of the session has a legal history, and it works."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, RunRecord]:
        running = await harness.start()
        while len(await harness.facts(running.run)) < count and not running.done:
            await harness.journal.wait(running.run, await harness.journal.head(running.run))
        running.stop()
        await running.outcome()
        first = await harness.record(running.run)
        harness.set_up({MAIN: find_case("happy")})
        return first, await harness.run("And now?", first.turn.session)

    first, second = run_scenario(tmp_path, "text-then-tool", scenario, protocol=protocol)
    assert illegal(first.turn.messages) == {}
    assert second.outcome.kind == "completed"
    assert len(second.turn.messages) >= len(first.turn.messages) + 2


def test_L2_text_in_front_of_a_result_is_moved_behind_it():
    """A matter of the history alone: Anthropic wants results first in their message, and gets them so."""
    history = (
        Message("user", (TextPart("How is it?"),)),
        Message("assistant", (CallPart("call_1", "get_weather", "{}"),)),
        Message("user", (TextPart("Well?"), ResultPart("call_1", (TextPart("It is fine."),)))),
    )
    assert [rule.rule for rule in violations(history, rules_of("anthropic"))] != []
    made = repair(history, rules_of("anthropic"), to_ask=True)
    assert made.left == ()
    body = anthropic.build(ModelRequest("m", made.messages, max_output_tokens=100), Quirks())
    assert [block["type"] for block in body["messages"][-1]["content"]] == ["tool_result", "text"]


@EVERY
def test_L3_a_result_that_comes_too_late_does_not_answer_its_call(protocol: ProtocolName):
    """A matter of the history alone: the user has spoken and the model has answered since. The call counts as
    unanswered and gets a stand-in, and what came late is still told."""
    history = (
        Message("user", (TextPart("How is it?"),)),
        Message("assistant", (CallPart("call_1", "get_weather", "{}"),)),
        Message("user", (TextPart("Never mind."),)),
        Message("assistant", (TextPart("As you wish."),)),
        Message("tool", (ResultPart("call_1", (TextPart("It is fine."),)),)),
    )
    made = repair(history, rules_of(protocol), to_ask=True)
    assert made.left == ()
    at = next(place for place, message in enumerate(made.messages) if isinstance(message.parts[0], CallPart))
    (stand_in,) = made.messages[at + 1].parts
    assert isinstance(stand_in, ResultPart)
    assert stand_in.call_id == "call_1"
    told = "".join(
        text_of(part.content if isinstance(part, ResultPart) else (part,))
        for message in made.messages
        for part in message.parts
    )
    assert told.count("It is fine.") == 1


@pytest.mark.requirement("B7", "C5")
@EVERY
def test_L4_a_history_that_is_refused_in_spite_of_everything_is_retold_once(
    tmp_path: Path, protocol: ProtocolName
):
    """400 about pairing: the history is told in plain words, which works, and the tool is not run again. The journal
    holds all that was sent: the refused request can be built again from it."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, Any]:
        record = await harness.run()
        second = record.facts.index(record.asked[1])
        fold = TurnFold(harness.policy)
        for fact in record.facts[: second + 1]:
            fold.take(fact)
        asked = record.asked[1]
        history = repair(fold.turn.messages, rules_of(protocol), model=asked.model, to_ask=True)
        tools = offered(harness.specs, RunOptions(), finishing=protocol == "anthropic")
        key = "of its session" if protocol == "anthropic" else ""  # which has marks for the host's cache
        request = ModelRequest(asked.model, history.messages, tools, stream=True, cache_key=key)
        return record, PROTOCOLS[protocol].build(request, harness.policy.routes[0].quirks)

    record, rebuilt = run_scenario(tmp_path, "pairing-refused", scenario, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert record.shown == ANSWER
    assert [decided.decision for decided in record.decided] == [Reask("retold")]
    assert record.decided[0].failure is not None
    assert "tool_use" in record.decided[0].failure.said
    assert len(record.started) == 1
    assert "It is fine in Oslo." in record.body(2)
    sent = {key: value for key, value in record.requests[1].body.items() if key in rebuilt}
    assert msgspec.json.decode(msgspec.json.encode(rebuilt)) == sent


@EVERY
def test_L4_a_history_that_is_refused_again_ends_the_turn(tmp_path: Path, protocol: ProtocolName):
    """Plain words are refused too: no third try on this route, and the turn says why it ended."""
    record = run_case(tmp_path, "pairing-always-refused", protocol=protocol)
    assert len(record.requests) == 3
    assert isinstance(record.decided[-1].decision, GiveUp)
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "pairing"
    assert illegal(record.turn.messages) == {}


@pytest.mark.requirement("B10", "D2")
@EVERY
def test_L6_a_fallback_gets_the_call_that_was_done_and_its_result(tmp_path: Path, protocol: ProtocolName):
    """The tool ran, then the route failed for good: the other model is told of both, and nothing runs twice."""
    record = run_case(tmp_path, {MAIN: "tool-then-fails", "other": "happy"}, protocol=protocol)
    assert record.outcome.kind == "completed"
    assert [started.name for started in record.started] == ["get_weather"]
    (asked,) = record.to("happy")
    body = msgspec.json.encode(asked.body).decode()
    assert "get_weather" in body
    assert "It is fine in Oslo." in body


@pytest.mark.requirement("B12", "C7")
@EVERY
@pytest.mark.parametrize(
    "limits", [TurnLimits(model_calls=4), TurnLimits(seconds=30)], ids=["calls", "seconds"]
)
def test_L7_all_retries_together_stay_within_one_budget(
    tmp_path: Path, protocol: ProtocolName, limits: TurnLimits
):
    """Retries, continuations and fallbacks over four broken routes: one count, one time, and both are kept."""
    cases = {MAIN: "server-error", "a": "silent", "b": "reset-in-text", "c": "comments-only"}
    record = run_case(tmp_path, cases, protocol=protocol, limits=limits)
    assert record.outcome.kind in ("failed", "partial")
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "budget"
    assert len(record.requests) == len(record.asked) <= limits.model_calls
    assert record.of(RunEnded)[0].at <= limits.seconds + 1


PRICED = Case(
    "priced",
    "tells what it has cost so far",
    (
        (
            Pace(0, 1.0),
            Say("One. "),
            Frame({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "cost": 0.6}}),
            *(Say(f"Sentence {number}. ") for number in range(30)),
            Finish(),
        ),
    ),
)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    "protocol, case, limits, why",
    [
        *(
            (protocol, "long-winded", TurnLimits(tokens=300), "the limit of 300 tokens is reached")
            for protocol in PROTOCOL_NAMES
        ),
        *(
            (protocol, "long-winded", TurnLimits(seconds=10), "the limit of 10 seconds is reached")
            for protocol in PROTOCOL_NAMES
        ),
        *(
            (protocol, "stalls-in-text", TurnLimits(seconds=5), "the limit of 5 seconds is reached")
            for protocol in PROTOCOL_NAMES
        ),
        ("openai_chat", PRICED, TurnLimits(money=0.5), "the limit of 0.5 in money is reached"),
    ],
)
def test_L8_a_budget_that_is_reached_inside_a_reply_ends_it_there(
    tmp_path: Path, protocol: ProtocolName, case: Case | str, limits: TurnLimits, why: str
):
    """Tokens, time or money run out while the model speaks: the stream is left, and the turn ends with that reason."""
    record = run_case(tmp_path, case, protocol=protocol, limits=limits)
    assert len(record.requests) == 1
    assert record.requests[0].progress.over == "client left"
    assert (record.outcome.kind, record.outcome.why) == ("partial", why)
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "budget"
    assert record.notices == [why]
    assert 0 < len(record.shown) < 3000
    assert record.of(RunEnded)[0].at <= limits.seconds + 1


@pytest.mark.requirement("B7", "C2")
@EVERY
@pytest.mark.parametrize("case", ["thinking-used-it-up", "context-full", "unauthorized", "prompt-too-long"])
def test_L9_a_retry_that_can_change_nothing_is_not_made(tmp_path: Path, protocol: ProtocolName, case: str):
    """The same cap and the same prompt would give the same answer: asked once, and the end says why."""
    record = run_case(tmp_path, case, protocol=protocol, route={"max_output_tokens": 500})
    assert len(record.requests) == 1
    assert record.outcome.kind in ("failed", "partial")
    assert record.outcome.why


@pytest.mark.requirement("B7", "B9")
@IN_PIECES
def test_L9_a_model_that_will_not_learn_is_left_with_its_draft_saved(tmp_path: Path, protocol: ProtocolName):
    """It makes the same cut call forever: each request says something new, until there is nothing left to say."""
    record = run_case(tmp_path, "long-write-stubborn", protocol=protocol)
    assert record.outcome.kind == "partial"
    assert record.outcome.drafts == ("d1",)
    assert len(record.requests) <= 6
    repeated = [
        after.why
        for before, after in pairwise(record.asked)
        if (before.notes, before.stream) == (after.notes, after.stream)
    ]
    assert set(repeated) <= {
        "retry"
    }  # a lost connection may work the next time; a cut call is never simply asked again


@EVERY
def test_L11_a_prompt_that_does_not_fit_is_not_sent_again_and_a_stop_still_works(
    tmp_path: Path, protocol: ProtocolName
):
    """Context overflow: permanent here, so the other route is tried at once; and while that one is silent, a stop ends
    the turn within a second."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, float]:
        running = await harness.start()
        await harness.until(running, ModelAsked, 2)
        await harness.clock.sleep(5)
        before = harness.clock.now()
        running.stop()
        await running.outcome()
        return await harness.record(running.run), harness.clock.now() - before

    record, seconds = run_scenario(
        tmp_path, {MAIN: "prompt-too-long", "other": "silent"}, scenario, protocol=protocol
    )
    assert len(record.to("prompt-too-long")) == 1
    assert record.decided[0].failure is not None
    assert (record.decided[0].failure.kind, record.decided[0].failure.retryable) == ("context", False)
    assert record.outcome.kind == "cancelled"
    assert seconds < 1


@pytest.mark.requirement("G2")
@EVERY
def test_L12_a_stop_in_the_wait_before_a_retry_ends_the_turn_and_keeps_the_task(
    tmp_path: Path, protocol: ProtocolName
):
    """The provider asked to wait two seconds; stopped in them, the turn is over at once. The session still knows what
    the user had asked."""

    async def scenario(harness: RunHarness) -> tuple[RunRecord, float, str]:
        running = await harness.start("Fold the sails.")
        await harness.until(running, Decided)
        await harness.clock.sleep(0.5)
        before = harness.clock.now()
        running.stop()
        await running.outcome()
        record = await harness.record(running.run)
        said = await harness.runs.conversations.until(running.run, record.turn.session)
        return record, harness.clock.now() - before, text_of(said.messages[0].parts)

    record, seconds, kept = run_scenario(tmp_path, "rate-limited", scenario, protocol=protocol)
    assert isinstance(record.decided[0].decision, Retry)
    assert (record.outcome.kind, len(record.requests)) == ("cancelled", 1)
    assert seconds < 1
    assert kept == "Fold the sails."


@EVERY
def test_L13_a_stream_that_broke_once_is_streamed_again(tmp_path: Path, protocol: ProtocolName):
    """One reset is no reason to give up streaming."""
    record = run_case(tmp_path, "reset-once-then-works", protocol=protocol)
    assert [request.body.get("stream") for request in record.requests] == [True, True]


@pytest.mark.requirement("A8")
@EVERY
def test_L13_a_route_that_says_it_can_not_stream_is_asked_plainly_for_a_while_only(
    tmp_path: Path, protocol: ProtocolName
):
    """It says so itself: plain for ten minutes, then streamed again."""

    async def scenario(harness: RunHarness) -> list[bool]:
        await harness.run()
        await harness.run()
        await harness.clock.sleep(700)
        await harness.run()
        return [request.body.get("stream") is True for request in harness.provider.requests]

    assert run_scenario(tmp_path, "no-streaming", scenario, protocol=protocol) == [
        True,
        False,
        False,
        True,
        False,
    ]


CONFIGURED = """
[[routes]]
name = "main"
protocol = "{protocol}"
base_url = "https://models.example/v1"
model = "m"
[stall]
gap = 7
"""


@EVERY
def test_L14_a_time_limit_in_the_settings_holds_and_can_be_shown_with_its_source(
    tmp_path: Path, protocol: ProtocolName
):
    """gap = 7 in the file: it is the one that fires, and every place that shows it says where it comes from."""
    (tmp_path / "turnbuckle.toml").write_text(CONFIGURED.format(protocol=protocol))
    loaded = load(folder=tmp_path, environment={})
    (route,) = routes_of(loaded.settings, {})
    limits = limits_for(route.stall, prompt_size=1000)
    assert (str(limits.gap), str(limits.gap_in_call)) == ("7 s, configured", "7 s, configured")
    assert limits.first_event.source == "default"

    record = run_case(
        tmp_path, "stalls-in-text", protocol=protocol, stall=route.stall, limits=TurnLimits(model_calls=1)
    )
    told = record.decided[0].failure
    assert told is not None
    assert "7 s (limit 7 s, configured)" in told.message
    assert record.seconds == pytest.approx(7, abs=2)


@pytest.mark.requirement("C8")
@IN_PIECES
def test_L15_a_give_up_names_its_cause_its_attempts_and_what_was_wasted(
    tmp_path: Path, protocol: ProtocolName
):
    """From the journal alone: the outcome has the cause, each attempt its failure, and the ledger what it cost."""
    record = run_case(tmp_path, {MAIN: "server-error", "other": "long-write-stubborn"}, protocol=protocol)
    assert record.outcome.failure is not None
    assert record.outcome.why
    assert record.notices[-1]
    ledger = Ledger()
    for fact in record.facts:
        ledger.take(fact)
    by_cause = {entry.cause: entry for entry in ledger.entries}
    assert by_cause["server"].times == 3
    assert by_cause["server"].seconds > 1
    wasted = total(ledger.entries)
    assert wasted.times == len(record.decided) == len(record.asked)
    assert wasted.output_tokens > 1000
    assert {asked.route for asked in record.asked} == {RouteName(MAIN), RouteName("other")}
