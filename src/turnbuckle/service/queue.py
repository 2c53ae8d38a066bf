"""What waits for its turn: messages behind the run that is under way in their session."""

from collections.abc import Sequence

from msgspec import Struct

from turnbuckle.journal.port import StreamQuery, StreamRow
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING
from turnbuckle.service.owners import Owner, of, public_session
from turnbuckle.service.stores import Stores
from turnbuckle.session.facts import MessageAccepted
from turnbuckle.vocab.ids import SessionId
from turnbuckle.vocab.messages import title_words

MOST_SESSIONS = 2_000
"""Sessions with something under way that one look goes through, those that were touched last."""
MOST_SHOWN = 50
_PAGE = 200
_TITLE = 120


class QueuedMessage(Struct, frozen=True):
    """One message that waits, and the run that it will begin. `behind` is the run in front of it; empty: it
    is about to begin. `ahead` is how many messages wait in front of it."""

    run: str
    session: str
    title: str
    since: float
    behind: str = ""
    ahead: int = 0


class Queue(Struct, frozen=True):
    """The messages that have waited longest, and how many wait. `complete` is false if there were sessions
    that nobody looked into: then there may be more."""

    first: list[QueuedMessage]
    total: int
    complete: bool


async def queue_of(stores: Stores, owner: Owner) -> Queue:
    """What waits in this owner's sessions, on any node; who has waited longest comes first."""
    wanted = StreamQuery(kind=SESSION, status=ACTIVE, user=of(owner))
    shown: list[QueuedMessage] = []
    total = looked = 0
    page = await stores.journal.streams(wanted, limit=_PAGE)
    while page and looked < MOST_SESSIONS:
        for row in page:
            waiting = await _waiting_in(stores, SessionId(row.name))
            total += len(waiting)
            if waiting and _may_be_shown(shown, waiting[0].at):
                shown += await _of_session(stores, row, owner, waiting)
                shown = sorted(shown, key=lambda one: one.since)[:MOST_SHOWN]
        looked += len(page)
        page = await stores.journal.streams(wanted, page[-1].place, _PAGE)
    return Queue(shown, total, not page)


def _may_be_shown(shown: Sequence[QueuedMessage], since: float) -> bool:
    return len(shown) < MOST_SHOWN or since < shown[-1].since


async def _waiting_in(stores: Stores, session: SessionId) -> Sequence[MessageAccepted]:
    worker = stores.manager.of(session)
    state = worker.state if worker is not None else await stores.sessions.state(session)
    return state.waiting


async def _of_session(
    stores: Stores, row: StreamRow, owner: Owner, waiting: Sequence[MessageAccepted]
) -> list[QueuedMessage]:
    under_way = StreamQuery(kind=RUN, parent=row.name, status=RUNNING)
    front = next((one.name for one in await stores.journal.streams(under_way, limit=1)), "")
    shown: list[QueuedMessage] = []
    for ahead, message in enumerate(waiting[:MOST_SHOWN]):
        name = public_session(owner, row.name)
        shown.append(QueuedMessage(message.run, name, _title(message), message.at, front, ahead))
        front = message.run
    return shown


def _title(message: MessageAccepted) -> str:
    said = " ".join(title_words(one.parts) for one in message.messages if one.role == "user")
    return " ".join(said.split())[:_TITLE]
