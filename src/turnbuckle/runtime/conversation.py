"""The conversation, which is stored once: each run stores what it adds, and names what it stands on.

Theory of operation. A run's first fact holds what is new with it, and its `base`: the run before it, or
what its session was made with. Its last fact holds what it added. So a conversation is a chain, and its
history is put together from the beginning of the chain to its end. What a run stands on was stored before
it began, and is never changed behind that; so after any crash its history is the same again, message for
message.

Where a link is gone others may still stand on it. A stream of its own, `kept_name`, takes its place in the
same change: of a deleted run it keeps the instructions and what that run stood on; for a fork it keeps all
that it shared with a session that is deleted.

There are two ways to read a conversation. `until` gives all that was said. `sent` gives what a model is
told of it: the same, unless a compaction counts. Then only the chain back to its border is read. A
compaction lies in the run that made it (`turn/compaction.py`), and each run names the one that it stands
on, so it finds the same after a crash.

The histories of the runs that ended last are kept at hand, so the next run of a session costs what is
new.

Whatever a stored fact names as its base, a link is given only to whom it belongs: a run says in its own first
fact which session it is of, and that must be the session that is read. The one way to another session is what
a fork was made with, and only to the same owner. Nothing else in the journal, and no other part of the
program, can lead a conversation into somebody else's.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import Damaged, Reader, StreamQuery
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.idempotency import Turns
from turnbuckle.session.facts import ConversationKept, SessionMade
from turnbuckle.turn.base import NO_BASE, Base, Messages, joined, opening_of
from turnbuckle.turn.budget import characters
from turnbuckle.turn.compact import edited
from turnbuckle.turn.compaction import Compaction, Measure
from turnbuckle.turn.drafting import was_used
from turnbuckle.turn.facts import SESSION, RunEnded, RunStarted, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.ids import LOCAL, RouteName, RunId, SessionId
from turnbuckle.vocab.outcome import Outcome

KIND = "conversation"
"""The kind of the streams that take the place of what is gone."""
MOST_KEPT = 256
MOST_CHARACTERS = 64 << 20

_links: "msgspec.json.Decoder[RunStarted | SessionMade | ConversationKept]" = msgspec.json.Decoder(
    RunStarted | SessionMade | ConversationKept
)


Place = tuple[SessionId, RunId]
"""Where a link stands: a run, and the session that it is read for."""


class Link(Struct, frozen=True):
    """What one stream adds to its conversation, and what it stands on."""

    session: SessionId
    base: RunId
    opening: int | None
    own: Messages
    added: int = 0
    """How many of its own messages it added behind its beginning."""
    compacted: RunId = RunId("")
    compaction: Compaction | None = None
    measure: Measure | None = None
    stream: RunId = RunId("")
    """The run that it is; empty for what took the place of one, unless that run's compaction still counts."""
    drafted: bool = False
    """Whether there was a draft in its conversation, as far as it says so itself."""
    words_only: tuple[tuple[RouteName, str], ...] = ()

    @property
    def told_by(self) -> RunId:
        """The run whose compaction counts at its end."""
        return self.stream if self.compaction is not None else self.compacted

    @property
    def instructions(self) -> Messages:
        """What stays of it for others when it is deleted."""
        if self.base:
            return self.own[: self.opening or 0]
        return opening_of(self.own)


def merged(first: Link, second: Link) -> Link:
    """One link in place of two, of which the second stood on the first."""
    if second.opening is None:
        return replace(first, own=(*first.own, *second.own))
    instead, rest = second.own[: second.opening], second.own[second.opening :]
    before = first.own[len(first.instructions) :]
    return replace(first, own=(*instead, *before, *rest), opening=len(instead) if first.base else None)


class Conversation(Struct, frozen=True):
    """What was said, all of it."""

    messages: Messages = ()
    characters: int = 0
    drafted: bool = False
    """Whether there was a draft in it."""
    compaction: Compaction | None = None
    told_by: RunId = RunId("")
    """The run whose compaction says how it is told."""
    measure: Measure | None = None
    words_only: tuple[tuple[RouteName, str], ...] = ()

    def as_base(self) -> Base:
        """What a run stands on that goes on from it."""
        return Base(self.messages, self.compaction, self.measure, self.words_only)

    def told(self, opening: int | None) -> int:
        """How many characters of it stand before the messages of whoever goes on from it."""
        return self.characters - (0 if opening is None else characters(opening_of(self.messages)))

    def followed_by(self, link: Link) -> "Conversation":
        return Conversation(
            joined(self.messages, link.own, link.opening),
            self.told(link.opening) + characters(link.own),
            self.drafted or link.drafted or was_used(link.own),
            self.compaction,
            self.told_by,
            link.measure if link.told_by == self.told_by else None,
            link.words_only or self.words_only,
        )


NOTHING = Conversation()


class Conversations:
    """The conversations of one journal."""

    def __init__(self, journal: Reader, policy: Policy, histories: HistoryBook | None = None) -> None:
        self.sharing = Turns()
        """Held for a session while something of it is deleted, or another one comes to stand on it."""
        self._journal = journal
        self._policy = policy
        self._histories = histories
        self.forgets: list[Callable[[SessionId], None]] = [] if histories is None else [histories.forget]
        """Told of every session of which something is deleted: whoever keeps something of it lets go."""
        self._deleted: OrderedDict[SessionId, frozenset[RunId]] = OrderedDict()
        self._kept: OrderedDict[tuple[SessionId, RunId, RunId], Conversation] = OrderedDict()
        self._size = 0  # characters of all that are kept
        self._told_by: OrderedDict[tuple[SessionId, RunId], RunId] = OrderedDict()
        self.changes = 0
        """How often something was deleted: what stood on something may stand on something else now."""

    async def until(self, run: RunId, session: SessionId) -> Conversation:
        """All that was said up to the end of a run; `SESSION` is what its session was made with. Raises
        Damaged if a part of it is gone."""
        return await self._read(run, session, RunId(""))

    async def sent(self, run: RunId, session: SessionId, told_by: RunId) -> Conversation:
        """The same as a model is told of it, by the compaction of a run. Where that is gone, all of it is
        told."""
        return await self._read(run, session, told_by)

    async def told_by(self, run: RunId, session: SessionId, undone: frozenset[RunId] = frozenset()) -> RunId:
        """The run whose compaction counts for whoever goes on from this one; empty: none does. Those that
        were undone do not."""
        seen: set[Place] = set()
        while run:
            known = self._told_by.get((session, run))
            if known is not None and known not in undone:
                return known
            link = await self._next(run, session, seen)
            if link.compaction is not None and link.stream not in undone:
                return link.stream
            if link.stream and link.compacted not in undone:
                return link.compacted
            run, session = link.base, link.session
        return RunId("")

    async def _read(self, run: RunId, session: SessionId, told_by: RunId) -> Conversation:
        links: list[tuple[tuple[SessionId, RunId], Link]] = []
        changes, so_far, last, where = self.changes, NOTHING, run, session
        seen: set[Place] = set()
        while run:
            key = (session, run, told_by)
            if (kept := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                so_far = kept
                break
            link = await self._next(run, session, seen)
            if told_by and link.stream == told_by and (behind := await self._behind(link)) is not None:
                so_far = behind
                break
            links.append(((session, run), link))
            run, session = link.base, link.session
        if told_by and not so_far.told_by:
            return await self._read(last, where, RunId(""))
        for _, link in reversed(links):
            so_far = so_far.followed_by(link)
        # What a session was made with has no name of its own: another one may come to be called the same.
        if links and last != SESSION and changes == self.changes:
            self._keep((*links[0][0], told_by), so_far)
        return so_far

    async def _behind(self, link: Link) -> Conversation | None:
        """The conversation behind a run, as its compaction tells it; None if that does not fit any more."""
        compaction = link.compaction
        if compaction is None:
            return None
        first = len(link.own) - link.added
        parts = [link.own[max(first - compaction.back, first) if compaction.back < 0 else first :]]
        if compaction.back > 0:
            parts = [link.own[first:], link.own[len(link.instructions) : first]]
        missing = compaction.back - sum(map(len, parts[1:]))
        if missing > 0:
            async for (_, base), before in self.chain(link.base, link.session):
                if not before.stream and base != SESSION:
                    return None  # a run between was deleted
                parts.append(before.own[len(before.instructions) :])
                missing -= len(parts[-1])
                if missing <= 0:
                    break
        if missing > 0:
            return None
        behind = tuple(message for part in reversed(parts) for message in part)[-missing if missing else 0 :]
        messages = (*compaction.opening, *compaction.note, *edited(behind, compaction))
        drafted = link.drafted or was_used(messages)
        told = (messages, characters(messages), drafted, compaction, link.stream, link.measure)
        return Conversation(*told, link.words_only)

    async def before(self, started: RunStarted) -> Base:
        """What a run stands on."""
        if not started.base:
            return NO_BASE
        conversation = await self.sent(started.base, started.session, started.compacted)
        return conversation.as_base()

    def remember(self, turn: Turn) -> None:
        """A run has ended here: the next one goes on from it."""
        own = turn.messages[turn.began :]
        left = len(turn.messages) - turn.measured
        conversation = Conversation(
            turn.messages,
            turn.given + characters(own),
            turn.drafted or was_used(own),
            turn.compaction,
            turn.told_by,
            None if turn.measure is None else replace(turn.measure, left=left),
            turn.words_only[:-1] if turn.on_trial else turn.words_only,
        )
        self._keep((turn.session, turn.run, turn.told_by), conversation)
        self._told_by[turn.session, turn.run] = turn.told_by
        while len(self._told_by) > MOST_KEPT:
            self._told_by.popitem(last=False)

    def forget(self, session: SessionId) -> None:
        """Something of this session was deleted, or is about to be."""
        self.changes += 1
        for forget in self.forgets:
            forget(session)
        for key in [key for key in self._kept if key[0] == session]:
            self._size -= self._kept.pop(key).characters
        for place in [place for place in self._told_by if place[0] == session]:
            del self._told_by[place]

    def look_again(self, session: SessionId, deleted: frozenset[RunId]) -> None:
        """These runs of a session are deleted, as its journal says: another process may have done that, and
        then nothing that is kept here of the session counts."""
        if self._deleted.pop(session, frozenset()) != deleted:
            self.forget(session)
        if deleted:
            self._deleted[session] = deleted
        while len(self._deleted) > MOST_KEPT:
            self._deleted.popitem(last=False)

    async def link(self, run: RunId, session: SessionId) -> Link:
        """What a run of a session, or whatever took its place, adds. Raises Damaged if there is nothing, or
        if it is not of this session."""
        if run == SESSION:
            link = await self._kept_link(session) or await self._made_link(session)
        else:
            link = await self._run_link(run) or await self._kept_link(run)
        if link is None:
            what = f"the session {session}" if run == SESSION else f"the run {run}"
            raise Damaged(run, None, f"{what} is gone, and a later part of its conversation stands on it")
        if link.session != session and not await self._is_shared_with(run, session):
            raise elsewhere(run, session)
        return link

    async def is_replaced(self, name: str) -> bool:
        """Whether something took the place of a run, or of what a session was made with."""
        return await self._journal.head(kept_name(name)) > 0

    async def lender(self, session: SessionId) -> SessionId:
        """The session that holds what this one was made with: itself, or the one that it was forked from.
        Raises Damaged."""
        link = await self._kept_link(session) or await self._made_link(session)
        if link is None or not link.base:
            return session
        try:
            return (await self.link(link.base, session)).session
        except Damaged:
            if await self._kept_link(session) is None:
                raise
            return session  # what it shared was deleted in this moment, and is its own now

    async def _is_shared_with(self, run: RunId, fork: SessionId) -> bool:
        """Whether a session was made to stand on this run of another one, by the owner of both."""
        link = await self._made_link(fork)
        if link is None or link.base != run:
            return False
        owners = [
            row.user or LOCAL
            for name in (run, fork)
            for row in await self._journal.streams(StreamQuery(name=name), limit=1)
        ]
        return len(owners) == 2 and owners[0] == owners[1]

    async def chain(self, run: RunId, session: SessionId) -> "AsyncIterator[tuple[Place, Link]]":
        """A conversation's links, from its last to its first, each with its place. Raises Damaged."""
        seen: set[Place] = set()
        while run:
            link = await self._next(run, session, seen)
            yield (session, run), link
            run, session = link.base, link.session

    async def _next(self, run: RunId, session: SessionId, seen: "set[Place]") -> Link:
        """The link at a place that was not seen on this way yet. Raises Damaged."""
        if (session, run) in seen:
            raise Damaged(run, None, "its conversation stands on itself")
        seen.add((session, run))
        return await self.link(run, session)

    async def stands_on(self, run: RunId, session: SessionId, gone: RunId) -> bool:
        """Whether a conversation that ends with a run holds another one."""
        async for (_, name), _ in self.chain(run, session):
            if name == gone:
                return True
        return False

    async def _run_link(self, run: RunId) -> Link | None:
        first = await self._journal.read(run, 0, 1)
        if not first:
            return None
        started = _links.decode(first[0].data)
        assert isinstance(started, RunStarted)
        last = await self._journal.read(run, await self._journal.head(run) - 1, 1)
        ended = decode(last[-1].data) if last else None
        over = ended if isinstance(ended, RunEnded) else RunEnded(0.0, Outcome("failed"))
        own = (
            (await fold_run(self._journal, run, self._policy)).messages
            if over.added is None
            else (*started.messages, *over.added)
        )
        return Link(
            started.session,
            started.base,
            started.opening,
            own,
            len(own) - len(started.messages),
            started.compacted,
            over.compaction,
            over.measure,
            run,
            started.drafted or over.drafted,
            over.words_only,
        )

    async def _made_link(self, session: SessionId) -> Link | None:
        first = await self._journal.read(session, 0, 1)
        made_with = _links.decode(first[0].data) if first else None
        return (
            Link(session, made_with.base, made_with.opening, made_with.history)
            if isinstance(made_with, SessionMade)
            else None
        )

    async def _kept_link(self, name: str) -> Link | None:
        link: Link | None = None
        async for items in read_all(self._journal, kept_name(name)):
            for item in items:
                kept = _links.decode(item.data)
                assert isinstance(kept, ConversationKept)
                if link is None:
                    link = Link(
                        kept.session,
                        kept.base,
                        kept.opening,
                        kept.messages,
                        compaction=kept.compaction,
                        stream=kept.compacted,
                    )
                else:
                    link = replace(link, own=(*link.own, *kept.messages))
        return link

    def _keep(self, key: tuple[SessionId, RunId, RunId], conversation: Conversation) -> None:
        self._size += conversation.characters - self._kept.pop(key, NOTHING).characters
        self._kept[key] = conversation
        while len(self._kept) > 2 and (len(self._kept) > MOST_KEPT or self._size > MOST_CHARACTERS):
            (session, _, _), oldest = self._kept.popitem(last=False)
            self._size -= oldest.characters
            known = self._histories is not None and session in self._histories
            if self._histories is not None and known and all(key[0] != session for key in self._kept):
                self._histories.forget(session)


async def fold_run(journal: Reader, run: RunId, policy: Policy, session: SessionId | None = None) -> Turn:
    """Where the stored facts of a run lead. Its messages are those that it added; `Conversations` knows what
    they stand on. Raises Damaged if it is to be a run of a session, and is not."""
    fold = TurnFold(policy)
    async for items in read_all(journal, run):
        for item in items:
            fold.take(decode(item.data))
        if session is not None and fold.turn.session != session:
            raise elsewhere(run, session)
    return fold.turn


def elsewhere(run: RunId, session: SessionId) -> Damaged:
    """A stored fact leads to a run that is not of this session."""
    return Damaged(run, None, f"it is not a run of the session {session}, where it is named")


def kept_name(name: str) -> str:
    """The stream that takes the place of a run, or of what a session was made with."""
    return f"{KIND}:{name}"
