"""What must be true of a run whose caller brought tools, whatever broke on its way: judged from its facts
alone."""

from collections.abc import Callable, Iterator
from typing import Any

from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.world.run_world import Story
from turnbuckle.turn.facts import (
    CallsHandedOver,
    CallsHeld,
    HandedCall,
    ModelAsked,
    RunEnded,
    Streamed,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.arguments import judge
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import FINISH_CALL


def _callers_tools_run_nowhere(story: Story) -> Iterator[str]:
    for fact in story.facts:
        if isinstance(fact, ToolStarted) and story.policy.tool(fact.name).client:
            yield f"{fact.name} was started here"
        if (
            isinstance(fact, ToolFinished)
            and story.policy.tool(fact.name).client
            and fact.outcome.fact != "never_started"
        ):
            yield f"{fact.name} is told as {fact.outcome.status}"
        if isinstance(fact, ToolStarted) and not story.policy.offers(fact.name):
            yield f"{fact.name} was started, and was never offered"
    yield from (f"{done.name} was done here" for done in story.done if story.policy.tool(done.name).client)


def _handed_over_once_and_last(story: Story) -> Iterator[str]:
    places = [place for place, fact in enumerate(story.facts) if isinstance(fact, CallsHandedOver)]
    if not places:
        if story.outcome.kind == "completed" and _last_reply(story).calls:
            yield "completed over calls that nobody got"
        return
    if places != [len(story.facts) - 2] or not isinstance(story.facts[-1], RunEnded):
        yield f"handed over at {places} of {len(story.facts)} items"
    if story.outcome.kind != "completed":
        yield f"handed over, and the run ended as {story.outcome.kind}"


def _handed_over_whole(story: Story) -> Iterator[str]:
    """Whole arguments, exactly as the model wrote them or as its draft became, and each call of the reply
    once."""
    handed = [call for fact in story.facts if isinstance(fact, CallsHandedOver) for call in fact.calls]
    if not handed:
        return
    reply = _last_reply(story)
    kept = [one for fact in story.facts if isinstance(fact, CallsHeld) for one in fact.calls]
    held = [(one.name, judge(one.arguments).value) for one in kept]
    if not reply.ended:
        yield "handed over from a reply that was cut"
    if [call.id for call in handed] != [f"call_{story.turn.run}_{place}" for place in range(len(handed))]:
        yield f"the ids are {[call.id for call in handed]}"
    if len({call.inner for call in handed}) != len(handed):
        yield "one call of the reply was handed over twice"
    yield from (problem for call in handed for problem in _faults(call, reply, held))


def _faults(call: HandedCall, reply: Reply, held: list[tuple[str, Any]]) -> Iterator[str]:
    made = next((one for one in reply.calls if one.id == call.inner), None)
    if made is None and (call.name, judge(call.arguments).value) not in held:
        yield f"{call.inner} is not a call of the last reply"
    elif (
        made is not None
        and made.name != FINISH_CALL
        and (made.name, made.arguments or "{}") != (call.name, call.arguments)
    ):
        yield f"{call.inner} was handed over as something else"
    if judge(call.arguments).status != "whole":
        yield f"the arguments of {call.inner} are not whole"


def _last_reply(story: Story) -> Reply:
    last = max((place for place, fact in enumerate(story.facts) if isinstance(fact, ModelAsked)), default=0)
    return fold([event for fact in story.facts[last:] if isinstance(fact, Streamed) for event in fact.events])


Rule = Callable[[Story], Iterator[str]]
HANDOVER_RULES: tuple[Rule, ...] = (
    _callers_tools_run_nowhere,
    _handed_over_once_and_last,
    _handed_over_whole,
)
