"""What the next run of a session is told before its task."""

from turnbuckle.journal.port import Reader, Wanted
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import NewRun, Runs, fold_run
from turnbuckle.runtime.saying import LaneRules
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.session.reset import is_told, note_for, notice_for
from turnbuckle.session.state import KEPT, SessionState
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart


async def new_run(
    journal: Reader,
    runs: Runs,
    rules: LaneRules,
    session: SessionId,
    state: SessionState,
    message: MessageAccepted,
    user: str,
) -> NewRun:
    """The run that a message begins. Where the conversation begins anew, model and user are told so by it."""
    history = await history_of(journal, session, state, runs)
    anew = state.anew
    if history is None:
        history = message.first or rules.opening
    elif message.anew:
        history = (*message.first, *without_opening(history))
    asked = message.asked
    if anew is not None:
        note = Message("user", (TextPart(note_for(anew.why, anew.detail)),), note=True)
        history = (*history, note)
        if is_told(anew.why, str(asked.get("surface", "runs")), rules.quiet):
            asked = {**asked, "notice": notice_for(anew.why, anew.detail), "notice_why": anew.why}
    asked = {**asked, "created": message.at, "message": message.id}
    return NewRun(message.messages, session, history, user, message.wishes, asked, message.run)


async def history_of(
    journal: Reader, session: SessionId, state: SessionState, runs: Runs
) -> tuple[Message, ...] | None:
    """All that counts of the conversation; None where it begins."""
    last = await last_run(journal, session, state)
    if last is not None and await journal.head(last):
        return (await fold_run(journal, last, runs.policy)).messages
    return state.history or None


async def last_run(journal: Reader, session: SessionId, state: SessionState) -> RunId | None:
    """The run with which the conversation goes on."""
    if state.last_run is not None or state.anew is not None or state.undone:
        return state.last_run
    # Runs that were begun without a lane, as a command does that has the journal to itself.
    refused = {fate.own for fate in state.fates.values() if fate.state == "refused"}
    found = await journal.streams(Wanted(kind=RUN, parent=session), limit=KEPT + 1)
    return next((RunId(row.name) for row in found if row.name not in refused), None)


def opening_of(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The instructions in front of a history."""
    return messages[: len(messages) - len(without_opening(messages))]


def without_opening(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """A history without the instructions in front of it."""
    begins = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    return messages[begins:]
