"""The calls of a complete reply: which may start now, what becomes of them, and when no more may start.

A call that needs a person's consent waits for it as a stored thing (`approvals`). Calls of tools that the
caller brought are not ours to run: when all others have their results, they are handed over whole
(`client_calls`) and the turn ends."""

from collections.abc import Sequence

from msgspec.structs import replace

from turnbuckle.reply.verdict import SoundCall
from turnbuckle.turn import approvals as asking
from turnbuckle.turn import budget, client_calls, drafting, held, pieces, prompts
from turnbuckle.turn import crash_suspects as doubt
from turnbuckle.turn.commands import Command, Record, RunTool, SettleTool
from turnbuckle.turn.facts import Fact, RunEnded, ToolFinished, ToolStarted
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.failure import failure
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome

MOST_CALLS = 128
"""Calls of one reply that are run. Nobody needs more, and each costs a process, a connection or a file."""
SIDE_BY_SIDE = 8
_TOO_MANY = (
    f"Not started: this reply has more than {MOST_CALLS} calls, and only the first {MOST_CALLS} count. "
    "Make the others again in your next replies, a few at a time."
)


def pending(sound: Sequence[SoundCall], policy: Policy) -> tuple[PendingCall, ...]:
    """The calls of a whole reply. Those that are too many have their answer already; the caller's own are
    not ours to count."""
    own, calls = 0, []
    for call in sound:
        own += not policy.tool(call.name).client
        is_refused = own > MOST_CALLS and not policy.tool(call.name).client
        outcome = ToolOutcome("not_started", _TOO_MANY) if is_refused else None
        calls.append(PendingCall(call.id, call.name, call.arguments, outcome=outcome))
    return tuple(calls)


def due(turn: Turn, policy: Policy) -> tuple[Command, ...]:
    """The calls that may start now. Reads in a row run together, a few at a time; anything else runs alone
    and in its turn.

    What a process that is gone had started is settled first; about what may have ended it a person is asked.
    After a wish to stop nothing new starts."""
    orphans = [call for call in turn.calls if call.orphan]
    if turn.stopping:
        left = [call for call in turn.calls if call.outcome is None and not call.started]
        withdrawn = asking.withdrawn(turn, [*left, *orphans])
        if left or withdrawn:
            outcome = ToolOutcome("not_started", "the turn was stopped before this call")
            return (Record((*withdrawn, *_all_finished(turn, left, outcome))),)
        return tuple(_settle(turn, call) for call in orphans[:1])
    if turn.tally.recoveries > policy.max_recoveries:
        return (_abandon(turn, policy),)
    if client_calls.is_all_that_is_left(turn, policy):
        return (client_calls.over(turn, policy),)
    if reason := "" if orphans else budget.no_more_tools(turn, policy):
        return (_end(turn, reason, policy),)
    return _startable(turn, policy)


def _startable(turn: Turn, policy: Policy) -> tuple[Command, ...]:
    commands: list[Command] = []
    room = max(policy.limits.tool_calls - turn.tally.tool_runs, 1)
    busy = any(call.started and not call.orphan and call.outcome is None for call in turn.calls)
    for call in turn.calls:
        if call.outcome is not None or client_calls.is_for_caller(turn, call, policy):
            continue
        alone = policy.tool(call.name).effect != "read"
        running = sum(isinstance(command, (RunTool, SettleTool)) for command in commands)
        if (alone and (commands or busy)) or len(commands) == room or running == SIDE_BY_SIDE:
            break
        if call.orphan:
            commands.append(doubt.gate(turn, call, _settle(turn, call), policy))
        elif not call.started:
            commands.append(_start(turn, call, policy))
        if alone:
            break
    return tuple(commands)


def key_of(turn: Turn, call: PendingCall) -> str:
    """The same when the same call of the same reply is run again."""
    return f"{turn.run}:{turn.attempt}:{call.id}"


def _settle(turn: Turn, call: PendingCall) -> SettleTool:
    seen = asking.seen_files(turn, call.consent)
    return SettleTool(call.id, call.name, call.arguments, key_of(turn, call), seen=seen)


def _start(turn: Turn, call: PendingCall, policy: Policy) -> Command:
    key = key_of(turn, call)
    if call.name == FINISH_CALL:
        wanted = drafting.finish(turn, call, key, policy)
        if isinstance(wanted, RunTool) and policy.tool(wanted.name).client:
            outcome = ToolOutcome("not_started", "Another call of this reply has finished the draft.")
            return Record(_all_finished(turn, [call], outcome))
    elif not policy.offers(call.name):
        known = ", ".join(policy.tools) or "none"
        outcome = ToolOutcome(
            "not_started", f"There is no tool with the name {call.name[:100]!r}. The tools are: {known}."
        )
        return Record(_all_finished(turn, [call], outcome))
    elif call.draft:
        closing = drafting.replaced(turn, call.name, call.arguments, call.draft)
        wanted = RunTool(call.id, call.name, call.arguments, key, tuple(closing))
    elif (part := drafting.refuse_part(turn, call, policy)) is not None:
        return part
    elif (waits := drafting.hold_back(turn, call, policy)) is not None:
        return waits
    else:
        closing = drafting.replaced(turn, call.name, call.arguments)
        wanted = RunTool(call.id, call.name, call.arguments, key, tuple(closing))
    # What a draft became needs the same consent as a call that came in one piece.
    return asking.gate(turn, call, wanted, policy) if isinstance(wanted, RunTool) else wanted


def told_at_end(turn: Turn, why: str, policy: Policy) -> str:
    """Why a turn ends, with the calls that it leaves behind."""
    return "; ".join(filter(None, (why, prompts.never_started(held.names(turn, policy)))))


def _end(turn: Turn, why: str, policy: Policy) -> Record:
    """Nothing more starts, each call that is left gets its answer, and the run ends: one write."""
    left = [call for call in turn.calls if call.outcome is None]
    kind = client_calls.kind_of_end(turn, policy)
    outcome = Outcome(kind, told_at_end(turn, why, policy), failure("budget", why), turn.own_drafts)
    answers: list[Fact] = [*asking.withdrawn(turn, left)]
    answers += _all_finished(turn, left, ToolOutcome("not_started", why))
    return Record((*answers, RunEnded(turn.now, outcome)))


def _abandon(turn: Turn, policy: Policy) -> Record:
    """The process died again and again while these calls ran. What was started stays unknown."""
    why = f"the run came back {turn.tally.recoveries} times after a crash without any progress"
    started = [call for call in turn.calls if call.outcome is None and call.started]
    others = [call for call in turn.calls if call.outcome is None and not call.started]
    told = told_at_end(turn, why, policy)
    outcome = Outcome(client_calls.kind_of_end(turn, policy), told, drafts=turn.own_drafts)
    return Record(
        (
            *asking.withdrawn(turn, [*started, *others]),
            *_all_finished(turn, started, ToolOutcome("unknown", why)),
            *_all_finished(turn, others, ToolOutcome("not_started", why)),
            RunEnded(turn.now, outcome),
        )
    )


def _all_finished(turn: Turn, calls: list[PendingCall], told: ToolOutcome) -> tuple[ToolFinished, ...]:
    return tuple(ToolFinished(turn.now, call.id, call.name, told) for call in calls)


def start(turn: Turn, started: ToolStarted) -> Turn:
    """The intent of a call is stored. A call that is run again after a crash counts once."""

    def mark(call: PendingCall) -> PendingCall:
        if call.id != started.call_id:
            return call
        # finish_call becomes the call that it finishes.
        return replace(call, name=started.name, arguments=started.arguments, started=True, orphan=False)

    again = any(call.started for call in turn.calls if call.id == started.call_id)
    tally = turn.tally if again else replace(turn.tally, tool_runs=turn.tally.tool_runs + 1)
    written = turn.pieces if again else pieces.noted(turn, started.name, started.arguments)
    return replace(turn, calls=tuple(map(mark, turn.calls)), tally=tally, pieces=written)


def finish(turn: Turn, finished: ToolFinished) -> Turn:
    """A call has its outcome."""
    calls = tuple(
        replace(call, outcome=finished.outcome, orphan=False) if call.id == finished.call_id else call
        for call in turn.calls
    )
    asked = next((call for call in turn.calls if call.id == finished.call_id), None)
    if finished.outcome.status == "denied" and asked is not None and asked.name == FINISH_CALL:
        turn = replace(turn, declined=(*turn.declined, drafting.draft_named(asked)))
    if finished.outcome.status == "denied" and finished.outcome.text == asking.NOBODY_CONSENTS:
        turn = replace(turn, unasked=tuple(dict.fromkeys((*turn.unasked, finished.name))))
    waiting = bool(turn.held or turn.drafts) and finished.outcome.status == "not_started"
    missed = waiting or (finished.name == FINISH_CALL and not finished.outcome.ok)
    splice_failures = (
        turn.tally.splice_failures + 1 if missed else 0 if finished.outcome.ok else turn.tally.splice_failures
    )
    refused = turn.tally.refused
    if all(call.outcome is not None for call in calls):
        refused = 0 if any(map(_counts_as_done, calls)) else refused + 1
    return replace(
        turn,
        calls=calls,
        tally=replace(turn.tally, recoveries=0, splice_failures=splice_failures, refused=refused),
    )


def _counts_as_done(call: PendingCall) -> bool:
    """It ran, or has an answer that is worth one more model call: a person's no is such an answer."""
    return call.started or (call.outcome is not None and (call.outcome.ok or call.outcome.status == "denied"))
