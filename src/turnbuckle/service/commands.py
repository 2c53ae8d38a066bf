"""Commands in a chat: `/stop`, `/new` and the others, wherever a message can be typed.

The answer is a small run of its own, told by the runtime and not by a model, so that every surface shows it
like any other. It is kept under another kind than runs are, and no model is ever told of it.
"""

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import InvalidValue, RuleUnknown, SessionBusy
from turnbuckle.journal.port import StreamQuery
from turnbuckle.runtime.held_session import KIND
from turnbuckle.runtime.room import usual_size
from turnbuckle.runtime.runs import NewRun
from turnbuckle.runtime.session_manager import SessionManager
from turnbuckle.runtime.session_messages import Accepted, IncomingMessage
from turnbuckle.runtime.session_worker import SessionWorker
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.service.catalog import ON_ROUTE, known_route
from turnbuckle.service.owners import public_session
from turnbuckle.service.rules import RuleService
from turnbuckle.service.spending import SpendingService
from turnbuckle.service.tool_list import tools_text
from turnbuckle.session.commands import (
    Command,
    help_text,
    interrupted_text,
    rule_to_remove,
    status_text,
    stopped_text,
    words_behind,
)
from turnbuckle.turn.facts import SESSION
from turnbuckle.turn.policy import for_options
from turnbuckle.turn.window import estimate, told
from turnbuckle.vocab.ids import SessionId

TOLD_WHOLE = "Undone: the model gets the full history again, as far as it fits."
_LISTED = 10


class CommandReply(Struct, frozen=True):
    """What a command gave: words, or a run that answers."""

    text: str = ""
    taken: Accepted | None = None


class SessionContext(Struct, frozen=True):
    """How full the model's window is: `used` tokens of `window`, if that is known. `compacted_by` is the
    run whose compaction counts; `summary` stands for `messages` messages then."""

    used: int = 0
    window: int | None = None
    compacted_by: str = ""
    messages: int = 0
    summary: str = ""


def context_text(use: SessionContext) -> str:
    """The same for a person."""
    lines = [f"The model gets {told(use.used, use.window)}."]
    if use.messages:
        lines += [f"This stands for {use.messages:,} earlier messages, which are all kept:", "", use.summary]
    elif use.compacted_by:
        lines.append("Old results are left out of that; they are all kept.")
    return "\n".join(lines)


class Commands:
    """Carries commands out."""

    def __init__(self, manager: SessionManager, sessions: Sessions, spending: SpendingService) -> None:
        self._manager = manager
        self._sessions = sessions
        self._spending = spending

    async def perform(
        self, command: Command, session: SessionId, new: NewRun, said: IncomingMessage
    ) -> CommandReply:
        match command:
            case "help":
                return CommandReply(help_text())
            case "sessions":
                return CommandReply(await self._listed(new.user))
            case "tools":
                runs = self._sessions.runs
                policy = replace(runs.policy, allowed=await runs.rules.allowed.listed(new.user))
                return CommandReply(tools_text(for_options(policy, new.options)))
            case "rules":
                return CommandReply(await self._rules_text(rule_to_remove(new.words), new.user))
            case "cost":
                return CommandReply(await self._spending.words(session, new.user))
            case _:
                return await self._manager.with_worker(
                    session, new.user, lambda worker: self._in(worker, command, new, said)
                )

    async def _rules_text(self, rule: str, user: str) -> str:
        rules = RuleService(self._sessions.runs.rules.allowed)
        if not rule:
            return await rules.words(user)
        try:
            gone = await rules.remove(rule, user)
        except RuleUnknown as error:
            return f"{error}. /rules lists them."
        return f"Removed: {gone.text}. The next such call is asked about."

    async def _in(
        self, worker: SessionWorker, command: Command, new: NewRun, said: IncomingMessage
    ) -> CommandReply:
        by = worker.user
        match command:
            case "stop":
                stopped = await worker.stop(by)
                return CommandReply(stopped_text(stopped.run, len(stopped.refused)))
            case "interrupt":
                return CommandReply(interrupted_text(await worker.interrupt(by)))
            case "new" | "reset":
                await worker.begin_anew(command, by)
                return CommandReply(
                    "The next message begins a new conversation. What was said before is kept."
                )
            case "undo":
                return await self._undone(worker, said)
            case "compact":
                return await self._compacted(worker, new, said)
            case "undo compaction":
                undone = await worker.undo_compaction(said.run)
                return CommandReply("There is no compaction to undo." if undone is None else TOLD_WHOLE)
            case "context":
                return CommandReply(context_text(await self.context(worker)))
            case "retry":
                return await self._retried(worker, said, words_behind(new.words))
            case _:
                running = worker.running
                if running is not None and running.turn.outcome is not None:
                    running = None  # it has its end, and is only not let go of yet
                since = "" if running is None else _calls(running.turn.tally.asks)
                use = await self.context(worker)
                full = told(use.used, use.window) if use.used else ""
                return CommandReply(
                    status_text(worker.state, running.run if running is not None else "", since, full)
                )

    async def context(self, worker: SessionWorker) -> SessionContext:
        """How full the model's window is for this session, and how its past is told."""
        runs, session = self._sessions.runs, worker.session
        route = runs.policy.routes[0]
        last = worker.state.last_run or (SESSION if worker.state.inherits else None)
        if last is None:
            return SessionContext(window=await runs.windows.of(route))
        by = await worker.told_by()
        conversation = await runs.conversations.sent(last, session, by)
        running = worker.running
        measure = (
            running.turn.measure if running is not None and running.turn.measure else conversation.measure
        )
        if measure is not None:
            used = measure.tokens
        else:  # nobody has counted it yet
            used = estimate(conversation.messages) + usual_size(runs.tools_of(last).specs())
        counted = measure.model if measure is not None else ""
        route = next((one for one in runs.policy.routes if one.model == counted), route)
        compaction = conversation.compaction
        if compaction is None:
            return SessionContext(used, await runs.windows.of(route))
        return SessionContext(used, await runs.windows.of(route), by, compaction.messages, compaction.summary)

    async def _compacted(self, worker: SessionWorker, new: NewRun, said: IncomingMessage) -> CommandReply:
        """A run of its own that does nothing else. It waits for its turn like any message, and is refused
        like one: raises SessionBusy."""
        options = replace(said.options, compact=words_behind(new.words))
        return CommandReply(taken=await worker.say(replace(said, messages=(), options=options)))

    async def _undone(self, worker: SessionWorker, said: IncomingMessage) -> CommandReply:
        try:
            run = await worker.undo(said.run)
        except SessionBusy as busy:
            return CommandReply(f"Not now: {busy}.")
        if run is None:
            return CommandReply("There is nothing to undo.")
        is_compaction = await worker.was_compaction(run)
        return CommandReply(TOLD_WHOLE if is_compaction else "Undone: your last message and its answer.")

    async def _retried(self, worker: SessionWorker, said: IncomingMessage, name: str) -> CommandReply:
        try:
            route = known_route(self._sessions.runs.policy, name.removeprefix(ON_ROUTE)) if name else ""
        except InvalidValue as wrong:
            return CommandReply(f"Not retried: {wrong}.")
        try:
            taken = await worker.retry(said, route)
        except SessionBusy as busy:
            return CommandReply(f"Not now: {busy}.")
        return CommandReply("There is nothing to retry.") if taken is None else CommandReply(taken=taken)

    async def _listed(self, user: str) -> str:
        rows = await self._sessions.journal.streams(StreamQuery(kind=KIND, user=user), limit=_LISTED)
        lines = [f"{public_session(user, row.name)}  {row.title}".rstrip() for row in rows]
        return "\n".join(lines) or "There are no sessions."


def _calls(count: int) -> str:
    return f"{count} model {'call' if count == 1 else 'calls'} so far"
