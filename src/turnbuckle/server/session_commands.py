"""Commands in a chat: `/stop`, `/new` and the others, wherever a message can be typed.

The answer is a small run of its own, told by the runtime and not by a model, so that every surface shows it like any
other. It is kept under another kind than runs are, and no model is ever told of it.
"""

from msgspec import Struct

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import Wanted
from turnbuckle.runtime.lane import KIND, Lane
from turnbuckle.runtime.lanes import Lanes
from turnbuckle.runtime.runs import NewRun
from turnbuckle.runtime.saying import Said, Taken
from turnbuckle.runtime.sessions import Sessions
from turnbuckle.server.names import public_session
from turnbuckle.session.commands import Command, help_text, status_text, stopped_text
from turnbuckle.vocab.ids import SessionId

_LISTED = 10


class Told(Struct, frozen=True):
    """What a command gave: words, or a run that answers."""

    text: str = ""
    taken: Taken | None = None


class Commands:
    """Carries commands out."""

    def __init__(self, lanes: Lanes, sessions: Sessions) -> None:
        self._lanes = lanes
        self._sessions = sessions

    async def perform(self, command: Command, session: SessionId, new: NewRun, said: Said) -> Told:
        match command:
            case "help":
                return Told(help_text())
            case "sessions":
                return Told(await self._listed(new.user))
            case _:
                return await self._lanes.with_lane(session, new.user, lambda lane: self._in(lane, command, said))

    async def _in(self, lane: Lane, command: Command, said: Said) -> Told:
        by = lane.user
        match command:
            case "stop":
                stopped = await lane.stop(by)
                return Told(stopped_text(stopped.run, len(stopped.refused)))
            case "new" | "reset":
                await lane.begin_anew(command, by)
                return Told("The next message begins a new conversation. What was said before is kept.")
            case "undo":
                return await self._undone(lane, said)
            case "retry":
                return await self._retried(lane, said)
            case _:
                running = lane.running
                if running is not None and running.turn.outcome is not None:
                    running = None  # it has its end, and is only not let go of yet
                since = "" if running is None else _calls(running.turn.tally.asks)
                return Told(status_text(lane.state, running.run if running is not None else "", since))

    async def _undone(self, lane: Lane, said: Said) -> Told:
        try:
            run = await lane.undo(said.run)
        except SessionBusy as busy:
            return Told(f"Not now: {busy}.")
        return Told(
            "There is nothing to take back." if run is None else "Taken back: your last message and its answer."
        )

    async def _retried(self, lane: Lane, said: Said) -> Told:
        try:
            taken = await lane.retry(said)
        except SessionBusy as busy:
            return Told(f"Not now: {busy}.")
        return Told("There is nothing to say again.") if taken is None else Told(taken=taken)

    async def _listed(self, user: str) -> str:
        rows = await self._sessions.journal.streams(Wanted(kind=KIND, user=user), limit=_LISTED)
        lines = [f"{public_session(user, row.name)}  {row.title}".rstrip() for row in rows]
        return "\n".join(lines) or "There are no sessions."


def _calls(count: int) -> str:
    return f"{count} model {'call' if count == 1 else 'calls'} so far"
