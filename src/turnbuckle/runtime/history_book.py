"""What was made of the histories of sessions, kept for the next request, so that it costs what is new.

Nothing here is needed: a process that knows nothing makes the same of a history again. So it holds little,
and lets go of what nobody has asked for in a while.
"""

from collections import OrderedDict

from msgspec import Struct

from turnbuckle.reply.repair.growing import NOTHING_SETTLED, ForWhom, Settled
from turnbuckle.runtime.ports import Wall
from turnbuckle.turn.base import Messages
from turnbuckle.turn.window import estimate
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import begins_with

SHORT = 32
"""So few messages are looked at again with each request."""
MOST_MESSAGES = 200_000
"""Of all sessions together. The messages themselves are shared with the conversations at hand."""
IDLE = 600.0
_ROUTES = 3
"""So many ways in which one session's history was made legal are kept."""


class _Kept(Struct):
    settled: OrderedDict[ForWhom, Settled]
    used: float = 0.0
    sized: Messages = ()
    tokens: int = 0

    @property
    def messages(self) -> int:
        return len(self.sized) + sum(len(settled.history) for settled in self.settled.values())


class HistoryBook:
    """What is known of the histories of sessions that were at work lately."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self._kept: OrderedDict[SessionId, _Kept] = OrderedDict()

    def __contains__(self, session: SessionId) -> bool:
        return session in self._kept

    def settled(self, session: SessionId, messages: Messages, whom: ForWhom) -> Settled:
        """How much of a history is known to be settled, by the rules of whoever is to have it."""
        kept = self._kept.get(session)
        known = NOTHING_SETTLED if kept is None else kept.settled.get(whom, NOTHING_SETTLED)
        return known if begins_with(messages, known.history) else NOTHING_SETTLED

    def keep(self, session: SessionId, whom: ForWhom, settled: Settled) -> None:
        """More of it is settled."""
        kept = self._touch(session)
        kept.settled[whom] = settled
        kept.settled.move_to_end(whom)
        while len(kept.settled) > _ROUTES:
            kept.settled.popitem(last=False)
        self._let_go()

    def estimate(self, session: SessionId, messages: Messages) -> int:
        """The tokens of a history, as far as their length tells."""
        kept = self._kept.get(session)
        if kept is None or not begins_with(messages, kept.sized):
            kept = None
        tokens = estimate(messages) if kept is None else kept.tokens + estimate(messages[len(kept.sized) :])
        if len(messages) > SHORT:
            kept = self._touch(session)
            kept.sized, kept.tokens = messages, tokens
            self._let_go()
        return tokens

    def forget(self, session: SessionId) -> None:
        """Something of this session was deleted, or it is not at hand any more."""
        self._kept.pop(session, None)

    def _touch(self, session: SessionId) -> _Kept:
        kept = self._kept.setdefault(session, _Kept(OrderedDict()))
        kept.used = self._wall()
        self._kept.move_to_end(session)
        return kept

    def _let_go(self) -> None:
        """Of the oldest first, but never of the one that is at work."""
        total = sum(kept.messages for kept in self._kept.values())
        while len(self._kept) > 1:
            session, oldest = next(iter(self._kept.items()))
            if total <= MOST_MESSAGES and self._wall() - oldest.used <= IDLE:
                return
            total -= oldest.messages
            del self._kept[session]
