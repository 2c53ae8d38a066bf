"""The model's double: a brain says what it wants to say, and this says it, in pieces, until the fault
comes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from turnbuckle.lab import script as steps
from turnbuckle.lab.dialogue import CREATED
from turnbuckle.vocab import ids
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    Event,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.vocab.events import Finish as FinishWord
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.registry import PROTOCOLS


class Fails(Struct, frozen=True):
    """The reply breaks here with this failure."""

    failure: Failure


Step = steps.Say | steps.Reason | steps.Refuse | steps.Call | steps.Finish | Fails
Brain = Callable[[ModelRequest, int], Iterable[Step]]
"""What a model says to a request. A clever one looks only at the request, as a real one does; one whose
provider has a bad hour may look at the number of the reply."""


class Asked(Struct, frozen=True):
    """One request as it went out, and how many events the whole answer has."""

    route: RouteName
    request: ModelRequest
    events: int


class Breaks(Protocol):
    """Decides how a reply breaks; the world does."""

    def reply_begins(self) -> int:
        """The number of this reply."""

    def cut_after(self, reply: int) -> tuple[int, Failure] | None: ...

    def event_sent(self, reply: int, count: int) -> None: ...


class WorldModel:
    """Implements `runtime.ports.Model`. `protocols` by route; with `wired`, every event goes through the
    bytes of the protocol. `kill_after` is a provider that breaks each stream after so many characters of
    arguments."""

    def __init__(
        self,
        brains: dict[RouteName, Brain],
        breaks: Breaks,
        *,
        protocols: dict[RouteName, ids.ProtocolName] | None = None,
        wired: bool = False,
        kill_after: int | None = None,
        kill_plain: bool = False,
    ) -> None:
        self.asked: list[Asked] = []
        self.argument_characters = 0
        self._brains = brains
        self._breaks = breaks
        self._protocols = protocols or {}
        self._wired = wired
        self._kill_after = kill_after
        self._kill_plain = kill_plain
        self._plain_only: set[RouteName] = set()

    def choose(self, wanted: RouteName) -> RouteName:
        return wanted

    def streams(self, route: RouteName) -> bool:
        return route not in self._plain_only

    def note(self, route: RouteName, events: list[Event]) -> None:
        last = events[-1] if events else None
        if isinstance(last, Cut) and last.failure.kind == "unstreamable":
            self._plain_only.add(route)

    async def attempt(
        self, route: RouteName, request: ModelRequest, stop: StopSignal
    ) -> AsyncIterator[list[Event]]:
        number = self._breaks.reply_begins()
        events = self._spoken(events_of(self._brains[route](request, number), f"r{number}"), request.stream)
        self.asked.append(Asked(route, request, len(events)))
        cut = self._breaks.cut_after(number)
        if cut is not None and cut[0] < len(events):
            events = [*events[: cut[0]], Cut(cut[1])]
        bursts = (
            self._through_wire(route, request.model, events) if self._wired else ([event] for event in events)
        )
        for count, burst in enumerate(bursts):
            self._breaks.event_sent(number, count)
            await asyncio.sleep(0)
            if stop.is_set():
                yield [Cut(failure("cancelled", "stopped"))]
                return
            yield burst

    def _spoken(self, events: list[Event], stream: bool) -> list[Event]:
        """The events as far as this provider lets them pass. What was generated is counted."""
        sent: list[Event] = []
        room = self._kill_after if stream or self._kill_plain else None
        for event in events:
            if isinstance(event, CallArgs):
                text = event.text if room is None else event.text[:room]
                self.argument_characters += len(text)
                room = None if room is None else room - len(text)
                sent.append(CallArgs(event.block, text))
                if room == 0:
                    return [*sent, Cut(failure("reset", "the connection was reset"))]
            else:
                sent.append(event)
        return sent

    def _through_wire(self, route: RouteName, model: str, events: Sequence[Event]) -> Iterable[list[Event]]:
        """The events as bytes of the protocol and back, one burst for each."""
        protocol = self._protocols[route]
        encoder = PROTOCOLS[protocol].encoding.stream("reply", model, CREATED)
        decoder = open_answer(protocol, headers={"content-type": "text/event-stream"})
        yield decoder.feed(encoder.open())
        for event in events:
            if isinstance(event, Cut):
                yield decoder.close(None if event.failure.kind == "incomplete" else event.failure)
                return
            yield decoder.feed(encoder.event(event))
        yield decoder.close()


def events_of(said: Iterable[Step], reply_id: str) -> list[Event]:
    """Steps as the events of one stream, with its one last word."""
    events: list[Event] = [Started(reply_id, "world")]
    block = -1
    calls = 0
    kinds: dict[type, type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta]] = {
        steps.Say: TextDelta,
        steps.Reason: ReasoningDelta,
        steps.Refuse: RefusalDelta,
    }
    for step in said:
        block += 1
        match step:
            case steps.Say() | steps.Reason() | steps.Refuse():
                events += [kinds[type(step)](block, piece) for piece in _pieces(step.text, step.pieces)]
                events += [BlockClosed(block)] if step.text else []
            case steps.Call():
                calls += 1
                text = step.arguments if isinstance(step.arguments, str) else _json(step.arguments)
                events.append(CallStarted(block, step.id or f"{reply_id}_{calls}", step.name))
                events += [CallArgs(block, piece) for piece in _pieces(text, step.pieces)]
                events += [CallClosed(block)] if step.closed else []
            case steps.Finish():
                honest: FinishWord = "calls" if calls else "stop"
                reason: FinishWord = honest if step.reason == "auto" or step.reason == "none" else step.reason
                events.append(FinishNoted(reason, reason))
                usage = step.usage if isinstance(step.usage, Usage) else Usage(input=10, output=len(events))
                return [*events, UsageNoted(usage), Ended("world")]
            case Fails():
                return [*events, Cut(step.failure)]
    return [
        *events,
        FinishNoted("calls" if calls else "stop", ""),
        UsageNoted(Usage(10, len(events))),
        Ended("world"),
    ]


def _pieces(text: str, size: int) -> list[str]:
    size = size or len(text) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
