"""The turn: a fact in, a new state and the commands that are due out.

`apply` changes the state and decides nothing that is not already a fact. `pending` looks at a state and says
what is due; it may be asked at any time and as often as one likes, so a process that comes back after a crash
folds the journal and simply asks. What a broken reply means is in `broken_reply` and `recover`, what calls
need in `calls`, what drafts and `finish_call` mean in `drafting`.
"""

from typing import assert_never

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from turnbuckle.reply.draft import grown
from turnbuckle.reply.message import message_of
from turnbuckle.reply.own_ids import with_own_ids
from turnbuckle.turn import approvals as asking
from turnbuckle.turn import (
    broken_reply,
    budget,
    calls,
    client_calls,
    compact,
    compacting,
    drafting,
    ladder,
    progress,
    prompts,
    steering,
    window,
)
from turnbuckle.turn.commands import CallModel, Command, Record
from turnbuckle.turn.compaction import Measure
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    CallsHeld,
    Compacted,
    Decided,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    GiveUp,
    HandedCall,
    ModelAsked,
    Noticed,
    RunClaimed,
    RunEnded,
    RunLeft,
    RunStarted,
    StopAsked,
    Streamed,
    SummaryDropped,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
    Waited,
)
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.route_uses import with_break
from turnbuckle.turn.state import Ask, Tally, Turn, ask_on, streaming
from turnbuckle.turn.structured import ending
from turnbuckle.vocab.events import Cut, Usage
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import Price
from turnbuckle.vocab.prices import with_call as spent_with_call
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import result_part
from turnbuckle.wire.registry import rules_of

_SAID = 300
"""Characters of a provider's refusal that are worth telling."""


class AttemptOver(Struct, frozen=True):
    """A model call had its last word. Made from the `Streamed` facts of the attempt, live and in replay
    alike."""

    at: float
    attempt: int
    reply: Reply
    price: Price | None = None
    worked: float | UnsetType = UNSET
    resting: tuple[RouteName, ...] = ()


Input = Fact | AttemptOver


def apply(turn: Turn, taken: Input, policy: Policy, *, sending: bool = False) -> Turn:
    """The state behind this fact. With `sending`, the history is the one that models are told; else it is
    what was said, also where that was compacted."""
    idle = isinstance(taken, (RunStarted, RunClaimed)) or bool(asking.open_in(turn))
    turn = budget.timed(turn, taken.at, getattr(taken, "worked", UNSET), idle=idle)
    match taken:
        case RunStarted():
            return _started(turn, taken, policy)
        case RunClaimed(kept=kept):
            return _claimed(turn, kept is True)
        case ModelAsked(folding=folding):
            return _asked(steering.heard(turn), taken) if folding is None else compacting.asked(turn, taken)
        case Compacted():
            return compact.compacted(turn, taken, sending=sending)
        case SummaryDropped():
            return compact.dropped(turn, taken)
        case Streamed() | ToolSaid() | Noticed() | Waited():
            return turn
        case AttemptOver():
            return _over(turn, taken, policy)
        case Decided():
            return broken_reply.decided_on(_broke(turn, taken), taken, policy)
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
            return turn if turn.phase == "ended" else _stop(turn, taken.keeps)
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
            return (broken_reply.judged(turn, policy),)
        case "tools":
            return calls.due(turn, policy)
        case "asking":
            return _due_ask(turn, policy)
        case "compacting":
            return (Record((compact.summarised(turn, policy, bound=compacting.is_bound(turn, policy)),)),)
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
        task=started.messages[max(len(started.messages) - started.fresh, 0) :],
        given=started.told + budget.characters(started.messages),
        drafted=started.drafted or drafting.was_used(started.messages),
        options=started.options,
        told_by=started.compacted,
        started_at=started.at,
        tally=Tally(),
        phase="asking",
        ask=ask_on(policy.routes[0], "first"),
    )


def _due_ask(turn: Turn, policy: Policy) -> tuple[Command, ...]:
    assert turn.ask is not None
    if turn.stopping:
        stopped = replace(turn, giving_up=GiveUp("cancelled", "stopped"))
        return (Record((RunEnded(turn.now, _outcome(stopped, policy)),)),)
    if turn.tally.recoveries > policy.max_recoveries:
        why = f"the run came back {turn.tally.recoveries} times after a crash without any progress"
        return (_end(turn, why, policy),)
    if turn.options.compact is not None and turn.tally.compactions:
        return (Record((RunEnded(turn.now, Outcome("completed")),)),)
    asks_nobody = turn.options.compact is not None and turn.tally.dropped  # what is left needs no model
    if not asks_nobody and (reason := budget.exceeded(turn, policy)):
        return (_end(replace(turn, failure=failure("budget", reason)), reason, policy),)
    if ladder.is_prefilled(turn, policy.route(turn.ask.route).protocol):
        return (CallModel(turn.ask, turn.attempt + 1),)
    return (CallModel(_to_answer(turn, turn.ask), turn.attempt + 1),)


def _to_answer(turn: Turn, ask: Ask) -> Ask:
    """Where the assistant has the last word there is nothing to answer, and providers refuse to go on from
    it. So it is asked to; not if its provider paused it, and wants its own words back."""
    last = turn.messages[-1] if turn.messages else None
    if last is None or last.role != "assistant" or ask.notes or turn.spoken or turn.tally.pauses:
        return ask
    return replace(ask, notes=(prompts.note(prompts.GO_ON),))


def nothing_left_out(turn: Turn, why: str) -> Record:
    """The end of a run that was to make the history smaller, and could not."""
    told = f"there is nothing to make smaller{f': {why}' if why else ''}"
    return Record((RunEnded(turn.now, Outcome("completed", told)),))


def given_up(turn: Turn, choice: GiveUp, policy: Policy) -> Record:
    """The end of a turn whose history does not fit whoever is asked."""
    refusal = turn.refusal
    if refusal is not None:
        choice = replace(choice, why=f"{choice.why}. The provider said: {refusal.message[:_SAID]}")
    turn = replace(turn, giving_up=choice, failure=refusal or failure("context", choice.why))
    return Record((RunEnded(turn.now, _outcome(turn, policy)),))


def _end(turn: Turn, why: str, policy: Policy) -> Record:
    given_up = replace(turn, giving_up=GiveUp(client_calls.kind_of_end(turn, policy), why))
    return Record((RunEnded(turn.now, _outcome(given_up, policy)),))


def _asked(turn: Turn, asked: ModelAsked) -> Turn:
    return replace(
        streaming(turn, asked),
        messages=(*turn.messages, *asked.notes),
        ask=ladder.under_way(turn, asked),
        guessed=asked.guessed,
        asked_for=asked.expected,
    )


# Replies


def _broke(turn: Turn, decided: Decided) -> Turn:
    """With the break in the sums of its route."""
    assert turn.ask is not None
    tally, seconds = turn.tally, decided.at - turn.asked_at
    routes = with_break(tally.routes, turn.ask.route, decided, seconds, tally.call_cost)
    return replace(turn, tally=replace(tally, routes=routes))


def _over(turn: Turn, over: AttemptOver, policy: Policy) -> Turn:
    reply = with_own_ids(over.reply)
    usage = reply.usage
    given, written = budget.tokens_of(reply, turn)
    used = replace(usage or Usage(), input=given, output=written)
    spent = spent_with_call(turn.tally.spent, used, over.price)
    cost = (spent.cost or 0.0) - (turn.tally.spent.cost or 0.0)
    tally = replace(turn.tally, spent=spent, call_cost=cost)
    on_trial = turn.on_trial and not (reply.blocks and broken_reply.is_tried(turn))
    turn = replace(turn, tally=tally, reply=reply, orphan=False, resting=over.resting, on_trial=on_trial)
    verdict = broken_reply.verdict_on(turn)
    if turn.ask is not None and turn.ask.folding is not None:
        return compacting.over(turn, verdict)
    turn = _measured(turn, usage)
    if ladder.drafted(turn) is not None:
        return ladder.over(turn, verdict, policy)
    if verdict.kind != "complete" and not broken_reply.has_no_more(turn, verdict):
        return replace(turn, phase="deciding")
    message = message_of(reply, rules_of(turn.protocol), turn.model)
    messages = turn.messages if message is None else (*turn.messages, message)
    measure, measured = turn.measure, turn.measured
    if measure is not None and usage is not None and usage.input and usage.output:
        measure, measured = replace(measure, tokens=usage.input + usage.output), len(messages)
    tally = progress.settled(tally)
    turn = replace(turn, messages=messages, tally=tally, reply=None, measure=measure, measured=measured)
    if not verdict.calls and turn.spoken and not turn.stopping and turn.ask is not None:
        # The answer is whole, and there is more to answer.
        ask = ask_on(policy.route(turn.ask.route), "steered", cap_field=turn.ask.cap_field)
        return replace(turn, phase="asking", ask=ask, open_text=())
    if not verdict.calls:
        return ending(turn, reply.text)
    pending_calls = calls.pending(verdict.calls, policy)
    turn, pending_calls = drafting.made_whole(turn, pending_calls, policy)
    same = progress.same_calls(turn, pending_calls, policy)
    return replace(turn, phase="tools", calls=pending_calls, same_calls=same, open_text=())


def _measured(turn: Turn, usage: Usage | None) -> Turn:
    """The provider has counted what it was sent. That corrects our own estimate, too."""
    if usage is None or not usage.input or turn.ask is None or turn.ask.way:
        return turn
    ratio = window.corrected(usage.input, turn.guessed) if turn.guessed else compact.ratio_of(turn)
    measure = Measure(usage.input, 0, ratio, turn.model)
    return replace(turn, measure=measure, measured=len(turn.messages))


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
    cap = route.cap if policy.capped else turn.ask.cap  # a caller's limit counts for each reply again
    ask = ask_on(route, "after_tools", cap=cap, cap_field=turn.ask.cap_field)
    return replace(turn, phase="asking", ask=ladder.after_tools(turn, ask))


def _handed_over(turn: Turn, handed: tuple[HandedCall, ...]) -> Turn:
    """The results of our own tools stay behind the reply; those of the caller's come with its next
    request."""
    results = tuple(result_part(call.id, call.outcome) for call in turn.calls if call.outcome is not None)
    messages = (*turn.messages, Message("tool", results)) if results else turn.messages
    return replace(turn, messages=messages, calls=(), handed=handed)


# Ends


def _claimed(turn: Turn, kept: bool) -> Turn:
    """A process came back to it. That counts as a try unless nothing had been under way: the one before had
    let go in good order, or a person was waited for. Nor does it count if the store had failed."""
    marked = tuple(replace(call, orphan=call.started and call.outcome is None) for call in turn.calls)
    streaming = turn.phase == "streaming"
    waited = bool(asking.open_in(turn)) and not any(
        call.orphan and not asking.is_waited_for(call) for call in marked
    )
    tried = not (turn.left or waited or kept)
    tally = replace(turn.tally, recoveries=turn.tally.recoveries + tried)
    return replace(turn, calls=marked, orphan=streaming, tally=tally, left=False)


def _stop(turn: Turn, keeps: bool) -> Turn:
    turn = replace(turn, stopping=True, interrupted=keeps)
    if turn.phase in ("streaming", "deciding", "compacting", "tools", "ending"):
        return turn  # what is under way ends first, and says how; what is over stays as it is
    return replace(turn, phase="ending", giving_up=GiveUp("cancelled", "stopped"))


def _outcome(turn: Turn, policy: Policy) -> Outcome:
    drafts, given_up = turn.own_drafts, turn.giving_up
    if given_up is None and not turn.held and not turn.unfinished_drafts:
        if not turn.unasked:
            return Outcome("completed", drafts=drafts)
        why = f"{', '.join(turn.unasked)} needed approval, and nobody could be asked"
        return Outcome("partial", why, failure("consent", why), drafts)
    given_up = given_up or GiveUp("partial", "a call was cut on its way and never finished")
    why = "interrupted" if turn.interrupted and given_up.kind == "cancelled" else given_up.why
    return Outcome(given_up.kind, calls.told_at_end(turn, why, policy), turn.failure, drafts)
