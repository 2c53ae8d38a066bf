"""Conversations with a gap. A mend cuts out what is damaged, and a run may be lost with all that it held.
Others stand on it, and only the lost run itself said what it stood on. A stream takes its place, as when a
run is deleted: the conversation goes on with everything else."""

import logging

from msgspec import DecodeError

from turnbuckle.journal.port import Changes, Damaged, Journal, StreamQuery
from turnbuckle.runtime.conversation import Conversations, Link
from turnbuckle.runtime.deleting import Replacing, replacing
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.held_session import KIND as SESSION_KIND
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import READING, listed
from turnbuckle.session.facts import SessionMade, decode
from turnbuckle.turn.facts import SESSION
from turnbuckle.vocab.ids import RunId, SessionId

log = logging.getLogger("turnbuckle.journal")


async def fill_gaps(journal: Journal, environment: Environment) -> int:
    """Put something in the place of every run that is listed and holds nothing; how many there were. It may
    be done again."""
    conversations = Conversations(journal, READING)
    filled = 0
    for row in await listed(journal, StreamQuery(kind=SESSION_KIND)):
        session = SessionId(row.name)
        try:
            async with replacing(journal, conversations, environment, session) as change:
                filled += await _fill(journal, conversations, change, session)
                if change.appends:
                    await journal.change_all(Changes(appends=tuple(change.appends)))
        except (Damaged, DecodeError) as error:
            log.warning("the conversation of %s cannot be put together again: %s", session, error)
    return filled


async def _fill(journal: Journal, conversations: Conversations, change: Replacing, session: SessionId) -> int:
    """A lost run is taken to have stood on the one before it, which is so unless something was undone or
    begun fresh between."""
    rows = sorted(await listed(journal, StreamQuery(kind=RUN, parent=session)), key=lambda row: row.born)
    names = {row.name for row in rows} | {SESSION, ""}
    before, lost = await _beginning(journal, session), dict[RunId, RunId]()
    for row in rows:
        run = RunId(row.name)
        if not await journal.head(run):
            lost[run] = before
        elif (base := (await conversations.link(run, session)).base) not in names:
            lost[base] = before  # also its row is gone
        before = run
    gaps = [run for run in lost if not await journal.head(run) and not await conversations.is_replaced(run)]
    for run in gaps:
        await change.keep(run, session, Link(session, lost[run], None, ()))
    return len(gaps)


async def _beginning(journal: Journal, session: SessionId) -> RunId:
    first = await journal.read(session, 0, 1)
    made = decode(first[0].data) if first else None
    return SESSION if isinstance(made, SessionMade) and not made.is_empty else RunId("")
