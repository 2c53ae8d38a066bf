"""What the next run of a session is told before its task."""

from msgspec.structs import replace

from turnbuckle.journal.port import Reader, StreamQuery
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import NewRun, Runs
from turnbuckle.runtime.session_messages import SessionRules
from turnbuckle.runtime.undo import undone_since
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.session.reset import is_told, note_for, notice_for
from turnbuckle.session.state import KEPT, SessionState
from turnbuckle.turn import prompts
from turnbuckle.turn.facts import SESSION, DraftKept
from turnbuckle.turn.policy import Policy, for_options
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import DraftId, RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.request import RunOptions


async def new_run(
    journal: Reader,
    runs: Runs,
    rules: SessionRules,
    session: SessionId,
    state: SessionState,
    message: MessageAccepted,
    user: str,
) -> NewRun:
    """The run that a message begins. If the conversation starts over, model and user are told so by it.
    Raises BudgetSpent if its owner may not begin any."""
    if rules.may_begin is not None:
        await rules.may_begin(user, message.run)
    last = await last_run(journal, session, state)
    base = last or (SESSION if state.inherits else RunId(""))
    before = None if last is None else await fold_run(journal, last, runs.policy, session)
    left = () if before is None else left_drafts(before, runs.policy, message)
    history = message.first or rules.opening if not base else message.first if message.anew else ()
    opening = len(message.first) if base and message.anew else None
    anew = state.anew
    origin = replace(message.origin, created=message.at, message=message.id)
    if before is None and base == SESSION:
        before = await forked_run(journal, runs, session)
    options = on_same_route(message.options, before, runs.policy)
    if (switched := switch_of(options, before, runs.policy)) is not None:
        origin = replace(origin, notice=switched, notice_why="route")
    if anew is not None:
        note = Message("user", (TextPart(note_for(anew.why, anew.detail)),), note=True)
        history = (*history, note)
        if is_told(anew.why, origin.surface, rules.quiet):
            origin = replace(origin, notice=notice_for(anew.why, anew.detail), notice_why=anew.why)
    if before is not None and before.outcome is not None and before.outcome.kind == "cancelled":
        history = (*history, prompts.interrupted(before.messages))
    if before is not None:
        undone = await undone_since(journal, session, before.started_at)
        history = (*history, *((prompts.undone(tuple(one.path for one in undone)),) if undone else ()))
    history = (
        *history,
        *(prompts.left_draft(kept.draft, runs.policy.tool(kept.draft.tool).guarded) for kept in left),
    )
    return NewRun(
        message.messages,
        session,
        history,
        user,
        options,
        origin,
        message.run,
        left,
        base,
        opening,
        state.untold,
    )


async def forked_run(journal: Reader, runs: Runs, session: SessionId) -> Turn | None:
    """The run behind which a session was forked, if it shares all of that and it is still there."""
    made = await runs.conversations.link(SESSION, session)
    if not made.base or made.base == SESSION or made.own or not await journal.head(made.base):
        return None
    shared = await runs.conversations.link(made.base, made.session)  # it is not somebody else's
    return await fold_run(journal, made.base, runs.policy, shared.session)


def on_same_route(options: RunOptions, before: Turn | None, policy: Policy) -> RunOptions:
    """A session remembers its route, as long as there is one of this name: a run that names none begins with
    that of the last one. A relay is another matter: whoever asks for one names its route each time."""
    if before is None or options.route or not (options.own_tools and before.options.own_tools):
        return options
    route = before.options.route
    return replace(options, route=route) if any(one.name == route for one in policy.routes) else options


def switch_of(options: RunOptions, before: Turn | None, policy: Policy) -> str | None:
    """What the user is told if another route answers than before; None if it is the same."""
    if before is None or not (options.own_tools and before.options.own_tools):
        return None
    first, now = (for_options(policy, one).routes[0].name for one in (before.options, options))
    was = before.options.route or first  # also one that is not in the settings any more
    return None if was == now else f"From here on the route {now} answers; before, it was {was}."


def left_drafts(before: Turn, policy: Policy, message: MessageAccepted) -> tuple[DraftKept, ...]:
    """The drafts that the last run left open, under ids of their own, if this run can finish them at all: it
    has the tool, and the tool was not one of another client."""
    usable = for_options(policy, message.options).tools
    drafts = [before.drafts[name] for name in before.own_drafts if before.drafts[name].tool in usable]
    return tuple(
        DraftKept(message.at, replace(draft, id=DraftId(f"d0{number}")), before.run)
        for number, draft in enumerate(drafts, 1)
    )


async def history_of(
    journal: Reader, session: SessionId, state: SessionState, runs: Runs
) -> tuple[Message, ...] | None:
    """All that counts of the conversation; None where it begins."""
    base = await last_run(journal, session, state) or (SESSION if state.inherits else None)
    return None if base is None else (await runs.conversations.until(base, session)).messages


async def last_run(journal: Reader, session: SessionId, state: SessionState) -> RunId | None:
    """The run with which the conversation goes on: the last one that is still there."""
    if state.runs or state.anew is not None or state.undone or state.deleted:
        for run in reversed(state.runs):
            if await journal.head(run):
                return run
        return None
    # Runs that were begun without a worker, as a command does that has the journal to itself.
    refused = {status.own for status in state.statuses.values() if status.state == "refused"}
    rows = await journal.streams(StreamQuery(kind=RUN, parent=session), limit=KEPT + 1)
    return next((RunId(row.name) for row in rows if row.name not in refused), None)
