"""What can happen to a turn as a whole, by the ids of the scenario catalogue (L)."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stage import MAIN, Stage, Story, on_stage, play

from turnbuckle.call.limits import StallSettings, describe, limits_for
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

    async def scene(stage: Stage) -> dict[str, Any]:
        found = {}
        for case in CASES:
            stage.set_up({MAIN: case})
            story = await stage.run()
            if wrong := illegal(story.turn.messages):
                found[case.name] = wrong
        return found

    setting: dict[str, Any] = {
        "stall": HASTY,
        "limits": TurnLimits(model_calls=5),
        "policy": {"stream_retries": 0},
    }
    assert on_stage(tmp_path, "happy", scene, protocol=protocol, **setting) == {}


@pytest.mark.requirement("C5", "G2")
@EVERY
@pytest.mark.parametrize("count", range(1, FACTS))
def test_L1_a_stop_behind_any_fact_leaves_a_history_that_goes_on(
    tmp_path: Path, protocol: ProtocolName, count: int
):
    """Stopped before, in and behind a call: the next task of the session has a legal history, and it works."""

    async def scene(stage: Stage) -> tuple[Story, Story]:
        running = await stage.start()
        while len(await stage.facts(running.run)) < count and not running.done:
            await stage.journal.wait(running.run, await stage.journal.head(running.run))
        running.stop()
        await running.outcome()
        first = await stage.story(running.run)
        stage.set_up({MAIN: find_case("happy")})
        return first, await stage.run("And now?", first.turn.session)

    first, second = on_stage(tmp_path, "text-then-tool", scene, protocol=protocol)
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

    async def scene(stage: Stage) -> tuple[Story, Any]:
        story = await stage.run()
        second = story.facts.index(story.asked[1])
        fold = TurnFold(stage.policy)
        for fact in story.facts[: second + 1]:
            fold.take(fact)
        asked = story.asked[1]
        history = repair(fold.turn.messages, rules_of(protocol), model=asked.model, to_ask=True)
        tools = offered(stage.specs, RunOptions(), finishing=protocol == "anthropic")
        request = ModelRequest(asked.model, history.messages, tools, stream=True)
        return story, PROTOCOLS[protocol].build(request, stage.policy.routes[0].quirks)

    story, rebuilt = on_stage(tmp_path, "pairing-refused", scene, protocol=protocol)
    assert story.outcome.kind == "completed"
    assert story.shown == ANSWER
    assert [decided.decision for decided in story.decided] == [Reask("retold")]
    assert story.decided[0].failure is not None
    assert "tool_use" in story.decided[0].failure.said
    assert len(story.started) == 1
    assert "It is fine in Oslo." in story.body(2)
    sent = {key: value for key, value in story.requests[1].body.items() if key in rebuilt}
    assert msgspec.json.decode(msgspec.json.encode(rebuilt)) == sent


@EVERY
def test_L4_a_history_that_is_refused_again_ends_the_turn(tmp_path: Path, protocol: ProtocolName):
    """Plain words are refused too: no third try on this route, and the turn says why it ended."""
    story = play(tmp_path, "pairing-always-refused", protocol=protocol)
    assert len(story.requests) == 3
    assert isinstance(story.decided[-1].decision, GiveUp)
    assert story.outcome.failure is not None
    assert story.outcome.failure.kind == "pairing"
    assert illegal(story.turn.messages) == {}


@pytest.mark.requirement("B10", "D2")
@EVERY
def test_L6_a_fallback_gets_the_call_that_was_done_and_its_result(tmp_path: Path, protocol: ProtocolName):
    """The tool ran, then the route failed for good: the other model is told of both, and nothing runs twice."""
    story = play(tmp_path, {MAIN: "tool-then-fails", "other": "happy"}, protocol=protocol)
    assert story.outcome.kind == "completed"
    assert [started.name for started in story.started] == ["get_weather"]
    (asked,) = story.to("happy")
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
    story = play(tmp_path, cases, protocol=protocol, limits=limits)
    assert story.outcome.kind in ("failed", "partial")
    assert story.outcome.failure is not None
    assert story.outcome.failure.kind == "budget"
    assert len(story.requests) == len(story.asked) <= limits.model_calls
    assert story.of(RunEnded)[0].at <= limits.seconds + 1


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
    story = play(tmp_path, case, protocol=protocol, limits=limits)
    assert len(story.requests) == 1
    assert story.requests[0].progress.over == "client left"
    assert (story.outcome.kind, story.outcome.why) == ("partial", why)
    assert story.outcome.failure is not None
    assert story.outcome.failure.kind == "budget"
    assert story.notices == [why]
    assert 0 < len(story.shown) < 3000
    assert story.of(RunEnded)[0].at <= limits.seconds + 1


@pytest.mark.requirement("B7", "C2")
@EVERY
@pytest.mark.parametrize("case", ["thinking-used-it-up", "context-full", "unauthorized", "prompt-too-long"])
def test_L9_a_retry_that_can_change_nothing_is_not_made(tmp_path: Path, protocol: ProtocolName, case: str):
    """The same cap and the same prompt would give the same answer: asked once, and the end says why."""
    story = play(tmp_path, case, protocol=protocol, route={"max_output_tokens": 500})
    assert len(story.requests) == 1
    assert story.outcome.kind in ("failed", "partial")
    assert story.outcome.why


@pytest.mark.requirement("B7", "B9")
@IN_PIECES
def test_L9_a_model_that_will_not_learn_is_left_with_its_draft_saved(tmp_path: Path, protocol: ProtocolName):
    """It makes the same cut call for ever: each request says something new, until there is nothing left to say."""
    story = play(tmp_path, "long-write-stubborn", protocol=protocol)
    assert story.outcome.kind == "partial"
    assert story.outcome.drafts == ("d1",)
    assert len(story.requests) <= 6
    repeated = [
        after.why
        for before, after in pairwise(story.asked)
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

    async def scene(stage: Stage) -> tuple[Story, float]:
        running = await stage.start()
        await stage.until(running, ModelAsked, 2)
        await stage.clock.sleep(5)
        before = stage.clock.now()
        running.stop()
        await running.outcome()
        return await stage.story(running.run), stage.clock.now() - before

    story, seconds = on_stage(
        tmp_path, {MAIN: "prompt-too-long", "other": "silent"}, scene, protocol=protocol
    )
    assert len(story.to("prompt-too-long")) == 1
    assert story.decided[0].failure is not None
    assert (story.decided[0].failure.kind, story.decided[0].failure.retryable) == ("context", False)
    assert story.outcome.kind == "cancelled"
    assert seconds < 1


@pytest.mark.requirement("G2")
@EVERY
def test_L12_a_stop_in_the_wait_before_a_retry_ends_the_turn_and_keeps_the_task(
    tmp_path: Path, protocol: ProtocolName
):
    """The provider asked to wait two seconds; stopped in them, the turn is over at once. The session still knows what
    the user had asked."""

    async def scene(stage: Stage) -> tuple[Story, float, str]:
        running = await stage.start("Fold the sails.")
        await stage.until(running, Decided)
        await stage.clock.sleep(0.5)
        before = stage.clock.now()
        running.stop()
        await running.outcome()
        story = await stage.story(running.run)
        history = await stage.runs.history(story.turn.session)
        return story, stage.clock.now() - before, text_of(history[0].parts)

    story, seconds, kept = on_stage(tmp_path, "rate-limited", scene, protocol=protocol)
    assert isinstance(story.decided[0].decision, Retry)
    assert (story.outcome.kind, len(story.requests)) == ("cancelled", 1)
    assert seconds < 1
    assert kept == "Fold the sails."


@EVERY
def test_L13_a_stream_that_broke_once_is_streamed_again(tmp_path: Path, protocol: ProtocolName):
    """One reset is no reason to give up streaming."""
    story = play(tmp_path, "reset-once-then-works", protocol=protocol)
    assert [request.body.get("stream") for request in story.requests] == [True, True]


@pytest.mark.requirement("A8")
@EVERY
def test_L13_a_route_that_says_it_can_not_stream_is_asked_plainly_for_a_while_only(
    tmp_path: Path, protocol: ProtocolName
):
    """It says so itself: plain for ten minutes, then streamed again."""

    async def scene(stage: Stage) -> list[bool]:
        await stage.run()
        await stage.run()
        await stage.clock.sleep(700)
        await stage.run()
        return [request.body.get("stream") is True for request in stage.provider.requests]

    assert on_stage(tmp_path, "no-streaming", scene, protocol=protocol) == [True, False, False, True, False]


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
    shown = describe(limits_for(route.stall, prompt_size=1000))
    assert (shown["gap"], shown["gap_in_call"]) == ("7 s, configured", "7 s, configured")
    assert shown["first_event"].endswith("default")

    story = play(
        tmp_path, "stalls-in-text", protocol=protocol, stall=route.stall, limits=TurnLimits(model_calls=1)
    )
    told = story.decided[0].failure
    assert told is not None
    assert "7 s (limit 7 s, configured)" in told.message
    assert story.seconds == pytest.approx(7, abs=2)


@pytest.mark.requirement("C8")
@IN_PIECES
def test_L15_a_give_up_names_its_cause_its_attempts_and_what_was_wasted(
    tmp_path: Path, protocol: ProtocolName
):
    """From the journal alone: the outcome has the cause, each attempt its failure, and the ledger what it cost."""
    story = play(tmp_path, {MAIN: "server-error", "other": "long-write-stubborn"}, protocol=protocol)
    assert story.outcome.failure is not None
    assert story.outcome.why
    assert story.notices[-1]
    ledger = Ledger()
    for fact in story.facts:
        ledger.take(fact)
    by_cause = {entry.cause: entry for entry in ledger.entries}
    assert by_cause["server"].times == 3
    assert by_cause["server"].seconds > 1
    wasted = total(ledger.entries)
    assert wasted.times == len(story.decided) == len(story.asked)
    assert wasted.output_tokens > 1000
    assert {asked.route for asked in story.asked} == {RouteName(MAIN), RouteName("other")}
