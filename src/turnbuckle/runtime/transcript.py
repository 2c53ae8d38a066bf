"""What was said in a session as people see it, page by page, from either end.

Theory of operation. A session's messages stand in pieces: what it shares with the session that it was forked
from, link by link, and then its own runs in the order in which they began. A piece is read from its first and
its last item, and the index leads from one to the next, so a page costs what it shows, however long the
conversation is. The place of a message names its piece and its number in it. So it stays good while others
are added, and when the piece is gone it still says where to go on.

What was taken back is left out. Whoever reads a fork from its beginning, or goes on inside of what it shares,
must know the way there, which has as many links as runs are shared; it is remembered.
"""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import InvalidValue
from turnbuckle.journal.port import Reader, StreamQuery, StreamRow
from turnbuckle.runtime.conversation import Conversations, Place, elsewhere, fold_run
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.session.facts import SessionMade
from turnbuckle.session.facts import decode as decode_session
from turnbuckle.turn.facts import SESSION, RunEnded, RunStarted, decode
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome

UNDONE = "undone"
"""The mark of a run that was taken back."""
_SHARED = -1.0
_ROWS = 20
_MOST_WAYS = 64


class MessagePlace(Struct, frozen=True, array_like=True):
    """Where a message stands. `began` is when its run was made, and negative for what a fork shares; `piece`
    is its run, or a link of what is shared."""

    began: float
    piece: str
    number: int

    @property
    def is_shared(self) -> bool:
        return self.began < 0


class SessionMessage(Struct, frozen=True):
    """One message of a session as people see it."""

    run: RunId
    at: float
    message: Message
    place: MessagePlace
    outcome: Outcome | None = None
    """Of the run, on its last message."""


class Transcript:
    """The messages of all sessions of one journal."""

    def __init__(self, journal: Reader, conversations: Conversations, policy: Policy) -> None:
        self._journal = journal
        self._conversations = conversations
        self._policy = policy
        self._ways: dict[SessionId, tuple[int, list[Place]]] = {}

    async def page(
        self, session: SessionId, after: MessagePlace | None, limit: int, *, newest_first: bool
    ) -> list[SessionMessage]:
        """At most `limit` messages behind a place, in the order that is asked for."""
        messages: list[SessionMessage] = []
        async for piece in self._pieces(session, after, newest_first):
            messages += piece
            if len(messages) >= limit:
                break
        return messages[:limit]

    async def every(self, session: SessionId) -> list[SessionMessage]:
        """All that was said, oldest first."""
        return [message async for piece in self._pieces(session, None, False) for message in piece]

    async def _pieces(
        self, session: SessionId, after: MessagePlace | None, newest_first: bool
    ) -> AsyncIterator[list[SessionMessage]]:
        """Piece by piece, each in the order that is asked for."""
        parts = [self._own, self._shared] if newest_first else [self._shared, self._own]
        if after is not None and after.is_shared is newest_first:
            del parts[0]
        for part in parts:
            begins = after if after is not None and after.is_shared is (part == self._shared) else None
            async for piece in part(session, begins, newest_first):
                yield _behind(piece, begins, newest_first)

    async def _own(
        self, session: SessionId, after: MessagePlace | None, newest_first: bool
    ) -> AsyncIterator[list[SessionMessage]]:
        """The runs of the session itself."""
        wanted = StreamQuery(kind=RUN, parent=session, order="newest" if newest_first else "oldest")
        place = None
        if after is not None:
            place = (after.began, after.piece)
            for row in await self._journal.streams(replace(wanted, name=after.piece), limit=1):
                yield await self._of_run(row)
        while rows := await self._journal.streams(wanted, place, _ROWS):
            for row in rows:
                yield await self._of_run(row)
            place = rows[-1].born

    async def _of_run(self, row: StreamRow) -> list[SessionMessage]:
        run = RunId(row.name)
        read = None if row.mark == UNDONE else await self._read(run)
        if read is None:
            return []
        started, messages, outcome = read
        if started.session != row.parent:
            raise elsewhere(run, SessionId(row.parent))
        shown = _shown(messages)
        last = len(shown) - 1
        return [
            SessionMessage(
                run,
                started.at,
                message,
                MessagePlace(row.created, run, number),
                outcome if number == last else None,
            )
            for number, message in enumerate(shown)
        ]

    async def _read(self, run: RunId) -> tuple[RunStarted, Sequence[Message], Outcome | None] | None:
        """How it began, what was said with it and in it, and its end if it has one."""
        first = await self._journal.read(run, 0, 1)
        started = decode(first[0].data) if first else None
        if not isinstance(started, RunStarted):
            return None
        messages = started.messages[len(started.messages) - started.fresh :]
        last = await self._journal.read(run, await self._journal.head(run) - 1, 1)
        ended = decode(last[-1].data) if last else None
        if isinstance(ended, RunEnded) and ended.added is not None:
            return started, (*messages, *ended.added), ended.outcome
        turn = await fold_run(self._journal, run, self._policy)
        return started, turn.messages[len(started.messages) - started.fresh :], turn.outcome

    async def _shared(
        self, session: SessionId, after: MessagePlace | None, newest_first: bool
    ) -> AsyncIterator[list[SessionMessage]]:
        """What a fork shares, and what a session was made with."""
        first = await self._journal.read(session, 0, 1)
        fact = decode_session(first[0].data) if first else None
        if not isinstance(fact, SessionMade) or fact.is_empty:
            return
        origin = RunId(fact.forked_from.get("run") or "")
        links = self._back(session, after) if newest_first else self._forth(session, after)
        async for name, messages in links:
            yield [
                SessionMessage(origin, fact.at, message, MessagePlace(_SHARED, name, number))
                for number, message in enumerate(_shown(messages))
            ]

    async def _back(
        self, session: SessionId, after: MessagePlace | None
    ) -> AsyncIterator[tuple[str, Sequence[Message]]]:
        place = (session, SESSION)
        if after is not None:  # whoever hands it in may have made it up
            way = await self._way(session)
            place = way[_place_in(way, after)]
        async for key, link in self._conversations.chain(place[1], place[0]):
            yield _name_of(key), link.own

    async def _forth(
        self, session: SessionId, after: MessagePlace | None
    ) -> AsyncIterator[tuple[str, Sequence[Message]]]:
        way = await self._way(session)
        for place in way[0 if after is None else _place_in(way, after) :]:
            yield _name_of(place), (await self._conversations.link(place[1], place[0])).own

    async def _way(self, session: SessionId) -> list[Place]:
        """The links of what a session shares, from the first on."""
        changes = self._conversations.changes
        known = self._ways.get(session)
        if known is not None and known[0] == changes:
            return known[1]
        way = [place async for place, _ in self._conversations.chain(SESSION, session)]
        way.reverse()
        while len(self._ways) >= _MOST_WAYS:
            del self._ways[next(iter(self._ways))]
        self._ways[session] = (changes, way)
        return way


def _behind(
    piece: list[SessionMessage], after: MessagePlace | None, newest_first: bool
) -> list[SessionMessage]:
    """In the order that is asked for, and of the piece with the place only what is behind it."""
    if after is not None and piece and piece[0].place.piece == after.piece:
        piece = piece[: after.number] if newest_first else piece[after.number + 1 :]
    return piece[::-1] if newest_first else piece


def _shown(messages: Sequence[Message]) -> list[Message]:
    return [message for message in messages if not message.note and message.role != "system"]


def _name_of(place: Place) -> str:
    session, run = place
    return f"{SESSION}:{session}" if run == SESSION else run


def _place_in(way: list[Place], after: MessagePlace) -> int:
    """Raises InvalidValue if there is no such link, or not any more."""
    for place, link in enumerate(way):
        if _name_of(link) == after.piece:
            return place
    raise InvalidValue("there is no such message any more in what this session shares", "after")
