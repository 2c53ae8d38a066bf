"""A provider that repeats our key in its errors: it gets no further than the call."""

import io
import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.observe.observed_runs import numbers, observed
from support.runs.run_harness import RunHarness, run_scenario

from turnbuckle.call.routes import Secret
from turnbuckle.lab.script import Case, Error, Finish, Frame, Headers, LabRequest, Open, Raw, Say, Status
from turnbuckle.observe.logs import RunLines, open_log
from turnbuckle.observe.metrics import Metrics
from turnbuckle.observe.traces import Traces
from turnbuckle.turn.facts import Fact, ModelAsked, RunEnded, RunStarted, Streamed, decode, encode
from turnbuckle.vocab.events import Ended, Event, FinishNoted, OpaqueBlock, StateNoted, TextDelta
from turnbuckle.vocab.ids import PROTOCOL_NAMES, RouteName, RunId, SessionId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.redaction import Redactor

KEY = "house/key+42:not for others"
HEADER = "second-secret-in-a-header"


def echoed(request: LabRequest) -> str:
    """The whole request, as proxies like to show it."""
    return json.dumps(request.headers)


def escaped(text: str) -> str:
    return text.replace("/", "\\/")


PLACES = {
    "a 401": lambda request: (Status(401, f"bad credentials in {echoed(request)}"),),
    "a 401 with a body of its own": lambda request: (Status(401, body=f"<refused> {echoed(request)}"),),
    "a 401 with escaped slashes": lambda request: (
        Status(401, body=f'{{"error": {escaped(echoed(request))}}}'),
    ),
    "a code of an error": lambda request: (Status(400, "bad", KEY),),
    "a body that is cut inside of the key": lambda request: (
        Status(500, body="x" * 1_980 + KEY + "x" * 9_000),
    ),
    "a short sample that is cut inside of the key": lambda request: (Raw("x" * 285 + KEY + "x" * 9_000),),
    "a redirect": lambda request: (Status(307, headers={"location": f"http://other/?k={KEY}&h={HEADER}"}),),
    "an id of the request": lambda request: (Status(500, headers={"x-request-id": f"for-{HEADER}"}),),
    "its limits": lambda request: (
        Headers({"x-ratelimit-limit-requests": f"Bearer {KEY}", "request-id": HEADER}),
        Say("Whole."),
        Finish(),
    ),
    "its limits, with an error": lambda request: (Status(429, headers={"x-ratelimit-reset-tokens": HEADER}),),
    "fields beside the reply": lambda request: (
        Say("Half"),
        Frame(
            {
                "id": "r",
                "object": "chat.completion.chunk",
                "debug": {"headers": request.headers},
                "choices": [],
            }
        ),
        Finish(),
    ),
    "an event of its own": lambda request: (
        Say("Half"),
        Frame({"type": "response.debug", "headers": request.headers, "sequence_number": 1}, "response.debug"),
        Finish(),
    ),
    "an error in the stream": lambda request: (
        Say("Half"),
        Error("invalid", f"no: {echoed(request)}", "bad"),
    ),
    "an event that cannot be read": lambda request: (
        Say("Half"),
        Raw(f"data: {{{echoed(request)}\n\n"),
        Say("."),
        Finish(),
    ),
    "an event of another world": lambda request: (Open(), Frame({"error": {"message": echoed(request)}})),
    "a body that is no stream": lambda request: (Raw(f"debug: {echoed(request)}\n"),),
    "a document that is not whole": lambda request: (Raw(f'{{"debug": {echoed(request)}'),),
}


@pytest.mark.requirement("H5")
@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_a_provider_that_repeats_the_key_tells_nobody_else(tmp_path: Path, place: str, protocol):
    heard: list[str] = []

    def play(request: LabRequest):
        heard.append(echoed(request))
        return PLACES[place](request)

    async def scenario(harness: RunHarness) -> list[bytes]:
        running = await harness.start()
        await running.outcome()
        return [item.data for item in await harness.journal.read(running.run, 0, 5_000)]

    headers = {"x-lab-case": "echoes", "x-second-token": f"Bearer {HEADER}"}
    route = {"api_key": Secret(KEY), "headers": headers}
    items = run_scenario(tmp_path, Case("echoes", "", ((play,),)), scenario, protocol=protocol, route=route)
    assert heard
    assert all(KEY in told and HEADER in told for told in heard)  # or this would prove nothing
    told = [item.decode() for item in items] + _everything_told(items)
    for text in told:
        for secret in (KEY, HEADER):
            assert secret not in text
            assert secret[:10] not in text
            assert escaped(secret) not in text


@pytest.mark.requirement("H5", "R3")
@pytest.mark.parametrize(
    "event", [StateNoted(0, {"blob": KEY}), OpaqueBlock(0, {"type": KEY, "data": [KEY]})]
)
def test_what_only_its_provider_understands_is_told_to_no_log_metric_or_trace(event: Event):
    """It is kept and sent back as it is, so nobody searches it for secrets."""
    facts: list[Fact] = [
        RunStarted(1.0, RunId("r"), SessionId("s"), (), 0),
        ModelAsked(2.0, 1, RouteName("main"), "openai_responses", "m", "first"),
        Streamed(3.0, 1, (event, TextDelta(1, "Whole."), FinishNoted("stop", "stop"), Ended("done"))),
        RunEnded(4.0, Outcome("completed")),
    ]
    items = [encode(fact) for fact in facts]
    assert any(KEY in item.decode() for item in items)  # or this would prove nothing
    assert not any(KEY in text for text in _everything_told(items))


def _everything_told(items: list[bytes]) -> list[str]:
    """Metrics, log lines with all content, and spans of these facts, by a process that knows no secret at all."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    metrics, stream = Metrics(), io.StringIO()
    with open_log("json", Redactor(), stream):
        observed(map(decode, items), metrics, Traces(provider.get_tracer("test")), RunLines(content=True))
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert spans
    assert numbers(metrics)
    assert stream.getvalue()
    return [metrics.render().decode(), stream.getvalue(), *spans]
