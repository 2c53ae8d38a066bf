"""A summary under way: a model call of its own, whose reply is not part of the conversation.

It may be cut, empty or refused like any reply. Then it is asked for again, in silence, on the same route
and on others. If nobody can write it, the conversation goes on without it: with the user's words and the
files that were seen, which need no model. The call that was to go out waits meanwhile.
"""

import zlib

from msgspec.structs import replace

from turnbuckle.reply.verdict import Verdict
from turnbuckle.turn.commands import Record
from turnbuckle.turn.compaction import Folding
from turnbuckle.turn.facts import Decided, Decision, Fallback, GiveUp, ModelAsked, Reask, Retry
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Ask, Turn, ask_on, streaming
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.wire.registry import rules_of

_LEAST_ROOM = 500
_PAUSE, _LONGEST = 0.5, 8.0


def ask_for(turn: Turn, folding: Folding, policy: Policy) -> Ask:
    """The call that asks for a summary: of the route that the settings name, or of the one that is to
    answer."""
    rules, ask = policy.compaction, turn.ask
    assert ask is not None
    wanted = rules.route if rules is not None else RouteName("")
    known = wanted in {route.name for route in policy.routes}
    return _asking(policy, wanted if known else ask.route, folding)


def _asking(policy: Policy, route: RouteName, folding: Folding, after: float = 0.0) -> Ask:
    folding = replace(folding, fits=0, cap_fits=0)  # that is seen when it is known who is asked
    return replace(ask_on(policy.route(route), "compact"), cap=None, folding=folding, after=after)


def asked(turn: Turn, fact: ModelAsked) -> Turn:
    """A summary is asked for. The history stays as it is meanwhile."""
    ask = Ask(fact.route, "compact", stream=fact.stream, effort=fact.effort, folding=fact.folding)
    return replace(streaming(turn, fact), ask=ask, suspended=turn.suspended or turn.ask)


def over(turn: Turn, found: Verdict) -> Turn:
    """The reply had its last word. A summary that reached its own limit is still one."""
    reply = turn.reply
    assert reply is not None
    usable = found.kind in ("complete", "cut_by_length") and not reply.calls and bool(reply.text.strip())
    return replace(turn, phase="compacting" if usable else "deciding")


def is_bound(turn: Turn, policy: Policy) -> bool:
    """Whether whoever goes on binds its reasoning to what stands before it. Who summarised may be another."""
    waiting = turn.suspended or turn.ask
    assert waiting is not None
    return rules_of(policy.route(waiting.route).protocol).reasoning_bound_to_tools


def judged(turn: Turn, found: Verdict, policy: Policy) -> Record:
    """What is done about a summary that did not come."""
    reply, ask = turn.reply, turn.ask
    assert reply is not None
    assert ask is not None
    failure = reply.last.failure if isinstance(reply.last, Cut) else None
    kind = found.kind if found.kind != "complete" else "empty"
    choice = _choice(turn, ask, failure, policy)
    if turn.stopping:
        choice = GiveUp("cancelled", "stopped")
    lost = len(reply.text)
    return Record((Decided(turn.now, turn.attempt, kind, found.evidence, choice, failure, lost=lost),))


def _choice(turn: Turn, ask: Ask, failure: Failure | None, policy: Policy) -> Decision:
    folding = ask.folding
    assert folding is not None
    if failure is not None and failure.kind == "cancelled":
        return GiveUp("cancelled", "stopped")
    if failure is not None and failure.kind == "budget":
        return GiveUp("partial" if turn.has_something else "failed", failure.message)
    if failure is not None and failure.kind in ("context", "too_large") and folding.told_in > _LEAST_ROOM:
        return Reask("smaller")
    passes = failure is None or failure.retryable
    if passes and folding.tries < policy.stream_retries:
        return Retry(_pause(turn, folding, failure, policy))
    others = [
        route.name
        for route in policy.routes
        if route.name not in (ask.route, *folding.failed, *turn.failed_routes)
    ]
    if others:
        return Fallback(others[0])
    if turn.options.compact is not None:  # somebody asked for a summary, and there is no need of less
        return GiveUp("failed", "no model could summarise the conversation, which stays as it was")
    return Reask("unsummarised")


def _pause(turn: Turn, folding: Folding, failure: Failure | None, policy: Policy) -> float:
    spread = zlib.crc32(f"{turn.run}:{turn.attempt}".encode()) / 2**32
    usual = min(_PAUSE * 2.0**folding.tries, _LONGEST) * (1 - spread / 4)
    wanted = failure.retry_after if failure is not None else None
    return min(max(wanted or 0.0, usual), policy.longest_wait)


def decided_on(turn: Turn, decided: Decided, policy: Policy) -> Turn:
    """The turn behind that. The history is untouched."""
    ask, choice = turn.ask, decided.decision
    assert ask is not None
    assert ask.folding is not None
    folding = ask.folding
    seconds = turn.tally.seconds_lost + max(decided.at - turn.asked_at, 0.0)
    turn = replace(turn, tally=replace(turn.tally, lost=turn.tally.lost + decided.lost, seconds_lost=seconds))
    match choice:
        case Retry(after):
            again = _asking(policy, ask.route, replace(folding, tries=folding.tries + 1), after)
        case Fallback(route):
            failed = (*folding.failed, ask.route)
            again = _asking(policy, route, replace(folding, failed=failed, tries=0))
        case Reask("smaller"):
            again = _asking(policy, ask.route, replace(folding, room=folding.told_in // 2))
        case GiveUp():
            kept = replace(turn, ask=turn.suspended or ask, suspended=None, reply=None)
            return replace(kept, phase="ending", giving_up=choice, failure=decided.failure)
        case _:
            return replace(turn, phase="compacting", reply=None)
    return replace(turn, phase="asking", ask=again, reply=None)
