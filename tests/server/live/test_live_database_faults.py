"""Everything that a database suffers from, under two whole servers, with work at every moment of its life: a stream in its
middle, a message that waits, a question that is answered, a new request, a reader that comes back. Work waits and says
so, or is refused with a time to come back; it goes on by itself; nothing is lost, done twice, or hangs."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from support.http.memory_server import Reply
from support.postgres.cluster import own_cluster
from support.postgres.faults import APP, FAULTS, BrokenDatabase, small_queue
from support.postgres.server import socket_in
from support.server.live_server import (
    PATIENCE,
    Frame,
    Listener,
    LiveServer,
    asked_until,
    eventually,
    gate,
    lab_provider,
    run,
    said_in,
    serve_one,
)

from turnbuckle.journal.opening import check_journal_at
from turnbuckle.journal.port import StorageError
from turnbuckle.lab.network import NetworkProxy
from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, Say

pytestmark = pytest.mark.process
CHAT = "/v1/chat/completions"
SCHEMA = "faults"
REFUSED = (503, 507)
SETTINGS = {
    "server": "drain = 0\nkeepalive = 1",
    "tools": 'sandbox = "off"\napproval = { shell = "ask" }',
    "more": "[node]\nlease = 300",  # so that nothing changes hands, and every word comes from the first try
}
SAID = "One half and the other. It is done."


class Told(NamedTuple):
    """What is told of a fault: by `readyz`, to whoever reads, and by a look at the whole journal. Empty: nothing is wrong
    with it."""

    ready: str
    words: str
    doctor: str
    refuses: bool = False
    """Whether what is asked for is refused at once, and not waited for."""


AWAY = Told("storage_away", "database cannot be reached", "away")
TOLD = {
    "it is stopped": AWAY,
    "the way to it is cut": AWAY,
    "the way to it hangs": Told("storage_slow", "database does not answer", "not asked"),
    "it takes no more connections": AWAY,
    "its user may not log in": Told("storage_failed", "database reported an error", "failed"),
    "it is full": Told("storage_full", "disk is full", "", True),
    "it is read-only": Told("storage_read_only", "may not write", "read_only", True),
    "its tables are locked": Told("storage_locked", "holds a lock", "locked", True),
    "its rows are locked": Told("", "holds a lock", "", True),
    "it ends what takes long": Told("storage_slow", "database does not answer", "slow", True),
    "nobody empties its queue of notifications": Told("", "", ""),
}


class Seen(NamedTuple):
    """What was seen of one fault."""

    told: Told
    chat: bytes
    by_readers: list[list[Frame]]
    whole: list[Frame]
    words: list[str]
    ends: list[str]
    refusals: list[Reply]
    runs: list[int]
    done: list[str]


def model(request):
    """What is said depends on the task: its first word says what to do, the second one which gate to wait at."""
    name, number = task_of(request)
    if name == "ask":
        call = Call("shell", {"command": f"echo asked {number} >> done.txt"})
        return (Say("It is done."), Finish()) if results_brought(request) else (call, Finish())
    if name == "work":
        call = Call("append_file", {"path": "done.txt", "content": f"worked {number}\n"})
        if results_brought(request):
            return (Say("It is done."), Finish())
        return (Say("One half"), gate(number), Say(" and the other. "), call, Finish())
    return (Say("One "), gate(number), Say("word."), Finish()) if name == "busy" else (Say("Said."), Finish())


def task_of(request) -> tuple[str, int]:
    texts = [item["content"] for item in request.body["messages"] if item["role"] == "user"]
    plain = [
        text if isinstance(text, str) else "".join(part.get("text", "") for part in text) for text in texts
    ]
    name, number = plain[-1].split()
    return name, int(number)


class Scene:
    """One fault under two servers. `number` is its own, so that it is seen apart from all others."""

    def __init__(self, one: LiveServer, two: LiveServer, database: BrokenDatabase, number: int) -> None:
        self.one, self.two = one, two
        self.database = database
        self.number = number
        self.refusals: list[Reply] = []
        self.over = asyncio.Event()

    async def play(self, name: str) -> Seen:
        told, number, one, two = TOLD[name], self.number, self.one, self.two
        asking = await one.begin(f"ask {number}", session=f"ask{number}")
        busy = await one.begin(f"busy {number}", session=f"busy{number}")
        work = {"model": "agent", "messages": [{"role": "user", "content": f"work {number}"}], "stream": True}
        async with AsyncExitStack() as stack:
            chat = await stack.enter_async_context(one.listen(CHAT, work))
            await chat.until(b"One half")
            path = f"/v1/runs/{chat.run}/events"
            here = await stack.enter_async_context(one.listen(path))
            there = await stack.enter_async_context(two.listen(path))
            answer = await stack.enter_async_context(two.listen(f"/v1/runs/{asking}/events"))
            await asyncio.gather(here.until(b"One half"), there.until(b"One half"))
            await answer.until(b"event: approval_asked")
            [asked] = (await two.get(f"/v1/runs/{asking}/approvals")).json["data"]
            waits = await two.begin(
                f"say {number}", session=f"busy{number}", headers={"x_turnbuckle_busy": "queue"}
            )
            async with FAULTS[name](self.database):
                found = await self.told_by_all(told, chat, (here, there))
                last = [frame.id for frame in here.frames if frame.id][-1]
                tasks = self.ask_for_everything(asking, asked["id"], last, chat.run)
                if told.refuses:
                    await eventually(lambda: self.refusals)
            self.over.set()
            runs = await asyncio.gather(*tasks)
            readers = [await listener.rest() for listener in (here, there)]
            await asyncio.gather(chat.rest(), answer.rest())
        ends = [(await two.ended(name))["status"] for name in (asking, busy, waits, chat.run, *runs[:2])]
        return Seen(
            found,
            chat.body,
            readers,
            await two.events(chat.run),
            [said_in(await one.events(name)) for name in (chat.run, asking, busy, waits)],
            ends,
            self.refusals,
            [
                len([row for row in await self.listed() if row["title"] == f"{word} {number}"])
                for word in ("new", "more")
            ],
            [
                line
                for line in (one.work / "done.txt").read_text().splitlines()
                if line.endswith(f" {number}")
            ],
        )

    async def told_by_all(self, told: Told, chat: Listener, readers: tuple[Listener, ...]) -> Told:
        """Wait until everybody who is to be told of it has been, and say what the others found."""
        ready = ""
        if told.ready:
            for server in (self.one, self.two):
                ready = await self.not_ready(server, told.ready)
        self.one.behind.gates.open(self.number)
        words = ""
        if told.words:
            await chat.until(told.words.encode())
            words = told.words if b": waiting for storage" in chat.body else ""
            if told.ready:
                await asyncio.gather(*(reader.until(told.words.encode()) for reader in readers))
        doctor = "not asked" if told.doctor == "not asked" else await self.doctor()
        return Told(ready, words, doctor, told.refuses)

    async def not_ready(self, server: LiveServer, code: str) -> str:
        def is_told(ready: Reply) -> bool:
            return ready.status == 503 and ready.json["code"] == code

        ready = await asked_until(is_told, server.get, "/readyz")
        assert ready.headers["retry-after"]
        return code

    async def doctor(self) -> str:
        try:
            report = await check_journal_at(self.database.place(self.database.lines[0]))
        except StorageError as error:
            return error.fault
        assert report is not None
        return ""

    def ask_for_everything(
        self, asking: str, approval: str, last: str, work: str
    ) -> "list[asyncio.Task[str]]":
        """Somebody new, somebody who says more, somebody who answers, and somebody who comes back, each until it works."""
        one, two, number = self.one, self.two, self.number
        new = {"input": f"new {number}"}
        more = {"input": f"more {number}", "session": f"busy{number}"}
        asked = f"/v1/runs/{asking}/approvals/{approval}"
        return [
            asyncio.ensure_future(self.until_done(ask))
            for ask in (
                lambda: one.post("/v1/runs", new, idempotency_key=f"new{number}"),
                lambda: two.post(
                    "/v1/runs", more, idempotency_key=f"more{number}", x_turnbuckle_busy="queue"
                ),
                lambda: one.post(asked, {"decision": "allow"}),
                lambda: two.post(asked, {"decision": "allow"}),
                lambda: two.get(f"/v1/runs/{work}/events?after={last}"),
                lambda: two.get(f"/v1/runs/{work}"),
            )
        ]

    async def until_done(self, ask: Callable[[], Awaitable[Reply]]) -> str:
        """As a client does that comes back after a while."""
        async with asyncio.timeout(PATIENCE):
            while (reply := await ask()).status in REFUSED:
                self.refusals.append(reply)
                await self.over.wait()
        settled = reply.status == 409 and reply.json["error"]["code"] == "approval_settled"
        assert settled or reply.status in (200, 202), reply.body
        return reply.json["id"] if reply.status == 202 else ""

    async def listed(self) -> list[dict[str, str]]:
        listed: list[dict[str, str]] = (await self.one.get("/v1/runs?limit=100")).json["data"]
        return listed


@pytest.fixture(scope="module")
def seen() -> tuple[dict[str, Seen], list[Exception]]:
    """One pair of servers and one database go through all of it, one fault after the other, up to a mistake."""
    found: dict[str, Seen] = {}

    async def main() -> None:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cluster = stack.enter_context(own_cluster(**small_queue()))
            cluster.sql(f"CREATE ROLE {APP} LOGIN; GRANT CREATE ON DATABASE postgres TO {APP}")
            behind = await stack.enter_async_context(lab_provider(model))
            lines = [
                await stack.enter_async_context(NetworkProxy(socket_in(cluster.folder))) for _ in range(2)
            ]
            database = BrokenDatabase(cluster, SCHEMA, lines)
            servers = []
            for name, line in zip(("one", "two"), lines, strict=True):
                (folder / name).mkdir()
                given = {"place": database.place(line), "workspace": str(folder / "one" / "work"), **SETTINGS}
                servers.append(await stack.enter_async_context(serve_one(folder / name, behind, **given)))
            for number, name in enumerate(FAULTS, 1):
                async with asyncio.timeout(3 * PATIENCE):
                    found[name] = await Scene(servers[0], servers[1], database, number).play(name)

    try:
        run(main())
    except Exception as error:
        return found, [error]
    return found, []


def seen_of(name: str, seen: tuple[dict[str, Seen], list[Exception]]) -> Seen:
    found, mistakes = seen
    if name not in found:
        raise mistakes[0]
    return found[name]


def test_every_fault_is_in_the_table():
    assert TOLD.keys() == FAULTS.keys()


@pytest.mark.long(29)
@pytest.mark.requirement("K6", "E10")
@pytest.mark.parametrize("name", FAULTS)
def test_work_waits_for_a_database_that_does_not_work_and_says_so(name, seen):
    found = seen_of(name, seen)
    assert found.told == TOLD[name]
    for refusal in found.refusals:
        assert int(refusal.headers["retry-after"]) > 0
        assert refusal.json["error"]["code"].startswith(("storage_", "changing_hands"))


@pytest.mark.requirement("K6")
@pytest.mark.parametrize("name", FAULTS)
def test_work_goes_on_by_itself_when_the_database_works_again_and_nothing_is_lost_or_done_twice(name, seen):
    found = seen_of(name, seen)
    assert found.words == [SAID, "It is done.", "One word.", "Said."]
    assert found.ends == ["completed"] * 6
    assert found.runs == [1, 1]
    assert len(found.done) == 2
    assert found.chat.rstrip().endswith(b"data: [DONE]")
    for frames in found.by_readers:
        assert [frame.raw for frame in frames if frame.id] == [frame.raw for frame in found.whole]
