"""Agents for tests: with the rehearsal model and a journal in memory, or in front of the lab's provider."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from turnbuckle.agent.agent import Agent
from turnbuckle.agent.events import Event
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case, LabRequest, ScriptItem
from turnbuckle.narrate.told import RunOver, Text

PATIENCE = 100.0
"""Far longer than anything here takes, so that what hangs is told as what it is."""


def agent(folder: Path, **more: Any) -> Agent:
    """An agent that needs nothing and leaves nothing outside the folder."""
    given = {
        "model": "rehearsal",
        "workspace": folder,
        "data": ":memory:",
        "config": None,
        "environment": {},
        **more,
    }
    return Agent(**given)


def run_scenario(folder: Path, scenario: Callable[[Agent], Awaitable[Any]], **more: Any) -> Any:
    """Open an agent, run a scenario with it, and give what the scenario gives."""

    async def main() -> Any:
        async with asyncio.timeout(PATIENCE), agent(folder, **more) as opened:
            return await scenario(opened)

    return asyncio.run(main())


@asynccontextmanager
async def lab_provider(model: Callable[[LabRequest], Iterable[ScriptItem]]) -> AsyncIterator[Provider]:
    """A provider whose replies are a function of the request."""
    async with Provider(Case("own", "plays a function", ((model,),))) as provider:
        yield provider


def text_of(events: Iterable[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def outcome_of(events: list[Event]) -> str:
    """How a whole run ended; it has exactly one end, and that is its last event."""
    assert [type(event) for event in events].count(RunOver) == 1
    last = events[-1]
    assert isinstance(last, RunOver)
    return last.outcome
