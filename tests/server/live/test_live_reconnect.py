"""Reading a run from any of its events on: what was missed, each once and in order, then what happens, then the end."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from live_scenes import CUT_AT, FIRST, LAST, STALL, answer, journey
from live_stage import Frame, Stage, door, eventually, played, provider, run, said_in, served

from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Pace, Say, ScriptItem

KINDS = {
    "run_started",
    "model_asked",
    "streamed",
    "tool_started",
    "tool_said",
    "tool_finished",
    "decided",
    "run_ended",
}


def raw(frames: list[Frame]) -> list[bytes]:
    return [frame.raw for frame in frames]


def halting(request: LabRequest) -> Iterable[ScriptItem]:
    """Says half, waits at a door, says the rest."""
    if not results_brought(request):
        return (Say(FIRST), Call("shell", {"command": "echo one"}), Finish())
    return (Say(LAST[:CUT_AT]), door(1), Say(LAST[CUT_AT:]), Finish())


@pytest.mark.requirement("E4", "F5")
def test_whoever_comes_back_behind_any_event_gets_exactly_the_events_that_follow(tmp_path: Path):
    """C1, C5. Of a run that is over, with thoughts, text, tools, a stall and its recovery."""

    async def scene(stage: Stage):
        name = await stage.begin()
        whole = await stage.events(name)
        by_query = [await stage.read(f"/v1/runs/{name}/events?after={n}") for n in range(len(whole) + 1)]
        by_header = [
            await stage.read(f"/v1/runs/{name}/events", last_event_id=str(n)) for n in range(len(whole) + 1)
        ]
        return whole, by_query, by_header

    whole, by_query, by_header = played(scene, tmp_path, journey, gap=STALL)
    assert {frame.event for frame in whole} == KINDS
    assert [frame.id for frame in whole] == [str(n) for n in range(1, len(whole) + 1)]
    assert said_in(whole) == FIRST + LAST
    for n, (one, other) in enumerate(zip(by_query, by_header, strict=True)):
        assert raw(one) == raw(other) == raw(whole[n:])


@pytest.mark.requirement("E4", "F5")
def test_a_browser_that_comes_back_by_itself_gets_nothing_twice(tmp_path: Path):
    """It sends the address that it had, and in a header how far it came since."""

    async def scene(stage: Stage):
        name = await stage.begin()
        whole = await stage.events(name)
        ways = [(after, last) for after in range(0, len(whole), 7) for last in range(0, len(whole), 5)]
        read = [await stage.read(f"/v1/runs/{name}/events?after={a}", last_event_id=str(b)) for a, b in ways]
        return whole, ways, read

    whole, ways, read = played(scene, tmp_path, answer)
    for (after, last), got in zip(ways, read, strict=True):
        assert raw(got) == raw(whole[max(after, last) :])


@pytest.mark.requirement("E4", "F5")
def test_two_readers_from_every_event_of_a_live_run_get_the_rest_and_then_what_happens(tmp_path: Path):
    """C1, C2, C17."""

    async def scene(stage: Stage):
        name = await stage.begin()
        async with stage.listen(f"/v1/runs/{name}/events") as first:
            await first.until(lambda _: said_in(first.frames) == FIRST + LAST[:CUT_AT])
            seen = len(first.frames)
            readers = [
                asyncio.create_task(stage.events(name, after))
                for after in (*range(seen + 1), *range(seen + 1))
            ]
            await eventually(lambda: len(stage.service.heartbeat) == len(readers) + 1)
            stage.behind.doors.open(1)
            return seen, await first.rest(), await asyncio.gather(*readers), await stage.events(name)

    seen, first, readers, late = played(scene, tmp_path, halting)
    assert raw(first) == raw(late)
    assert said_in(late) == FIRST + LAST
    assert len(late) > seen
    for n, got in enumerate(readers):
        assert raw(got) == raw(late[n % (seen + 1) :])


@pytest.mark.requirement("E4")
def test_readers_that_come_while_events_come_miss_none_and_see_none_twice(tmp_path: Path):
    """C2. One more reader after each event, until the run is over."""

    def quick(request: LabRequest) -> Iterable[ScriptItem]:
        return (Pace(3, 0.001), Say(LAST), Finish())

    async def scene(stage: Stage):
        name = await stage.begin()
        readers = []
        async with stage.listen(f"/v1/runs/{name}/events") as first:
            while not any(frame.event == "run_ended" for frame in first.frames):
                known = len(first.frames)
                readers.append(asyncio.create_task(stage.events(name)))
                await first.until(lambda _, known=known: len(first.frames) > known)
            return await first.rest(), await asyncio.gather(*readers)

    first, readers = played(scene, tmp_path, quick)
    assert len(readers) > 10
    assert all(raw(got) == raw(first) for got in readers)


@pytest.mark.requirement("F4", "E4")
def test_a_response_read_again_behind_any_event_is_the_same_to_the_byte(tmp_path: Path):
    """C1, C5, C19."""

    async def scene(stage: Stage):
        asked = {"model": "agent", "input": "go", "stream": True}
        async with stage.listen("/v1/responses", asked) as first:
            whole = await first.rest()
        path = f"/v1/responses/resp_{first.run}?stream=true"
        again = [await stage.read(f"{path}&starting_after={n}") for n in range(len(whole))]
        return whole, await stage.read(path), again

    whole, from_the_start, again = played(scene, tmp_path, journey, gap=STALL)
    assert [frame.json["sequence_number"] for frame in whole] == list(range(len(whole)))
    assert raw(from_the_start) == raw(whole)
    for n, got in enumerate(again):
        assert raw(got) == raw(whole[n + 1 :])


@pytest.mark.requirement("F4", "E4")
def test_readers_of_a_live_response_from_every_event_get_the_same_bytes(tmp_path: Path):
    async def scene(stage: Stage):
        asked = {"model": "agent", "input": "go", "stream": True, "background": True}
        async with stage.listen("/v1/responses", asked) as first:
            await first.until(LAST[CUT_AT - 8 : CUT_AT].encode())
            seen, path = len(first.frames), f"/v1/responses/resp_{first.run}?stream=true"
            readers = [asyncio.create_task(stage.read(f"{path}&starting_after={n}")) for n in range(seen)]
            await eventually(lambda: len(stage.service.heartbeat) == len(readers) + 1)
            stage.behind.doors.open(1)
            return seen, await first.rest(), await asyncio.gather(*readers)

    seen, whole, readers = played(scene, tmp_path, halting)
    assert len(whole) > seen
    for n, got in enumerate(readers):
        assert raw(got) == raw(whole[n + 1 :])


@pytest.mark.requirement("E4", "F4", "F5", "G6")
def test_after_a_restart_every_reader_reads_the_same_bytes_as_before(tmp_path: Path):
    async def main():
        async with provider(journey) as behind:
            async with served(tmp_path, behind, gap=STALL) as stage:
                asked = {"model": "agent", "input": "go", "stream": True}
                async with stage.listen("/v1/responses", asked) as listener:
                    response = await listener.rest()
                before = await stage.events(listener.run)
                view = await stage.run(listener.run)
            async with served(tmp_path, behind, gap=STALL) as stage:
                path = f"/v1/responses/resp_{listener.run}?stream=true"
                again = [await stage.read(f"{path}&starting_after={n}") for n in range(len(response))]
                events = [await stage.events(listener.run, n) for n in range(len(before) + 1)]
                return before, events, response, again, view == await stage.run(listener.run)

    before, events, response, again, same = run(main())
    assert same
    assert all(raw(got) == raw(before[n:]) for n, got in enumerate(events))
    assert all(raw(got) == raw(response[n + 1 :]) for n, got in enumerate(again))


@pytest.mark.requirement("E4", "F6")
def test_a_chat_stream_that_is_asked_for_again_has_the_beginning_too(tmp_path: Path):
    """C6. A page that is loaded again in the middle of an answer."""

    async def scene(stage: Stage):
        asked = {"model": "agent", "messages": [{"role": "user", "content": "go"}], "stream": True}
        async with stage.listen("/v1/chat/completions", asked, idempotency_key="k") as first:
            await first.until(LAST[CUT_AT - 8 : CUT_AT].encode())
            first.leave()
        await eventually(lambda: not len(stage.service.heartbeat))
        again = asyncio.create_task(stage.read("/v1/chat/completions", asked, idempotency_key="k"))
        await eventually(lambda: len(stage.service.heartbeat))
        stage.behind.doors.open(1)
        return first.frames, await again, len(stage.lab.requests)

    first, again, asked = played(scene, tmp_path, halting)
    content = "".join(frame.json["choices"][0]["delta"].get("content") or "" for frame in again[:-1])
    assert content == f"{FIRST}\n\n{LAST}"
    assert again[-1].data == b"[DONE]"
    assert raw(again)[: len(first)] == raw(first)
    assert asked == 2


@pytest.mark.requirement("F5", "F4")
def test_an_event_that_there_is_not_and_a_run_that_there_is_not_are_told(tmp_path: Path):
    """C4."""

    async def scene(stage: Stage):
        async with stage.listen(
            "/v1/responses", {"model": "agent", "input": "go", "stream": True}
        ) as listener:
            told = len(await listener.rest())
        count = len(await stage.events(listener.run))
        events, response = f"/v1/runs/{listener.run}/events", f"/v1/responses/resp_{listener.run}?stream=true"
        return (
            await stage.get(f"{events}?after={count + 1}"),
            await stage.get(events, last_event_id=str(count + 1)),
            await stage.get(f"{events}?after=x"),
            await stage.get(events, last_event_id="-1"),
            await stage.get(f"{response}&starting_after={told}"),
            await stage.get("/v1/runs/r20990101-000000-ffffff/events"),
            await stage.get("/v1/responses/resp_r20990101-000000-ffffff?stream=true"),
        )

    *wrong, unknown_run, unknown_response = played(scene, tmp_path, journey, gap=STALL)
    assert [reply.status for reply in wrong] == [400] * 5
    assert [reply.error["param"] for reply in wrong] == [
        "after",
        "after",
        "after",
        "Last-Event-ID",
        "starting_after",
    ]
    assert "the last one is" in wrong[0].error["message"]
    assert (unknown_run.status, unknown_run.error["code"]) == (404, "run_not_found")
    assert (unknown_response.status, unknown_response.error["code"]) == (404, "response_not_found")
