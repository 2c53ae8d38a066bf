"""What can happen to tool calls, whole and cut, by the ids of the scenario catalogue (T)."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.runs.run_harness import RunHarness, RunRecord, run_case, run_scenario
from support.turns.histories import in_pieces

from turnbuckle.lab.script import Call, Case, Finish, Say
from turnbuckle.reply.repair import repair
from turnbuckle.tools.spec import Denied, Tool, tool
from turnbuckle.turn.facts import DraftKept, ModelAsked, ToolFinished, ToolSaid, ToolStarted
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.wire.registry import rules_of

EVERY = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)


def calling(*calls: tuple[str, dict[str, Any]]) -> Case:
    """A model that makes these calls in one reply, and then is done."""
    made = tuple(Call(name, arguments) for name, arguments in calls)
    return Case("calling", "", ((*made, Finish()),), after_tools=(Say("Done."), Finish()))


class Till:
    """A tool with an effect that must not happen twice. `hang_at` names a payment that never comes to its end."""

    def __init__(self, hang_at: str = "", probed: bool = False) -> None:
        self.paid: list[str] = []
        self.asked: list[str] = []
        self.hang_at = hang_at
        self.tool: Tool = tool(effect="write", probe=self._probe if probed else None, name="pay")(
            self._function()
        )

    def _function(self) -> Any:
        async def pay(to: str) -> str:
            """Pay somebody."""
            self.paid.append(to)
            if to == self.hang_at:
                await asyncio.Event().wait()
            return f"paid {to}"

        return pay

    def _probe(self, arguments: Any, context: Any) -> Any:
        self.asked.append(arguments["to"])
        return "done" if arguments["to"] in self.paid else "not_done"


def results(record: RunRecord) -> list[str]:
    """The results as the model was told them."""
    parts = [
        part for message in record.turn.messages for part in message.parts if isinstance(part, ResultPart)
    ]
    return ["".join(text.text for text in part.content if isinstance(text, TextPart)) for part in parts]


async def crash_in(harness: RunHarness, till: Till, count: int) -> RunRecord:
    """Die inside the nth payment, and come back."""
    running = await harness.start()
    while len(till.paid) < count:
        await harness.clock.sleep(0.1)
    await harness.crash(running)
    till.hang_at = ""
    return await harness.resume(running)


@in_pieces
@pytest.mark.parametrize("case", ["cut-in-shell", "cut-in-edit"])
def test_T4_nothing_is_salvaged_of_a_command_or_an_edit(tmp_path: Path, protocol: ProtocolName, case: str):
    """`rm -rf notes` may have been meant to go on: no draft, no run, and the files are as they were."""

    async def scenario(harness: RunHarness) -> RunRecord:
        (harness.workspace / "notes.md").write_text("keep")
        (harness.workspace / "notes").mkdir()
        return await harness.run()

    record = run_scenario(tmp_path, case, scenario, protocol=protocol)
    assert record.started == []
    assert record.of(DraftKept) == []
    assert (record.workspace / "notes.md").read_text() == "keep"
    assert (record.workspace / "notes").is_dir()
    assert "Nothing of it ran" in record.body(1)


@in_pieces
def test_T5_a_flag_that_was_lost_is_not_assumed(tmp_path: Path, protocol: ProtocolName):
    """The tool's `dry_run` was in the part that never came: its default is not taken, the call is refused."""
    sent: list[str] = []

    @tool(effect="write", draftable="text", guarded=("dry_run",))
    async def send_mail(text: str, dry_run: bool = False) -> str:
        """Send a mail."""
        sent.append(text)
        return "sent"

    record = run_case(tmp_path, "draft-without-flags", protocol=protocol, tools=(send_mail,))
    assert sent == []
    assert record.started == []
    assert "without a safe default: dry_run" in results(record)[0]


def cities(record: RunRecord) -> list[str]:
    assert record.outcome.kind == "completed"
    assert len({started.call_id for started in record.started}) == len(record.started)
    return sorted(started.arguments["city"] for started in record.started)


@EVERY
def test_T6_three_calls_on_one_index_are_three_calls(tmp_path: Path, protocol: ProtocolName):
    """All on index 0 with ids of their own: each runs once, and each is answered."""
    record = run_case(tmp_path, "three-on-one-index", protocol=protocol)
    assert cities(record) == ["Bergen", "Bodo", "Oslo"]
    assert len(results(record)) == 3
    assert cities(run_case(tmp_path, "same-index", protocol=protocol)) == ["Bergen", "Oslo"]


@EVERY
def test_T7_pieces_without_ids_are_joined_by_their_index(tmp_path: Path, protocol: ProtocolName):
    """Two calls in turns, told apart by nothing but their index."""
    assert cities(run_case(tmp_path, "interleaved-without-ids", protocol=protocol)) == ["Bergen", "Oslo"]


@EVERY
def test_T9_two_whole_calls_of_one_name_are_two_calls(tmp_path: Path, protocol: ProtocolName):
    """Each is the first part of its own chunk, and none has an index."""
    assert cities(run_case(tmp_path, "whole-calls-without-index", protocol=protocol)) == ["Bergen", "Oslo"]


@EVERY
def test_T11_calls_in_the_chunk_that_says_finish_are_not_dropped(tmp_path: Path, protocol: ProtocolName):
    """Two calls come with the finish reason in one chunk."""
    assert cities(run_case(tmp_path, "calls-in-finish-chunk", protocol=protocol)) == ["Bergen", "Oslo"]


@pytest.mark.requirement("D3", "D4", "E2")
@EVERY
def test_T13_a_tool_that_was_running_when_the_process_died_is_unknown(tmp_path: Path, protocol: ProtocolName):
    """It was started, and nobody saw its end: it is not run again, and the model and the record say so."""
    till = Till(hang_at="Ann")

    async def scenario(harness: RunHarness) -> RunRecord:
        return await crash_in(harness, till, 1)

    record = run_scenario(
        tmp_path, calling(("pay", {"to": "Ann"})), scenario, protocol=protocol, tools=(till.tool,)
    )
    assert till.paid == ["Ann"]
    assert [finished.outcome.status for finished in record.finished] == ["unknown"]
    assert "how it ended is not known" in results(record)[0]
    assert record.outcome.kind == "completed"


@pytest.mark.requirement("D3")
@EVERY
@pytest.mark.parametrize("happened", [True, False], ids=["done", "not done"])
def test_T14_a_probe_finds_out_what_became_of_it(tmp_path: Path, protocol: ProtocolName, happened: bool):
    """Done: it is told as done. Not done: it is run now, under the same key. Either way it is recorded."""
    till = Till(hang_at="Ann", probed=True)

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        while not till.paid:
            await harness.clock.sleep(0.1)
        await harness.crash(running)
        till.hang_at = ""
        if not happened:
            till.paid.clear()  # the power went before the payment did
        return await harness.resume(running)

    record = run_scenario(
        tmp_path, calling(("pay", {"to": "Ann"})), scenario, protocol=protocol, tools=(till.tool,)
    )
    assert till.paid == ["Ann"]
    assert till.asked == ["Ann"]
    assert [finished.outcome.status for finished in record.finished] == ["finished"]
    assert len({started.key for started in record.started}) == 1


@pytest.mark.requirement("D2")
@EVERY
def test_T15_without_a_stored_intent_no_tool_starts(tmp_path: Path, protocol: ProtocolName):
    """The disk is full when the intent is to be written: nothing is paid while it is; with room the run goes on."""
    till = Till()
    stages: list[RunHarness] = []

    async def fill_the_disk(call: Any) -> Denied | None:
        stages[0].journal.room = 0
        return None

    async def scenario(harness: RunHarness) -> RunRecord:
        stages.append(harness)
        running = await harness.start()
        await harness.clock.sleep(600)
        assert (till.paid, running.done) == ([], False)
        assert not any(isinstance(fact, ToolStarted) for fact in await harness.facts(running.run))
        harness.journal.room = 10**9
        await running.outcome()
        return await harness.record(running.run)

    case = calling(("pay", {"to": "Ann"}))
    record = run_scenario(
        tmp_path, case, scenario, protocol=protocol, tools=(till.tool,), decide=fill_the_disk
    )
    assert till.paid == ["Ann"]
    assert record.outcome.kind == "completed"


@pytest.mark.requirement("D2")
@EVERY
def test_T16_a_result_that_could_not_be_stored_is_stored_before_the_model_is_asked_again(
    tmp_path: Path, protocol: ProtocolName
):
    """The disk is full for three seconds when the tool is done: its result is tried again, and only then told."""
    stages: list[RunHarness] = []
    ran: list[str] = []

    @tool(effect="write")
    async def pay(to: str) -> str:
        """Pay somebody."""
        ran.append(to)
        stages[0].journal.room = 0
        asyncio.get_running_loop().call_later(3, lambda: setattr(stages[0].journal, "room", 10**9))
        return f"paid {to}"

    async def scenario(harness: RunHarness) -> RunRecord:
        stages.append(harness)
        return await harness.run()

    record = run_scenario(
        tmp_path, calling(("pay", {"to": "Ann"})), scenario, protocol=protocol, tools=(pay,)
    )
    assert ran == ["Ann"]
    kinds = [type(fact) for fact in record.facts if isinstance(fact, ToolStarted | ToolFinished | ModelAsked)]
    assert kinds == [ModelAsked, ToolStarted, ToolFinished, ModelAsked]
    assert record.requests[1].arrived >= 3
    assert "paid Ann" in record.body(1)


@pytest.mark.requirement("D3", "E2")
@EVERY
def test_T17_of_a_batch_only_the_call_that_was_running_is_unknown(tmp_path: Path, protocol: ProtocolName):
    """Two of three were done when the process died: their real results are used, and none is run again."""
    till = Till(hang_at="Cid")
    case = calling(*(("pay", {"to": name}) for name in ("Ann", "Bob", "Cid")))

    async def scenario(harness: RunHarness) -> RunRecord:
        return await crash_in(harness, till, 3)

    record = run_scenario(tmp_path, case, scenario, protocol=protocol, tools=(till.tool,))
    assert till.paid == ["Ann", "Bob", "Cid"]
    assert [finished.outcome.status for finished in record.finished] == ["finished", "finished", "unknown"]
    assert results(record)[:2] == ["paid Ann", "paid Bob"]
    assert "not known" in results(record)[2]
    assert len(record.requests) == 2


@pytest.mark.realtime
@pytest.mark.requirement("D4", "D5")
def test_T18_a_tool_that_a_stop_killed_says_so_with_what_it_had_printed(tmp_path: Path):
    """Stop while a command runs: killed, with its output until then, and no talk of anybody having refused it."""

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        await harness.until(running, ToolSaid)
        running.stop()
        await running.outcome()
        return await harness.record(running.run)

    case = calling(("shell", {"command": "echo half of it; sleep 60"}))
    record = run_scenario(tmp_path, case, scenario, real=True)
    (finished,) = record.finished
    assert finished.outcome.status == "killed"
    assert finished.outcome.partial_output == "half of it\n"
    assert record.outcome.kind == "cancelled"
    told = results(record)[0]
    assert told.startswith("Killed after")
    assert "half of it" in told
    assert "reject" not in told


@pytest.mark.realtime
@pytest.mark.requirement("D5")
def test_T19_a_stop_ends_the_grandchildren_of_a_command_too(tmp_path: Path):
    """A command leaves children of children behind: after a stop none of them lives, or the result names it."""
    command = "(sleep 300 & echo $!; sleep 301 & echo $!; wait) & echo $!; echo begun; wait"

    async def scenario(harness: RunHarness) -> RunRecord:
        running = await harness.start()
        said = ""
        while said.count("\n") < 4:
            await harness.journal.wait(running.run, await harness.journal.head(running.run))
            said = "".join(
                fact.text for fact in await harness.facts(running.run) if isinstance(fact, ToolSaid)
            )
        running.stop()
        await running.outcome()
        return await harness.record(running.run)

    record = run_scenario(tmp_path, calling(("shell", {"command": command})), scenario, real=True)
    outcome = record.finished[0].outcome
    pids = [int(line) for line in outcome.partial_output.split() if line.isdigit()]
    assert len(pids) == 3
    living = [pid for pid in pids if _lives(pid)]
    assert all(any(str(pid) in survivor for survivor in outcome.survivors) for pid in living)
    assert living == []


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").exists() or ") Z" not in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.requirement("D5")
@EVERY
def test_T20_a_tool_that_hangs_is_ended_by_its_deadline_and_the_turn_goes_on(
    tmp_path: Path, protocol: ProtocolName
):
    """30 seconds are its limit: the model gets a result that says so, the next call runs, the turn completes."""

    @tool(effect="write", timeout=30)
    async def wait_for_ever() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    case = calling(("wait_for_ever", {}), ("get_weather", {"city": "Oslo"}))
    record = run_case(tmp_path, case, protocol=protocol, tools=(wait_for_ever,))
    assert [finished.outcome.status for finished in record.finished] == ["timed_out", "finished"]
    assert "Ended by its time limit after 30.0 s" in results(record)[0]
    assert record.outcome.kind == "completed"
    assert record.seconds == pytest.approx(30, abs=1)


@EVERY
def test_T21_a_call_that_a_rule_blocks_is_told_as_blocked_and_nothing_else(
    tmp_path: Path, protocol: ProtocolName
):
    """A rule says no: there is no start and no completion, only the one fact that it was denied."""
    till = Till()

    async def deny(call: Any) -> Denied | None:
        return Denied("Payments are not allowed here.")

    record = run_case(
        tmp_path, calling(("pay", {"to": "Ann"})), protocol=protocol, tools=(till.tool,), decide=deny
    )
    assert till.paid == []
    assert record.started == []
    assert [(done.outcome.status, done.outcome.fact) for done in record.finished] == [
        ("denied", "never_started")
    ]
    assert results(record) == ["Not allowed, and not run: nothing happened. Payments are not allowed here."]


@pytest.mark.requirement("E1", "E5")
@EVERY
def test_T22_a_reader_that_was_away_gets_the_completion_with_its_next_read(
    tmp_path: Path, protocol: ProtocolName
):
    """The reader stops reading when the tool starts, for a minute: the end of the call waits for it in the journal."""

    async def scenario(harness: RunHarness) -> tuple[list[Any], list[Any]]:
        running = await harness.start()
        await harness.until(running, ToolStarted)
        cursor = await harness.journal.head(running.run)
        await running.outcome()
        await harness.clock.sleep(60)
        late = [
            msgspec.json.decode(item.data)["type"] for item in await harness.journal.read(running.run, cursor)
        ]
        everything = [
            msgspec.json.decode(item.data)["type"] for item in await harness.journal.read(running.run)
        ]
        return late, everything

    late, everything = run_scenario(tmp_path, "tool", scenario, protocol=protocol)
    assert late[0] == "tool_finished"
    assert everything[-len(late) :] == late


@pytest.mark.requirement("C7")
@EVERY
def test_T23_the_same_call_again_and_again_ends_the_turn_with_that_reason(
    tmp_path: Path, protocol: ProtocolName
):
    """The model makes the same failing call forever: after the allowed number of times the turn ends and says why."""

    @tool(effect="read", name="get_weather")
    async def failing(city: str) -> str:
        """Tell the weather."""
        raise OSError("no station answers")

    async def scenario(harness: RunHarness) -> RunRecord:
        return await harness.run()

    record = run_scenario(tmp_path, "same-call-for-ever", scenario, protocol=protocol, instead=(failing,))
    assert len(record.started) == 5
    assert {finished.outcome.status for finished in record.finished} == {"failed", "not_started"}
    assert record.outcome.kind == "partial"
    assert record.outcome.why.startswith("the same call was made more than 5 times: get_weather")
    assert record.outcome.failure is not None
    assert record.outcome.failure.kind == "budget"


@pytest.mark.requirement("C5")
@EVERY
def test_T24_what_a_user_says_while_a_tool_runs_stays_a_message_of_the_user(protocol: ProtocolName):
    """It stands between the call and its result: a matter of the history alone, so the pure repair is asked. The
    result comes first, and the user's words follow as the user's."""
    call = CallPart("call_1", "get_weather", '{"city":"Oslo"}')
    also = TextPart("And in Bergen?")
    history = (
        Message("user", (TextPart("How is the weather in Oslo?"),)),
        Message("assistant", (call,)),
        Message("user", (also,)),
        Message("tool", (ResultPart("call_1", (TextPart("It is fine."),)),)),
    )
    made = repair(history, rules_of(protocol), to_ask=True)
    assert made.left == ()
    assert [message.role for message in made.messages] == ["user", "assistant", "tool", "user"]
    assert made.messages[-1].parts == (also,)
    assert not made.messages[-1].note
