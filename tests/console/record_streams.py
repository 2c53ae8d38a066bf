"""Records the event streams that `run_fold.mjs` folds: real runs of the real server in front of the lab's provider.

    PYTHONPATH=tests .venv/bin/python tests/console/record_streams.py [NAME ...]

Each file is a comment with what the server itself says of the run, and then the events as a reader gets them.
"""

import re
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from support.processes.server_process import run_process_scenario
from support.server.live_server import ApiClient, Frame, eventually, gate, run_scenario

from turnbuckle.journal.sqlite.journal import SqliteJournal
from turnbuckle.lab.received import brings_results, last_user_text, shown_draft
from turnbuckle.lab.script import (
    Call,
    CutOff,
    Finish,
    KillAfter,
    LabRequest,
    Pace,
    Reason,
    Refuse,
    Say,
    Stall,
    Status,
)
from turnbuckle.runtime.retention import merge_run

STREAMS = Path(__file__).parent / "streams"
_SHOWN = (
    "status",
    "output",
    "outcome",
    "usage",
    "model_calls",
    "tool_calls",
    "drafts",
    "handed_calls",
    "last_event",
)
LONG = "".join(f'{number:03}: a line with a knot 🪢 and "quotes"\n' for number in range(60))
_KEPT = re.compile(r"Kept: the draft d1 has (?P<count>[\d,]+) characters")
SECOND_ROUTE = """
[[routes]]
name = "spare"
protocol = "openai_chat"
base_url = "{url}/v1"
api_key = "any"
model = "spare-model"
"""


def told(run: str, after: int = 0) -> str:
    """Where a run is told as the page reads it."""
    return f"/v1/runs/{run}/events?told=true&after={after}"


async def recorded(api: ApiClient, run: str, frames: list[Frame] | None = None) -> bytes:
    """A run's events as they came, or from the first on, with what the server says of it in front."""
    frames = await api.read(told(run)) if frames is None else frames
    view = await api.run(run)
    head: dict[str, Any] = {key: view[key] for key in _SHOWN}
    head["draft_texts"] = {
        name: (await api.get(f"/v1/runs/{run}/drafts/{name}")).json["text"] for name in view["drafts"]
    }
    head["ledger"] = (await api.get(f"/v1/runs/{run}/ledger")).json["entries"]
    head["approvals"] = (await api.get(f"/v1/runs/{run}/approvals")).json["data"]
    return b": " + msgspec.json.encode(head) + b"\n\n" + b"".join(frame.raw + b"\n\n" for frame in frames)


async def simply(api: Any, text: str = "go", **more: Any) -> bytes:
    run = await api.begin(text, **more)
    return await recorded(api, run)


# What the model says


def cut_in_text(request: LabRequest) -> Any:
    if request.number == 1:
        return [Pace(9, 0.02), Say("# Rigging\n\nA turnbuckle takes up **slack** in a"), CutOff("reset")]
    return [
        Pace(9, 0.02),
        Say("slack** in a wire 🪢, and\n\n- it has two threads\n- one runs left\n"),
        Finish(),
    ]


def stalls_in_text(request: LabRequest) -> Any:
    if request.number == 1:
        return [Reason("Let me think. "), Say("The wire holds, "), Stall("forever")]
    return [Reason("Going on. "), Say("the wind does not."), Finish()]


def parallel(request: LabRequest) -> Any:
    if brings_results(request):
        return [Say("Both are done."), Finish()]
    return [
        Reason("Two things at once."),
        Say("I look first. "),
        Call("shell", {"command": "printf 'one\\ntwo\\n'; exit 3"}, id="a"),
        Call("list_files", {}, id="a"),
        Finish(),
    ]


def lies(request: LabRequest) -> Any:
    if request.number == 1:
        return [Call("write_file", '{"path":"a.txt","content":"half of', closed=True), Finish("calls")]
    if not brings_results(request):
        return [Call("write_file", {"path": "a.txt", "content": "whole"}), Finish()]
    return [Say("Done."), Finish()]


def full_up(request: LabRequest) -> Any:
    if request.number == 1:
        return [Status(429, "too many requests", headers={"retry-after": "1"})]
    return [Say("Here I am."), Finish()]


def fails_on_main(request: LabRequest) -> Any:
    if request.model == "m":
        return [Say("Half an "), CutOff("fin")] if request.number == 1 else [Status(500)]
    return [Say("answer, by the spare one."), Finish()]


def asks_first(request: LabRequest) -> Any:
    if brings_results(request):
        return [Say("As you wish."), Finish()]
    return [Say("May I? "), Call("shell", {"command": "echo done"}), Finish()]


def has_a_question(request: LabRequest) -> Any:
    if brings_results(request):
        return [Say("Blue it is."), Finish()]
    return [Call("ask_user", {"question": "Which colour?"}), Finish()]


def sleeps(request: LabRequest) -> Any:
    if brings_results(request):
        return [Say("Slept."), Finish()]
    return [Say("A long one. "), Call("shell", {"command": "echo begun; exec sleep 60"}), Finish()]


def says_half(request: LabRequest) -> Any:
    if request.number == 1:
        return [Say("One, two, "), gate(1), Finish()]
    return [Say("three."), Finish()]


def talks_long(request: LabRequest) -> Any:
    if "more" in last_user_text(request):
        return [Say("And that, too."), Finish()]
    return [Say("First this."), gate(1), Finish()]


def declines(request: LabRequest) -> Any:
    return [Refuse("I would rather not."), Finish()]


def calls_the_client(request: LabRequest) -> Any:
    return [Say("Your turn. "), Call("get_weather", {"city": "Kiel"}), Finish()]


def killed_every_700(request: LabRequest) -> Any:
    """A file that no stream is long enough for; the model finishes its drafts."""
    kept = _KEPT.search(str(request.body["messages"][-1]["content"]))
    if brings_results(request) and kept is None:
        return [Say("The file is written."), Finish()]
    if kept is not None:
        there = LONG[: int(kept["count"].replace(",", ""))]
        arguments = {"draft": "d1", "after": there[-30:], "rest": LONG[len(there) :]}
        return [Call("finish_call", arguments, 40), Finish()]
    asked = shown_draft(last_user_text(request))
    killed = KillAfter(arguments=700, how="fin")
    if asked is None:
        return [
            Say("I write it. "),
            killed,
            Call("write_file", {"path": "long.txt", "content": LONG}, 40),
            Finish(),
        ]
    rest = LONG.partition(asked.tail)[2]
    piece = {"draft": asked.id, "after": asked.tail[-30:], "rest": rest[:400]}
    return [killed, Call("finish_call", {**piece, "more": True}, 40), Finish()]


def never_ends(request: LabRequest) -> Any:
    if request.number == 1:
        return [Call("write_file", '{"path":"a.md","content":"kept 🪢 words', closed=False), CutOff("reset")]
    return [Stall("forever")]


# Scenes


async def answered(api: Any, decision: dict[str, str]) -> bytes:
    run = await api.begin()
    async with api.listen(told(run)) as listener:
        await listener.until(b"event: approval_asked\n")
        (asked,) = (await api.get(f"/v1/runs/{run}/approvals")).json["data"]
        await api.post(f"/v1/runs/{run}/approvals/{asked['id']}", decision)
        return await recorded(api, run, await listener.rest())


async def stopped(api: Any) -> bytes:
    run = await api.begin()
    async with api.listen(told(run)) as listener:
        await listener.until(b"event: tool_said\n")
        await api.post(f"/v1/runs/{run}/stop")
        return await recorded(api, run, await listener.rest())


async def killed(server: Any, *, at: bytes, opens: int = 0) -> bytes:
    """The process is killed when its reader has seen something, and the run goes on in the next one."""
    await server.start()
    run = await server.begin()
    async with server.listen(told(run)) as listener:
        await listener.until(at)
        await server.kill()
        seen = listener.frames
    await server.start()
    rest = await server.read(told(run, int(seen[-1].id)))
    return await recorded(server, run, [*seen, *rest])


async def left(server: Any) -> bytes:
    """The process is asked to stop, tells its reader, and the run goes on in the next one."""
    await server.start()
    run = await server.begin()
    async with server.listen(told(run)) as listener:
        await listener.until(b"two, ")
        server.signal(15)
        seen = await listener.rest()
        assert seen[-1].event == "interrupted"
        await server.wait()
    await server.start()
    return await recorded(server, run, [*seen, *await server.read(told(run, int(seen[-2].id)))])


async def steered(api: Any) -> bytes:
    run = await api.begin("go", session="s")
    async with api.listen(told(run)) as listener:
        await listener.until(b"this.")
        await api.post("/v1/sessions/s/messages", {"input": "and more", "busy": "steer"})
        await listener.until(b"event: user_spoke\n")
        api.behind.gates.open(1)
        return await recorded(api, run, await listener.rest())


async def gives_up(api: Any) -> bytes:
    run = await api.begin()
    await eventually(lambda: len(api.lab.requests) >= 2)
    return await recorded(api, run)


async def merged(server: Any) -> bytes:
    """Long after its end its bursts are one, and somebody who had seen half of them comes back."""
    await server.start()
    run = await server.begin()
    frames = await server.read(told(run))
    seen = frames[:4]  # in the middle of the first attempt
    await server.stop()
    journal = SqliteJournal(server.folder / "data")
    assert await merge_run(journal, run)
    await journal.close()
    await server.start()
    back = await server.read(told(run, int(seen[-1].id)))
    assert back[0].event == "reset"
    return await recorded(server, run, [*seen, back[0], *await server.read(told(run))])


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ASKS = '[tools.approval]\nshell = "ask"'


def live(
    model: Any, scenario: Callable[..., Awaitable[bytes]] = simply, **settings: Any
) -> Callable[[Path], bytes]:
    return lambda folder: run_scenario(scenario, folder, model, **settings)


def process(model: Any, scenario: Callable[..., Awaitable[bytes]]) -> Callable[[Path], bytes]:
    return lambda folder: run_process_scenario(scenario, folder, model, server="drain = 0")


def with_spare(model: Any) -> Callable[[Path], bytes]:
    """Two routes to the same provider."""

    async def scenario(server: Any) -> bytes:
        file = server.folder / "turnbuckle.toml"
        file.write_text(file.read_text() + SECOND_ROUTE.format(url=server.behind.lab.url))
        await server.start()
        return await simply(server)

    return lambda folder: run_process_scenario(scenario, folder, model)


SCENES: dict[str, Callable[[Path], bytes]] = {
    "cut_in_text": live(cut_in_text),
    "stall_in_text": live(stalls_in_text, gap=1),
    "parallel_tools": live(parallel),
    "lying_finish": live(lies),
    "rate_limited": live(full_up),
    "fallback": with_spare(fails_on_main),
    "drafts": live(killed_every_700),
    "merged": lambda folder: run_process_scenario(merged, folder, cut_in_text),
    "allowed": live(asks_first, lambda api: answered(api, {"decision": "allow"}), more=ASKS),
    "denied": live(
        asks_first, lambda api: answered(api, {"decision": "deny", "text": "not today"}), more=ASKS
    ),
    "question": live(has_a_question, lambda api: answered(api, {"decision": "answer", "text": "blue"})),
    "expired": live(asks_first, more=ASKS, tools="answer_seconds = 0.3"),
    "stopped_tool": live(sleeps, stopped),
    "killed_in_text": process(says_half, lambda server: killed(server, at=b"two, ")),
    "killed_in_tool": process(sleeps, lambda server: killed(server, at=b"event: tool_said\n")),
    "left": process(says_half, left),
    "steered": live(talks_long, steered),
    "refused": live(declines),
    "handed": live(calls_the_client, lambda api: simply(api, "weather?", tools=[WEATHER])),
    "gave_up": live(never_ends, gives_up, gap=1, first_event=0.5),
}


def main(names: list[str]) -> None:
    STREAMS.mkdir(exist_ok=True)
    for name in names or list(SCENES):
        with tempfile.TemporaryDirectory() as folder:
            told = SCENES[name](Path(folder))
        (STREAMS / f"{name}.sse").write_bytes(told)
        print(f"{name}: {len(told):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
