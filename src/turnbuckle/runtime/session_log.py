"""The stored facts of a session, and where they lead."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import blake2b

from msgspec import Struct

from turnbuckle.journal.port import Reader
from turnbuckle.journal.tail import read_all
from turnbuckle.session.facts import SessionFact, decode
from turnbuckle.session.state import MessageStatus, SessionState, apply, status_of
from turnbuckle.vocab.ids import RunId, SessionId


async def session_facts(journal: Reader, session: SessionId) -> AsyncIterator[list[SessionFact]]:
    """All facts in order, page by page."""
    async for items in read_all(journal, session):
        yield [decode(item.data) for item in items]


class _Known(Struct, frozen=True):
    """A state, and the last item that led to it."""

    seq: int
    mark: bytes
    state: SessionState


class SessionStates:
    """Where sessions stand. Those that were asked for last are kept at hand, so that a long session is folded
    once in the life of a process, and then only what was added. What is kept is used only if the item that it
    ends with is still there: a session may have been deleted, and another made under its name."""

    def __init__(self, journal: Reader, most: int = 64) -> None:
        self._journal = journal
        self._most = most
        self._known: dict[SessionId, _Known] = {}

    async def of(self, session: SessionId) -> SessionState:
        """Where the stored facts of a session lead."""
        known = self._known.pop(session, None)
        if known is not None and not await self._is_there(session, known):
            known = None
        state, after = (SessionState(), 0) if known is None else (known.state, known.seq)
        async for items in read_all(self._journal, session, after):
            for item in items:
                state = apply(state, decode(item.data))
            known = _Known(items[-1].seq, _mark(items[-1].data), state)
            await asyncio.sleep(0)  # a long session must not hold up those who read live
        if known is not None:
            self._known[session] = known
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return state

    def forget(self, session: SessionId) -> None:
        """Something of this session was deleted."""
        self._known.pop(session, None)

    async def _is_there(self, session: SessionId, known: _Known) -> bool:
        items = await self._journal.read(session, known.seq - 1, 1)
        return bool(items) and (items[0].seq, _mark(items[0].data)) == (known.seq, known.mark)


def _mark(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


async def status_in(journal: Reader, session: SessionId, own: RunId) -> MessageStatus | None:
    """What became of the message that was to begin this run, however many were said since."""
    fate: MessageStatus | None = None
    async for facts in session_facts(journal, session):
        fate = status_of(facts, own, fate)
    return fate
