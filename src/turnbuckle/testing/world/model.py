"""The model's double: a brain says what it wants to say, and this says it, in pieces, until the fault
comes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from turnbuckle.lab import script as steps
from turnbuckle.lab.dialogue import CREATED
from turnbuckle.lab.speaking import Speaker
from turnbuckle.runtime.ports import Model
from turnbuckle.vocab import ids
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.events import Cut, Ended, Event, Started, Usage
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

    def comes_in_pieces(self, reply: int) -> bool:
        """Whether its events come one by one, or all at once."""

    def event_sent(self, reply: int, count: int) -> None: ...


class WorldModel(Model):
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
        kill = steps.KillAfter(arguments=self._kill_after) if request.stream or self._kill_plain else None
        speaker = Speaker(f"r{number}_")
        speaker.kill = kill
        events = events_of(self._brains[route](request, number), f"r{number}", speaker)
        self.argument_characters += speaker.sent["arguments"]
        self.asked.append(Asked(route, request, len(events)))
        cut = self._breaks.cut_after(number)
        if cut is not None and cut[0] < len(events):
            events = [*events[: cut[0]], Cut(cut[1])]
        bursts: Iterable[list[Event]] = [events]
        if self._wired:
            bursts = self._through_wire(route, request.model, events)
        elif self._breaks.comes_in_pieces(number):
            bursts = ([event] for event in events)
        for count, burst in enumerate(bursts):
            self._breaks.event_sent(number, count)
            await asyncio.sleep(0)
            if stop.is_set():
                yield [Cut(failure("cancelled", "stopped"))]
                return
            yield burst

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


def events_of(script: Iterable[Step], reply_id: str, speaker: Speaker | None = None) -> list[Event]:
    """A script as the events of one stream, with its one last word."""
    speaker = speaker or Speaker(f"{reply_id}_")
    events: list[Event] = [Started(reply_id, "world")]
    for step in script:
        if isinstance(step, Fails):
            return [*events, Cut(step.failure)]
        if isinstance(step, steps.Finish):
            return [*events, *speaker.finish(step, Usage(10, len(events))), Ended("world")]
        events += speaker.content(step)
        if speaker.is_killed:
            return [*events, Cut(failure("reset", "the connection was reset"))]
        events += speaker.close_block()
    return [*events, *speaker.finish(steps.Finish(), Usage(10, len(events))), Ended("world")]
