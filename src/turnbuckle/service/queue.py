"""What waits for its turn: messages behind the run that is under way in their session."""

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
from turnbuckle.vocab.messages import words_of

MOST_SESSIONS = 50
"""Sessions that one look goes through, those that were touched last."""
MOST_SHOWN = 50
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


async def queue_of(stores: Stores, owner: Owner) -> list[QueuedMessage]:
    """What waits in this owner's sessions, on any node; who has waited longest comes first."""
    wanted = StreamQuery(kind=SESSION, status=ACTIVE, user=of(owner))
    waiting: list[QueuedMessage] = []
    for row in await stores.journal.streams(wanted, limit=MOST_SESSIONS):
        waiting += await _of_session(stores, row, owner)
    return sorted(waiting, key=lambda one: one.since)[:MOST_SHOWN]


async def _of_session(stores: Stores, row: StreamRow, owner: Owner) -> list[QueuedMessage]:
    session = SessionId(row.name)
    worker = stores.manager.of(session)
    state = worker.state if worker is not None else await stores.sessions.state(session)
    if not state.waiting:
        return []
    under_way = StreamQuery(kind=RUN, parent=row.name, status=RUNNING)
    front = next((one.name for one in await stores.journal.streams(under_way, limit=1)), "")
    shown: list[QueuedMessage] = []
    for ahead, message in enumerate(state.waiting[:MOST_SHOWN]):
        name = public_session(owner, row.name)
        shown.append(QueuedMessage(message.run, name, _title(message), message.at, front, ahead))
        front = message.run
    return shown


def _title(message: MessageAccepted) -> str:
    said = " ".join(words_of(one.parts) for one in message.messages if one.role == "user")
    return " ".join(said.split())[:_TITLE]
