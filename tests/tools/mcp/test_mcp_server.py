"""A server of tools that dies, hangs, lies or floods ends each call with the truth, and nothing is done twice."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.tools.mcp import Bench, played

from turnbuckle.testing.clock import VirtualClock
from turnbuckle.tools.mcp.server import MOST_FAILURES, REST
from turnbuckle.vocab.tooling import ToolOutcome

pytestmark = pytest.mark.requirement("M1", "M2")


def outcome(folder: Path, tool: str, text: str = "hello", start: str = "well") -> tuple[ToolOutcome, Bench]:
    async def main(clock: VirtualClock) -> tuple[ToolOutcome, Bench]:
        bench = Bench(folder, clock, start)
        try:
            return await bench.call(tool, text), bench
        finally:
            await bench.server.close()

    return played(main)


@pytest.mark.parametrize("start", ["well", "old", "garbage", "stateless"])
def test_a_server_of_any_revision_is_understood(tmp_path: Path, start: str):
    found, bench = outcome(tmp_path, "echo", "hello", start)
    assert (found.status, found.text) == ("finished", "hello")
    assert "notifications/initialized" in bench.links[0].double.heard or start == "stateless"


@pytest.mark.requirement("M2")
@pytest.mark.parametrize(
    "tool, status, words",
    [
        ("fail", "failed", "it is broken"),
        ("refuse", "failed", r"notes refused: \x1b[31mno\u202e"),
        ("structured", "finished", '{"text": "hello"}'),
        ("twice", "finished", "first"),
        ("asks", "finished", "asked"),
        ("mistyped", "unknown", "cannot be read"),
        ("die", "unknown", "exit code 3"),
        ("half", "unknown", "exit code 3"),
        ("flood", "unknown", "that nobody asked for"),
        ("line", "unknown", "more than 4 MB"),
        ("noise", "unknown", "not messages"),
    ],
)
def test_a_call_has_the_one_outcome_that_is_true(tmp_path: Path, tool: str, status: str, words: str):
    found, bench = outcome(tmp_path, tool)
    assert found.status == status
    assert words in found.text
    assert bench.calls == [tool]


@pytest.mark.parametrize("tool", ["look", "set"])
def test_only_a_call_that_may_be_repeated_is_made_again_after_a_death_and_only_once(
    tmp_path: Path, tool: str
):
    found, bench = outcome(tmp_path, tool)
    assert (found.status, found.text) == ("finished", {"look": "seen hello", "set": "set hello"}[tool])
    assert bench.calls == [tool, tool]

    async def never_lives(clock: VirtualClock) -> tuple[ToolOutcome, Bench]:
        bench = Bench(tmp_path, clock)
        wanted = await bench.tool(tool)
        bench.refuses = "gone for good"
        return await bench.server.call(wanted, {"text": ""}, bench.context), bench

    found, bench = played(never_lives)
    assert found.fact == "unknown"  # it was asked, and may have been done
    assert bench.calls == [tool]


class _Hasty:
    """A clock whose sleeps end a little too early by itself, as those of an event loop may."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.now = clock.now

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds - 0.001 if seconds > 0.002 else seconds)


def test_a_call_behind_a_death_waits_for_the_next_start_though_a_sleep_ends_too_early(tmp_path: Path):
    async def main(clock: VirtualClock) -> list[str]:
        bench = Bench(tmp_path, _Hasty(clock))
        try:
            return [(await bench.call(tool)).status for tool in ("die", "echo")]
        finally:
            await bench.server.close()

    assert played(main) == ["unknown", "finished"]


def test_a_call_that_never_left_has_not_happened(tmp_path: Path):
    async def main(clock: VirtualClock) -> ToolOutcome:
        bench = Bench(tmp_path, clock)
        wanted = await bench.tool("echo")
        link = bench.links[0]
        link.takes_nothing = True
        link._session.end("it reads no more")
        bench.refuses = "not there"
        return await bench.server.call(wanted, {"text": ""}, bench.context)

    found = played(main)
    assert (found.status, "not there" in found.text) == ("not_started", True)


def test_answers_to_other_numbers_answer_nothing_and_the_wait_has_an_end(tmp_path: Path):
    async def main(clock: VirtualClock) -> tuple[Any, list[str]]:
        bench = Bench(tmp_path, clock)
        wanted = await bench.tool("wrong")
        call = asyncio.ensure_future(bench.server.call(wanted, {"text": ""}, bench.context))
        await clock.sleep(100)
        waits = not call.done()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await clock.sleep(1)
        return waits, bench.links[0].double.heard

    waits, heard = played(main)
    assert waits
    assert "notifications/cancelled" in heard


@pytest.mark.parametrize("start, is_ended", [("well", False), ("deaf", True)])
def test_a_server_that_does_not_even_answer_a_ping_is_ended(tmp_path: Path, start: str, is_ended: bool):
    async def main(clock: VirtualClock) -> tuple[bool, str]:
        bench = Bench(tmp_path, clock, start)
        bench.starts = [start, "well"]
        call = asyncio.ensure_future(bench.server.call(await bench.tool("hang"), {"text": ""}, bench.context))
        await clock.sleep(1)
        call.cancel()
        await clock.sleep(30)
        ended = bench.links[0].closed > 0
        return ended, (await bench.call("echo")).text

    assert played(main) == (is_ended, "hello")


@pytest.mark.parametrize(
    "start, why",
    [
        ("hang", "did not start within 30 s"),
        ("die", "exit code 3"),
        ("noise", "not messages"),
        ("unknown", "revision '1999-01-01'"),
    ],
)
def test_a_server_that_does_not_start_is_told_and_tried_again_later_and_not_for_ever(
    tmp_path: Path, start: str, why: str
):
    async def main(clock: VirtualClock) -> tuple[Any, ...]:
        bench = Bench(tmp_path, clock, start)
        first = await bench.server.tools()
        began = clock.now()
        for _ in range(200):
            await bench.server.tools()
            await clock.sleep(1)
        tries, told = len(bench.links), bench.server.state.why
        await clock.sleep(REST)
        bench.starts = ["well"]
        await bench.server.tools()
        await clock.sleep(1)
        back = len(await bench.server.tools())
        closed = all(link.closed for link in bench.links[:tries])
        return first, clock.now() - began, tries, told, back, closed

    first, _, tries, told, back, closed = played(main)
    assert first == ()
    assert tries <= MOST_FAILURES
    assert why in told
    assert back > 10
    assert closed  # nothing of it is left


def test_a_run_waits_for_a_hanging_server_once_and_not_again(tmp_path: Path):
    async def main(clock: VirtualClock) -> list[float]:
        bench = Bench(tmp_path, clock, "hang")
        waits = []
        for _ in range(5):
            began = clock.now()
            await bench.server.tools()
            waits.append(clock.now() - began)
            await clock.sleep(100)
        await bench.server.close()
        return waits

    assert played(main) == [30.0, 0.0, 0.0, 0.0, 0.0]


def test_two_runs_that_begin_at_once_both_wait_for_the_one_server(tmp_path: Path):
    async def main(clock: VirtualClock) -> tuple[int, int, int]:
        bench = Bench(tmp_path, clock)
        first, second = await asyncio.gather(bench.server.tools(), bench.server.tools())
        return len(first), len(second), len(bench.links)

    first, second, started = played(main)
    assert first == second > 10
    assert started == 1


def test_progress_is_shown_and_a_changed_list_is_read_again(tmp_path: Path):
    async def main(clock: VirtualClock) -> tuple[Any, ...]:
        bench = Bench(tmp_path, clock)
        found = await bench.call("progress")
        bench.extra.append({"name": "new"})
        before = len(bench.server.listing.tools)
        await bench.server.tools()
        await clock.sleep(1)
        return found.text, bench.said, len(await bench.server.tools()) - before

    assert played(main) == ("done", ["part 1\n", "part 2\n"], 1)


def test_pictures_are_kept_and_other_parts_are_told(tmp_path: Path):
    found, bench = outcome(tmp_path, "picture")
    lines = found.text.splitlines()
    assert lines[0] == "hello"
    assert lines[1].startswith("[image/png, 8 bytes, kept for the user as ")
    assert [file.stat().st_mode & 0o777 for file in (bench.context.kept / "run").iterdir()] == [0o600]
    assert lines[2:5] == ["[a note: note://1]", "[note://2]", "held"]
    assert "not known here" in lines[5]


def test_what_the_server_asks_of_us_is_refused_and_a_ping_answered(tmp_path: Path):
    _, bench = outcome(tmp_path, "asks")
    answers = [heard for heard in bench.links[0].double.heard if heard.startswith("answer")]
    assert answers == ["answer -32601"] * 3 + ["answer ok"]


def test_an_argument_goes_to_the_server_under_its_own_name(tmp_path: Path):
    async def main(clock: VirtualClock) -> ToolOutcome:
        bench = Bench(tmp_path, clock)
        tool = msgspec.structs.replace(await bench.tool("echo"), renamed={"words": "text"})
        try:
            return await bench.server.call(tool, {"words": "hello"}, bench.context)
        finally:
            await bench.server.close()

    assert played(main).text == "hello"
