"""The fold behind `RouteUse`: which routes a run has asked, and what broke there.

A provider that pauses and a model that declines have broken nothing. A call that a person stopped is told
apart: nothing failed.
"""

from msgspec.structs import replace

from turnbuckle.turn.facts import Continue, Decided, GiveUp
from turnbuckle.vocab.route_use import BreakSum, RouteUse, with_sum


def with_call(uses: tuple[RouteUse, ...], route: str) -> tuple[RouteUse, ...]:
    """One call more. The route that was asked last stands last."""
    known, others = _parted(uses, route)
    return (*others, replace(known, calls=known.calls + 1))


def with_break(
    uses: tuple[RouteUse, ...], route: str, fact: Decided, seconds: float, cost: float
) -> tuple[RouteUse, ...]:
    """The call under way did not simply end, and this is what is done about it."""
    known, others = _parted(uses, route)
    if was_stopped(fact):
        return (*others, replace(known, stopped=known.stopped + 1))
    if fact.verdict == "refused" or (isinstance(fact.decision, Continue) and fact.decision.kind == "paused"):
        return uses
    gave_up = isinstance(fact.decision, GiveUp)
    lasted, lost = round(max(seconds, 0.0), 3), max(fact.lost, 0)
    one = BreakSum(cause_of(fact), 1, lasted, lost, cost, int(not gave_up), int(gave_up))
    return (*others, replace(known, breaks=with_sum(known.breaks, one)))


def cause_of(fact: Decided) -> str:
    """Why a reply was not simply complete: one word out of few."""
    return fact.failure.kind if fact.failure is not None else fact.verdict


def was_stopped(fact: Decided) -> bool:
    """Whether a person ended the call."""
    by_person = isinstance(fact.decision, GiveUp) and fact.decision.kind == "cancelled"
    return by_person or (fact.failure is not None and fact.failure.kind == "cancelled")


def _parted(uses: tuple[RouteUse, ...], route: str) -> tuple[RouteUse, tuple[RouteUse, ...]]:
    known: RouteUse | None = None
    others: list[RouteUse] = []
    for use in uses:
        if use.route != route:
            others.append(use)
        elif known is None:
            known = use
    return known or RouteUse(route), tuple(others)
