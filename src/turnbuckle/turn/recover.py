"""What to do about a reply that is not simply complete. One pure function, and all its rules in this file.

It depends on what the user has already seen. Nothing: retry silently, then elsewhere. Text: it stays, and the
model goes on behind it. A call that was begun: its text is kept as a draft where the tool allows it, else the
model is told that nothing ran. Progress refills the small budgets; three tries in a row that bring nothing
end the turn; and the same question is never put again when it cannot change the answer.

A route that falls silent is left at once where there is a healthy other. A route that is down is waited for
where there is none: for as long as the patience lasts, with growing pauses.
"""

import math

from msgspec import Struct

from turnbuckle.reply.verdict import VerdictKind
from turnbuckle.turn.facts import Continue, Decision, Fallback, FinishDraft, GiveUp, Reask, Retry
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Tally
from turnbuckle.vocab.failure import Failure, FailureKind
from turnbuckle.vocab.ids import DraftId, RouteName
from turnbuckle.vocab.quirks import CAP_FIELDS, CapField
from turnbuckle.vocab.tooling import FINISH_CALL, REST_OF_A_CALL

_ELSEWHERE: frozenset[FailureKind] = frozenset(
    {
        "auth",
        "permission",
        "billing",
        "not_found",
        "context",
        "too_large",
        "filtered",
        "unstreamable",
        "pairing",
        "oversize",
        "malformed_call",
    }
)
"""Failures that this route will repeat but another one may not."""

_TOO_LARGE: frozenset[FailureKind] = frozenset({"context", "too_large"})
"""The request does not fit, and a smaller one may."""

PLAIN_FROM = 3
"""From so many cuts in a row on one tool on, another route is taken, or the answer is asked for in one piece
instead of as a stream."""
_WORTH_ASKING = 256
"""Output tokens below which a reply behind a prompt that fills the window is not worth its price."""
_BACKOFF_FIRST = 0.5
_BACKOFF_MOST = 8.0
_TOLD_MOST = 4.0
"""A provider that says "at once" again and again is not believed forever: pauses grow up to this all the
same."""
_DOWN: frozenset[FailureKind] = frozenset({"connect", "reset", "overloaded", "rate_limited", "timeout"})
"""What a route says, or does not, that restarts or has too much to do."""
_DOWN_STATUS = frozenset({502, 503, 504, *range(520, 531)})
"""How servers and what stands before them say the same. A mere 500 may well be about the request itself."""


_SEVERAL: dict[VerdictKind, str] = {
    "cut_by_transport": "an answer was cut",
    "cut_by_length": "the output limit is reached",
    "thinking_exhausted": "the model used up its output limit by thinking",
    "empty": "the model answered with nothing",
    "filtered": "a content filter stopped the answer",
    "malformed": "the model's calls could not be read",
    "refused": "the model declined",
    "paused": "the provider paused",
}
"""How the first of several answers ended, if it did not end well."""


class Broken(Struct, frozen=True):
    """All that is known of a reply that broke. `tally` already counts it."""

    verdict: VerdictKind
    failure: Failure | None
    said_text: bool  # this attempt showed text
    has_more: bool  # earlier attempts showed text, or drafts are open: giving up is then partial
    tool: str  # the call that was begun and cut, if any
    draft: DraftId | None  # the draft that holds it
    gained: int  # characters that this attempt added for good
    tally: Tally
    others: tuple[RouteName, ...]  # routes that have not failed in this turn, in order
    can_give_room: bool
    can_lower_effort: bool
    streaming: bool
    seconds_left: float
    jitter: float  # 0 to 1
    can_retell: bool = False  # the history holds calls, which could be told in plain words
    window: bool = False  # the context window is full
    cap: int | None = None  # the output cap of the request
    holds: bool = False  # whole calls of this reply are held, which nobody should generate again
    uncapped: bool = False  # no output limit was asked for, so none of ours can be too small
    resting: tuple[RouteName, ...] = ()  # of the others, those that are benched
    returns: tuple[RouteName, ...] = ()  # routes that were left for a failure that may have passed
    waited: float = math.inf  # seconds of work since the first of the failures in a row
    for_caller: bool = False  # the call was for a tool of the caller, who gets nothing of it
    began: bool = False  # the route answered: it is not down
    silent: tuple[RouteName, ...] = ()  # routes that were left for a silence
    can_shrink: bool = False  # the history could be made smaller
    own_parts: bool = False  # the history holds parts that only their provider knows
    several: bool = False  # several answers were asked for at once, and something of them has come


def decide(broken: Broken, policy: Policy) -> Decision:
    """One decision for one broken reply."""
    if broken.several:
        return _several(broken)
    match broken.verdict:
        case "cut_by_transport":
            return _after_transport(broken, policy)
        case "cut_by_length":
            return _after_length(broken, policy)
        case "thinking_exhausted" if policy.capped:
            return _at_the_callers_limit()
        case "thinking_exhausted":
            words = "the model used up its output limit by thinking"
            return _with_more_room(broken) or _elsewhere(broken) or _give_up(broken, words)
        case "empty":
            if broken.tally.empty <= policy.empty_retries:
                return Reask("say_something")
            return _elsewhere(broken) or _give_up(broken, "the model answered with nothing")
        case "malformed":
            return _after_malformed(broken, policy)
        case "filtered":
            return _elsewhere(broken) or _give_up(broken, "a content filter stopped the answer")
        case "paused":
            if broken.tally.pauses <= policy.pauses:
                return Continue("paused")
            return _give_up(broken, "the provider paused again and again")
        case "refused":
            return _give_up(broken, "the model declined")
        case "complete":
            raise ValueError("a complete reply needs no recovery")


def _several(broken: Broken) -> Decision:
    """Of several answers that come side by side none can be gone on with, and what was shown of them cannot
    be taken back: what there is stays, and is said to be a part."""
    failure = broken.failure
    if failure is not None and failure.kind == "cancelled":
        return GiveUp("cancelled", "stopped")
    return GiveUp("partial", failure.message if failure is not None else _SEVERAL[broken.verdict])


def _after_transport(broken: Broken, policy: Policy) -> Decision:
    failure = broken.failure
    if failure is not None:
        if failure.kind == "cancelled":
            return GiveUp("cancelled", "stopped")
        if failure.kind == "unstreamable" and broken.streaming and not broken.said_text:
            return Reask("plain")
        if failure.kind == "pairing" and broken.can_retell and not broken.tally.retold:
            return Reask("retold")
        if failure.kind in _TOO_LARGE and broken.can_shrink and not (broken.said_text or broken.tool):
            return Reask("smaller")
        if failure.kind == "repeated":
            return _after_circles(broken, failure)
        if failure.kind == "stalled" and any(route not in broken.resting for route in broken.others):
            return _elsewhere(broken) or _give_up(broken, failure.message)
        if (changed := _with_another_cap(broken, failure)) is not None:
            return changed
        if _may_refuse_its_own_parts(broken, failure):
            return Reask("words_only")
        if not failure.retryable:
            other = _elsewhere(broken) if failure.kind in _ELSEWHERE else None
            return other or _give_up(broken, failure.message)
    if broken.tool:
        return _after_cut_call(broken, policy)
    if broken.said_text:
        return _go_on(broken, policy, Continue("text"))
    return _ask_again(broken, policy)


def _after_length(broken: Broken, policy: Policy) -> Decision:
    if broken.window and not broken.can_shrink:
        return _elsewhere(broken) or _give_up(broken, "the context window is full")
    if broken.window and not (broken.said_text or broken.tool or broken.holds):
        return Reask("smaller")
    if policy.capped:
        return _at_the_callers_limit()
    if broken.draft is None and not broken.said_text and not broken.holds:
        # Nothing of it can be used, so a larger cap is the only thing that helps.
        if (room := _with_more_room(broken)) is not None:
            return room
        if not broken.tool and broken.uncapped:
            # Nobody asked for a limit: this is a reply that was cut before its first word.
            return _ask_again(broken, policy, "the answer was cut before its first word")
        if not broken.tool:
            return _elsewhere(broken) or _give_up(broken, "the output limit is too small for any answer")
    if broken.tool:
        return _after_cut_call(broken, policy)
    return _go_on(broken, policy, Continue("length"))


def _after_malformed(broken: Broken, policy: Policy) -> Decision:
    if broken.tally.malformed <= policy.malformed_retries:
        # Text that was shown cannot be taken back, so then the reply stays and only the call is asked for
        # again.
        return Continue("unreadable") if broken.said_text else Reask("valid_calls")
    return _elsewhere(broken) or _give_up(broken, "the model's calls could not be read")


def _after_cut_call(broken: Broken, policy: Policy) -> Decision:
    """Smaller pieces are asked for first, then another way there, then it ends."""
    cuts = broken.tally.cuts
    wanted = _wanted_call(broken)
    if cuts >= PLAIN_FROM:
        if (other := _elsewhere(broken, wanted)) is not None:
            return other
        if broken.tally.plain or not broken.streaming:
            return _give_up(broken, f"the call of {told_tool(broken)} was cut {cuts} times in a row")
    return _go_on(broken, policy, wanted)


def told_tool(broken: Broken) -> str:
    """The tool for people, who need not know by which call a model sends the rest of another one."""
    return REST_OF_A_CALL if broken.tool == FINISH_CALL else broken.tool


def _wanted_call(broken: Broken) -> Continue | FinishDraft:
    cuts = broken.tally.cuts
    return Continue("call", broken.tool, cuts) if broken.draft is None else FinishDraft(broken.draft, cuts)


def _go_on(broken: Broken, policy: Policy, wanted: Continue | FinishDraft) -> Decision:
    if broken.tally.unproductive >= policy.continuations:
        other = _elsewhere(broken, wanted)
        return other or _give_up(broken, f"{broken.tally.unproductive} tries in a row brought nothing new")
    return wanted


def _after_circles(broken: Broken, failure: Failure) -> Decision:
    """Text that was shown cannot be taken back, and nobody wants it to go on. Where a call or a thought went
    round, another model may not."""
    if broken.tool or not broken.said_text:
        if (other := _elsewhere(broken)) is not None:
            return other
        if not broken.tool and not broken.tally.cap_raised and broken.can_lower_effort:
            return Reask("less_effort")
    return _give_up(broken, failure.message)


def _ask_again(broken: Broken, policy: Policy, words: str = "no answer came") -> Decision:
    """Nothing came of this attempt, so nobody needs to know of it."""
    failure = broken.failure
    wanted = failure.retry_after if failure is not None else None
    wait = _backoff(broken) if wanted is None else max(wanted, min(_backoff(broken), _TOLD_MOST))
    in_time = wait <= min(policy.longest_wait, broken.seconds_left)
    if in_time and _may_ask_again(broken, policy):
        return Retry(wait)
    if (other := _elsewhere(broken)) is not None:
        return other
    if in_time and _is_waited_for(broken, policy):
        return Fallback(broken.returns[0], after=wait) if broken.returns else Retry(wait)
    words = failure.message if failure is not None else words
    return _give_up(
        broken, words if in_time or wanted is None else f"{words} (the provider asks to wait {wait:.0f} s)"
    )


def _may_ask_again(broken: Broken, policy: Policy) -> bool:
    """A provider that says when to come back is believed, and the more often if there is nowhere else to
    go."""
    if broken.failure is None or broken.failure.retry_after is None:
        return broken.tally.retries <= policy.stream_retries
    return broken.tally.waits <= (
        policy.stream_retries if broken.others or broken.returns else policy.told_waits
    )


def _is_waited_for(broken: Broken, policy: Policy) -> bool:
    """Whether the route is down, as one that restarts, and nobody has waited long enough yet. Who wants no
    silent tries gets none here either."""
    failure = broken.failure
    if failure is None or not policy.stream_retries or broken.waited >= policy.patience:
        return False
    if broken.began and broken.has_more:
        return False  # it is there and answers, but brings nothing new behind what was shown
    if failure.retryable and broken.returns[:1] and broken.returns[0] in broken.silent:
        return True  # who was left for a silence may answer by now, if who stood in for it does not
    return failure.kind in _DOWN or failure.status in _DOWN_STATUS


def _at_the_callers_limit() -> GiveUp:
    """Whoever set the limit wants no more than that, and is told that it was reached."""
    return GiveUp("partial", "the output limit of the request is reached")


def _with_more_room(broken: Broken) -> Decision | None:
    if broken.tally.cap_raised:
        return None
    if broken.can_give_room:
        return Reask("more_room")
    return Reask("less_effort") if broken.can_lower_effort else None


def _with_another_cap(broken: Broken, failure: Failure) -> Decision | None:
    """A host that does not know the output cap by its name gets it once by the other one. A provider that
    allows fewer tokens than were asked for says how many, and is asked once for so many; behind a prompt that
    fills the window that is worth it only where an answer fits."""
    if broken.said_text or broken.tool:
        return None
    if failure.kind == "unsupported" and failure.param in CAP_FIELDS and not broken.tally.renamed:
        other: CapField = "max_completion_tokens" if failure.param == "max_tokens" else "max_tokens"
        return Reask("cap_field", cap_field=other)
    room, cap = failure.room, broken.cap
    if room is None or broken.tally.curbed or (cap is not None and room >= cap):
        return None
    if failure.kind == "context" and room < _WORTH_ASKING:
        return None
    return Reask("less_room", cap=room)


def _may_refuse_its_own_parts(broken: Broken, failure: Failure) -> bool:
    """A host that refuses a request for no reason that we know may not take back what it said itself. So it
    is asked once without that."""
    refused = failure.kind == "invalid" and failure.status in (None, 400, 422)
    return refused and broken.own_parts and not (broken.tally.reworded or broken.said_text or broken.tool)


def _elsewhere(broken: Broken, then: Continue | FinishDraft | None = None) -> Decision | None:
    if not broken.others:
        return None
    if then is None and broken.tool:
        then = _wanted_call(broken)
    elif then is None and broken.said_text:
        then = Continue("text")
    fit = [route for route in broken.others if route not in broken.resting]
    return Fallback((*fit, *broken.others)[0], then)


def _give_up(broken: Broken, why: str) -> Decision:
    """Who never got the call that was made for it has no part of anything."""
    partial = (broken.said_text or broken.has_more) and not broken.for_caller
    return GiveUp("partial" if partial else "failed", why)


def patience_told(choice: Decision, broken: Broken, policy: Policy) -> str:
    """One line for the user when the wait for a route that is down begins; empty otherwise."""
    tries, often = broken.tally.retries + broken.tally.waits, policy.stream_retries + 1
    waits = isinstance(choice, Retry) or (isinstance(choice, Fallback) and choice.after > 0)
    if (
        not waits
        or tries != often
        or broken.others
        or broken.failure is None
        or not _is_waited_for(broken, policy)
    ):
        return ""
    return f"{broken.failure.message}: waiting for up to {policy.patience:.0f} s"


def _backoff(broken: Broken) -> float:
    """Half a second, then doubling, spread by up to a quarter so that many runs do not come back at once."""
    tries = min(broken.tally.retries + broken.tally.waits, 32)
    step = _BACKOFF_FIRST * 2.0 ** max(tries - 1, 0)
    return float(min(step, _BACKOFF_MOST) * (1 - broken.jitter / 4))
