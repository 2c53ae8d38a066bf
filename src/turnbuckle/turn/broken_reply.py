"""A reply that is not simply complete: what it is, what is kept of it, and the state behind the decision.

What to do about it is decided in `recover`; here the facts for that are gathered, and the decision, once it
is a fact itself, changes the turn.
"""

import zlib
from typing import assert_never

from msgspec.structs import replace

from turnbuckle.reply.message import message_of, salvage
from turnbuckle.reply.retell import can_retell, retold
from turnbuckle.reply.thoughts import is_own_part
from turnbuckle.reply.verdict import Verdict, verdict
from turnbuckle.turn import (
    budget,
    client_calls,
    compact,
    compacting,
    drafting,
    ladder,
    notices,
    progress,
    prompts,
)
from turnbuckle.turn.commands import Record
from turnbuckle.turn.facts import (
    CallsHeld,
    Continue,
    Decided,
    Decision,
    Fallback,
    FinishDraft,
    GiveUp,
    Reask,
    Retry,
)
from turnbuckle.turn.ledger import CHARACTERS_PER_TOKEN
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.recover import PLAIN_FROM, Broken, decide, patience_told
from turnbuckle.turn.state import Ask, Turn, ask_on
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.text_end import ends_like_an_end
from turnbuckle.wire.registry import rules_of


def has_no_more(turn: Turn, found: Verdict) -> bool:
    """Text was cut behind its last word: asked to go on, the model properly ends with nothing. That is the
    whole, unless it was a call that broke: nothing of that ran."""
    reply, shown = turn.reply, turn.shown
    call_is_due = bool(turn.tally.cut_tool or turn.tally.malformed or turn.unfinished_drafts)
    if reply is None or call_is_due or not shown.strip():
        return False
    if found.kind == "empty" and reply.finish == "stop":
        return True
    # A host that gives no reason to stop: then what was shown must look like a whole.
    is_bare = isinstance(reply.last, Cut) and reply.last.failure.kind == "no_reason" and not reply.blocks
    is_bare = is_bare or (found.kind == "empty" and reply.finish is None)
    return is_bare and turn.tally.no_reason and ends_like_an_end(shown)


def verdict_on(turn: Turn) -> Verdict:
    assert turn.reply is not None
    assert turn.ask is not None
    return verdict(turn.reply, cap=turn.ask.cap)


def judged(turn: Turn, policy: Policy) -> Record:
    """The verdict on a broken reply, what is kept of it, and the decision: one write."""
    reply, ask, verdict = turn.reply, turn.ask, verdict_on(turn)
    assert reply is not None
    assert ask is not None
    if ask.folding is not None:
        return compacting.judged(turn, verdict, policy)
    if (other_way := ladder.judged(turn, verdict, policy)) is not None:
        return other_way
    last = reply.last
    failed = last.failure if isinstance(last, Cut) else None
    circling = failed is not None and failed.kind == "repeated"
    was_cut = verdict.kind in ("cut_by_transport", "cut_by_length")
    # What went round in circles is not a draft of anything.
    several = policy.several == turn.protocol and bool(reply.text or reply.calls or reply.others)
    kept = ladder.keep(turn, reply, policy) if was_cut and not circling and not several else None
    gained = len(reply.text) + (kept.gained if kept is not None else 0)
    tool = kept.tool if kept is not None else progress.circling_call(reply) if circling else ""
    turn = replace(turn, tally=progress.counted(turn, verdict.kind, tool, gained, reply))
    route = policy.route(ask.route)
    cap, most = ask.cap, route.cap_most
    broken = Broken(
        verdict=verdict.kind,
        failure=failed,
        said_text=bool(reply.text),
        has_more=turn.has_something or (kept is not None and kept.draft is not None),
        tool=tool,
        draft=kept.draft if kept is not None else None,
        gained=gained,
        tally=turn.tally,
        others=() if _is_the_clients(turn, failed, reply) else _others(turn, route.name, policy),
        can_give_room=most is not None and (cap is None or most > cap),
        can_lower_effort=ask.effort not in (None, "none", "minimal", "low"),
        streaming=ask.stream,
        seconds_left=budget.seconds_left(turn, policy),
        jitter=zlib.crc32(f"{turn.run}:{turn.attempt}".encode()) / 2**32,
        can_retell=can_retell(turn.messages) or ladder.is_prefilled(turn, route.protocol),
        window=reply.finish == "window",
        cap=cap,
        holds=kept is not None and any(isinstance(fact, CallsHeld) for fact in kept.facts),
        uncapped=cap is None,
        resting=turn.resting,
        returns=tuple(name for name in turn.passing if name != route.name),
        silent=turn.silent,
        waited=budget.seconds_used(turn, turn.now) - (turn.tally.trouble_since or 0.0),
        for_caller=client_calls.is_owed(turn, reply, policy),
        began=bool(reply.id or reply.model or reply.blocks),
        can_shrink=compact.may_shrink(turn, policy),
        several=several,
        own_parts=_has_own_parts(turn, failed),
    )
    choice: Decision = decide(broken, policy)
    if turn.stopping and not isinstance(choice, GiveUp):
        choice = GiveUp("cancelled", "stopped")
    length = kept.length if kept is not None else 0
    decided = Decided(
        turn.now,
        turn.attempt,
        verdict.kind,
        verdict.evidence,
        choice,
        broken.failure,
        notice=notices.notice(choice, broken, length) or patience_told(choice, broken, policy),
        tool=tool,
        gained=gained,
        lost=drafting.lost(reply, kept),
    )
    return Record((*(kept.facts if kept is not None else ()), decided))


def _others(turn: Turn, route: RouteName, policy: Policy) -> tuple[RouteName, ...]:
    names = (one.name for one in policy.routes)
    return tuple(name for name in names if name != route and name not in turn.failed_routes)


def _is_the_clients(turn: Turn, failed: Failure | None, reply: Reply) -> bool:
    """Whether a window is full of which the client of a relay is to know: it makes its context smaller
    itself, and would never learn that it must if another route stood in."""
    is_full = reply.finish == "window" or (failed is not None and failed.kind == "context")
    return is_full and not turn.options.own_tools


def decided_on(turn: Turn, decided: Decided, policy: Policy) -> Turn:
    reply, ask, choice = turn.reply, turn.ask, decided.decision
    assert reply is not None
    assert ask is not None
    if ask.folding is not None:
        return compacting.decided_on(turn, decided, policy)
    tally = progress.counted(turn, decided.verdict, decided.tool, decided.gained, reply)
    tally = replace(
        tally,
        lost=tally.lost + decided.lost,
        seconds_lost=tally.seconds_lost + max(decided.at - turn.asked_at, 0.0),
    )
    turn = compact.refused(replace(turn, tally=tally), decided.failure, reply)
    if is_tried(turn) and decided.failure is not None and decided.failure.kind == "invalid":
        turn = replace(turn, words_only=turn.words_only[:-1], on_trial=False)  # it was something else
    if decided.verdict == ladder.UNJOINED:
        turn = replace(turn, tried=(*turn.tried, ask.way))
    match choice:
        case Retry(after):
            return _again(turn, replace(ask, why="retry", after=after), reply)
        case Reask():
            return _reask(turn, choice, policy, reply)
        case Continue() | FinishDraft():
            return _go_on(turn, choice, ask, policy, reply)
        case Fallback(route, then, after):
            turn = progress.left(turn, ask.route, route, decided.failure)
            fresh = replace(ask_on(policy.route(route), "fallback"), notes=ask.notes, after=after)
            fresh = replace(fresh, wanted=ask.wanted, way=ask.way)
            fresh = (
                replace(fresh, cap=ask.cap) if policy.capped else fresh
            )  # the rest of the caller's own limit
            if then is None:
                return _again(turn, fresh, reply)
            return _go_on(turn, then, fresh, policy, reply, why="fallback")
        case GiveUp():
            circling = decided.failure is not None and decided.failure.kind == "repeated"
            # What went round in circles was shown, but teaching it to the model would be no kindness.
            kept = turn.messages[: turn.before_notes] if circling else _kept(turn, reply)
            text = (*turn.open_text, reply.text) if reply.text else turn.open_text
            turn = replace(turn, messages=kept, open_text=text, reply=None)
            return replace(turn, phase="ending", giving_up=choice, failure=decided.failure)
    assert_never(choice)


def _again(turn: Turn, ask: Ask, reply: Reply) -> Turn:
    """Ask once more; the reply leaves no trace, and the notes of the request go with it into the next one."""
    return replace(turn, phase="asking", ask=ask, messages=turn.messages[: turn.before_notes], reply=None)


def _reask(turn: Turn, choice: Reask, policy: Policy, reply: Reply) -> Turn:
    ask, tally = turn.ask, turn.tally
    assert ask is not None
    route = policy.route(ask.route)
    ask = replace(ask, why="reask", after=choice.after)
    match choice.change:
        case "plain":
            ask, tally = replace(ask, stream=False), replace(tally, plain=True)
        case "more_room":
            ask, tally = replace(ask, cap=route.cap_most), replace(tally, cap_raised=True)
        case "less_effort":
            ask, tally = replace(ask, effort="low"), replace(tally, cap_raised=True)
        case "say_something":
            ask = replace(ask, notes=(*ask.notes, prompts.note(prompts.SAY_SOMETHING)))
        case "valid_calls":
            note = prompts.note(prompts.VALID_CALLS)
            ask = ask if note in ask.notes else replace(ask, notes=(*ask.notes, note))
        case "less_room":
            ask, tally = replace(ask, cap=choice.cap), replace(tally, curbed=True)
        case "cap_field":
            ask, tally = replace(ask, cap_field=choice.cap_field), replace(tally, renamed=True)
        case "retold":
            # For good: whoever asks next, also in a later run of the session, goes on from this telling.
            turn = replace(turn, messages=retold(turn.messages, turn.before_notes))
            tally = replace(tally, retold=turn.before_notes)
        case "words_only":
            told = (*turn.words_only, (ask.route, turn.model))
            turn, tally = replace(turn, words_only=told, on_trial=True), replace(tally, reworded=True)
        case "nothing" | "smaller" | "unsummarised":
            pass
    return _again(replace(turn, tally=tally), ask, reply)


def is_tried(turn: Turn) -> bool:
    """Whether the route that was asked is the one that is told the words alone and has not answered yet.
    Another one, or a summary, shows nothing about that."""
    asked = turn.ask is not None and turn.ask.folding is None and (turn.ask.route, turn.model)
    return turn.on_trial and asked == turn.words_only[-1]


def _has_own_parts(turn: Turn, failed: Failure | None) -> bool:
    """Whether a refused request held parts that only their provider knows. In a relay they are the
    client's."""
    if failed is None or failed.kind != "invalid" or not turn.options.own_tools or turn.ask is None:
        return False
    rules, model = rules_of(turn.protocol), turn.model
    return (turn.ask.route, model) not in turn.words_only and any(
        is_own_part(part, rules, model)
        for message in turn.messages
        if message.role == "assistant"
        for part in message.parts
    )


def _go_on(
    turn: Turn, choice: Continue | FinishDraft, ask: Ask, policy: Policy, reply: Reply, why: str = ""
) -> Turn:
    """Keep what was shown, in the history and for the reader, and ask for the rest."""
    why = why or ("finish_draft" if isinstance(choice, FinishDraft) else "continue")
    notes = ladder.usual_notes(turn, choice, policy, turn.shown + reply.text)
    if isinstance(choice, Continue) and choice.kind == "paused":
        message = message_of(reply, rules_of(turn.protocol), turn.model)
        messages = turn.messages if message is None else (*turn.messages, message)
    else:
        messages = _kept(turn, reply)
    if policy.capped and ask.cap is not None:
        # What came counts against the caller's limit, as well as it can be told.
        ask = replace(ask, cap=max(ask.cap - len(reply.text) // CHARACTERS_PER_TOKEN, 1))
    plain = choice.escalation >= PLAIN_FROM and why != "fallback"
    tally = replace(turn.tally, plain=turn.tally.plain or plain)
    ask = replace(
        ask, why=why, after=0.0, notes=notes, stream=ask.stream and not plain, wanted=choice, way=""
    )
    text = (*turn.open_text, reply.text) if reply.text else turn.open_text
    return replace(turn, phase="asking", ask=ask, messages=messages, open_text=text, tally=tally, reply=None)


def _kept(turn: Turn, reply: Reply) -> tuple[Message, ...]:
    """The history with what may stay of a broken reply. If nothing stays, the notes that asked for it go
    too."""
    message = salvage(reply, rules_of(turn.protocol), turn.model)
    if message is None:
        return turn.messages[: turn.before_notes]
    return (*turn.messages, message)
