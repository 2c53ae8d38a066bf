"""Runs as spans, by the conventions of OpenTelemetry for generative AI.

A run is an `invoke_agent` span, a model call a `chat` span below it, a tool an `execute_tool` span. Spans
begin and end at the times of the facts, and an error is one only where something really failed: a run that
was stopped is not, nor is a model call or a tool that a stop cut off. What was decided about a broken reply
is an event of the run's span. No span holds what was said, asked or printed, nor the words of an error.

Without a tracer provider, or where the sampler says no, the run's span does not record, and no other is made.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turnbuckle.observe.run_observer import CallStats, RunStats
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    Decided,
    Fact,
    ModelAsked,
    RunEnded,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.wire.registry import PROTOCOLS

AGENT = "turnbuckle"
_FINISHES = {
    "calls": "tool_call",
    "filtered": "content_filter",
    "refused": "content_filter",
    "failed": "error",
}
"""The convention's words where they differ from ours."""
_NAME = 64  # of a tool that is not known, since a model may call for anything
_HEADER = "traceparent"
_propagator = TraceContextTextMapPropagator()
_NOT_TRACED = nullcontext()

Attributes = dict[str, Any]


def parent_of(headers: Mapping[str, str]) -> Context:
    """The caller's trace, from the headers of its request. A span that is current already, because the server
    itself is traced, comes first. Headers that cannot be read change nothing."""
    current = contexts.get_current()
    if trace.get_current_span(current).get_span_context().is_valid:
        return current
    return _propagator.extract({name.lower(): value for name, value in headers.items()}, context=current)


def under(headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Runs that are started inside become part of the caller's trace. Tasks made inside inherit it."""
    for name in headers:
        if len(name) == len(_HEADER) and name.lower() == _HEADER:
            return _joining(headers)
    return _NOT_TRACED  # as nearly always, and then nothing changes


@contextmanager
def _joining(headers: Mapping[str, str]) -> Iterator[None]:
    token = contexts.attach(parent_of(headers))
    try:
        yield
    finally:
        contexts.detach(token)


class _Traced:
    """The open spans of a run."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.context = trace.set_span_in_context(span, Context())
        self.chat: Span | None = None
        self.tools: dict[str, Span] = {}


class Traces:
    """An onlooker that makes spans. `providers` names who is behind a route, where its protocol does not
    tell."""

    def __init__(self, tracer: Tracer | None = None, providers: Mapping[str, str] | None = None) -> None:
        self._tracer = tracer if tracer is not None else trace.get_tracer(AGENT)
        self._providers = dict(providers or {})
        self._runs: dict[RunId, _Traced | None] = {}  # None: not recorded

    def take(self, run: RunStats, fact: Fact) -> None:
        if run.run not in self._runs:
            self._runs[run.run] = self._begin(run, fact)
        traced = self._runs[run.run]
        if traced is not None:
            self._take(run, traced, fact)
        elif isinstance(fact, (RunEnded, RunLeft)):
            self.gone(run)

    def over(self, run: RunStats, call: CallStats) -> None:
        traced = self._runs.get(run.run)
        if traced is None or traced.chat is None:
            return
        span, traced.chat = traced.chat, None
        span.set_attributes(_told(call))
        cut = call.failure.kind if call.failure is not None else ""
        if cut:
            span.set_attribute("turnbuckle.cut", cut)
        _close(span, cut if cut != "cancelled" else "", call.ended_at)

    def gone(self, run: RunStats) -> None:
        self._end(run, {"turnbuckle.outcome": "lost"}, "lost", None)

    # Spans

    def _take(self, run: RunStats, traced: _Traced, fact: Fact) -> None:
        match fact:
            case ModelAsked():
                traced.chat = self._chat(run, traced, fact)
            case ToolStarted():
                traced.tools[fact.call_id] = self._tool(traced, fact)
            case ToolFinished():
                _end_tool(traced, fact)
            case Decided():
                _decided(traced.span, fact)
            case ApprovalAsked():
                told = {"turnbuckle.approval": fact.approval, "gen_ai.tool.name": fact.name[:_NAME]}
                traced.span.add_event("turnbuckle.approval_asked", told, _time(fact.at))
            case ApprovalAnswered():
                told = {"turnbuckle.approval": fact.approval, "turnbuckle.verdict": fact.verdict}
                traced.span.add_event("turnbuckle.approval_answered", told, _time(fact.at))
            case StopAsked():
                traced.span.add_event("turnbuckle.stop_asked", None, _time(fact.at))
            case RunEnded(at, outcome):
                self._end(run, _outcome(outcome), _error(outcome), at)
            case RunLeft(at):
                self._end(run, {"turnbuckle.outcome": "left"}, "", at)
            case _:
                pass

    def _begin(self, run: RunStats, fact: Fact) -> _Traced | None:
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
            "turnbuckle.run": run.run,
            "turnbuckle.resumed": run.claimed,
        }
        if run.session:
            attributes["gen_ai.conversation.id"] = run.session
        span = self._tracer.start_span(
            f"invoke_agent {AGENT}", kind=SpanKind.INTERNAL, attributes=attributes, start_time=_time(fact.at)
        )
        return _Traced(span) if span.is_recording() else None

    def _chat(self, run: RunStats, traced: _Traced, asked: ModelAsked) -> Span:
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._providers.get(asked.route) or PROTOCOLS[asked.protocol].provider,
            "gen_ai.request.model": asked.model,
            "gen_ai.request.stream": asked.stream,
            "turnbuckle.route": asked.route,
            "turnbuckle.attempt": asked.attempt,
            "turnbuckle.why": asked.why,
        }
        if asked.cap is not None:
            attributes["gen_ai.request.max_tokens"] = asked.cap
        if run.session:
            attributes["gen_ai.conversation.id"] = run.session
        return self._tracer.start_span(
            f"chat {asked.model}", traced.context, SpanKind.CLIENT, attributes, start_time=_time(asked.at)
        )

    def _tool(self, traced: _Traced, started: ToolStarted) -> Span:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": started.name,
            "gen_ai.tool.call.id": started.call_id,
            "gen_ai.tool.type": "function",
        }
        name = f"execute_tool {started.name}"
        return self._tracer.start_span(
            name, traced.context, SpanKind.INTERNAL, attributes, start_time=_time(started.at)
        )

    def _end(self, run: RunStats, attributes: Attributes, error: str, at: float | None) -> None:
        traced = self._runs.pop(run.run, None)
        if traced is None:
            return
        left = [*traced.tools.values(), *([traced.chat] if traced.chat is not None else [])]
        for span in left:
            _close(span, "lost", at)
        traced.span.set_attributes(attributes)
        _close(traced.span, error, at)


def _end_tool(traced: _Traced, finished: ToolFinished) -> None:
    told = finished.outcome
    span = traced.tools.pop(finished.call_id, None)
    if span is None:
        # It never began, or a process that is gone began it.
        never: Attributes = {"gen_ai.tool.name": finished.name[:_NAME], "turnbuckle.tool.status": told.status}
        traced.span.add_event("turnbuckle.tool_without_start", never, _time(finished.at))
        return
    span.set_attribute("turnbuckle.tool.status", told.status)
    _close(span, "" if told.ok or told.status == "killed" else told.status, finished.at)


def _decided(span: Span, fact: Decided) -> None:
    told: Attributes = {
        "turnbuckle.attempt": fact.attempt,
        "turnbuckle.verdict": fact.verdict,
        "turnbuckle.decision": str(fact.decision.__struct_config__.tag),
        "turnbuckle.gained": fact.gained,
        "turnbuckle.lost": fact.lost,
    }
    span.add_event("turnbuckle.decided", told, _time(fact.at))


def _outcome(outcome: Outcome) -> Attributes:
    return {"turnbuckle.outcome": outcome.kind, "turnbuckle.drafts": len(outcome.drafts)}


def _error(outcome: Outcome) -> str:
    if outcome.kind in ("completed", "cancelled"):
        return ""
    return outcome.failure.kind if outcome.failure is not None else outcome.kind


def _told(call: CallStats) -> Attributes:
    told: Attributes = {}
    if call.reply_id:
        told["gen_ai.response.id"] = call.reply_id
    if call.model:
        told["gen_ai.response.model"] = call.model
    if call.finish is not None:
        told["gen_ai.response.finish_reasons"] = [_FINISHES.get(call.finish, call.finish)]
    if call.asked.stream and call.first_at is not None:
        told["gen_ai.response.time_to_first_chunk"] = max(call.first_at - call.asked.at, 0.0)
        told["turnbuckle.longest_gap"] = call.longest_gap or 0.0
    if call.failure is not None:
        if call.failure.clock is not None:
            told["turnbuckle.clock"] = call.failure.clock
        if call.failure.status is not None:
            told["http.response.status_code"] = call.failure.status
    return {**told, **_usage(call.usage)}


def _usage(usage: Usage | None) -> Attributes:
    if usage is None:
        return {}
    counts = {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_written or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning or None,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _close(span: Span, error: str, at: float | None) -> None:
    """`at` None: nobody noted when it ended, so it ends at this moment."""
    if error:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR))
    span.end(None if at is None else _time(at))


def _time(seconds: float) -> int:
    return round(seconds * 1e9)
