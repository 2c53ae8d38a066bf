"""A call that may have been the reason why the server stopped.

A command can stop the server that runs it: it kills the process, restarts the service, shuts the machine
down. Whoever comes back finds such a call started and without an outcome. To go on as after any other crash
would let the model do it again, and stop the server again. So a person is asked first whether the run may go
on; the call itself is not run again in any case. The question is stored like any other, and waits over any
number of restarts. No is the end of the run, and so is silence. Where nobody could answer, the call
is settled like any other.

Which command it was is told by its words (`turn/stoppers.py`): a program that ends processes, services,
containers or the machine, and aims at what can be this server. Anything else is settled like any other call.
"""

from msgspec.structs import replace

from turnbuckle.turn.commands import AwaitAnswer, Command, Record, SettleTool
from turnbuckle.turn.facts import ApprovalAnswered, ApprovalAsked, StopAsked
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import PendingCall, Turn
from turnbuckle.turn.stoppers import could_stop

QUESTION = "The server stopped as this ran, maybe because of it. May the run go on?"
NOBODY = "nobody who answered in time"
"""In whose name a run is stopped that nobody allowed to go on."""


def gate(turn: Turn, call: PendingCall, wanted: SettleTool, policy: Policy) -> Command:
    """What stands between an orphan and its settlement."""
    doubt = call.consent if call.consent is not None and call.consent.doubt else None
    if doubt is None:
        return _ask(turn, call, policy) if policy.attended and is_suspect(call, policy) else wanted
    match doubt.verdict:
        case None if not policy.attended:
            return Record((ApprovalAnswered(turn.now, doubt.id, "withdrawn"),))
        case None:
            return AwaitAnswer(doubt.id, doubt.expires)
        case "denied":
            return Record((StopAsked(turn.now),))
        case "expired":
            return Record((StopAsked(turn.now, NOBODY),))
        case "allowed" | "answered" | "withdrawn":
            return replace(wanted, again=False)


def is_suspect(call: PendingCall, policy: Policy) -> bool:
    """Whether this call could have stopped the server."""
    facts = policy.tool(call.name)
    return facts.is_command and could_stop(str(call.arguments.get(facts.subject, "")))


def _ask(turn: Turn, call: PendingCall, policy: Policy) -> Record:
    place = next(index for index, other in enumerate(turn.calls) if other.id == call.id)
    expires = None if policy.answer_seconds is None else turn.now + policy.answer_seconds
    asked = ApprovalAsked(
        turn.now,
        f"s{turn.attempt}-{place}",
        call.id,
        call.name,
        call.arguments,
        question=QUESTION,
        expires=expires,
    )
    return Record((asked,))
