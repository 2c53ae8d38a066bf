"""Numbers about all runs of this process, for Prometheus.

Every label has few values: names of routes, tools and endpoints are those that were given at the start, and
any other is counted as "other". What each number means is in docs/metrics.md.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import generate_latest

from turnbuckle.observe.loop_watch import LONGEST
from turnbuckle.observe.run_observer import CallStats, RunStats
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    Compacted,
    Decided,
    Fact,
    GiveUp,
    ModelAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    ToolFinished,
)
from turnbuckle.turn.route_uses import cause_of, was_stopped
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.tooling import FINISH_CALL, Effect

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CUT = ("cut_by_transport", "cut_by_length")
_WAITS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320)
"""Seconds that people wait for a model. The longest clock of a call fires before the last of them."""
_WORK = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 1800)
_SHARES = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_LATE = (0.005, 0.025, 0.1, 0.25, 1, 5, 30)
_REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600)

# Or each number comes with a second one that tells when it was first counted.
disable_created_metrics()  # type: ignore[no-untyped-call]


class RouteNow(Struct, frozen=True):
    """How one route is at this moment: its standing, and by what its usual limits are multiplied, by clock;
    None: not learned yet."""

    standing: str
    clocks: Mapping[str, float | None]


class ServerNow(Struct, frozen=True):
    """How the server is at this moment. What is None cannot be asked."""

    routes: Mapping[str, RouteNow] = {}
    queued: int = 0
    queued_seconds: float = 0.0
    """How long the one that came first has been waiting."""
    disk_free: int | None = None
    disk_total: int | None = None
    journal: int | None = None
    unheld: int | None = 0
    """In how many sessions there is work that no node holds."""


class Metrics:
    """An onlooker that counts. `tools` maps each tool to what it does to the world."""

    def __init__(
        self,
        *,
        routes: Iterable[str] = (),
        tools: Mapping[str, Effect] | None = None,
        endpoints: Iterable[str] = (),
    ) -> None:
        self.know(endpoints=endpoints, routes=routes, tools=tools)
        self._active: set[RunId] = set()
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}
        # Since somebody last looked: the library's own steps cost ten times as much.
        self._counted: dict[Any, float] = {}
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._make_run_metrics()
        self._make_call_metrics()
        self._make_server_metrics()
        self._make_gauges()

    def render(self) -> bytes:
        """All numbers, in the text format of Prometheus; `CONTENT_TYPE` names it."""
        counted, self._counted = self._counted, {}
        for child, by in counted.items():
            child.inc(by)
        return generate_latest(self._registry)

    # What runs do

    def take(self, run: RunStats, fact: Fact) -> None:
        self._active.add(run.run)
        match fact:
            case ModelAsked():
                self._count(self._model_calls, self._route(fact.route), fact.why)
                if fact.window:
                    self._observe(self._context, self._route(fact.route), fact.expected / fact.window)
            case Compacted():
                self._count(self._compactions, fact.step)
                self._freed.inc(max(fact.before - fact.after, 0))
            case Decided():
                self._decided(run, fact)
            case ToolFinished():
                self._tool_finished(run, fact)
            case ApprovalAnswered():
                self._count(self._approvals, fact.verdict)
            case RunClaimed():
                self._resumed.inc()
            case RunEnded():
                self._count(self._runs, fact.outcome.kind)
                self._active.discard(run.run)
            case RunLeft():
                self._active.discard(run.run)
            case _:
                pass

    def over(self, run: RunStats, call: CallStats) -> None:
        route = self._route(call.asked.route)
        if call.asked.stream and call.first_at is not None:
            self._observe(self._first_token, route, max(call.first_at - call.asked.at, 0.0))
            self._observe(self._gap, route, call.longest_gap or 0.0)
        if call.usage is not None:
            self._used(call.usage, call.cost)
        if call.failure is None:
            if run.stalls:
                self._stalls_survived.inc(run.stalls)
                run.stalls = 0
            return
        if call.failure.kind == "cancelled":  # a person's stop breaks nothing, and is counted as such
            return
        self._count(self._breaks, route, call.failure.kind, call.failure.clock or "")
        run.stalls += call.failure.kind == "stalled"

    def gone(self, run: RunStats) -> None:
        self._active.discard(run.run)

    # What the server does

    def http(self, method: str, endpoint: str, status: int, seconds: float) -> None:
        """A request was answered. `endpoint` is its pattern, such as /v1/runs/{id}."""
        endpoint = endpoint if endpoint in self._endpoints else OTHER
        self._count(self._http_requests, method if method in _METHODS else OTHER, endpoint, str(status))
        self._observe(self._http_seconds, endpoint, seconds)

    def know(
        self,
        *,
        endpoints: Iterable[str] = (),
        routes: Iterable[str] = (),
        tools: Mapping[str, Effect] | None = None,
    ) -> None:
        """The names that are counted apart: patterns of endpoints, routes, and tools with what each does to
        the world. Any other name counts as one."""
        self._endpoints = frozenset(endpoints)
        self._routes = frozenset(routes)
        self._tools = dict(tools or {})
        self._tool_names = frozenset((*self._tools, FINISH_CALL))

    def reader_came(self) -> None:
        self._readers.inc()

    def reader_left(self, *, dropped: bool = False) -> None:
        """`dropped`: it did not read, and was cut off."""
        self._readers.dec()
        if dropped:
            self._readers_dropped.inc()

    def loop_turned(self, late: float, held: float) -> None:
        """One look at the event loop: by how many seconds it was late, and how long work held it."""
        self._loop_late.observe(late)
        if held > LONGEST:
            self._loop_held.inc()
            self._loop_held_seconds.inc(held)

    def now(self, server: ServerNow) -> None:
        """How the server is at this moment."""
        for gauge in (self._standing, self._clocks):
            gauge.clear()
        for name, route in server.routes.items():
            self._standing.labels(self._route(name), route.standing).set(1)
            for clock, factor in route.clocks.items():
                if factor is not None:
                    self._clocks.labels(self._route(name), clock).set(factor)
        self._queued.set(server.queued)
        self._queued_seconds.set(server.queued_seconds)
        self._unheld.set(float("nan") if server.unheld is None else server.unheld)
        room = {"free": server.disk_free, "total": server.disk_total, "journal": server.journal}
        for part, size in room.items():
            self._disk.labels(part).set(float("nan") if size is None else size)

    # Counting

    def _decided(self, run: RunStats, fact: Decided) -> None:
        route, cause = self._route(run.route), cause_of(fact)
        if was_stopped(fact):
            self._count(self._stopped, route)
        elif isinstance(fact.decision, GiveUp):
            self._count(self._given_up, route, cause)
        else:
            self._count(self._recoveries, route, cause, str(fact.decision.__struct_config__.tag))
        if fact.verdict in _CUT:
            self._salvaged.inc(fact.gained)
        self._lost.inc(max(fact.lost, 0))

    def _tool_finished(self, run: RunStats, fact: ToolFinished) -> None:
        name = fact.name if fact.name in self._tool_names else OTHER
        told = fact.outcome
        self._count(self._tool_runs, name, told.status)
        if fact.call_id in run.tools:
            self._observe(self._tool_seconds, name, told.seconds)
        elif (
            run.claimed
            and told.status in ("unknown", "finished")
            and self._tools.get(fact.name, "read") != "read"
        ):
            # It was started by a process that is gone, and nobody started it again.
            self._not_repeated.inc()

    def _used(self, usage: Usage, cost: float | None) -> None:
        given, made = usage.input or 0, usage.output or 0
        self._count(self._tokens, "input", by=given)
        self._count(self._tokens, "output", by=made)
        self._count(self._tokens, "cached", by=usage.cached)
        self._count(self._tokens, "cache_written", by=usage.cache_written)
        if cost is None:
            self._unpriced.inc()
        else:
            self._money.inc(cost)

    def _count(self, counter: Counter, *labels: str, by: float = 1) -> None:
        child = self._child(counter, labels)
        if by:
            self._counted[child] = self._counted.get(child, 0) + by

    def _observe(self, histogram: Histogram, label: str, value: float) -> None:
        self._child(histogram, (label,)).observe(value)

    def _child(self, metric: Any, labels: tuple[str, ...]) -> Any:
        """The number of these labels; the library looks for it under a lock each time."""
        known = self._children.get((metric, labels))
        if known is None:
            known = self._children[metric, labels] = metric.labels(*labels)
        return known

    def _route(self, name: str) -> str:
        return name if name in self._routes else OTHER

    # The numbers

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"turnbuckle_{name}", told, labels, registry=self._registry)

    def _histogram(self, name: str, told: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"turnbuckle_{name}", told, labels, buckets=buckets, registry=self._registry)

    def _make_run_metrics(self) -> None:
        self._runs = self._counter("runs_total", "Runs that ended, by their outcome.", "outcome")
        self._resumed = self._counter(
            "runs_resumed_total", "Runs resumed after their process died or released them."
        )
        active = Gauge("turnbuckle_runs_active", "Runs that this process drives.", registry=self._registry)
        active.set_function(lambda: len(self._active))
        self._tool_runs = self._counter(
            "tool_runs_total", "Tool calls that have their outcome.", "tool", "status"
        )
        self._tool_seconds = self._histogram("tool_seconds", "How long tools ran.", _WORK, "tool")
        self._not_repeated = self._counter(
            "effects_not_repeated_total", "Tools that a dead process had started and that were not run twice."
        )
        self._approvals = self._counter("approvals_total", "Consents and answers of people.", "verdict")

    def _make_call_metrics(self) -> None:
        self._model_calls = self._counter("model_calls_total", "Model calls begun.", "route", "why")
        self._breaks = self._counter(
            "model_call_breaks_total",
            "Model calls that did not come to their protocol's own end.",
            "route",
            "kind",
            "clock",
        )
        self._stalls_survived = self._counter(
            "stalls_survived_total", "Stalled model calls that a later call of the same run made up for."
        )
        self._recoveries = self._counter(
            "recoveries_total", "Broken replies after which the run went on.", "route", "cause", "decision"
        )
        told = "Broken replies after which the run ended."
        self._given_up = self._counter("give_ups_total", told, "route", "cause")
        self._stopped = self._counter("calls_stopped_total", "Model calls that a person ended.", "route")
        self._salvaged = self._counter(
            "characters_salvaged_total", "Characters of cut replies that were kept."
        )
        self._lost = self._counter("characters_lost_total", "Characters that came and could not be used.")
        told = "Seconds from the request to the first content of a streamed reply."
        self._first_token = self._histogram("first_token_seconds", told, _WAITS, "route")
        told = "The longest silence inside each streamed reply, in seconds."
        self._gap = self._histogram("gap_seconds", told, _WAITS, "route")
        self._tokens = self._counter("tokens_total", "Tokens as the providers counted them.", "direction")
        told = "Estimated part of the context window that each request fills."
        self._context = self._histogram("context_used_ratio", told, _SHARES, "route")
        self._compactions = self._counter(
            "compactions_total", "Histories that were made smaller, by the step.", "step"
        )
        self._freed = self._counter("compaction_tokens_freed_total", "Tokens that compactions left out.")
        self._money = self._counter("money_total", "US dollars spent on model calls whose price is known.")
        told = "Model calls whose cost is unknown, because their model has no price."
        self._unpriced = self._counter("unpriced_calls_total", told)

    def _gauge(self, name: str, told: str, *labels: str) -> Gauge:
        return Gauge(f"turnbuckle_{name}", told, labels, registry=self._registry)

    def _make_gauges(self) -> None:
        told = "1 for how the route is: fit, benched, due to be tried again, probed."
        self._standing = self._gauge("route_standing", told, "route", "standing")
        told = "Factor on a route's default timeouts, learned from its speed."
        self._clocks = self._gauge("route_clock_scale", told, "route", "clock")
        self._queued = self._gauge("queued_messages", "Messages that wait for a run of their session to end.")
        told = "Seconds that the oldest queued message has been waiting."
        self._queued_seconds = self._gauge("queued_seconds", told)
        told = "Waiting runs, one for each session, that no server has taken: all are full, or lack a label."
        self._unheld = self._gauge("runs_unheld", told)
        told = "Bytes: free and total of the data folder's file system, and of the journal."
        self._disk = self._gauge("disk_bytes", told, "part")

    def _make_server_metrics(self) -> None:
        self._http_requests = self._counter(
            "http_requests_total", "Requests that were answered.", "method", "endpoint", "status"
        )
        told = "Seconds from a request to the end of its answer, streams included."
        self._http_seconds = self._histogram("http_seconds", told, _REQUESTS, "endpoint")
        self._readers = Gauge("turnbuckle_readers", "Readers that follow a run.", registry=self._registry)
        self._readers_dropped = self._counter(
            "readers_dropped_total", "Readers cut off because they did not read."
        )
        told = "By how many seconds the event loop was late, twenty times a second."
        self._loop_late = self._histogram("loop_late_seconds", told, _LATE)
        self._loop_held = self._counter(
            "loop_held_total", "How often one piece of work held the event loop for more than 0.25 s."
        )
        self._loop_held_seconds = self._counter("loop_held_seconds_total", "Seconds of these.")
