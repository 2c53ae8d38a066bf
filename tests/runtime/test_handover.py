"""Calls that were handed over come back with their results, and meet the run that made them again."""

import asyncio
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace
from support.runs.approval_runs import HELLO, POLICY, ROUTE, call, new_run, run_scenario

from turnbuckle.reply.repair import repair
from turnbuckle.reply.rules import violations
from turnbuckle.runtime.client_calls import MOST_CACHED, Handover, RunAdditions, finder
from turnbuckle.runtime.runs import NewRun
from turnbuckle.turn.facts import CallsHandedOver, HandedCall
from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallStarted,
    Cut,
    ReasoningDelta,
    StateNoted,
    TextDelta,
)
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import PROTOCOL_NAMES, RunId
from turnbuckle.vocab.messages import CallPart, Message, ReasoningPart, ResultPart, TextPart
from turnbuckle.vocab.request import RunOptions, ToolSpec
from turnbuckle.wire.registry import rules_of

TOOLS = (ToolSpec("find"), ToolSpec("put"))
AGENT = RunOptions(tools=TOOLS)
LONG = " ".join(f"word{number}" for number in range(200))
STATES = {
    "anthropic": {"signature": "signed"},
    "gemini": {"thoughtSignature": "signed"},
    "openai_responses": {"id": "rs_1", "encrypted_content": "sealed"},
    "openai_chat": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "sealed"}]},
}
THOUGHT = "I should look first."


def thinking(protocol, reply):
    moved = [replace(event, block=event.block + 1) if hasattr(event, "block") else event for event in reply]
    return [ReasoningDelta(0, THOUGHT), StateNoted(0, STATES[protocol]), BlockClosed(0), *moved]


FIND = ("find", '{"what": "x"}')
CUT = [CallStarted(0, "c", "put"), CallArgs(0, f'{{"body": "{LONG[:900]}'), Cut(failure("reset", "gone"))]
FOUND = [CallStarted(0, "f", "find"), CallArgs(0, '{"what": "x"}'), BlockClosed(0)]
BESIDE = [*FOUND, *(replace(event, block=1) if hasattr(event, "block") else event for event in CUT)]
REST = msgspec.json.encode({"draft": "d1", "after": LONG[840:900], "rest": LONG[900:]}).decode()
FIRST_RUNS = {
    "one call": lambda protocol: [thinking(protocol, call(FIND))],
    "text and two calls": lambda protocol: [[TextDelta(7, "I look."), BlockClosed(7), *call(FIND, FIND)]],
    "ours and the caller's": lambda protocol: [thinking(protocol, call("look", FIND, "look"))],
    "a round of ours before": lambda protocol: [
        thinking(protocol, call("look")),
        thinking(protocol, call(FIND)),
    ],
    "a draft": lambda protocol: [CUT, call(("finish_call", REST))],
    "a whole call and a draft": lambda protocol: [BESIDE, thinking(protocol, call(("finish_call", REST)))],
}


def copy_of(handed, text=""):
    """What a client keeps of an answer: its text, and the calls by the ids that it knows."""
    said = (TextPart(text),) if text else ()
    return Message("assistant", (*said, *(CallPart(one.id, one.name, one.arguments) for one in handed)))


def results(handed):
    """One message for each result, as chat clients send them."""
    return tuple(Message("tool", (ResultPart(one.id, (TextPart(f"result {one.id}"),)),)) for one in handed)


def flat(messages):
    return [(message.role, part) for message in messages for part in message.parts]


async def handed_over(harness, runs, **more):
    """A run up to its hand-over."""
    running = await runs.begin(new_run(options=AGENT, user="ann", history=(), **more))
    assert (await running.outcome()).kind == "completed"
    (over,) = await harness.of(running.run, CallsHandedOver)
    return running, over.calls


@pytest.mark.requirement("F11", "A3", "C5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("name", FIRST_RUNS)
def test_the_model_sees_its_own_history_again_with_the_results_behind_it(name, protocol):
    async def scenario(harness):
        runs = harness.process()
        running, handed = await handed_over(harness, runs)
        before = harness.model.requests[-1].messages
        user, *_ = running.turn.messages
        brought = (user, copy_of(handed, "an edited copy"), *results(handed))
        told = await Handover(finder(harness.journal, harness.policy)).restored(brought, "ann")
        await (await runs.begin(NewRun(told, history=(), options=AGENT, user="ann"))).outcome()
        sent = harness.model.requests[-1].messages
        assert violations(sent, rules_of(protocol), model=ROUTE.model, to_ask=True) == ()
        assert flat(sent)[: len(flat(before))] == flat(before)
        inner = {one.id: one.inner for one in handed}
        answered = tuple(ResultPart(inner[one.id], (TextPart(f"result {one.id}"),)) for one in handed)
        expected = (*running.turn.messages, Message("tool", answered))
        assert flat(sent) == flat(
            repair(expected, rules_of(protocol), model=ROUTE.model, to_ask=True).messages
        )
        calls = [part for _, part in flat(sent) if isinstance(part, CallPart) and part.name != "look"]
        found = {part.call_id: part.content for _, part in flat(sent) if isinstance(part, ResultPart)}
        told_in_order = [found[one.id] for one in calls]
        if name == "a whole call and a draft":  # what was held stands behind what made it whole
            told_in_order.reverse()
            assert [one.name for one in handed] == ["find", "put"]
        assert told_in_order == [(TextPart(f"result {one.id}"),) for one in handed]
        if name not in ("text and two calls", "a draft"):
            assert THOUGHT in str([part for _, part in flat(sent) if isinstance(part, ReasoningPart)])

    replies = FIRST_RUNS[name](protocol)
    policy = replace(POLICY, routes=(replace(ROUTE, protocol=protocol),))
    run_scenario(scenario, *replies, HELLO, policy=policy)


@pytest.mark.requirement("F11")
def test_a_whole_conversation_of_hand_overs_is_given_back_each_time():
    """An agent sends everything again with each of its requests."""

    async def scenario(harness):
        runs = harness.process()
        handover = Handover(finder(harness.journal, harness.policy))
        brought = (Message("user", (TextPart("Do it."),)),)
        for _ in range(4):
            told = await handover.restored(brought, "ann")
            running = await runs.begin(NewRun(told, history=(), options=AGENT, user="ann"))
            await running.outcome()
            handed = running.turn.handed
            brought = (*brought, copy_of(handed), *results(handed))
        requests = [flat(request.messages) for request in harness.model.requests]
        for earlier, later in pairwise(requests):
            assert later[: len(earlier)] == earlier
            assert [type(part) for _, part in later[len(earlier) :]] == [ReasoningPart, CallPart, ResultPart]

    run_scenario(scenario, *(thinking("openai_chat", call(FIND)) for _ in range(4)))


@pytest.mark.requirement("F11", "F9")
def test_the_run_of_another_user_is_not_used():
    async def scenario(harness):
        _, handed = await handed_over(harness, harness.process())
        brought = (Message("user", (TextPart("Do it."),)), copy_of(handed, "mine"), *results(handed))
        find = finder(harness.journal, harness.policy)
        assert await find(RunId("r2"), "bob") is None
        assert await Handover(find).restored(brought, "bob") == brought
        shared = Handover(find)
        assert await shared.restored(brought, "ann") != brought
        assert (
            await shared.restored(brought, "bob") == brought
        )  # what is at hand for one is not for the other

    run_scenario(scenario, call(FIND))


@pytest.mark.requirement("F11")
@pytest.mark.parametrize("call_id", ["call_gone_0", "call_x", "toolu_1", "call_abc123", ""])
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_of_an_unknown_run_the_clients_copy_must_do_and_is_legal(protocol, call_id):
    async def scenario(harness):
        unknown = (HandedCall(call_id, "find", "{}", "x"),)
        brought = (Message("user", (TextPart("Do it."),)), copy_of(unknown, "I look."), *results(unknown))
        told = await Handover(finder(harness.journal, harness.policy)).restored(brought, "ann")
        assert told == brought
        repaired = repair(told, rules_of(protocol), model="m", to_ask=True).messages
        assert violations(repaired, rules_of(protocol), model="m", to_ask=True) == ()
        assert f"result {call_id}" in str(repaired)

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("F11")
def test_a_copy_with_other_calls_than_were_handed_over_stays_as_the_client_has_it():
    async def scenario(harness):
        _, handed = await handed_over(harness, harness.process())
        handover = Handover(finder(harness.journal, harness.policy))
        for copy in (
            copy_of(handed[:1]),
            copy_of((*handed, HandedCall("other", "find", "{}", ""))),
            copy_of(()),
        ):
            brought = (Message("user", (TextPart("Do it."),)), copy, *results(handed))
            assert await handover.restored(brought, "ann") == brought

    run_scenario(scenario, call(FIND, FIND))


@pytest.mark.requirement("F11")
def test_a_run_that_has_not_ended_is_not_used():
    async def scenario(harness):
        running = await harness.process().begin(new_run(user="ann"))
        find = finder(harness.journal, harness.policy)
        assert await find(running.run, "ann") is None
        await running.outcome()
        assert isinstance(await find(running.run, "ann"), RunAdditions)
        assert await find(RunId("never"), "ann") is None

    run_scenario(scenario, HELLO)


@pytest.mark.requirement("F11")
def test_in_a_session_only_results_come_and_find_their_calls():
    async def scenario(harness):
        runs = harness.process()
        running, handed = await handed_over(harness, runs)
        session = running.turn.session
        told = await Handover(finder(harness.journal, harness.policy)).answers(results(handed), "ann")
        assert [part.call_id for _, part in flat(told)] == [one.inner for one in handed]
        await (await runs.begin(NewRun(told, session=session, options=AGENT, user="ann"))).outcome()
        sent = harness.model.requests[-1].messages
        assert violations(sent, rules_of("openai_chat"), model=ROUTE.model, to_ask=True) == ()
        assert flat(sent) == flat((*running.turn.messages, *told))

    run_scenario(scenario, call(FIND, FIND), HELLO)


@pytest.mark.requirement("F11")
def test_results_of_others_are_left_as_they_are():
    async def scenario(harness):
        _, handed = await handed_over(harness, harness.process())
        handover = Handover(finder(harness.journal, harness.policy))
        assert await handover.answers(results(handed), "bob") == results(handed)
        user = Message("user", (TextPart("call_r2_0"),))
        assert await handover.answers((user,), "ann") == (user,)

    run_scenario(scenario, call(FIND))


@pytest.mark.requirement("F11")
def test_a_caller_that_never_brings_its_results_has_a_usable_session():
    async def scenario(harness):
        runs = harness.process()
        running, _ = await handed_over(harness, runs)
        again = await runs.begin(
            new_run("Never mind.", session=running.turn.session, options=AGENT, user="ann")
        )
        assert (await again.outcome()).kind == "completed"
        for protocol in PROTOCOL_NAMES:
            repaired = repair(again.turn.messages[:-1], rules_of(protocol), model=ROUTE.model, to_ask=True)
            assert violations(repaired.messages, rules_of(protocol), model=ROUTE.model, to_ask=True) == ()

    run_scenario(scenario, call(FIND), HELLO)


def test_runs_are_looked_up_once_and_not_all_are_kept_at_hand():
    asked = []

    async def find(run, user):
        asked.append(run)
        return RunAdditions((), (HandedCall(f"call_{run}_0", "find", "{}", "x"),))

    async def scenario():
        handover = Handover(find)
        for number in range(MOST_CACHED + 1):
            await handover.answers(results((HandedCall(f"call_r{number}_0", "find", "{}", "x"),)), "ann")
        await handover.answers(results((HandedCall("call_r5_0", "find", "{}", "x"),)), "ann")
        assert len(asked) == MOST_CACHED + 1
        await handover.answers(results((HandedCall("call_r0_0", "find", "{}", "x"),)), "ann")
        assert len(asked) == MOST_CACHED + 2

    asyncio.run(scenario())
