"""What the next run of a session is told before its task."""

from msgspec.structs import replace

from turnbuckle.journal.port import Reader, Wanted
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import NewRun, Runs, fold_run
from turnbuckle.runtime.saying import LaneRules
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.session.reset import is_told, note_for, notice_for
from turnbuckle.session.state import KEPT, SessionState
from turnbuckle.turn import prompts
from turnbuckle.turn.facts import DraftKept, RunStarted, decode
from turnbuckle.turn.policy import Policy, for_wishes
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import DraftId, RunId, SessionId
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
    before = await _turn_before(journal, session, state, runs)
    history = await _told_before(journal, state, before, runs.policy)
    left = () if before is None else left_drafts(before, runs.policy, message)
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
    history = (*history, *(prompts.left_draft(kept.draft, runs.policy.tool(kept.draft.tool).guarded) for kept in left))
    return NewRun(message.messages, session, history, user, message.wishes, asked, message.run, left)


def left_drafts(before: Turn, policy: Policy, message: MessageAccepted) -> tuple[DraftKept, ...]:
    """The drafts that the last run left open, under ids of their own, if this run can finish them at all: it has the
    tool, and the tool was not one of another client."""
    usable = for_wishes(policy, message.wishes).tools
    drafts = [before.drafts[name] for name in before.own_drafts if before.drafts[name].tool in usable]
    return tuple(
        DraftKept(message.at, replace(draft, id=DraftId(f"d0{number}")), before.run)
        for number, draft in enumerate(drafts, 1)
    )


async def history_of(
    journal: Reader, session: SessionId, state: SessionState, runs: Runs
) -> tuple[Message, ...] | None:
    """All that counts of the conversation; None where it begins."""
    before = await _turn_before(journal, session, state, runs)
    return await _told_before(journal, state, before, runs.policy)


async def _turn_before(journal: Reader, session: SessionId, state: SessionState, runs: Runs) -> Turn | None:
    """Where the run ended with which the conversation goes on."""
    last = await last_run(journal, session, state)
    return None if last is None else await fold_run(journal, last, runs.policy)


async def _told_before(
    journal: Reader, state: SessionState, before: Turn | None, policy: Policy
) -> tuple[Message, ...] | None:
    """Each run holds the whole conversation as it was then. Where a run that it was told of is gone since, the
    conversation is put together anew from what each of the others added."""
    if before is None:
        return state.history or None
    return before.messages if before.run not in state.stale else await without_deleted(journal, state, before, policy)


async def without_deleted(journal: Reader, state: SessionState, before: Turn, policy: Policy) -> tuple[Message, ...]:
    """The conversation up to a run, as if those that are deleted had never been."""
    runs = [run for run in state.runs[: state.runs.index(before.run) + 1] if await journal.head(run)]
    whole = next((place for place in range(len(runs), 0, -1) if runs[place - 1] not in state.stale), 0)
    history = (await fold_run(journal, runs[whole - 1], policy)).messages if whole else state.history
    for run in runs[whole:]:
        turn = before if run == before.run else await fold_run(journal, run, policy)
        opening, own = await _added(journal, turn)
        history = history or opening
        history = (*history, *own[_common(history, own) :])
    return history


async def _added(journal: Reader, turn: Turn) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The instructions in front of a run, and what it added itself: what was said to it, with the notes before that,
    and all that followed."""
    first = await journal.read(turn.run, 0, 1)
    started = decode(first[0].data) if first else None
    if not isinstance(started, RunStarted):
        return (), ()
    begins = len(started.messages) - started.fresh
    while begins and started.messages[begins - 1].note:
        begins -= 1
    return opening_of(started.messages), turn.messages[begins:]


def _common(history: tuple[Message, ...], own: tuple[Message, ...]) -> int:
    """How many notes at the beginning of what a run added are the last words of the run before it."""
    notes = next((place for place, message in enumerate(own) if not message.note), len(own))
    return next((count for count in range(notes, 0, -1) if history[-count:] == own[:count]), 0)


async def last_run(journal: Reader, session: SessionId, state: SessionState) -> RunId | None:
    """The run with which the conversation goes on: the last one that is still there."""
    if state.runs or state.anew is not None or state.undone or state.deleted:
        for run in reversed(state.runs):
            if await journal.head(run):
                return run
        return None
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
