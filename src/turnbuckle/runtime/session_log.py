"""The stored facts of a session, and where they lead."""

from collections.abc import AsyncIterator

from turnbuckle.journal.port import Reader
from turnbuckle.session.facts import SessionFact, decode
from turnbuckle.session.state import MessageStatus, SessionState, apply, status_of
from turnbuckle.vocab.ids import RunId, SessionId


async def session_facts(journal: Reader, session: SessionId) -> AsyncIterator[list[SessionFact]]:
    """All facts in order, page by page."""
    after = 0
    while items := await journal.read(session, after):
        yield [decode(item.data) for item in items]
        after = items[-1].seq


async def fold_session(journal: Reader, session: SessionId) -> SessionState:
    """Where the stored facts of a session lead."""
    state = SessionState()
    async for facts in session_facts(journal, session):
        for fact in facts:
            state = apply(state, fact)
    return state


async def status_in(journal: Reader, session: SessionId, own: RunId) -> MessageStatus | None:
    """What became of the message that was to begin this run, however many were said since."""
    fate: MessageStatus | None = None
    async for facts in session_facts(journal, session):
        fate = status_of(facts, own, fate)
    return fate
