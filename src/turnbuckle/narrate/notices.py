"""The quiet lines of a run: which facts are told to the user in one, and in which words."""

from turnbuckle.narrate.closing import compacted_line
from turnbuckle.narrate.told import Notice
from turnbuckle.turn.facts import (
    Compacted,
    Decided,
    Fact,
    GiveUp,
    Noticed,
    RunClaimed,
    RunLeft,
    RunStarted,
    StopAsked,
    SummaryDropped,
)

STOPPING = "stopping"
INTERRUPTING = "interrupted; the conversation is kept"
RESTARTED = "resumed after a restart"
CRASHED = "resumed after its process died"
DROPPED = "a summary was too long to make the conversation smaller, and is not used"


class Notices:
    """`compacts`: somebody asked for a smaller history, so that this is the answer and no notice."""

    def __init__(self) -> None:
        self.compacts = False
        self._left = False

    def take(self, fact: Fact) -> Notice | None:
        match fact:
            case RunStarted(notice=text) if text:
                return Notice(text, "conversation")
            case Noticed(notice=text) if text:
                return Notice(text, "seam")
            case Decided(decision=decision, notice=text) if text:
                return Notice(text, "given_up" if isinstance(decision, GiveUp) else "break")
            case Compacted() if not self.compacts:
                return Notice(compacted_line(fact), "compaction", fact.compaction.summary)
            case SummaryDropped() if not self.compacts:
                return Notice(DROPPED, "compaction")
            case RunLeft(_, why):
                self._left = True
                return Notice(f"Suspended: {why}. It can be resumed.", "left", why)
            case RunClaimed():
                left, self._left = self._left, False
                return Notice(RESTARTED, "restarted") if left else Notice(CRASHED, "crashed")
            case StopAsked(by=by, keeps=keeps):
                return Notice(INTERRUPTING if keeps else STOPPING, "stop", by)
            case _:
                return None
