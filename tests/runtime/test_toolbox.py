"""The tools behind the driver's port: what may start, what is known after a crash, and what may be killed."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from turnbuckle.errors import ConfigError
from turnbuckle.lab.clock import RealClock
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.runtime.faults import read_fault
from turnbuckle.runtime.toolbox import Toolbox, facts_of
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Denied, ProbeAnswer, RunnableCall, ToolContext, tool
from turnbuckle.turn.policy import ToolFacts


@tool(effect="read")
def looks() -> str:
    """Look."""
    return "seen"


@tool(effect="idempotent")
def sets() -> str:
    """Set."""
    return "set"


@tool(effect="write")
def adds() -> str:
    """Add."""
    return "added"


def _answer(arguments: Mapping[str, Any], context: ToolContext) -> ProbeAnswer:
    return cast(ProbeAnswer, arguments["answer"])


@tool(effect="idempotent", probe=_answer)
def probed(answer: str) -> str:
    """Give an answer."""
    return answer


async def _refuses(call: RunnableCall) -> Denied | None:
    return Denied("by rule") if call.name == "adds" else None


def _toolbox(folder: Path) -> Toolbox:
    context = ToolContext(workspace=folder, data=folder / ".data", clock=RealClock())
    return Toolbox(Dispatcher(Registry([looks, sets, adds, probed])), context, _refuses)


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("looks", {}, "again"),
        ("sets", {}, "again"),
        ("adds", {}, "unknown"),
        ("gone", {}, "unknown"),
        ("probed", {"answer": "done"}, "done"),
        ("probed", {"answer": "not_done"}, "not_done"),
        ("probed", {"answer": "unknown"}, "unknown"),
    ],
)
def test_after_a_crash_only_what_is_safe_runs_again(
    name: str, arguments: dict[str, Any], answer: str, tmp_path: Path
) -> None:
    assert asyncio.run(_toolbox(tmp_path).probe(SoundCall("", name, arguments), "key")) == answer


@pytest.mark.requirement("D1")
@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [("look", {}, "not_started"), ("looks", {"x": 1}, "not_started"), ("adds", {}, "denied")],
)
def test_a_call_that_may_not_start_is_refused_before_anything_happens(
    name: str, arguments: dict[str, Any], status: str, tmp_path: Path
) -> None:
    refused = asyncio.run(_toolbox(tmp_path).refuse(SoundCall("c", name, arguments)))
    assert refused is not None
    assert refused.status == status


def test_a_call_that_may_start_runs_to_its_outcome(tmp_path: Path) -> None:
    async def work() -> str:
        toolbox = _toolbox(tmp_path)
        assert await toolbox.refuse(SoundCall("c", "looks", {})) is None
        return (
            await toolbox.run(SoundCall("c", "looks", {}), "key", lambda text: None, asyncio.Event())
        ).text

    assert asyncio.run(work()) == "seen"


def test_the_turn_learns_what_the_tools_promise() -> None:
    facts = facts_of(Dispatcher(Registry(BUILT_IN)))
    assert facts["write_file"] == ToolFacts("idempotent", "content", subject="path")
    assert facts["shell"] == ToolFacts("write", subject="command", is_command=True, widens="network")
    assert facts["read_file"] == ToolFacts("read", subject="path")


@pytest.mark.parametrize("text", ["", "after-append", "sometimes:x:1", "in-tool::1", "in-tool:shell:soon"])
def test_a_fault_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="must be like"):
        read_fault(text)


def test_a_fault_counts_down_at_its_own_point_only() -> None:
    fault = read_fault("after-append:ToolStarted:3")
    for point, name in [
        ("after-append", "ToolStarted"),
        ("before-append", "ToolStarted"),
        ("after-append", "RunEnded"),
    ]:
        fault.reached(point, name)
    assert fault.left == 2
