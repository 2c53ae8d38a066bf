"""One call in, one outcome out."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.tools.toolbox import Toolbox

from turnbuckle.testing.clock import VirtualClock
from turnbuckle.tools.spec import Denied, RunnableCall, ToolContext, ToolError, tool
from turnbuckle.vocab.tooling import ToolOutcome, finished

SECRET = "correct-horse-battery"
released = threading.Event()


@tool(effect="read")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool(effect="write", timeout=5)
async def hang(context: ToolContext) -> None:
    """Print something, and then nothing forever."""
    context.publish("so far\n")
    await context.clock.sleep(1e9)


@tool(effect="write", timeout=5)
async def deaf(context: ToolContext) -> None:
    """Do not react to being stopped."""
    while True:
        try:
            await context.clock.sleep(1000)
            return
        except asyncio.CancelledError:
            continue


@tool(effect="read", timeout=0.01)
def stuck(context: ToolContext) -> str:
    """Wait until the test is over."""
    released.wait()
    return "late"


@tool(effect="write", timeout=0.01)
def obedient(context: ToolContext) -> str:
    """Finish the work when asked to stop."""
    context.stopping.wait()
    return "done in time"


@tool(effect="read")
def fail(how: str) -> Any:
    """Fail in many ways."""
    errors: dict[str, BaseException] = {
        "tool": ToolError("try another path"),
        "value": ValueError(f"bad value {SECRET}"),
        "key": ValueError("the key sk-abcdefghijklmnop1234567890 is not valid"),
        "exit": SystemExit(3),
        "keyboard": KeyboardInterrupt("pressed by nobody"),
        "base": Unusual("not an Exception"),
        "stop": StopIteration("x"),
        "nameless": Nameless(),
        "long": ValueError("x" * 100_000),
    }
    raise errors[how]


@tool(effect="read")
async def fail_on_the_loop() -> None:
    """Fail on the loop."""
    raise SystemExit(2)


@tool(effect="read")
async def cancel_itself() -> None:
    """Be cancelled from inside."""
    raise asyncio.CancelledError


@tool(effect="read")
def say(text: str) -> str:
    """Say it."""
    return text


@tool(effect="read")
def leak() -> str:
    """Show a secret and half a surrogate pair."""
    return f"it is {SECRET} \ud83d"


@tool(effect="read")
def print_lines(context: ToolContext) -> None:
    """Print from a thread."""
    for number in range(3):
        context.publish(f"line {number}\n")


class Unusual(BaseException):
    """Not caught by `except Exception`."""


class Nameless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


TOOLS = (double, hang, deaf, stuck, obedient, fail, fail_on_the_loop, cancel_itself, say, leak, print_lines)


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    return Toolbox(tmp_path, TOOLS, environment={"SERVICE_API_KEY": SECRET})


def in_virtual_time(box: Toolbox, name: str, **settings: Any) -> tuple[ToolOutcome, float]:
    clock = VirtualClock()
    box.with_settings(clock=clock, **settings)
    return clock.run(lambda: box.run(name)), clock.now()


@pytest.mark.requirement("D5", "D7")
def test_a_plain_function_gives_its_value_as_text(box: Toolbox):
    outcome = box.do("double", number=21)
    assert (outcome.status, outcome.text) == ("finished", "42")


@pytest.mark.requirement("D1", "D4")
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("double", {}),
        ("double", {"number": "21"}),
        ("double", {"number": 1, "x": 1}),
        ("Double", {"number": 1}),
    ],
)
def test_a_call_that_does_not_fit_never_starts(box: Toolbox, name: str, arguments: dict[str, Any]):
    assert box.do(name, **arguments).fact == "never_started"


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "how, words",
    [
        ("tool", "try another path"),
        ("value", "ValueError: bad value [secret]"),
        ("key", "ValueError: the key [secret] is not valid"),
        ("exit", "SystemExit: 3"),
        ("keyboard", "KeyboardInterrupt: pressed by nobody"),
        ("base", "Unusual: not an Exception"),
        ("stop", "StopIteration"),
        ("nameless", "Nameless"),
        ("long", "ValueError: xxx"),
    ],
)
def test_whatever_a_tool_raises_becomes_a_failed_outcome(box: Toolbox, how: str, words: str):
    outcome = box.do("fail", how=how)
    assert outcome.status == "failed"
    assert words in outcome.text
    assert len(outcome.text) < 600


@pytest.mark.requirement("D5")
def test_an_exit_on_the_loop_does_not_end_the_server(box: Toolbox):
    assert box.do("fail_on_the_loop").status == "failed"


@pytest.mark.requirement("D5")
def test_a_tool_that_cancels_itself_does_not_cancel_the_run(box: Toolbox):
    assert box.do("cancel_itself").status == "failed"


@pytest.mark.requirement("D5")
def test_a_hanging_tool_is_ended_by_its_time_limit_and_its_output_is_kept(box: Toolbox):
    outcome, now = in_virtual_time(box, "hang")
    assert (outcome.status, outcome.partial_output, outcome.seconds) == ("timed_out", "so far\n", 5.0)
    assert now == 5.0


@pytest.mark.requirement("D4", "D5")
def test_a_stopped_tool_is_killed_and_says_so(box: Toolbox):
    async def stopped() -> ToolOutcome:
        stop = asyncio.Event()
        box.with_settings(stop=stop, publish=lambda text: stop.set())
        return await box.run("hang")

    outcome = asyncio.run(stopped())
    assert (outcome.status, outcome.partial_output) == ("killed", "so far\n")


def test_a_call_behind_a_stop_never_starts(box: Toolbox):
    async def late() -> ToolOutcome:
        stop = asyncio.Event()
        stop.set()
        return await box.with_settings(stop=stop).run("double", number=1)

    assert asyncio.run(late()).status == "not_started"


@pytest.mark.requirement("D5")
def test_a_tool_that_does_not_react_is_left_behind_and_named(box: Toolbox):
    outcome, _ = in_virtual_time(box, "deaf")
    assert (outcome.status, outcome.survivors) == ("timed_out", ("deaf",))
    assert outcome.seconds < 10


@pytest.mark.requirement("D5")
@pytest.mark.realtime
def test_a_thread_that_can_not_be_stopped_is_left_behind_and_named(box: Toolbox):
    try:
        outcome = box.do("stuck")
    finally:
        released.set()
    assert (outcome.status, outcome.survivors) == ("timed_out", ("the thread of stuck",))


@pytest.mark.requirement("D4")
@pytest.mark.realtime
def test_work_that_was_done_after_all_is_told_as_done(box: Toolbox):
    outcome = box.do("obedient")
    assert (outcome.status, outcome.text) == ("finished", "done in time")


@pytest.mark.requirement("D5")
def test_cancelling_the_caller_ends_the_tool(box: Toolbox):
    ended: list[str] = []

    @tool(effect="read")
    async def wait(context: ToolContext) -> None:
        """Wait."""
        context.publish("on\n")
        try:
            await context.clock.sleep(1000)
        finally:
            ended.append("yes")

    async def main() -> None:
        started = asyncio.Event()
        mine = Toolbox(box.workspace, [wait], publish=lambda text: started.set())
        task = asyncio.create_task(mine.run("wait"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == ["yes"]


@pytest.mark.requirement("D4")
def test_a_denied_call_never_starts_and_says_why(box: Toolbox):
    async def no(call: RunnableCall) -> Denied | None:
        return Denied(f"{call.name} is not for you")

    outcome = box.with_settings(decide=no).do("double", number=1)
    assert (outcome.status, outcome.text, outcome.fact) == (
        "denied",
        "double is not for you",
        "never_started",
    )


def test_a_rule_that_breaks_allows_nothing(box: Toolbox):
    async def broken(call: RunnableCall) -> Denied | None:
        raise KeyError("rules")

    assert box.with_settings(decide=broken).do("double", number=1).status == "not_started"


def test_a_stop_ends_the_wait_for_a_permission(box: Toolbox):
    async def main() -> ToolOutcome:
        stop = asyncio.Event()

        async def never(call: RunnableCall) -> Denied | None:
            stop.set()
            await asyncio.Event().wait()
            return None

        return await box.with_settings(stop=stop, decide=never).run("double", number=1)

    assert asyncio.run(main()).status == "not_started"


@pytest.mark.requirement("D5")
def test_a_large_result_loses_its_middle_and_is_kept_whole(tmp_path: Path):
    box = Toolbox(tmp_path, TOOLS, output_cap=1000)
    text = "".join(f"{number:05}\n" for number in range(5000))
    outcome = box.do("say", text=text)
    assert outcome.text.startswith(text[:500])
    assert outcome.text.endswith(text[-500:])
    assert "29,000 characters left out" in outcome.text
    assert outcome.kept_at is not None
    assert (box.workspace / outcome.kept_at).read_text() == text


@pytest.mark.requirement("D5")
def test_the_model_can_read_what_was_kept(tmp_path: Path):
    box = Toolbox(tmp_path)
    (box.workspace / "big.txt").write_text("x\n" * 40_000)
    kept = box.do("shell", command="cat big.txt").kept_at
    assert kept is not None
    assert box.do("read_file", path=kept, start=39_999).text.startswith(
        "x\nx\n[lines 39,999 to 40,000 of 40,000]"
    )
    assert box.do("write_file", path=kept, content="").status == "failed"


def test_a_result_that_can_not_be_kept_says_so(tmp_path: Path):
    box = Toolbox(tmp_path, TOOLS, output_cap=100)
    (box.data / "kept").write_text("a file where the folder should be")
    outcome = box.do("say", text="x" * 1000)
    assert (outcome.status, outcome.kept_at) == ("finished", None)
    assert "could not be kept" in outcome.text


def test_secrets_and_broken_characters_do_not_come_out(box: Toolbox):
    outcome = box.do("leak")
    assert outcome.text == "it is [secret] ?"
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=ToolOutcome) == outcome


def test_what_a_tool_prints_is_live_and_is_its_result_if_it_returns_nothing(box: Toolbox):
    outcome = box.do("print_lines")
    assert outcome.text == "line 0\nline 1\nline 2\n"
    assert "".join(box.heard) == outcome.text


@pytest.mark.requirement("D6")
def test_independent_calls_run_together_and_each_ends_by_itself(tmp_path: Path):
    @tool(effect="read")
    async def nap(seconds: float, context: ToolContext) -> ToolOutcome:
        """Sleep."""
        await context.clock.sleep(seconds)
        return finished(f"{context.clock.now():g}")

    clock = VirtualClock()
    box = Toolbox(tmp_path, [nap], clock=clock)

    async def main() -> list[str]:
        naps = [asyncio.create_task(box.run("nap", seconds=length)) for length in (3.0, 1.0, 2.0)]
        return [(await one).text for one in asyncio.as_completed(naps)]

    assert clock.run(main) == ["1", "2", "3"]


def test_the_key_names_run_and_call_unless_one_is_given(tmp_path: Path):
    @tool(effect="read")
    def key(context: ToolContext) -> str:
        """Show the key."""
        return context.key

    box = Toolbox(tmp_path, [key])
    assert box.do("key").text == "run:call_1"
    assert box.with_settings(key="given").do("key").text == "given"
