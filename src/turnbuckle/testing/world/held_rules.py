"""What must be true of the calls of a reply that was cut, whatever else broke: judged from the facts
alone."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from turnbuckle.testing.world.run_world import Story
from turnbuckle.turn.facts import CallsHandedOver, RunEnded, ToolFinished, ToolStarted
from turnbuckle.turn.held import arguments_of
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.arguments import judge

Made = tuple[str, dict[str, Any]]


def _held_calls_wait_for_the_whole(story: Story) -> Iterator[str]:
    """Nothing but a look starts while a reply is not whole; when it is, every held call is there;
    and an end before that says which calls never started."""
    for fact, (before, after) in zip(story.facts, pairwise((Turn(), *story.turns)), strict=True):
        if isinstance(fact, ToolStarted) and before.held and story.policy.tool(fact.name).effect != "read":
            yield f"{fact.name} started while calls of a cut reply waited"
        if isinstance(fact, CallsHandedOver) and before.held:
            yield "calls were handed over while others of a cut reply waited"
        if before.held and not after.held:
            made = [(call.name, call.arguments) for call in after.calls]
            yield from (f"{call[0]} was held and is gone" for call in _whole(before) if call not in made)
        if isinstance(fact, RunEnded) and after.held:
            if fact.outcome.kind == "completed":
                yield "completed over calls that never started"
            yield from (
                f"nobody is told of {name}" for name, _ in _whole(after) if name not in fact.outcome.why
            )


def _whole(turn: Turn) -> list[Made]:
    return [(one.name, arguments_of(one)) for one in turn.held if one.is_whole]


def _each_has_its_id(story: Story) -> Iterator[str]:
    """The calls of a reply that was made whole are told apart by their ids."""
    for before, after in pairwise(story.turns):
        if before.held and not after.held:
            ids = [call.id for call in after.calls]
            if len(set(ids)) != len(ids):
                yield f"two calls have one id: {ids}"


def _told_at_the_end(story: Story) -> Iterator[str]:
    """Handed over is what the whole reply holds, in its order."""
    for place, fact in enumerate(story.facts):
        if isinstance(fact, CallsHandedOver):
            answered = {one.call_id for one in story.facts[:place] if isinstance(one, ToolFinished)}
            yield from (
                f"{call.inner} was answered and handed over" for call in fact.calls if call.inner in answered
            )
            yield from (
                f"{call.name} is not whole" for call in fact.calls if judge(call.arguments).status != "whole"
            )


Rule = Callable[[Story], Iterator[str]]
HELD_RULES: tuple[Rule, ...] = (_held_calls_wait_for_the_whole, _each_has_its_id, _told_at_the_end)
