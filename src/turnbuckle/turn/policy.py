"""The rules of one turn, as data: which routes there are, what tools promise, and every limit."""

from msgspec import Struct

from turnbuckle.vocab.ids import Protocol, RouteName
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.tooling import Effect


class RouteFacts(Struct, frozen=True):
    """What the turn must know of a route. `cap` is its usual output limit, `cap_most` what it can be raised to."""

    name: RouteName
    protocol: Protocol
    model: str
    cap: int | None = None
    cap_most: int | None = None
    effort: str | None = None
    quirks: Quirks = Quirks()


class ToolFacts(Struct, frozen=True):
    """What a tool promises. `draftable` names its long text argument; `guarded` ones whose default is not harmless."""

    effect: Effect = "write"
    draftable: str = ""
    guarded: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
    """Budgets of a whole turn. They never refill. None: no limit."""

    model_calls: int = 90
    tool_calls: int = 300
    seconds: float = 3600.0
    tokens: int | None = None
    money: float | None = None
    same_call: int = 5
    """How often the same call with the same arguments may be made."""


class Policy(Struct, frozen=True):
    """Everything that the turn is told about the world. The first route is the usual one."""

    routes: tuple[RouteFacts, ...]
    tools: dict[str, ToolFacts] = {}
    limits: Limits = Limits()
    stream_retries: int = 2
    told_waits: int = 8
    """How often in a row the only route may say when to come back, and be asked again then."""
    continuations: int = 3
    max_recoveries: int = 2
    malformed_retries: int = 3
    empty_retries: int = 1
    pauses: int = 10
    longest_wait: float = 120.0
    """A provider that asks for a longer wait is left for another route, or the turn ends."""

    def route(self, name: RouteName) -> RouteFacts:
        return next((route for route in self.routes if route.name == name), self.routes[0])

    def tool(self, name: str) -> ToolFacts:
        return self.tools.get(name, ToolFacts())
