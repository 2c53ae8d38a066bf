"""Runs as a collector would get them, from the real SDK."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes
from opentelemetry.trace import SpanKind, StatusCode
from support.narrate.sample_runs import facts_of, stories_with_faults
from support.observe.observed_runs import observed
from support.runs.run_harness import TASK, run_case
from support.turns.turn_facts import RESET, START, ask, burst, called, said

from turnbuckle.observe.run_observer import RunObserver
from turnbuckle.observe.traces import Traces, parent_of, under
from turnbuckle.testing.world.faults import NOTHING
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    RunClaimed,
    RunEnded,
    RunLeft,
    StopAsked,
    ToolFinished,
    ToolStarted,
)
from turnbuckle.vocab.events import Cut, Ended, FinishNoted, Started, TextDelta, Usage, UsageNoted
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.tooling import ToolOutcome

KNOWN = {
    value
    for module in (gen_ai_attributes, error_attributes, http_attributes)
    for value in vars(module).values()
    if isinstance(value, str)
}
SECOND = 1_000_000_000
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(SpanProcessor):
    """Keeps spans in the order of their ends, and counts those that began."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.begun = 0

    def on_start(self, span, parent_context=None) -> None:
        self.begun += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def collected(**providers: str) -> tuple[Traces, Collector]:
    provider, collector = TracerProvider(), Collector()
    provider.add_span_processor(collector)
    return Traces(provider.get_tracer("test"), providers), collector


def spans_of(facts) -> list[ReadableSpan]:
    traces, collector = collected()
    observed(facts, traces)
    assert len(collector.spans) == collector.begun
    return collector.spans


def attributes_of(told: ReadableSpan | Event) -> Mapping[str, Any]:
    assert told.attributes is not None
    return told.attributes


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / SECOND, span.end_time / SECOND


@pytest.mark.requirement("H5")
def test_a_whole_run_with_a_tool_is_one_tree_by_the_conventions():
    usage = Usage(input=120, output=30, cached=100, reasoning=5)
    reply = burst(
        Started("id-2", "m-2025"),
        TextDelta(0, "x"),
        FinishNoted("stop", "stop"),
        UsageNoted(usage),
        Ended("end"),
        at=9.0,
    )
    facts = [
        START,
        ask(at=2.0, cap=100),
        called(("c1", "look", "{}")),
        ToolStarted(4.0, "c1", "look", {"secret": "x"}, "k"),
        ToolFinished(6.0, "c1", "look", ToolOutcome("finished", "seen", seconds=2.0)),
        ask(2, at=7.0, why="after_tools"),
        reply,
        RunEnded(10.0, Outcome("completed")),
    ]
    first, tool, second, run = spans_of(facts)
    assert [(span.name, span.kind) for span in (run, first, tool, second)] == [
        ("invoke_agent turnbuckle", SpanKind.INTERNAL),
        ("chat m", SpanKind.CLIENT),
        ("execute_tool look", SpanKind.INTERNAL),
        ("chat m", SpanKind.CLIENT),
    ]
    assert [seconds(span) for span in (run, first, tool, second)] == [(1, 10), (2, 3), (4, 6), (7, 9)]
    assert run.parent is None
    assert {span.parent.span_id for span in (first, tool, second)} == {run.context.span_id}
    assert {span.status.status_code for span in (run, first, tool, second)} == {StatusCode.UNSET}
    assert run.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "turnbuckle",
        "gen_ai.conversation.id": "s",
        "turnbuckle.run": "r",
        "turnbuckle.resumed": False,
        "turnbuckle.outcome": "completed",
        "turnbuckle.drafts": 0,
    }
    assert attributes_of(first)["gen_ai.request.max_tokens"] == 100
    assert attributes_of(first)["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "turnbuckle.tool.status": "finished",
    }
    assert second.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "s",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "id-2",
        "gen_ai.response.model": "m-2025",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 2.0,
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "turnbuckle.route": "main",
        "turnbuckle.attempt": 2,
        "turnbuckle.why": "after_tools",
        "turnbuckle.longest_gap": 0.0,
    }


@pytest.mark.requirement("H5")
def test_a_stall_is_an_error_of_its_call_and_not_of_the_run_that_survived_it(tmp_path: Path):
    broken, whole, run = spans_of(run_case(tmp_path, "silent-once-then-works").facts)
    assert (broken.status.status_code, attributes_of(broken)["error.type"]) == (StatusCode.ERROR, "stalled")
    assert attributes_of(broken)["turnbuckle.clock"] == "first_event"
    assert seconds(broken) == (0.0, 20.0)
    assert whole.status.status_code == run.status.status_code == StatusCode.UNSET
    (decided,) = run.events
    assert (decided.name, decided.timestamp) == ("turnbuckle.decided", 20 * SECOND)
    assert attributes_of(decided)["turnbuckle.decision"] == "retry"


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Outcome("completed"), None),
        (Outcome("cancelled", "stopped"), None),
        (Outcome("partial", "why"), "partial"),
        (Outcome("partial", "why", failure("budget", "spent")), "budget"),
        (Outcome("failed", "why", failure("auth", "no key")), "auth"),
    ],
)
def test_a_run_is_in_error_only_if_it_failed(outcome: Outcome, error: str | None):
    (run,) = spans_of([START, StopAsked(2.0), RunEnded(3.0, outcome)])
    assert run.attributes.get("error.type") == error
    assert run.status.status_code == (StatusCode.ERROR if error else StatusCode.UNSET)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("finished", None),
        ("killed", None),
        ("failed", "failed"),
        ("timed_out", "timed_out"),
        ("unknown", "unknown"),
    ],
)
def test_a_tool_is_in_error_if_it_failed_and_not_if_it_was_stopped(status, error):
    start, end = ToolStarted(2.0, "c", "look", {}, "k"), ToolFinished(3.0, "c", "look", ToolOutcome(status))
    tool, _ = spans_of([START, start, end, RunEnded(4.0, Outcome("cancelled"))])
    assert tool.attributes.get("error.type") == error
    assert attributes_of(tool)["turnbuckle.tool.status"] == status


def test_a_model_call_that_a_stop_cut_off_is_no_error_and_a_refused_one_tells_its_status():
    stopped, refused, _ = spans_of(
        [
            START,
            ask(),
            burst(Cut(failure("cancelled", "stopped"))),
            ask(2),
            burst(Cut(Failure("rate_limited", "slow down", True, status=429)), number=2),
            RunEnded(4.0, Outcome("cancelled")),
        ]
    )
    assert (attributes_of(stopped)["turnbuckle.cut"], stopped.status.status_code) == (
        "cancelled",
        StatusCode.UNSET,
    )
    assert attributes_of(refused)["error.type"] == "rate_limited"
    assert attributes_of(refused)["http.response.status_code"] == 429


def test_what_has_no_span_of_its_own_is_an_event_of_the_run():
    (run,) = spans_of(
        [
            START,
            ToolFinished(2.0, "c", "made_up" * 20, ToolOutcome("not_started")),
            ApprovalAsked(3.0, "a1", "d", "shell", {"command": "rm"}),
            ApprovalAnswered(4.0, "a1", "denied"),
            RunEnded(5.0, Outcome("completed")),
        ]
    )
    assert [(event.name, event.timestamp // SECOND) for event in run.events] == [
        ("turnbuckle.tool_without_start", 2),
        ("turnbuckle.approval_asked", 3),
        ("turnbuckle.approval_answered", 4),
    ]
    assert len(attributes_of(run.events[0])["gen_ai.tool.name"]) == 64


def test_what_was_open_when_a_run_was_let_go_of_is_lost():
    facts = [START, ask(), ToolStarted(4.0, "c", "look", {}, "k"), RunLeft(5.0, "stopping")]
    tool, call, run = spans_of(facts)
    assert [attributes_of(span)["error.type"] for span in (tool, call)] == ["lost", "lost"]
    assert (attributes_of(run)["turnbuckle.outcome"], run.status.status_code) == ("left", StatusCode.UNSET)


def test_a_run_that_comes_back_begins_a_trace_that_names_it():
    lost, run = spans_of([START, RunClaimed(5.0, 2), RunEnded(6.0, Outcome("completed"))])
    assert (attributes_of(lost)["turnbuckle.outcome"], attributes_of(lost)["error.type"]) == ("lost", "lost")
    assert (attributes_of(run)["turnbuckle.run"], attributes_of(run)["turnbuckle.resumed"]) == ("r", True)
    assert run.context.trace_id != lost.context.trace_id


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
def test_the_trace_of_a_request_goes_on_in_the_run_that_it_starts(name: str):
    traces, collector = collected()
    sight = RunObserver([traces])

    async def handle() -> None:
        with under({name: PARENT, "host": "x"}):
            drive = asyncio.create_task(run())
        await drive

    async def run() -> None:
        sight("r", START)

    asyncio.run(handle())
    for fact in (ask(), said("x"), RunEnded(3.0, Outcome("completed"))):
        sight("r", fact)
    call, top = collector.spans
    assert f"{top.context.trace_id:032x}" == f"{call.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{top.parent.span_id:016x}" == PARENT.split("-")[2]


@pytest.mark.parametrize(
    "headers", [{}, {"traceparent": ""}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-01"}]
)
def test_headers_that_can_not_be_read_begin_a_trace_of_their_own(headers):
    assert not trace.get_current_span(parent_of(headers)).get_span_context().is_valid


def test_the_span_of_a_traced_server_comes_before_the_header():
    span = TracerProvider().get_tracer("server").start_span("POST /v1/runs")
    with trace.use_span(span):
        parent = parent_of({"traceparent": PARENT})
    assert trace.get_current_span(parent) is span


@pytest.mark.requirement("H5")
def test_without_a_provider_or_against_the_sampler_nothing_is_made():
    for tracer in (None, TracerProvider(sampler=ALWAYS_OFF).get_tracer("test")):
        traces = Traces(tracer)
        sight = observed([START, ask(), said("x")], traces)
        assert list(traces._runs.values()) == [None]
        sight("r", RunEnded(3.0, Outcome("completed")))
        assert traces._runs == {}


def test_a_route_may_name_its_provider():
    traces, collector = collected(main="groq")
    observed([START, ask(), burst(RESET)], traces)
    assert attributes_of(collector.spans[0])["gen_ai.provider.name"] == "groq"


@pytest.mark.requirement("H5")
@pytest.mark.parametrize(
    "case", ["tool", "stalls-in-text", "refusal", "draft-with-overlap", "error-in-stream", "rate-limited"]
)
@pytest.mark.parametrize("protocol", ["openai_chat", "anthropic"])
def test_no_span_holds_content_and_every_attribute_is_of_the_conventions_or_our_own(
    tmp_path: Path, case, protocol
):
    record = run_case(tmp_path, case, protocol=protocol)
    spoken = [TASK, record.shown, "Oslo", "note.md", "lab was told", "slow down", "engine failed", "The rope"]
    for span in spans_of(record.facts):
        for attributes in (span.attributes, *(event.attributes for event in span.events)):
            assert {name for name in attributes if not name.startswith("turnbuckle.")} <= KNOWN
            told = " ".join(map(str, attributes.values()))
            assert [words for words in spoken if words and words in told] == []
        assert span.status.description is None


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("name", ["write, then read", "a draft, finished at once", "a flag and a command"])
def test_every_span_ends_once_whatever_goes_wrong(name: str, record_property):
    tried: Counter[str] = Counter()
    for run, faults in stories_with_faults(name):
        spans = spans_of(facts_of(run))
        assert len({span.context.span_id for span in spans}) == len(spans)
        for began, ended in (
            seconds(span) for span in spans if attributes_of(span).get("error.type") != "lost"
        ):
            assert ended >= began
        tried.update(type(fault).__name__ for fault in faults if fault != NOTHING)
    record_property("worlds tried", tried.total())
    assert len(tried) == 8
