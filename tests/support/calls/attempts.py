"""What tests of attempts need: the lab's provider over real sockets, a pool of connections, and virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.limits import StallSettings
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import LINGER, Connections
from turnbuckle.lab.provider import Provider
from turnbuckle.lab.script import Case, ScriptItem
from turnbuckle.reply.accumulate import fold
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import ProtocolName, RouteName
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import ModelRequest

T = TypeVar("T")


def case_of(*steps: ScriptItem) -> Case:
    return Case("test", "a test", (steps,))


def request_of(text: str = "hello", model: str = "", **fields: Any) -> ModelRequest:
    return ModelRequest(model, (Message("user", (TextPart(text),)),), **fields)


def route_to(url: str, protocol: ProtocolName = "openai_chat", **fields: Any) -> Route:
    return Route(RouteName(fields.pop("name", "lab")), protocol, url, fields.pop("model", "m"), **fields)


class AttemptHarness:
    """What a scenario has in its hands."""

    def __init__(self, provider: Provider, connections: Connections, clock: Any) -> None:
        self.provider = provider
        self.connections = connections
        self.clock = clock

    def attempt(
        self,
        protocol: ProtocolName = "openai_chat",
        *,
        request: ModelRequest | None = None,
        stall: StallSettings | None = None,
        url: str | None = None,
        clock: Any = None,
        **fields: Any,
    ) -> Attempt:
        route = route_to(url or self.provider.url + "/v1", protocol, stall=stall or StallSettings())
        return Attempt(
            route, request or request_of(), connections=self.connections, clock=clock or self.clock, **fields
        )

    async def run(self, protocol: ProtocolName = "openai_chat", **fields: Any) -> list[list[Event]]:
        return [batch async for batch in self.attempt(protocol, **fields)]


Scenario = Callable[[AttemptHarness], Awaitable[T]]


def run_scenario(case: Case | str, scenario: "Scenario[T]", *, quiet: float = 0.004) -> T:
    """Run a scenario in virtual time; nothing may be left running behind it."""
    clock = VirtualClock()

    async def main() -> T:
        async with Provider(case, clock=clock) as provider, Connections() as connections:
            result = await scenario(AttemptHarness(provider, connections, clock))
            await asyncio.sleep(LINGER + 0.5)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert left == set(), left
        return result

    return clock.run(main, quiet=quiet)


def flat(batches: list[list[Event]]) -> list[Event]:
    return [event for batch in batches for event in batch]


def reply_of(batches: list[list[Event]]) -> Reply:
    """The folded reply, after a check that there is one last word and nothing behind it."""
    events = flat(batches)
    assert [isinstance(event, Ended | Cut) for event in events].count(True) == 1
    assert isinstance(events[-1], Ended | Cut)
    return fold(events)


def failure_of(batches: list[list[Event]]) -> Failure:
    last = reply_of(batches).last
    assert isinstance(last, Cut), last
    return last.failure
