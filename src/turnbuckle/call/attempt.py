"""One attempt: a request goes out, events come back in batches, and exactly one last word ends them. Never a
retry.

Theory of operation. Whoever iterates does the reading; there is no task and no queue per chunk. What arrives
while the reader is busy is one batch when it comes back. While it waits, a chunk that comes alone is decoded
where it arrives and offered to who `listen`s; only what that one leaves wakes the reader.

One timer looks at the clocks, at least twice a second; it aborts the exchange when a clock has fired, and the
reader then finds the reason. A stop does the same. Clocks judge the peer, not the reader: while something
lies unread nobody is stalled.

A timer that comes late looks twice, with a pass of the event loop between: a machine that was busy or asleep
may have bytes waiting that nobody had the time to read.
"""

import asyncio
from collections.abc import Callable
from typing import Self

import msgspec

from turnbuckle.call.limits import AttemptLimits, RoutePace, limits_for
from turnbuckle.call.redaction import discreet, discreet_headers
from turnbuckle.call.routes import Route
from turnbuckle.call.stall import Activity, Watch, forget_wrong, next_deadline, stalled
from turnbuckle.call.transport import Connections, ResponseHead, UpstreamExchange
from turnbuckle.vocab.clock import Clock, StopSignal
from turnbuckle.vocab.events import (
    CallArgs,
    CallStarted,
    ChoiceNoted,
    Cut,
    Ended,
    Event,
    HeadNoted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)
from turnbuckle.vocab.failure import Failure, failure
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.answer import open_answer
from turnbuckle.wire.decoder import EndKind, ReplyDecoder
from turnbuckle.wire.registry import PROTOCOLS

TICK = 0.5
_LATE = 0.5
_SECOND_LOOK = 0.01
_OWN_TURN = 0.01  # seconds of reading before others get the loop
_SLEPT = 5.0
_LIMITS = ("anthropic-ratelimit-", "x-ratelimit-")
_DELTAS = (TextDelta, ReasoningDelta, RefusalDelta, CallStarted, CallArgs, ChoiceNoted)


Listener = Callable[[list[Event]], bool]
"""Takes a batch where it arrived. False: it stays with whoever iterates. No last word is ever offered."""


class Attempt:
    """An async iterator of batches. Close it, or use it as a context manager, if it is left before its
    end."""

    def __init__(
        self,
        route: Route,
        request: ModelRequest,
        *,
        connections: Connections,
        clock: Clock,
        stop: StopSignal | None = None,
        pace: RoutePace | None = None,
        first_delta: Callable[[], None] | None = None,
        alternative: bool = False,
    ) -> None:
        """`alternative`: another route stands ready, so that this one is not waited for as long."""
        self._alternative = alternative
        self.last: Ended | Cut | None = None
        self.limits: AttemptLimits | None = None
        self._route = route
        self._request = _filled(request, route)
        self._connections = connections
        self._clock = clock
        self._stop = stop
        self._pace = pace
        self._first_delta = first_delta
        self._watch = Watch(clock.now())
        self._decoder: ReplyDecoder | None = None
        self._head: HeadNoted | None = None  # goes in front of the first events
        self._exchange: UpstreamExchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._prompt_size = 0
        self._others_turn = 0.0  # when others had theirs for certain
        self._expected = 0.0  # when the timer should come
        self._looking_again = False
        self._offset = 0.0  # our clock minus the loop's, which stands still while the machine sleeps
        self._unheed: Callable[[], object] | None = None
        self._listener: Listener | None = None
        self._held: list[Event] | None = None  # what was decoded where it arrived, and is the reader's
        self._mistake: Exception | None = None

    @property
    def end_kind(self) -> EndKind:
        """How the stream said that it is over."""
        return self._decoder.end_kind if self._decoder is not None else ""

    @property
    def activity(self) -> Activity:
        """What is being waited for at present."""
        return self._watch.activity()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        if self.last is not None:
            raise StopAsyncIteration
        try:
            if self._exchange is None:
                begun = await self._begin()
                if begun is not None:
                    return begun
            return await self._next()
        except BaseException:
            self.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def listen(self, listener: Listener) -> None:
        """From here on batches are offered to the listener while the next one is waited for. What it raises
        is raised to whoever iterates."""
        self._listener = listener

    def close(self) -> None:
        """Give up at once, without a last word for anybody. Harmless when it is over."""
        self._settle()
        if self._exchange is not None and self.last is None:
            self._exchange.abort(failure("cancelled", "nobody reads the answer any more"))
        if self.last is None:
            self.last = Cut(failure("cancelled", "nobody reads the answer any more"))

    # From the request to the first byte

    async def _begin(self) -> list[Event] | None:
        protocol = PROTOCOLS[self._route.protocol]
        try:
            body = self._connections.bodies.encode(self._request, self._route.protocol, self._route.quirks)
        except (TypeError, ValueError) as error:
            return self._end(failure("invalid", f"the request cannot be written: {error}"))
        headers = {
            **protocol.headers(self._route.api_key.reveal(), self._route.quirks),
            **self._request.headers,  # keys are never among them; a client knows its version of the API
            **self._route.headers,
        }
        url = self._route.base_url + protocol.endpoint(self._request)
        exchange = self._connections.exchange(url, headers, body)
        self._exchange = exchange
        exchange.connected = self._connected
        self._start_clocks(len(body))
        self._heed_stop()
        head = await exchange.send()
        if isinstance(head, Failure):
            return self._end(head)
        return self._open(head)

    def _open(self, head: ResponseHead) -> list[Event] | None:
        if 300 <= head.status < 400:
            words = (
                f"the endpoint has moved to {head.headers.get('location', 'nowhere')}; set base_url "
                "to where it is"
            )
            return self._end(Failure("not_found", words, False, status=head.status))
        if headers := {name: value for name, value in head.headers.items() if is_told(name)}:
            self._head = HeadNoted(discreet_headers(headers, self._route))
        if head.status >= 400:
            self._watch.failing_at = self._clock.now()
        self._decoder = open_answer(
            self._route.protocol,
            status=head.status,
            headers=head.headers,
            quirks=self._route.quirks,
            choices=self._request.choices,
        )
        self._others_turn = self._clock.now()  # while the head was waited for
        assert self._exchange is not None
        self._exchange.hand_to(self._arrived)
        return None

    async def _next(self) -> list[Event]:
        decoder, exchange = self._decoder, self._exchange
        assert decoder is not None
        assert exchange is not None
        while True:
            if waits := not exchange.has_unread:  # and while it does, others have their turn
                await exchange.wait()
                if self._mistake is not None:
                    raise self._mistake
                if self._held is not None:
                    events, self._held = self._held, None
                    if told := self._told(events, decoder):
                        return told
                    continue
            chunk = exchange.read_now()
            if not isinstance(chunk, bytes):
                return self._end(chunk)
            if not chunk:
                if exchange.has_unread:
                    return self._end(None)
                continue
            now = self._clock.now()
            if waits:
                self._others_turn = now
            elif now - self._others_turn > _OWN_TURN:
                self._others_turn = now
                await asyncio.sleep(0)  # a provider that is faster than we are never makes us wait
            events = decoder.feed(chunk)
            self._watch.received(events, now)
            if told := self._told(events, decoder):
                return told

    def _told(self, events: list[Event], decoder: ReplyDecoder) -> list[Event]:
        """What came, as whoever iterates gets it."""
        if not events:
            return events
        if self._watch.first_delta_at is None:
            self._note_first_delta(events)
        if decoder.last is not None:
            return self._finish(events)
        return self._headed(self._discreet(events) if self._watch.skipped else events)

    def _arrived(self, chunk: bytes) -> None:
        """A chunk came alone, while the reader waits."""
        decoder, watch, listener = self._decoder, self._watch, self._listener
        assert decoder is not None
        assert self._exchange is not None
        try:
            now = self._others_turn = self._clock.now()
            events = decoder.feed(chunk)
            watch.received(events, now)
            if not events:
                return
            is_usual = watch.first_delta_at is not None and not watch.skipped and self._head is None
            if is_usual and decoder.last is None and listener is not None and listener(events):
                return
            self._held = events
        except Exception as mistake:  # the connection is not to suffer from it
            self._mistake = mistake
        self._exchange.wake()

    # The end

    def _end(self, broken: Failure | None) -> list[Event]:
        """The body is over, or never began: the last words of the decoder, or our own."""
        if self._decoder is None:
            assert broken is not None
            return self._finish([Cut(broken)])
        events = self._decoder.close(broken)
        if broken is not None and broken.kind == "cancelled":
            events[-1] = Cut(broken)  # whatever had come of it, it was stopped
        self._watch.received(events, self._clock.now())
        if self._watch.first_delta_at is None:
            self._note_first_delta(events)
        return self._finish(events)

    def _finish(self, events: list[Event]) -> list[Event]:
        if isinstance(events[-1], Cut) or self._watch.skipped:
            events = self._discreet(events)
        last = events[-1]
        assert isinstance(last, (Ended, Cut))
        self.last = last
        self._watch.over = True
        self._settle()
        if self._exchange is not None:
            if isinstance(last, Ended):
                self._exchange.finish()
            else:
                self._exchange.abort(last.failure)
        if (
            isinstance(last, Ended)
            and self._pace is not None
            and self.limits is not None
            and self._request.stream
        ):
            self._watch.teach(self._pace, self.limits, self._prompt_size)
        return self._headed(events)

    def _headed(self, events: list[Event]) -> list[Event]:
        if self._head is None:
            return events
        head, self._head = self._head, None
        return [head, *events]

    def _discreet(self, events: list[Event]) -> list[Event]:
        self._watch.skipped = False
        return discreet(events, self._route)

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unheed is not None:
            self._unheed()
            self._unheed = None

    def _note_first_delta(self, events: list[Event]) -> None:
        if any(isinstance(event, _DELTAS) for event in events):
            self._watch.first_delta_at = self._clock.now()
            if self._first_delta is not None:
                self._first_delta()

    # Clocks and stop

    def _connected(self) -> None:
        self._watch.connected(self._clock.now())

    def _start_clocks(self, prompt_size: int) -> None:
        self._prompt_size = prompt_size
        self.limits = limits_for(
            self._route.stall,
            prompt_size=prompt_size,
            local=self._route.local,
            streaming=self._request.stream,
            effort=self._request.effort,
            pace=self._pace,
            alternative=self._alternative,
        )
        now = self._watch.begun = self._clock.now()
        self._offset = now - asyncio.get_running_loop().time()
        self._arm(now, next_deadline(self._watch, self.limits).when)

    def _arm(self, now: float, when: float) -> None:
        wait = max(min(when - now, TICK), 0.0)
        self._expected = now + wait
        self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        assert self.limits is not None
        assert self._exchange is not None
        now = self._clock.now()
        self._notice_sleep(now, self.limits)
        deadline = next_deadline(self._watch, self.limits)
        late = now - self._expected
        if now < deadline.when:
            self._looking_again = False
            self._arm(now, deadline.when)
        elif self._exchange.has_unread or self._held is not None:
            self._arm(now, now + TICK)
        elif late > _LATE and not self._looking_again:
            self._looking_again = True
            self._arm(now, now + _SECOND_LOOK)
        else:
            if self._pace is not None:
                forget_wrong(self._watch, deadline, self._pace)
            self._exchange.abort(stalled(self._watch, deadline, now, late))

    def _notice_sleep(self, now: float, limits: AttemptLimits) -> None:
        slept = now - asyncio.get_running_loop().time() - self._offset
        if slept > _SLEPT:
            self._offset += slept
            self._watch.woke(now, slept, limits)

    def _heed_stop(self) -> None:
        if self._stop is None:
            return
        on_stop = getattr(self._stop, "on_stop", None)
        if self._stop.is_set():
            self._stopped()
        elif on_stop is not None:
            self._unheed = on_stop(self._stopped)
        else:
            self._unheed = asyncio.get_running_loop().create_task(self._await_stop(self._stop)).cancel

    async def _await_stop(self, stop: StopSignal) -> None:
        await stop.wait()
        self._stopped()

    def _stopped(self) -> None:
        if self._exchange is not None:
            self._exchange.abort(failure("cancelled", "stopped"))


def is_told(header: str) -> bool:
    """Whether a header of an answer may go to the client: the id that the provider knows the request by, and
    what is left of its limits."""
    return header == "request-id" or header.startswith(_LIMITS)


def _filled(request: ModelRequest, route: Route) -> ModelRequest:
    """The request with what the route adds where the request says nothing."""
    return msgspec.structs.replace(
        request,
        model=request.model or route.model,
        max_output_tokens=request.max_output_tokens or route.max_output_tokens,
        effort=request.effort or route.effort,
        extra={**route.extra, **request.extra},
    )
