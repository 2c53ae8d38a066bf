"""A route is tried for real, as a run would use it: one tiny streamed answer, one tiny tool call, and in
words what works and what to do about what does not. `turnbuckle init` and `turnbuckle doctor --online` share
it."""

import asyncio
import difflib
import time

from msgspec import Struct

from turnbuckle.call.attempt import Attempt
from turnbuckle.call.clock import SystemClock
from turnbuckle.call.routes import Route
from turnbuckle.call.transport import Connections
from turnbuckle.cli.doctor.finding import Finding
from turnbuckle.reply.accumulate import fold
from turnbuckle.reply.verdict import verdict
from turnbuckle.vocab.clock import Clock
from turnbuckle.vocab.events import CallStarted, Event, ReasoningDelta, TextDelta
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import ModelRequest, ToolSpec

PATIENCE = 60.0
LOCAL_PATIENCE = 180.0
"""A model on one's own machine may have to be loaded first."""
_COUNT = "Count from one to ten in words, separated by commas. Nothing else."
_NOTE = ToolSpec(
    "note_word",
    "Note one word.",
    {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
)
_USE_IT = "Call the tool note_word with the word tea."
_SAMPLE = 200


class RouteTrial(Struct, frozen=True):
    """What a route showed. `calls` is None if tools were not tried, `call_failure` says why they did not
    work."""

    failure: Failure | None = None
    model: str = ""
    first: float = 0.0
    seconds: float = 0.0
    pieces: int = 0
    streams: bool = True
    calls: bool | None = None
    call_failure: Failure | None = None


async def try_route(route: Route, *, clock: Clock | None = None, patience: float | None = None) -> RouteTrial:
    """Ask a route for a few words, and for one call. Never raises for what the provider does."""
    seconds = patience if patience is not None else (LOCAL_PATIENCE if route.local else PATIENCE)
    async with Connections() as connections:
        caller = _Caller(route, connections, clock or SystemClock(), seconds)
        said = await caller.ask(_COUNT)
        streams = True
        if said.failure is not None and said.failure.kind == "unstreamable":
            streams, said = False, await caller.ask(_COUNT, stream=False)
        if said.failure is not None:
            return RouteTrial(said.failure, seconds=said.seconds, streams=streams)
        called = await caller.ask(_USE_IT, (_NOTE,), stream=streams)
    calls = verdict(called.reply).calls
    good = len(calls) == 1 and calls[0].name == _NOTE.name and isinstance(calls[0].arguments.get("word"), str)
    return RouteTrial(
        None,
        said.reply.model,
        said.first,
        said.seconds,
        said.pieces,
        streams,
        good,
        None if good else called.failure,
    )


class _Heard(Struct, frozen=True):
    reply: Reply
    failure: Failure | None
    first: float
    seconds: float
    pieces: int


class _Caller:
    def __init__(self, route: Route, connections: Connections, clock: Clock, patience: float) -> None:
        self._route = route
        self._connections = connections
        self._clock = clock
        self._patience = patience

    async def ask(self, words: str, tools: tuple[ToolSpec, ...] = (), *, stream: bool = True) -> _Heard:
        request = ModelRequest("", (Message("user", (TextPart(words),)),), tools, stream=stream)
        stop = asyncio.Event()
        late = asyncio.get_running_loop().call_later(self._patience, stop.set)
        began, first, events = time.monotonic(), 0.0, list[Event]()
        attempt = Attempt(self._route, request, connections=self._connections, clock=self._clock, stop=stop)
        try:
            async with attempt:
                async for batch in attempt:
                    events += batch
                    if not first and any(
                        isinstance(one, TextDelta | ReasoningDelta | CallStarted) for one in batch
                    ):
                        first = time.monotonic() - began
        finally:
            late.cancel()
        reply = fold(events)
        pieces = sum(isinstance(event, TextDelta) for event in events)
        return _Heard(reply, self._why(reply, stop, tools), first, time.monotonic() - began, pieces)

    def _why(self, reply: Reply, stop: asyncio.Event, tools: tuple[ToolSpec, ...]) -> Failure | None:
        if stop.is_set():
            return failure("stalled", f"no whole answer within {self._patience:g} s")
        if reply.last is not None and not reply.ended:
            found: Failure | None = getattr(reply.last, "failure", None)
            return found
        judged = verdict(reply)
        if judged.kind == "complete" or (tools and reply.text):
            return None
        if judged.kind == "refused":
            return failure("invalid", "the model declined to answer")
        return failure("garbage", f"the answer is of no use: {judged.kind.replace('_', ' ')}")


def findings(
    trial: RouteTrial, about: str, key: str = "", models: tuple[str, ...] = (), model: str = ""
) -> list[Finding]:
    """A trial in words. `key` names where the key comes from, `models` are those that the provider lists."""
    if trial.failure is not None:
        return [Finding("wrong", about, shown(trial.failure), advice(trial.failure, key, models, model))]
    told = [
        Finding("ok", about, f"answers; {trial.first:.1f} s to the first word, {trial.seconds:.1f} s in all")
    ]
    if not trial.streams:
        words = "does not stream, so answers come in one piece; that works, and a cut answer is lost whole"
        told.append(
            Finding("note", about, words, "Look for a setting of the provider, or choose another model.")
        )
    elif trial.pieces < 2:
        words = "the answer came in one piece, as if something on the way kept it back"
        told.append(Finding("note", about, words, "If that stays so, look for a proxy that buffers."))
    else:
        told.append(Finding("ok", about, f"streams, {trial.pieces} pieces"))
    if trial.calls:
        told.append(Finding("ok", about, "calls tools"))
    elif trial.calls is not None:
        told.append(_no_calls(trial, about))
    return told


def _no_calls(trial: RouteTrial, about: str) -> Finding:
    why = (
        f": {shown(trial.call_failure)}"
        if trial.call_failure is not None
        else "; it answered in words instead"
    )
    fix = (
        "Choose a model that can call tools. Local servers may need a switch for it: "
        "vLLM --enable-auto-tool-choice with a --tool-call-parser, llama.cpp --jinja."
    )
    return Finding("wrong", about, f"does not call tools{why}", fix)


def shown(why: Failure) -> str:
    """A failure in one line."""
    status = (
        f" (status {why.status})" if why.status is not None and str(why.status) not in why.message else ""
    )
    words = " ".join(why.message.split())
    return f"{why.kind.replace('_', ' ')}{status}: {words[:_SAMPLE]}{'…' if len(words) > _SAMPLE else ''}"


def advice(why: Failure, key: str = "", models: tuple[str, ...] = (), model: str = "") -> str:
    """What to do about a failure, in one or two sentences."""
    if why.kind == "not_found" and models:
        near = difflib.get_close_matches(model, [name for name in models if name != model], 3, 0.4)
        like = f", such as {', '.join(near)}" if near else ""
        return f"Choose another model{like}, or check base_url."
    if why.kind == "connect":
        return _connect_advice(why.message)
    held = f" It comes from {key}." if key else ""
    return {
        "auth": f"The provider does not take this key: check that there is one, whole and not revoked.{held}",
        "permission": f"The key is good, and may not use this model: look at its rights there.{held}",
        "billing": (
            "There is no credit left, or a spending limit is reached: look at the provider's billing page."
        ),
        "rate_limited": "Too many requests at this moment. The set-up may be right: try again in a minute.",
        "overloaded": "The provider has too much to do. The set-up may be right: try again in a minute.",
        "server": "The provider failed. The set-up may be right: try again in a minute.",
        "timeout": "The provider took too long. The set-up may be right: try again in a minute.",
        "not_found": "There is no such model, or nothing is at this address: check model and base_url.",
        "garbage": (
            "What answers there speaks another language: check base_url (it often ends in /v1) and protocol."
        ),
        "incomplete": "The connection ended early: check base_url and protocol, and try again.",
        "no_reason": (
            "The answer ended without a finish reason, as when a relay loses its provider: try again. "
            "If this host never gives one, set quirks.bare_done = true for it."
        ),
        "reset": "The connection broke: try again, and look for a proxy or a firewall on the way.",
        "stalled": "Nothing came for too long. A local model may still be loading; else try again.",
        "invalid": "The provider does not take the request: check protocol and model.",
        "unstreamable": "The provider does not stream with this key or model.",
    }.get(why.kind, "Try again; if it stays so, check model, base_url and protocol.")


def _connect_advice(words: str) -> str:
    if "certificate" in words:
        return (
            "The certificate is not trusted. Behind a company's proxy, point SSL_CERT_FILE at its "
            "certificate; for a "
            "server of your own, use http:// on a trusted network or a certificate that fits its name."
        )
    if "proxy" in words:
        return "Look at HTTPS_PROXY and its credentials, or name the host in NO_PROXY."
    if "no such host" in words:
        return "Check the name in base_url, and that this machine has a network and a name server."
    if "no connection after" in words:
        return (
            "Nothing answers at that address: check base_url, and whether a firewall or a proxy is in "
            "the way."
        )
    return "Nothing listens at that address: start the server there, or check base_url."
