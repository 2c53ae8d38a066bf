"""A whole server with two owners, each with things of every kind, in a thread of its own so that any client can be let
loose on it. Whatever belongs to an owner carries that owner's mark, so whatever shows up in the wrong place is seen.
"""

import asyncio
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.server.live_server import (
    PATIENCE,
    ApiClient,
    LiveServer,
    asked_until,
    lab_provider,
    run,
    serve_live,
)

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, KillAfter, LabRequest, Reason, Say, ScriptItem, Status
from turnbuckle.server.keys import KeyFile

OWNERS = ("ann", "bob")
LOCAL = "local"
MARKS = {"ann": "annsmarmalade", "bob": "bobsbeetroot", LOCAL: "localslemonade"}
"""A word that stands in everything that an owner has."""
TOOLS = """approval = { shell = "ask" }
private_addresses = false

[[routes]]
name = "rehearsal"
protocol = "rehearsal"
"""
SERVER = """drain = 0
keepalive = 0.5
requests_per_minute = 0
max_runs = 5000
max_runs_per_owner = 2000
"""
_MARK = re.compile("|".join(MARKS.values()))


def owners_model(request: LabRequest) -> Iterable[ScriptItem]:
    """A model that does what the first word of its task says, and always says the mark that it was told."""
    task = last_user_text(request)
    found = _MARK.search(task)
    mark = found[0] if found else "nobody"
    if results_brought(request):
        return (Say(f"Done for {mark}."), Finish())
    match task.split(" ")[0]:
        case "shell":
            return (Say(f"I run it for {mark}."), Call("shell", {"command": f"echo {mark}"}), Finish())
        case "process":
            return (Call("shell", {"command": f"echo {mark}; exec sleep 30", "background": True}), Finish())
        case "question":
            return (Call("ask_user", {"question": f"What does {mark} want?"}), Finish())
        case "draft":
            write = Call("write_file", {"path": "note.txt", "content": f"{mark} " * 200})
            return (KillAfter(arguments=900), write, Finish())
        case "write":
            return (Call("write_file", {"path": f"{mark}.txt", "content": mark}), Finish())
        case "brought":
            return (Call("theirs", {"mark": mark}), Finish())
        case "fail":
            return (Status(400, f"no such thing for {mark}"),)
    if "kept as draft" in task:
        return (Status(400, f"no rest for {mark}"),)
    return (Reason(f"Thinking of {mark}."), Say(f"An answer for {mark}, and a second sentence."), Finish())


@dataclass
class OwnedThings:
    """What one owner has, by what the parts of paths call it."""

    ids: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, *found: str) -> None:
        self.ids.setdefault(kind, []).extend(found)

    def every(self) -> list[str]:
        return [name for names in self.ids.values() for name in names]


@dataclass
class OwnersServer:
    """The server and its owners. `keys` are what they show, `things` what they have."""

    server: LiveServer
    loop: asyncio.AbstractEventLoop
    keys: dict[str, str]
    things: dict[str, OwnedThings] = field(default_factory=dict)
    populated: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def at(self, owner: str) -> ApiClient:
        """The server for one owner."""
        return ApiClient(self.server.port, self.keys.get(owner, ""))

    def populate(self, owner: str) -> OwnedThings:
        """Give an owner another set of things of every kind."""
        return asyncio.run_coroutine_threadsafe(self._populate(owner), self.loop).result(PATIENCE)

    def call(self, coroutine: Any) -> Any:
        """Do something in the server's own loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def runs(self, owner: str) -> int:
        """How many runs an owner has."""
        return self.call(self._runs_of(owner))

    async def _runs_of(self, owner: str) -> int:
        at, after, count = self.at(owner), "", 0
        while True:
            page = (await at.get(f"/v1/runs?limit=100{after}")).json
            count += len(page["data"])
            if not page["has_more"]:
                return count
            after = f"&after={page['next']}"

    def snapshot(self, owner: str) -> dict[str, Any]:
        """All that an owner can see of what it was given, as it stands."""
        return self.call(self._snapshot(owner))

    async def _snapshot(self, owner: str) -> dict[str, Any]:
        at, ids = self.at(owner), self.things[owner].ids
        paths = ["/v1/approvals", *(f"/v1/sessions/{name}" for name in ids["session"])]
        paths += [
            f"/v1/sessions/{name}/{what}"
            for name in ids["session"]
            for what in ("messages", "inbox", "processes")
        ]
        paths += [
            f"/v1/runs/{name}{what}"
            for name in ids["run"]
            for what in ("", "/approvals", "/drafts", "/ledger")
        ]
        paths += [f"/v1/responses/{name}" for name in ids["response"]]
        return {path: (await at.get(path)).body for path in paths}

    async def _populate(self, owner: str) -> OwnedThings:
        self.populated += 1
        mark, number, made = MARKS[owner], self.populated, OwnedThings()
        at = self.at(owner)
        session = f"{owner}-{number}"  # names are not secret: anybody may choose the same
        await _talk(at, mark, session, made)
        await _runs(at, mark, number, made)
        await _responses(at, mark, session, made)
        self.things[owner] = made
        return made


async def _talk(at: ApiClient, mark: str, session: str, made: OwnedThings) -> None:
    """A session with an answer, one that waits for consent with a message behind it, and a fork."""
    assert (await at.post("/v1/sessions", {"id": session, "title": f"About {mark}"})).status == 201
    said = {"model": "agent", "messages": [{"role": "user", "content": f"hello {mark}"}], "user": mark}
    reply = await at.post("/v1/chat/completions", said, x_turnbuckle_session=session)
    assert reply.status == 200, reply.body
    made.note("session", session)
    made.note("run", reply.headers["x-turnbuckle-run"])
    busy = f"{session}-busy"
    waiting = await at.begin(f"shell {mark}", session=busy)
    made.note("run", waiting, await at.begin(f"then {mark}", session=busy))
    made.note("session", busy)
    made.note("approval", await _pending(at, waiting))
    fork = await at.post(f"/v1/sessions/{session}/fork", {"id": f"{session}-fork"})
    assert fork.status == 201, fork.body
    made.note("session", f"{session}-fork")


async def _runs(at: ApiClient, mark: str, number: int, made: OwnedThings) -> None:
    """Runs of every end, and one that asks something."""
    asked = await at.begin(f"question {mark}")
    made.note("run", asked)
    made.note("approval", await _pending(at, asked))
    drafted = await at.begin(f"draft {mark}", headers={"idempotency-key": f"{mark}-{number}"})
    await at.ended(drafted)
    kept = (await at.get(f"/v1/runs/{drafted}/drafts")).json["data"]
    assert kept, await at.run(drafted)
    made.note("run", drafted)
    made.note("draft", *(draft["id"] for draft in kept))
    tools = [{"type": "function", "function": {"name": "theirs"}}]
    handed = await at.begin(f"brought {mark}", tools=tools)
    assert (await at.ended(handed))["handed_calls"]
    failed = await at.begin(f"fail {mark}")
    assert (await at.ended(failed))["status"] == "failed"
    made.note("run", handed, failed)


async def _responses(at: ApiClient, mark: str, session: str, made: OwnedThings) -> None:
    body = {
        "model": "agent",
        "input": f"hello {mark}",
        "metadata": {"mark": mark},
        "instructions": f"Serve {mark}.",
    }
    whole = await at.post("/v1/responses", body)
    assert whole.status == 200, whole.body
    late = await at.post("/v1/responses", {**body, "input": f"question {mark}", "background": True})
    assert late.status == 200, late.body
    made.note("response", whole.json["id"], late.json["id"])
    made.note("run", *(name.removeprefix("resp_") for name in made.ids["response"]))
    conversation = (await at.post("/v1/conversations", {"metadata": {"mark": mark}})).json["id"]
    talked = await at.post("/v1/responses", {**body, "conversation": conversation})
    assert talked.status == 200, talked.body
    made.note("conversation", conversation)
    made.note("session", conversation)


async def leave_process(at: ApiClient, mark: str) -> None:
    """A run without a session that leaves a process running."""
    left = await at.begin(f"process {mark}")
    await at.post(f"/v1/runs/{left}/approvals/{await _pending(at, left)}", {"decision": "allow"})
    await at.ended(left)


async def _pending(at: ApiClient, run: str) -> str:
    reply = await asked_until(lambda reply: reply.json["data"], at.get, f"/v1/runs/{run}/approvals")
    return str(reply.json["data"][0]["id"])


@contextmanager
def owners_server(
    folder: Path, owners: tuple[str, ...] = OWNERS, *, populated: bool = True, **settings: Any
) -> Iterator[OwnersServer]:
    """A server until the block ends. Each owner has a key, except the one of a server without keys, and things already."""
    kept = KeyFile(folder / "data")
    keys = {owner: kept.create(owner, owner, 0.0)[1] for owner in owners if owner != LOCAL}
    settings = {"server": SERVER, "tools": TOOLS, "gap": 5.0, **settings}
    built: list[OwnersServer] = []
    ready, stop = threading.Event(), threading.Event()

    async def main() -> None:
        async with lab_provider(owners_model) as behind, serve_live(folder, behind, **settings) as server:
            made = OwnersServer(server, asyncio.get_running_loop(), keys)
            for owner in owners if populated else ():
                await made._populate(owner)
            built.append(made)
            ready.set()
            await asyncio.get_running_loop().run_in_executor(None, stop.wait)

    def live() -> None:
        try:
            run(main())
        finally:
            ready.set()

    thread = threading.Thread(target=live, name="owners_server")
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        assert built, "the server did not start; its thread has told why"
        yield built[0]
    finally:
        stop.set()
        thread.join(PATIENCE)
