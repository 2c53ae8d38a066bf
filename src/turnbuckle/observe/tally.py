"""What breaks cost, by day and cause, and how each route fares: for people who look at a page.

It counts from the start of the process, as the metrics do, and is as small as the number of days, causes and
routes. What was asked and said is not in it.
"""

from datetime import UTC, datetime

from msgspec import Struct

from turnbuckle.observe.run_observer import MOST_RUNS, CallStats, RunStats
from turnbuckle.turn.facts import Decided, Fact, GiveUp
from turnbuckle.vocab.ids import RunId

MOST_DAYS = 31
MOST_ROUTES = 200
OTHER = "other"


class WasteLine(Struct):
    """What one cause has cost on one day, by UTC. `seconds` were spent in calls that broke, `characters` came
    and could not be used, `cost` is in US dollars, as far as it is known."""

    day: str
    cause: str
    times: int = 0
    seconds: float = 0.0
    characters: int = 0
    cost: float = 0.0


class RouteTally(Struct):
    """How the calls of one route went. `stalls` are among `breaks`. `recovered`: the run went on after a
    break there."""

    route: str
    calls: int = 0
    breaks: int = 0
    stalls: int = 0
    recovered: int = 0
    given_up: int = 0


class WasteTally:
    """An onlooker that adds up."""

    def __init__(self) -> None:
        self._waste: dict[tuple[str, str], WasteLine] = {}
        self._routes: dict[str, RouteTally] = {}
        self._asked: dict[RunId, str] = {}  # the route of the last call of each run

    @property
    def waste(self) -> list[WasteLine]:
        """The newest day first, and in it what cost most time."""
        by_time = sorted(self._waste.values(), key=lambda line: -line.seconds)
        return sorted(by_time, key=lambda line: line.day, reverse=True)

    def route(self, name: str) -> RouteTally:
        """What is known of a route; nothing of one that was never asked."""
        return self._routes.get(name, RouteTally(name))

    def take(self, run: RunStats, fact: Fact) -> None:
        if isinstance(fact, Decided):
            self._decided(run, fact)

    def over(self, run: RunStats, call: CallStats) -> None:
        route = self._route(call.asked.route)
        route.calls += 1
        self._asked.pop(run.run, None)
        if len(self._asked) >= MOST_RUNS:
            del self._asked[next(iter(self._asked))]
        self._asked[run.run] = route.route
        if call.failure is None:
            return
        route.breaks += 1
        route.stalls += call.failure.kind == "stalled"
        line = self._line(call.ended_at, call.failure.kind)
        line.times += 1
        line.seconds += call.seconds
        line.cost += call.cost or 0.0

    def gone(self, run: RunStats) -> None:
        """What was counted stays."""

    def route_of(self, run: RunId) -> str:
        """The route that the run asked last; empty if nobody knows."""
        return self._asked.get(run, "")

    def _decided(self, run: RunStats, fact: Decided) -> None:
        route = self._route(self._asked.get(run.run, OTHER))
        if isinstance(fact.decision, GiveUp):
            route.given_up += 1
        else:
            route.recovered += 1
        if fact.failure is None:  # a reply that came to its end and was not whole
            self._line(fact.at, fact.verdict).times += 1
        cause = fact.failure.kind if fact.failure is not None else fact.verdict
        self._line(fact.at, cause).characters += max(fact.lost, 0)

    def _route(self, name: str) -> RouteTally:
        if name not in self._routes and len(self._routes) >= MOST_ROUTES:
            name = OTHER
        return self._routes.setdefault(name, RouteTally(name))

    def _line(self, at: float, cause: str) -> WasteLine:
        day = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
        key = (day, cause)
        if key not in self._waste:
            self._waste[key] = WasteLine(day, cause)
            days = sorted({line.day for line in self._waste.values()})
            for old in days[:-MOST_DAYS]:
                self._waste = {known: line for known, line in self._waste.items() if line.day != old}
        return self._waste.setdefault(key, WasteLine(day, cause))
