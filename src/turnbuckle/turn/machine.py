"""The turn: a fact in, a new state and the commands that are due out.

`apply` changes the state and decides nothing that is not already a fact. `pending` looks at a state and says what is
due; it may be asked at any time and as often as one likes, so a process that comes back after a crash folds the
journal and simply asks. `advance` is one after the other. What a broken reply means is decided in `recover`, what
calls need in `calls`, what drafts and `finish_call` mean in `drafting`.
"""

import zlib
from typing import assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from turnbuckle.reply.draft import grown
from turnbuckle.reply.message import message_of, salvage
from turnbuckle.reply.own_ids import with_own_ids
from turnbuckle.reply.retell import can_retell, retold
from turnbuckle.reply.verdict import Verdict, verdict
from turnbuckle.turn import asking, budget, calls, drafting, handing, ladder, notices, progress, prompts, steering
from turnbuckle.turn.commands import CallModel, Command, Record
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    CallsHeld,
    Continue,
    Decided,
    Decision,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    Fallback,
    FinishDraft,
    GiveUp,
    HandedCall,
    ModelAsked,
    Noticed,
    Reask,
    Retry,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
    Waited,
)
from turnbuckle.turn.ledger import CHARACTERS_PER_TOKEN
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.recover import PLAIN_FROM, Broken, decide, patience_told
from turnbuckle.turn.state import Ask, PendingCall, Tally, Turn
from turnbuckle.turn.structured import ending
from turnbuckle.vocab.events import Cut
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import result_part


class AttemptOver(Struct, frozen=True):
    """A model call had its last word. Made from the `Streamed` facts of the attempt, live and in replay alike."""

    at: float
    attempt: int
    reply: Reply
    cost: float = 0.0
    worked: float | UnsetType = UNSET
    resting: tuple[RouteName, ...] = ()


Input = Fact | AttemptOver


def advance(turn: Turn, taken: Input, policy: Policy) -> tuple[Turn, tuple[Command, ...]]:
    """Take one fact in; what is due now."""
    after = apply(turn, taken, policy)
    return after, pending(after, policy)


def apply(turn: Turn, taken: Input, policy: Policy) -> Turn:
    """The state behind this fact."""
    idle = isinstance(taken, RunStarted | RunClaimed) or bool(asking.open_in(turn))
    turn = budget.timed(turn, taken.at, getattr(taken, "worked", UNSET), idle=idle)
    match taken:
        case RunStarted():
            return _started(turn, taken, policy)
        case RunClaimed():
            return _claimed(turn)
        case ModelAsked():
            return _asked(steering.heard(turn), taken)
        case Streamed() | ToolSaid() | Noticed() | Waited():
            return turn
        case AttemptOver():
            return _over(turn, taken, policy)
        case Decided():
            return _decided(turn, taken, policy)
        case DraftKept(_, draft, left_by):
            inherited = (*turn.inherited, draft.id) if left_by else turn.inherited
            return replace(turn, drafts={**turn.drafts, draft.id: draft}, drafted=True, inherited=inherited)
        case DraftGrown(_, name, kept, added, doubtful):
            more = kept + len(added) - len(turn.drafts[name].text)
            turn = replace(turn, tally=progress.draft_grew(turn.tally, more))
            inherited = tuple(other for other in turn.inherited if other != name)
            longer = replace(grown(turn.drafts[name], kept, added), doubtful=doubtful)
            return replace(turn, drafts={**turn.drafts, name: longer}, inherited=inherited)
        case DraftClosed(_, name):
            left = {key: draft for key, draft in turn.drafts.items() if key != name}
            return replace(turn, drafts=left, tried=())
        case CallsHeld(_, places):
            return replace(turn, held=places)
        case ToolStarted():
            return calls.start(turn, taken)
        case ToolFinished():
            return _finished(turn, taken, policy)
        case ApprovalAsked():
            return asking.asked(turn, taken)
        case ApprovalAnswered():
            return asking.answered(turn, taken)
        case CallsHandedOver(_, handed):
            return _handed_over(turn, handed)
        case UserSpoke():
            return turn if turn.phase == "ended" else replace(turn, spoken=(*turn.spoken, taken))
        case RunLeft():
            return replace(turn, left=True)
        case StopAsked():
            return turn if turn.phase == "ended" else _stop(turn)
        case RunEnded(_, outcome):
            return replace(turn, phase="ended", outcome=outcome)
    assert_never(taken)


def pending(turn: Turn, policy: Policy) -> tuple[Command, ...]:
    """What is due in this state."""
    match turn.phase:
        case "new" | "ended":
            return ()
        case "streaming":
            if not turn.orphan:
                return ()
            gone = Cut(failure("reset", "the process that made this call is gone"))
            return (Record((Streamed(turn.now, turn.attempt, (gone,)),)),)
        case "deciding":
            return (_judged(turn, policy),)
        case "tools":
            return calls.due(turn, policy)
        case "asking":
            return _due_ask(turn, policy)
        case "ending":
            return (Record((RunEnded(turn.now, _outcome(turn, policy)),)),)
    assert_never(turn.phase)


# Asking


def _started(turn: Turn, started: RunStarted, policy: Policy) -> Turn:
    return replace(
        turn,
        run=started.run,
        session=started.session,
        messages=started.messages,
        began=len(started.messages),
        drafted=drafting.was_used(started.messages),
        wishes=started.wishes,
        started_at=started.at,
        tally=Tally(),
        phase="asking",
        ask=_ask_on(policy.routes[0], "first"),
    )


def _ask_on(route: RouteFacts, why: str, **changes: object) -> Ask:
    fields = {"cap": route.cap, "effort": route.effort, **changes}
    return Ask(route.name, why, **fields)  # type: ignore[arg-type]


def _due_ask(turn: Turn, policy: Policy) -> tuple[Command, ...]:
    assert turn.ask is not None
    if turn.stopping:
        stopped = replace(turn, giving_up=GiveUp("cancelled", "stopped"))
        return (Record((RunEnded(turn.now, _outcome(stopped, policy)),)),)
    if turn.tally.recoveries > policy.max_recoveries:
        why = f"the run came back {turn.tally.recoveries} times after a crash without any progress"
        return (_end(turn, why, policy),)
    if reason := budget.exceeded(turn, policy):
        return (_end(replace(turn, failure=failure("budget", reason)), reason, policy),)
    return (CallModel(_to_answer(turn, turn.ask), turn.attempt + 1),)


def _to_answer(turn: Turn, ask: Ask) -> Ask:
    """Where the assistant has the last word there is nothing to answer, and providers refuse to go on from it. So it is
    asked to; not if its provider paused it, and wants its own words back."""
    last = turn.messages[-1] if turn.messages else None
    if last is None or last.role != "assistant" or ask.notes or turn.spoken or turn.tally.pauses:
        return ask
    return replace(ask, notes=(prompts.note(prompts.GO_ON),))


def _end(turn: Turn, why: str, policy: Policy) -> Record:
    given_up = replace(turn, giving_up=GiveUp(handing.kind_of_end(turn, policy), why))
    return Record((RunEnded(turn.now, _outcome(given_up, policy)),))


def _asked(turn: Turn, asked: ModelAsked) -> Turn:
    return replace(
        turn,
        phase="streaming",
        attempt=asked.attempt,
        protocol=asked.protocol,
        model=asked.model,
        asked_at=asked.at,
        before_notes=len(turn.messages),
        messages=(*turn.messages, *asked.notes),
        ask=ladder.under_way(turn, asked),
        tally=replace(turn.tally, asks=turn.tally.asks + 1),
        orphan=False,
        reply=None,
    )


# Replies


def _over(turn: Turn, over: AttemptOver, policy: Policy) -> Turn:
    reply = with_own_ids(over.reply)
    usage = reply.usage
    tokens = sum(budget.tokens_of(reply, turn.messages))
    money = over.cost or (usage.cost if usage is not None and usage.cost else 0.0)
    tally = replace(turn.tally, tokens=turn.tally.tokens + tokens, money=turn.tally.money + money)
    turn = replace(turn, tally=tally, reply=reply, orphan=False, resting=over.resting)
    found = _verdict(turn)
    if ladder.drafted(turn) is not None:
        return ladder.over(turn, found, policy)
    if found.kind != "complete" and not _has_no_more(turn, found):
        return replace(turn, phase="deciding")
    said = message_of(reply, turn.protocol, turn.model)
    messages = turn.messages if said is None else (*turn.messages, said)
    turn = replace(turn, messages=messages, tally=progress.settled(tally), reply=None)
    if not found.calls and turn.spoken and not turn.stopping and turn.ask is not None:
        # The answer is whole, and there is more to answer.
        ask = _ask_on(policy.route(turn.ask.route), "steered", cap_field=turn.ask.cap_field)
        return replace(turn, phase="asking", ask=ask, open_text=())
    if not found.calls:
        return ending(turn, reply.text)
    pending_calls = tuple(PendingCall(call.id, call.name, call.arguments) for call in found.calls)
    turn, pending_calls = drafting.made_whole(turn, pending_calls, policy)
    same = progress.same_calls(turn, pending_calls, policy)
    return replace(turn, phase="tools", calls=pending_calls, same_calls=same, open_text=())


def _has_no_more(turn: Turn, found: Verdict) -> bool:
    """Text was cut behind its last word: asked to go on, the model properly ends with nothing. That is the whole,
    unless it was a call that broke: nothing of that ran."""
    call_is_due = bool(turn.tally.cut_tool or turn.tally.malformed or turn.unfinished_drafts)
    ended = found.kind == "empty" and turn.reply is not None and turn.reply.finish == "stop"
    return ended and bool(turn.shown.strip()) and not call_is_due


def _verdict(turn: Turn) -> Verdict:
    assert turn.reply is not None
    assert turn.ask is not None
    return verdict(turn.reply, cap=turn.ask.cap)


def _judged(turn: Turn, policy: Policy) -> Record:
    """The verdict on a broken reply, what is kept of it, and the decision: one write."""
    reply, ask, found = turn.reply, turn.ask, _verdict(turn)
    assert reply is not None
    assert ask is not None
    if (other_way := ladder.judged(turn, found)) is not None:
        return other_way
    last = reply.last
    told = last.failure if isinstance(last, Cut) else None
    circling = told is not None and told.kind == "repeated"
    was_cut = found.kind in ("cut_by_transport", "cut_by_length")
    # What went round in circles is no draft of anything.
    kept = ladder.keep(turn, reply, policy) if was_cut and not circling else None
    gained = len(reply.text) + (kept.gained if kept is not None else 0)
    tool = kept.tool if kept is not None else progress.circling_call(reply) if circling else ""
    turn = replace(turn, tally=progress.counted(turn, found.kind, tool, gained, reply))
    route = policy.route(ask.route)
    cap, most = ask.cap, route.cap_most
    broken = Broken(
        verdict=found.kind,
        failure=told,
        said_text=bool(reply.text),
        has_more=turn.has_something or (kept is not None and kept.draft is not None),
        tool=tool,
        draft=kept.draft if kept is not None else None,
        gained=gained,
        tally=turn.tally,
        others=tuple(r.name for r in policy.routes if r.name != route.name and r.name not in turn.failed_routes),
        can_give_room=most is not None and (cap is None or most > cap),
        can_lower_effort=ask.effort not in (None, "none", "minimal", "low"),
        streaming=ask.stream,
        seconds_left=budget.seconds_left(turn, policy),
        jitter=zlib.crc32(f"{turn.run}:{turn.attempt}".encode()) / 2**32,
        can_retell=can_retell(turn.messages),
        window=reply.finish == "window",
        cap=cap,
        holds=kept is not None and any(isinstance(fact, CallsHeld) for fact in kept.facts),
        uncapped=cap is None,
        resting=turn.resting,
        returns=tuple(name for name in turn.passing if name != route.name),
        silent=turn.silent,
        waited=budget.seconds_used(turn, turn.now) - (turn.tally.trouble_since or 0.0),
        for_caller=handing.is_owed(turn, reply, policy),
        began=bool(reply.id or reply.model or reply.blocks),
    )
    choice: Decision = decide(broken, policy)
    if turn.stopping and not isinstance(choice, GiveUp):
        choice = GiveUp("cancelled", "stopped")
    told_user = notices.notice(choice, broken, kept.length if kept is not None else 0)
    told_user = told_user or patience_told(choice, broken, policy)
    decided = Decided(
        turn.now,
        turn.attempt,
        found.kind,
        found.evidence,
        choice,
        broken.failure,
        notice=told_user,
        tool=tool,
        gained=gained,
        lost=drafting.lost(reply, kept),
    )
    return Record((*(kept.facts if kept is not None else ()), decided))


# Decisions


def _decided(turn: Turn, decided: Decided, policy: Policy) -> Turn:
    reply, ask, choice = turn.reply, turn.ask, decided.decision
    assert reply is not None
    assert ask is not None
    tally = progress.counted(turn, decided.verdict, decided.tool, decided.gained, reply)
    tally = replace(
        tally, lost=tally.lost + decided.lost, seconds_lost=tally.seconds_lost + max(decided.at - turn.asked_at, 0.0)
    )
    turn = replace(turn, tally=tally)
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
            fresh = replace(_ask_on(policy.route(route), "fallback"), notes=ask.notes, after=after)
            fresh = replace(fresh, wanted=ask.wanted, way=ask.way)
            fresh = replace(fresh, cap=ask.cap) if policy.capped else fresh  # the rest of the caller's own limit
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
            ask, tally = replace(ask, cap=route.cap_most), replace(tally, roomier=True)
        case "less_effort":
            ask, tally = replace(ask, effort="low"), replace(tally, roomier=True)
        case "say_something":
            ask = replace(ask, notes=(*ask.notes, prompts.note(prompts.SAY_SOMETHING)))
        case "valid_calls":
            told = prompts.note(prompts.VALID_CALLS)
            ask = ask if told in ask.notes else replace(ask, notes=(*ask.notes, told))
        case "less_room":
            ask, tally = replace(ask, cap=choice.cap), replace(tally, curbed=True)
        case "cap_field":
            ask, tally = replace(ask, cap_field=choice.cap_field), replace(tally, renamed=True)
        case "retold":
            # For good: whoever asks next, also in a later run of the session, goes on from this telling.
            turn = replace(turn, messages=retold(turn.messages, turn.before_notes))
            tally = replace(tally, retold=turn.before_notes)
        case "nothing":
            pass
    return _again(replace(turn, tally=tally), ask, reply)


def _go_on(turn: Turn, choice: Continue | FinishDraft, ask: Ask, policy: Policy, reply: Reply, why: str = "") -> Turn:
    """Keep what was shown, in the history and for the reader, and ask for the rest."""
    why = why or ("finish_draft" if isinstance(choice, FinishDraft) else "continue")
    notes = ladder.usual_notes(turn, choice, policy, turn.shown + reply.text)
    if isinstance(choice, Continue) and choice.kind == "paused":
        said = message_of(reply, turn.protocol, turn.model)
        messages = turn.messages if said is None else (*turn.messages, said)
    else:
        messages = _kept(turn, reply)
    if policy.capped and ask.cap is not None:
        # What came counts against the caller's limit, as well as it can be told.
        ask = replace(ask, cap=max(ask.cap - len(reply.text) // CHARACTERS_PER_TOKEN, 1))
    plain = choice.escalation >= PLAIN_FROM and why != "fallback"
    tally = replace(turn.tally, plain=turn.tally.plain or plain)
    ask = replace(ask, why=why, after=0.0, notes=notes, stream=ask.stream and not plain, wanted=choice, way="")
    text = (*turn.open_text, reply.text) if reply.text else turn.open_text
    return replace(turn, phase="asking", ask=ask, messages=messages, open_text=text, tally=tally, reply=None)


def _kept(turn: Turn, reply: Reply) -> tuple[Message, ...]:
    """The history with what may stay of a broken reply. If nothing stays, the notes that asked for it go too."""
    said = salvage(reply, turn.protocol, turn.model)
    if said is None:
        return turn.messages[: turn.before_notes]
    return (*turn.messages, said)


# Tools


def _finished(turn: Turn, finished: ToolFinished, policy: Policy) -> Turn:
    turn = calls.finish(turn, finished)
    if any(call.outcome is None for call in turn.calls):
        return turn
    results = tuple(result_part(call.id, call.outcome) for call in turn.calls if call.outcome is not None)
    turn = replace(turn, messages=(*turn.messages, Message("tool", results)), calls=())
    if turn.stopping:
        return replace(turn, phase="ending", giving_up=GiveUp("cancelled", "stopped"))
    assert turn.ask is not None
    route = policy.route(turn.ask.route)
    cap = route.cap if policy.capped else turn.ask.cap  # a caller's limit counts for each reply anew
    ask = _ask_on(route, "after_tools", cap=cap, cap_field=turn.ask.cap_field)
    return replace(turn, phase="asking", ask=ladder.after_tools(turn, ask))


def _handed_over(turn: Turn, handed: tuple[HandedCall, ...]) -> Turn:
    """The results of our own tools stay behind the reply; those of the caller's come with its next request."""
    results = tuple(result_part(call.id, call.outcome) for call in turn.calls if call.outcome is not None)
    messages = (*turn.messages, Message("tool", results)) if results else turn.messages
    return replace(turn, messages=messages, calls=(), handed=handed)


# Ends


def _claimed(turn: Turn) -> Turn:
    """A process came back to it. That counts as a try unless nothing had been under way: the one before had let go in
    good order, or a person was waited for."""
    marked = tuple(replace(call, orphan=call.started and call.outcome is None) for call in turn.calls)
    streaming = turn.phase == "streaming"
    waited = bool(asking.open_in(turn)) and not any(call.orphan and not asking.is_waited_for(call) for call in marked)
    tried = not (turn.left or waited)
    tally = replace(turn.tally, recoveries=turn.tally.recoveries + tried)
    return replace(turn, calls=marked, orphan=streaming, tally=tally, left=False)


def _stop(turn: Turn) -> Turn:
    turn = replace(turn, stopping=True)
    if turn.phase in ("streaming", "deciding", "tools", "ending"):
        return turn  # what is under way ends first, and says how; what is over stays as it is
    return replace(turn, phase="ending", giving_up=GiveUp("cancelled", "stopped"))


def _outcome(turn: Turn, policy: Policy) -> Outcome:
    drafts, given_up = turn.own_drafts, turn.giving_up
    if given_up is None and not turn.held and not turn.unfinished_drafts:
        return Outcome("completed", drafts=drafts)
    given_up = given_up or GiveUp("partial", "a call was cut on its way and never finished")
    return Outcome(given_up.kind, calls.told_at_end(turn, given_up.why, policy), turn.failure, drafts)
