"""Whatever the journal was made to say, a conversation never leads into one that is not its own.

The forged facts are written straight into the store, as no part of the program would."""

import asyncio

import msgspec
import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.journal.port import Claim, Damaged, Grade, IndexUpdate
from turnbuckle.runtime.archive import exported
from turnbuckle.runtime.conversation import Conversations, fold_run
from turnbuckle.runtime.recall import recall
from turnbuckle.runtime.runs import READING
from turnbuckle.runtime.session_log import SessionStates
from turnbuckle.runtime.transcript import Transcript
from turnbuckle.session import facts as session_facts
from turnbuckle.session.facts import ConversationKept, SessionMade
from turnbuckle.turn import facts as run_facts
from turnbuckle.turn.facts import SESSION, RunEnded, RunStarted
from turnbuckle.vocab.ids import RunId, SessionId
from turnbuckle.vocab.messages import Message, TextPart, text_of
from turnbuckle.vocab.outcome import Outcome

pytestmark = pytest.mark.requirement("R2")

SECRET = "the treasure lies under the oak"
BOBS, MINE, FORK = SessionId("bob/s"), SessionId("eve/s"), SessionId("eve/fork")


class Store:
    """A journal that anybody may write into."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.conversations = Conversations(self.journal, READING)

    async def put(self, name: str, *facts: bytes, kind: str, user: str, parent: str = "") -> None:
        claim = await self.journal.claim(name, "test", 60)
        assert isinstance(claim, Claim)
        note = IndexUpdate(kind=kind, parent=parent, user=user, status="completed", title=name)
        await self.journal.append(
            name, list(facts), after=claim.head, epoch=claim.epoch, grade=Grade.SYNCED, note=note
        )
        await self.journal.release(claim)

    async def session(self, name: SessionId, user: str, base: str = "") -> None:
        made = SessionMade(1.0, base=RunId(base))
        await self.put(name, session_facts.encode(made), kind="session", user=user)

    async def run(self, name: str, session: SessionId, user: str, text: str, base: str = "") -> None:
        said = Message("user", (TextPart(text),))
        started = RunStarted(1.0, RunId(name), session, (said,), base=RunId(base))
        answer = Message("assistant", (TextPart("Noted."),))
        ended = RunEnded(2.0, Outcome("completed"), added=(answer,))
        facts = [run_facts.encode(started), run_facts.encode(ended)]
        await self.put(name, *facts, kind="run", user=user, parent=session)

    async def bobs(self) -> None:
        await self.session(BOBS, "bob")
        await self.run("r-bob", BOBS, "bob", SECRET)

    async def until(self, run: str, session: SessionId) -> list[str]:
        found = await self.conversations.until(RunId(run), session)
        return [text_of(message.parts) for message in found.messages if message.role == "user"]


def forged(story):
    async def main():
        store = Store()
        await store.bobs()
        return await story(store)

    return asyncio.run(main())


async def every_reader(store: Store, run: str, session: SessionId) -> list[str]:
    """What each way to read a conversation gives, or that it was refused."""

    async def export():
        row = next(row for row in await store.journal.streams() if row.name == session)
        return b"".join([line async for line in exported(store.journal, row, "s", 3.0)]).decode()

    async def pages():
        transcript = Transcript(store.journal, store.conversations, READING)
        return str([await transcript.page(session, None, 50, newest_first=way) for way in (True, False)])

    conversations = store.conversations
    ways = {
        "until": lambda: store.until(run, session),
        "sent": lambda: conversations.sent(RunId(run), session, RunId("r-bob")),
        "told_by": lambda: conversations.told_by(RunId(run), session),
        "stands_on": lambda: conversations.stands_on(RunId(run), session, RunId("another")),
        "recall": lambda: recall(store.journal, RunId(run), session, "treasure"),
        "export": export,
        "pages": pages,
    }
    told = []
    for name, way in ways.items():
        try:
            told.append(f"{name}: {await way()}")
        except Damaged as error:
            told.append(f"{name}: refused, {error}")
    return told


async def base_of_a_run(store: Store) -> None:
    await store.session(MINE, "eve")
    await store.run("r-eve", MINE, "eve", "hello", base="r-bob")


async def base_of_a_session(store: Store) -> None:
    await store.session(MINE, "eve", base="r-bob")
    await store.run("r-eve", MINE, "eve", "hello", base=SESSION)


async def what_took_the_place_of_a_run(store: Store) -> None:
    await store.session(MINE, "eve")
    kept = ConversationKept(1.0, BOBS, base=RunId("r-bob"))
    await store.put("conversation:r-gone", msgspec.json.encode(kept), kind="conversation", user="")
    await store.run("r-eve", MINE, "eve", "hello", base="r-gone")


@pytest.mark.parametrize("forge", [base_of_a_run, base_of_a_session, what_took_the_place_of_a_run])
def test_no_reader_is_led_to_a_run_of_another_owner_by_what_is_stored(forge):
    async def story(store: Store):
        await forge(store)
        return await every_reader(store, "r-eve", MINE)

    told = forged(story)
    assert "treasure lies" not in str(told)
    assert all("refused" in line for line in told if line.startswith(("until", "sent", "recall"))), told


def test_a_session_that_names_the_run_of_another_owner_as_its_own_is_refused():
    async def story(store: Store):
        await store.session(MINE, "eve")
        said = session_facts.MessageAccepted(1.0, "m1", RunId("r-bob"), ())
        begun = session_facts.MessageInjected(1.0, "m1", RunId("r-bob"), "task")
        facts = [session_facts.encode(fact) for fact in (said, begun)]
        await store.put(MINE, *facts, kind="session", user="eve")
        assert (await SessionStates(store.journal).of(MINE)).runs == (RunId("r-bob"),)
        with pytest.raises(Damaged, match="not a run of the session eve/s"):
            await store.until("r-bob", MINE)
        with pytest.raises(Damaged, match="not a run of the session eve/s"):
            await fold_run(store.journal, RunId("r-bob"), READING, MINE)

    forged(story)


def test_a_run_that_a_list_has_in_the_wrong_session_is_not_shown_there():
    async def story(store: Store):
        await store.session(MINE, "eve")
        await store.journal.note("r-bob", IndexUpdate(parent=MINE))
        with pytest.raises(Damaged):
            await Transcript(store.journal, store.conversations, READING).every(MINE)

    forged(story)


def test_another_session_of_the_same_owner_is_reached_by_a_fork_and_by_nothing_else():
    async def story(store: Store):
        await store.session(MINE, "eve")
        await store.run("r-1", MINE, "eve", "first")
        await store.run("r-2", MINE, "eve", "second", base="r-1")
        await store.session(FORK, "eve", base="r-2")
        await store.run("r-3", FORK, "eve", "third", base=SESSION)
        assert await store.until("r-3", FORK) == ["first", "second", "third"]
        await store.run("r-4", FORK, "eve", "fourth", base="r-1")
        with pytest.raises(Damaged):
            await store.until("r-4", FORK)

    forged(story)


def test_the_one_who_forks_a_session_from_before_there_were_keys_reaches_it():
    async def story(store: Store):
        await store.session(SessionId("old"), "")
        await store.run("r-old", SessionId("old"), "", "first")
        await store.session(SessionId("new"), "local", base="r-old")
        assert await store.until(SESSION, SessionId("new")) == ["first"]

    forged(story)


def test_a_conversation_that_stands_on_itself_is_refused_instead_of_read_for_ever():
    async def story(store: Store):
        await store.session(MINE, "eve")
        await store.run("r-1", MINE, "eve", "one", base="r-2")
        await store.run("r-2", MINE, "eve", "two", base="r-1")
        told = await every_reader(store, "r-2", MINE)
        refused = [line.split(":")[0] for line in told if "stands on itself" in line]
        assert refused == ["until", "sent", "stands_on", "recall"]

    forged(story)
