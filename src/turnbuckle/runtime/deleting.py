"""What is deleted, and what others keep of it: both in one change, so that nobody stands on nothing."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
from msgspec.structs import replace

from turnbuckle.errors import SessionBusy
from turnbuckle.journal.port import Append, Claim, Held, IndexUpdate, Journal, StreamQuery
from turnbuckle.runtime.conversation import KIND, Conversations, Link, kept_name
from turnbuckle.runtime.environment import Environment
from turnbuckle.runtime.lease import LEASE
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import listed
from turnbuckle.session.facts import ConversationKept
from turnbuckle.turn.base import Messages
from turnbuckle.turn.facts import SESSION
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message

FORK = "fork"
"""The kind of the rows, without any item, that say which sessions share something with another one."""
_ITEM_BYTES = 1 << 20


def fork_name(session: SessionId) -> str:
    """The stream whose row names the session that this one shares with, as its parent."""
    return f"{FORK}:{session}"


class Replacing:
    """Streams that take the place of others in one change: claimed before it, let go of behind it."""

    def __init__(self, journal: Journal, conversations: Conversations, environment: Environment) -> None:
        self._journal = journal
        self._conversations = conversations
        self._owner = environment.owner
        self._wall = environment.wall
        self._claims: list[Claim] = []
        self.appends: list[Append] = []

    async def run(self, run: RunId, session: SessionId) -> None:
        """Keep what later runs of its conversation need of a run. Raises SessionBusy."""
        others = await self._journal.streams(StreamQuery(kind=RUN, parent=session), limit=2)
        if any(row.name != run for row in others):
            link = await self._conversations.link(run, session)
            await self.keep(run, session, replace(link, own=link.instructions, compaction=None))

    async def forks(self, session: SessionId, run: RunId | None = None) -> None:
        """Keep what forks share with a session; with one run of it, if that is named. Raises SessionBusy."""
        async for fork, base in self._standing_on(session):
            if run is None or await self._conversations.stands_on(base, fork, run):
                await self.keep(fork, fork, await self._shared(fork))

    async def _standing_on(self, session: SessionId) -> AsyncIterator[tuple[SessionId, RunId]]:
        """Every fork of a session, and the run that it begins with. A fork of a fork in which nothing was
        said stands on the same run as that one."""
        parents = [session]
        while parents:
            parent = parents.pop()
            for row in await listed(self._journal, StreamQuery(kind=FORK, parent=parent)):
                fork = SessionId(row.name.removeprefix(fork_name(SessionId(""))))
                if not await self._journal.head(fork):
                    continue  # it was never made
                base = (await self._conversations.link(SESSION, fork)).base
                is_own = base and (await self._conversations.link(base, fork)).session == session
                if base and (is_own or parent == session):
                    yield fork, base
                if is_own:
                    parents.append(fork)

    async def _shared(self, fork: SessionId) -> Link:
        """All that a fork shares, with the compaction by which its model is told of it. The messages behind
        the border of that are now the last ones of the link itself."""
        conversations = self._conversations
        whole = await conversations.until(SESSION, fork)
        by = await conversations.told_by(SESSION, fork)
        told = await conversations.sent(SESSION, fork, by)
        link = Link(fork, RunId(""), None, whole.messages)
        if told.compaction is None:
            return link
        before = len(told.compaction.opening) + len(told.compaction.note)
        compaction = replace(told.compaction, back=len(told.messages) - before)
        return replace(link, compaction=compaction, stream=by)

    async def keep(self, name: str, parent: str, link: Link) -> None:
        """Let this stand in the place of a run, or of what a session was made with. Raises SessionBusy."""
        stream = kept_name(name)
        await self._journal.note(stream, IndexUpdate(kind=KIND, parent=parent))
        claim = await self._journal.claim(stream, self._owner, LEASE)
        if isinstance(claim, Held):
            raise SessionBusy(f"{claim.by} deletes the same at this moment")
        self._claims.append(claim)
        kept = ConversationKept(self._wall(), link.session, (), link.base, link.opening)
        facts = [replace(kept, messages=part) for part in _parts(link.own)]
        if link.compaction is not None:
            facts[0] = replace(facts[0], compaction=link.compaction, compacted=link.stream)
        items = tuple(msgspec.json.encode(fact) for fact in facts)
        self.appends.append(Append(stream, items, claim.head, claim.epoch))

    async def over(self) -> None:
        for claim in self._claims:
            await self._journal.release(claim)


@asynccontextmanager
async def replacing(
    journal: Journal, conversations: Conversations, environment: Environment, session: SessionId
) -> AsyncIterator[Replacing]:
    """Delete something of a session inside of this, together with the `appends` that keep the rest."""
    async with conversations.sharing.of(session):
        change = Replacing(journal, conversations, environment)
        try:
            yield change
        finally:
            conversations.forget(session)
            await change.over()


def _parts(messages: Messages) -> Iterator[Messages]:
    """In pieces that a journal takes; at least one."""
    part: list[Message] = []
    size = 0
    for message in messages:
        size += len(msgspec.json.encode(message))
        if part and size > _ITEM_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(message)
    yield tuple(part)
