"""What counts as progress, and the small counts that only progress refills.

Progress is new content: text that was not said before, characters that a draft did not have. A sentence in
front of a call that was cut is none, however it is worded: the call was wanted, and nothing of it is there.
Text that is said again, or again in other words, is none either. A few characters at a time are progress, but
not forever (`thin`).
"""

import re

import msgspec
from msgspec.structs import replace

from turnbuckle.turn.budget import seconds_used
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Tally, Turn
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.reply import Reply, ReplyCall
from turnbuckle.vocab.tooling import FINISH_CALL

THIN = 4
"""Characters below which a try has brought only a crumb."""
_SHORT = 400
"""A text of fewer characters may be one that was said before, in other words."""
_KNOWN_WORDS = 0.8
_LOOKED_AT = 20_000
_PIECE = re.compile(r"[^.!?\n]+[.!?\n]*")
_WORD = re.compile(r"\w+")


def counted(turn: Turn, kind: str, tool: str, gained: int, reply: Reply) -> Tally:
    """The small budgets, with this broken reply in them. `gained` is all that was kept of it, its text
    included."""
    tally, ask = turn.tally, turn.ask
    assert ask is not None
    drafted = max(gained - len(reply.text), 0)
    new = drafted if tool else new_characters(reply.text, turn.shown)
    going_on = (
        ask.why in ("continue", "finish_draft")
        or bool(turn.open_text or turn.own_drafts or tally.cut_tool)
        or tally.unproductive
    )
    same_tool = bool(tool) and (tool == tally.cut_tool or not tally.cut_tool)
    has_wait = isinstance(reply.last, Cut) and reply.last.failure.retry_after is not None
    quiet = not (new or tool)
    last = reply.last.failure.kind if isinstance(reply.last, Cut) else ""
    since = seconds_used(turn, turn.now) if tally.trouble_since is None else tally.trouble_since
    return replace(
        tally,
        retries=0 if new else tally.retries + (quiet and not has_wait),
        waits=0 if new else tally.waits + (quiet and has_wait),
        unproductive=0 if new else tally.unproductive + going_on,
        thin=tally.thin if tool or not new else 0 if new >= THIN else tally.thin + 1,
        cut_tool=tool or tally.cut_tool,
        cuts=(1 if not same_tool or new else tally.cuts + 1) if tool else tally.cuts,
        malformed=tally.malformed + (kind == "malformed"),
        empty=tally.empty + (kind == "empty"),
        no_reason=last == "no_reason" and (bool(reply.text) or tally.no_reason),
        pauses=tally.pauses + (kind == "paused"),
        gained=tally.gained + gained,
        recoveries=0 if new else tally.recoveries,
        trouble_since=None if new else since,
    )


def settled(tally: Tally) -> Tally:
    """A reply was whole: nothing is in a row any more. Only what a draft gets in crumbs is counted on."""
    return replace(
        tally,
        retries=0,
        waits=0,
        unproductive=0,
        cut_tool="",
        cuts=0,
        malformed=0,
        empty=0,
        no_reason=False,
        pauses=0,
        recoveries=0,
        plain=False,
        curbed=False,
        trouble_since=None,
    )


def draft_grew(tally: Tally, characters: int) -> Tally:
    """A draft became so much longer."""
    return replace(tally, thin=0 if characters >= THIN else tally.thin + 1)


def new_characters(text: str, before: str) -> int:
    """How much of a text was not said before: neither word by word, nor, where it is short, in other
    words."""
    if not text.strip():
        return 0
    before = before[-_LOOKED_AT:]
    if not before:
        return len(text)
    if len(text) < _SHORT and _is_reworded(text, before):
        return 0
    return sum(len(piece) for piece in _PIECE.findall(text) if piece.strip() and piece.strip() not in before)


def _is_reworded(text: str, before: str) -> bool:
    words = _WORD.findall(text.casefold())
    known = set(_WORD.findall(before.casefold()))
    return len(words) > 2 and sum(word in known for word in words) >= _KNOWN_WORDS * len(words)


def same_calls(turn: Turn, made: tuple[PendingCall, ...], policy: Policy) -> dict[str, int]:
    """Counts of equal calls. A new call that may have changed something is a reason to make the others again;
    one of a tool that is not there changes nothing."""
    same = dict(turn.same_calls)
    for call in made:
        if call.outcome is not None:
            continue  # it was refused, and does not run
        if call.name == FINISH_CALL and call.arguments.get("reading"):
            continue  # the same letter answers another question each time
        mark = f"{call.name} {msgspec.json.encode(call.arguments, order='sorted').decode()}"
        if mark not in same and policy.offers(call.name) and policy.tool(call.name).effect != "read":
            same = dict.fromkeys(same, 0)
        same[mark] = same.get(mark, 0) + 1
    return same


def circling_call(reply: Reply) -> str:
    """The tool whose arguments went round in circles; empty if it was something else."""
    last = reply.blocks[-1] if reply.blocks else None
    return last.name if isinstance(last, ReplyCall) else ""


def left(turn: Turn, route: RouteName, wanted: RouteName, why: Failure | None) -> Turn:
    """A route is left for another. Pauses go on growing where one comes back to a route that was left
    before."""
    failed = tuple(name for name in dict.fromkeys((*turn.failed_routes, route)) if name != wanted)
    passing, silent = why is not None and why.retryable, why is not None and why.kind == "stalled"
    left = tuple(name for name in dict.fromkeys((*turn.passing, *[route] * passing)) if name != wanted)
    back = wanted in turn.passing
    tally = (
        turn.tally
        if back
        else replace(turn.tally, retries=0, waits=0, plain=False, curbed=False, renamed=False)
    )
    return replace(
        turn,
        failed_routes=failed,
        passing=left,
        silent=(*turn.silent, *[route] * silent),
        tally=replace(tally, pauses=0),
    )
