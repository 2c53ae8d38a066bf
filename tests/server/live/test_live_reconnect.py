"""Reading a run from any of its events on: what was missed, each once and in order, then what happens, then the end."""

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from support.server.face_requests import request_for, streamed
from support.server.live_server import (
    PATIENCE,
    Frame,
    LiveServer,
    eventually,
    gate,
    lab_provider,
    run,
    run_scenario,
    said_in,
    serve_live,
)
from support.server.scripted_models import CUT_AT, FIRST, LAST, STALL, answer, journey

from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.lab.received import results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Say, ScriptItem

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
    return (Say(LAST[:CUT_AT]), gate(1), Say(LAST[CUT_AT:]), Finish())


@pytest.mark.requirement("E4", "F5")
def test_whoever_comes_back_behind_any_event_gets_exactly_the_events_that_follow(tmp_path: Path):
    """C1, C5. Of a run that is over, with thoughts, text, tools, a stall and its recovery."""

    async def scenario(server: LiveServer):
        name = await server.begin()
        whole = await server.events(name)
        by_query = [await server.read(f"/v1/runs/{name}/events?after={n}") for n in range(len(whole) + 1)]
        by_header = [
            await server.read(f"/v1/runs/{name}/events", last_event_id=str(n)) for n in range(len(whole))
        ]
        return whole, by_query, by_header

    whole, by_query, by_header = run_scenario(scenario, tmp_path, journey, gap=STALL)
    assert by_query.pop() == []
    assert {frame.event for frame in whole} == KINDS
    assert [frame.id for frame in whole] == [str(n) for n in range(1, len(whole) + 1)]
    assert said_in(whole) == FIRST + LAST
    for n, (one, other) in enumerate(zip(by_query, by_header, strict=True)):
        assert raw(one) == raw(other) == raw(whole[n:])


@pytest.mark.requirement("E4", "F5")
def test_a_browser_that_comes_back_behind_the_last_event_of_a_run_is_told_to_stay_away(tmp_path: Path):
    """To an empty stream it would come back every few seconds, for ever. While the run goes on, it is to wait."""

    async def scenario(server: LiveServer):
        name = await server.begin()
        async with server.listen(f"/v1/runs/{name}/events") as first:
            await first.until(lambda _: said_in(first.frames) == FIRST + LAST[:CUT_AT])
            known = first.frames[-1].id
            async with server.listen(f"/v1/runs/{name}/events", last_event_id=known) as back:
                server.behind.gates.open(1)
                follows = await back.rest()
            whole = await first.rest()
        behind = await server.get(f"/v1/runs/{name}/events", last_event_id=whole[-1].id)
        return raw(follows) == raw(whole[int(known) :]), behind.status, behind.body

    assert run_scenario(scenario, tmp_path, halting) == (True, 204, b"")


@pytest.mark.requirement("E4", "F5")
def test_a_run_whose_end_is_stored_and_cannot_be_read_yet_is_followed_to_it(tmp_path: Path):
    """The journal's thread has stored it, row and all, and the loop has not heard of it: a reader that came back in
    this moment was sent away without the end."""

    async def scenario(server: LiveServer):
        name = await server.begin()
        async with server.listen(f"/v1/runs/{name}/events") as first:
            await first.until(lambda _: said_in(first.frames) == FIRST + LAST[:CUT_AT])
            known = first.frames[-1].id
            (database,) = tmp_path.rglob(DATABASE)
            with closing(sqlite3.connect(database, timeout=PATIENCE)) as connection, connection:
                connection.execute("UPDATE stream SET status = 'completed' WHERE name = ?", (name,))
            async with server.listen(f"/v1/runs/{name}/events", last_event_id=known) as back:
                server.behind.gates.open(1)
                follows = await back.rest()
            whole = await first.rest()
        return raw(follows) == raw(whole[int(known) :])

    assert run_scenario(scenario, tmp_path, halting)


@pytest.mark.requirement("E4", "F5")
def test_a_browser_that_comes_back_by_itself_gets_nothing_twice(tmp_path: Path):
    """It sends the address that it had, and in a header how far it came since."""

    async def scenario(server: LiveServer):
        name = await server.begin()
        whole = await server.events(name)
        ways = [(after, last) for after in range(0, len(whole), 7) for last in range(0, len(whole), 5)]
        read = [await server.read(f"/v1/runs/{name}/events?after={a}", last_event_id=str(b)) for a, b in ways]
        return whole, ways, read

    whole, ways, read = run_scenario(scenario, tmp_path, answer)
    for (after, last), got in zip(ways, read, strict=True):
        assert raw(got) == raw(whole[max(after, last) :])


@pytest.mark.requirement("E4", "F5")
def test_two_readers_from_every_event_of_a_live_run_get_the_rest_and_then_what_happens(tmp_path: Path):
    """C1, C2, C17."""

    async def scenario(server: LiveServer):
        name = await server.begin()
        async with server.listen(f"/v1/runs/{name}/events") as first:
            await first.until(lambda _: said_in(first.frames) == FIRST + LAST[:CUT_AT])
            seen = len(first.frames)
            readers = [
                asyncio.create_task(server.events(name, after))
                for after in (*range(seen + 1), *range(seen + 1))
            ]
            await eventually(lambda: len(server.service.heartbeat) == len(readers) + 1)
            server.behind.gates.open(1)
            return seen, await first.rest(), await asyncio.gather(*readers), await server.events(name)

    seen, first, readers, late = run_scenario(scenario, tmp_path, halting)
    assert raw(first) == raw(late)
    assert said_in(late) == FIRST + LAST
    assert len(late) > seen
    for n, got in enumerate(readers):
        assert raw(got) == raw(late[n % (seen + 1) :])


@pytest.mark.requirement("E4")
def test_readers_that_come_while_events_come_miss_none_and_see_none_twice(tmp_path: Path):
    """C2. One more reader after each event, until the run is over."""

    def counting(request: LabRequest) -> Iterable[ScriptItem]:
        for number in range(12):
            yield Say(f"word{number}. ")
            yield gate(number)
        yield Finish()

    async def scenario(server: LiveServer):
        name = await server.begin()
        readers = []
        async with server.listen(f"/v1/runs/{name}/events") as first:
            for number in range(12):
                await first.until(b"word%d. " % number)
                readers.append(asyncio.create_task(server.events(name)))
                server.behind.gates.open(number)
            return await first.rest(), await asyncio.gather(*readers)

    first, readers = run_scenario(scenario, tmp_path, counting)
    assert all(raw(got) == raw(first) for got in readers)


@pytest.mark.requirement("F4", "E4")
def test_a_response_read_again_behind_any_event_is_the_same_to_the_byte(tmp_path: Path):
    """C1, C5, C19."""

    async def scenario(server: LiveServer):
        asked = {"model": "agent", "input": "go", "stream": True}
        async with server.listen("/v1/responses", asked) as first:
            whole = await first.rest()
        path = f"/v1/responses/resp_{first.run}?stream=true"
        again = [await server.read(f"{path}&starting_after={n}") for n in range(len(whole))]
        return whole, await server.read(path), again

    whole, from_the_start, again = run_scenario(scenario, tmp_path, journey, gap=STALL)
    assert [frame.json["sequence_number"] for frame in whole] == list(range(len(whole)))
    assert raw(from_the_start) == raw(whole)
    for n, got in enumerate(again):
        assert raw(got) == raw(whole[n + 1 :])


@pytest.mark.requirement("F4", "E4")
def test_readers_of_a_live_response_from_every_event_get_the_same_bytes(tmp_path: Path):
    async def scenario(server: LiveServer):
        asked = {"model": "agent", "input": "go", "stream": True, "background": True}
        async with server.listen("/v1/responses", asked) as first:
            await first.until(LAST[CUT_AT - 8 : CUT_AT].encode())
            seen, path = len(first.frames), f"/v1/responses/resp_{first.run}?stream=true"
            readers = [asyncio.create_task(server.read(f"{path}&starting_after={n}")) for n in range(seen)]
            await eventually(lambda: len(server.service.heartbeat) == len(readers) + 1)
            server.behind.gates.open(1)
            return seen, await first.rest(), await asyncio.gather(*readers)

    seen, whole, readers = run_scenario(scenario, tmp_path, halting)
    assert len(whole) > seen
    for n, got in enumerate(readers):
        assert raw(got) == raw(whole[n + 1 :])


@pytest.mark.requirement("E4", "F4", "F5", "G6")
def test_after_a_restart_every_reader_reads_the_same_bytes_as_before(tmp_path: Path):
    async def main():
        async with lab_provider(journey) as behind:
            async with serve_live(tmp_path, behind, gap=STALL) as server:
                asked = {"model": "agent", "input": "go", "stream": True}
                async with server.listen("/v1/responses", asked) as listener:
                    response = await listener.rest()
                before = await server.events(listener.run)
                view = await server.run(listener.run)
            async with serve_live(tmp_path, behind, gap=STALL) as server:
                path = f"/v1/responses/resp_{listener.run}?stream=true"
                again = [await server.read(f"{path}&starting_after={n}") for n in range(len(response))]
                events = [await server.events(listener.run, n) for n in range(len(before) + 1)]
                return before, events, response, again, view == await server.run(listener.run)

    before, events, response, again, same = run(main())
    assert same
    assert all(raw(got) == raw(before[n:]) for n, got in enumerate(events))
    assert all(raw(got) == raw(response[n + 1 :]) for n, got in enumerate(again))


@pytest.mark.requirement("E4", "F6", "J1")
@pytest.mark.parametrize("way", ["chat stream", "messages stream"])
def test_a_stream_that_is_asked_for_again_has_the_beginning_too(way: str, tmp_path: Path):
    """C6. A page that is loaded again in the middle of an answer."""

    async def scenario(server: LiveServer):
        path, asked = request_for(way)
        async with server.listen(path, asked, idempotency_key="k") as first:
            await first.until(LAST[CUT_AT - 8 : CUT_AT].encode())
            first.leave()
        await eventually(lambda: not len(server.service.heartbeat))
        again = asyncio.create_task(server.read(path, asked, idempotency_key="k"))
        await eventually(lambda: len(server.service.heartbeat))
        server.behind.gates.open(1)
        return first.frames, await again, len(server.lab.requests)

    first, again, asked = run_scenario(scenario, tmp_path, halting)
    assert streamed(way, again) == f"{FIRST}\n\n{LAST}"
    spoken, seen = ([one for one in told if one.event != "ping"] for told in (again, first))
    assert raw(spoken)[: len(seen)] == raw(seen)
    assert asked == 2


@pytest.mark.requirement("F5", "F4")
def test_an_event_that_there_is_not_and_a_run_that_there_is_not_are_told(tmp_path: Path):
    """C4."""

    async def scenario(server: LiveServer):
        async with server.listen(
            "/v1/responses", {"model": "agent", "input": "go", "stream": True}
        ) as listener:
            told = len(await listener.rest())
        count = len(await server.events(listener.run))
        events, response = f"/v1/runs/{listener.run}/events", f"/v1/responses/resp_{listener.run}?stream=true"
        return (
            await server.get(f"{events}?after={count + 1}"),
            await server.get(events, last_event_id=str(count + 1)),
            await server.get(f"{events}?after=x"),
            await server.get(events, last_event_id="-1"),
            await server.get(f"{response}&starting_after={told}"),
            await server.get("/v1/runs/r20990101-000000-ffffff/events"),
            await server.get("/v1/responses/resp_r20990101-000000-ffffff?stream=true"),
        )

    *wrong, unknown_run, unknown_response = run_scenario(scenario, tmp_path, journey, gap=STALL)
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
