"""Calls that the caller runs. A whole reply is judged first and healed if need be, drafts included; only then
are its calls handed over, each in one piece, and the turn ends. Their results come with the caller's next
request."""

from typing import Literal

import msgspec

from turnbuckle.reply.splice import Spliced
from turnbuckle.turn import drafting, pieces
from turnbuckle.turn.commands import Record
from turnbuckle.turn.facts import CallsHandedOver, DraftClosed, HandedCall, RunEnded
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.vocab.messages import CallPart
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.tooling import FINISH_CALL

PREFIX = "call_"


def is_for_caller(turn: Turn, call: PendingCall, policy: Policy) -> bool:
    """Whether the caller runs this call: one of its own tools, or a draft of such a call that is whole now.
    Nothing is handed over while a reply that was cut is not whole."""
    if drafting.is_waited_for(turn, policy) or pieces.unfit(turn, call, policy) is not None:
        return False
    if not _finishes(call, policy):
        return policy.tool(call.name).client
    if not policy.tool(drafting.tool_of(turn, call)).client:
        return False
    return isinstance(drafting.join(turn, call, policy), Spliced) and not _is_finished_before(
        turn, call, policy
    )


def _is_finished_before(turn: Turn, call: PendingCall, policy: Policy) -> bool:
    """Whether another call of the same reply, before this one, makes the same draft whole for the caller."""
    before = turn.calls[: turn.calls.index(call)]
    name = drafting.draft_named(call)
    return any(
        drafting.draft_named(earlier) == name and is_for_caller(turn, earlier, policy)
        for earlier in before
        if earlier.outcome is None and _finishes(earlier, policy)
    )


def _finishes(call: PendingCall, policy: Policy) -> bool:
    """Whether it is our own `finish_call`; a caller may have brought one."""
    return call.name == FINISH_CALL and not policy.tool(FINISH_CALL).client


def is_all_that_is_left(turn: Turn, policy: Policy) -> bool:
    left = [call for call in turn.calls if call.outcome is None]
    return bool(left) and all(is_for_caller(turn, call, policy) for call in left)


def over(turn: Turn, policy: Policy) -> Record:
    """Hand over what is left, and end."""
    handed: list[HandedCall] = []
    closing: list[DraftClosed] = []
    for place, call in enumerate(pending for pending in turn.calls if pending.outcome is None):
        received = _as_received(turn, call.id)
        name, arguments = call.name, received.arguments or "{}"
        state = received.state.data if received.state is not None else {}
        if _finishes(call, policy):
            joined = drafting.join(turn, call, policy)
            assert isinstance(joined, Spliced)
            name, arguments = drafting.tool_of(turn, call), msgspec.json.encode(joined.arguments).decode()
            state = {}
            closing += drafting.replaced(turn, name, joined.arguments, drafting.draft_named(call))
        else:
            closing += drafting.replaced(turn, name, call.arguments, call.draft or None)
        free = policy.tool(name).free_text
        handed.append(HandedCall(f"{PREFIX}{turn.run}_{place}", name, arguments, call.id, free, state))
    once = {closed.draft: closed for closed in closing}.values()
    drafts = tuple(name for name in turn.own_drafts if name not in {closed.draft for closed in once})
    return Record(
        (
            *once,
            CallsHandedOver(turn.now, tuple(handed)),
            RunEnded(turn.now, Outcome("completed", drafts=drafts)),
        )
    )


def is_owed(turn: Turn, reply: Reply | None, policy: Policy) -> bool:
    """Whether the caller has a call to come that was begun and never got whole. Nothing else that it was
    given makes up for that, and a draft is out of its reach."""
    begun = [turn.drafts[name].tool for name in turn.own_drafts]
    begun += [turn.tally.cut_tool, *(call.name for call in turn.calls if call.outcome is None)]
    announced = False
    if reply is not None:
        begun += [call.name for call in reply.calls]
        announced = reply.finish == "calls" and not reply.calls
    return any(policy.tool(name).client for name in begun) or (
        announced and (policy.others.client or any(facts.client for facts in policy.tools.values()))
    )


def kind_of_end(turn: Turn, policy: Policy) -> Literal["partial", "failed"]:
    """What a turn that cannot go on has come to."""
    return "partial" if turn.has_something and not is_owed(turn, None, policy) else "failed"


def run_of(call_id: str) -> str:
    """The run that handed over a call with this id; empty if it is none of ours."""
    run, mark, place = call_id.removeprefix(PREFIX).rpartition("_")
    return run if call_id.startswith(PREFIX) and mark and place.isdigit() else ""


def _as_received(turn: Turn, call_id: str) -> CallPart:
    """The call exactly as the model wrote it."""
    for message in reversed(turn.messages):
        for part in message.parts:
            if isinstance(part, CallPart) and part.id == call_id:
                return part
    return CallPart(call_id, "", "{}")
