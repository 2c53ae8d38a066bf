"""The four clocks of one attempt: `connect`, `first_event`, `gap` (no progress) and `silence` (no bytes).

Theory of operation. `Watch` notes moments as numbers when something arrives; nothing is armed per chunk. Now
and then a single timer asks `next_deadline`, a pure function, which clock fires next and when:

- until there is a connection, only `connect` runs;
- until the first event that is more than a comment, `first_event` runs from the connection on;
- then `gap` runs from the last progress. Comments never move it. While the model thinks (no text or call yet,
  or reasoning came last) pings and lifecycle events do, but never beyond `thinking`. While a call is open it
  is wider;
- `silence` runs from the last byte, once an event came or the peer has shown by a comment that it sends signs
  of life.

After a suspend of the machine the stream has a moment to show that it lives, and is then given up.
"""

from typing import Literal

from msgspec import Struct

from turnbuckle.call.limits import ERROR_BODY, AttemptLimits, Learnable, Limit, RoutePace
from turnbuckle.vocab.events import (
    Alive,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallStarted,
    ChoiceNoted,
    Ended,
    Event,
    FieldsNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    StageNoted,
    Started,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.events import Cut as CutEvent
from turnbuckle.vocab.failure import Clock, Failure, failure

Waiting = Literal["connect", "first_event", "more", "arguments", "nothing"]

WAKE_GRACE = 1.0
"""So long may a stream take, after the machine slept, to show that it lives."""
_WAKE_BUFFERED = 0.25
"""What is read within so long of waking may have been lying there since before."""
_SIGNS = (Started, FieldsNoted, StageNoted, UsageNoted, Skipped)
_FOREIGN = (FieldsNoted, StageNoted, Skipped)


class Deadline(Struct, frozen=True):
    """Which clock fires next, when, since when it runs, and under which limit."""

    clock: Clock
    when: float
    since: float
    limit: Limit


class Activity(Struct, frozen=True):
    """What is being waited for, since when, and when the provider last said anything. For people to see."""

    waiting: Waiting
    since: float
    tool: str = ""
    thinking: bool = False
    last_event: float | None = None
    first_delta: float | None = None

    def words(self, now: float) -> str:
        """In words, as a status line shows it."""
        seconds = f"{max(now - self.since, 0):.0f} s"
        match self.waiting:
            case "connect":
                return f"connecting, {seconds}"
            case "first_event":
                return f"waiting for the first token, {seconds}"
            case "arguments":
                return f"receiving {self.tool or 'a call'}, {seconds}"
            case "more":
                return f"{'thinking' if self.thinking else 'waiting for more'}, {seconds}"
            case "nothing":
                return "done"


class Watch:
    """The moments that the clocks run from. All of them are times of the clock that is handed in."""

    __slots__ = (
        "begun", "bytes_at", "connected_at", "event_at", "failing_at", "first_delta_at", "first_event_at",
        "life_at", "longest_gap", "longest_gap_in_call", "open_calls", "over", "progress_at", "signs",
        "skipped", "slept", "thinking", "woke_at",
    )  # fmt: skip

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.connected_at: float | None = None
        self.bytes_at: float | None = None
        self.event_at: float | None = None  # anything that the decoder made an event of
        self.first_event_at: float | None = None
        self.first_delta_at: float | None = None
        self.progress_at = begun
        self.life_at = begun
        self.signs = False  # a comment or a ping has come
        self.skipped = False  # something of the provider's own is on its way, such as what could not be read
        self.thinking = True
        self.open_calls: dict[int, str] = {}
        self.failing_at: float | None = None  # an error status came, and its body is being read
        self.woke_at: float | None = None
        self.slept = 0.0
        self.longest_gap = 0.0
        self.longest_gap_in_call = 0.0
        self.over = False

    def connected(self, now: float) -> None:
        self.connected_at = self.progress_at = self.life_at = now

    def woke(self, now: float, slept: float, limits: AttemptLimits) -> None:
        """The machine was suspended. A short sleep only counts as time."""
        self.slept += slept
        if slept >= limits.silence.seconds:
            self.woke_at = now

    def received(self, events: list[Event], now: float) -> None:
        """Some bytes came, and these are the events that they completed."""
        self.bytes_at = now
        if self.woke_at is not None and now > self.woke_at + _WAKE_BUFFERED:
            self.woke_at = None
        if not events:
            return
        self.event_at = now
        if self._is_under_way and len(events) == 1 and type(events[0]) is TextDelta:
            self._progress(now, False, False)  # the token's way: more text
            return
        in_call, thought = bool(self.open_calls), self.thinking
        progress = life = False
        for event in events:
            kind = type(event)
            if kind is TextDelta:
                self.thinking = False
                progress = True
            elif kind is CallArgs or kind is ChoiceNoted:
                progress = True
                self.skipped = self.skipped or kind is ChoiceNoted
            elif kind is ReasoningDelta:
                self.thinking = progress = True
            elif kind is Alive:
                self.signs = True
                life = life or event.what not in ("comment", "empty")  # type: ignore[union-attr]
            elif kind in _SIGNS:
                life = True
                self.skipped = self.skipped or kind in _FOREIGN
            else:
                self._note(event)
                progress = True
        if progress:
            self._progress(now, in_call, thought)
        elif life:
            self._life(now)

    @property
    def _is_under_way(self) -> bool:
        """Whether text is what is expected next."""
        return not (self.thinking or self.open_calls) and self.first_event_at is not None

    def _progress(self, now: float, in_call: bool, thought: bool) -> None:
        if self.first_event_at is None:
            self.first_event_at = now
        elif in_call:
            self.longest_gap_in_call = max(self.longest_gap_in_call, now - self.progress_at)
        elif not thought:
            self.longest_gap = max(self.longest_gap, now - self.progress_at)
        self.progress_at = self.life_at = now

    def _life(self, now: float) -> None:
        self.life_at = now
        if self.first_event_at is None:
            self.first_event_at = self.progress_at = now

    def _note(self, event: Event) -> None:
        match event:
            case OpaqueBlock() | BlockStarted(kind="reasoning"):
                self.thinking = True
            case RefusalDelta():
                self.thinking = False
            case CallStarted() | CallNamed():
                self.thinking = False
                self.open_calls[event.block] = event.name
            case CallClosed():
                self.open_calls.pop(event.block, None)
            case Ended() | CutEvent():
                self.over = True

    def activity(self) -> Activity:
        """What is being waited for at present."""
        waiting: Waiting
        if self.over:
            waiting = "nothing"
        elif self.connected_at is None:
            waiting = "connect"
        elif self.first_event_at is None:
            waiting = "first_event"
        else:
            waiting = "arguments" if self.open_calls else "more"
        tool = next(reversed(self.open_calls.values()), "")
        thinking = self.thinking and waiting == "more"
        return Activity(waiting, self.progress_at, tool, thinking, self.event_at, self.first_delta_at)

    def teach(self, pace: RoutePace, limits: AttemptLimits, prompt_size: int = 0) -> None:
        """Let the route's memory have the waits of an attempt that came to its proper end."""
        first = (self.first_event_at or self.begun) - (self.connected_at or self.begun)
        seen: dict[Learnable, float] = {"first_event": first, "gap": self.longest_gap}
        if self.longest_gap_in_call:
            seen["gap_in_call"] = self.longest_gap_in_call
        for what, seconds in seen.items():
            pace.note(what, seconds, getattr(limits, what))
        pace.note_reading(first, prompt_size)


def next_deadline(watch: Watch, limits: AttemptLimits) -> Deadline:
    """Which clock fires next, if nothing arrives. Pure."""
    if watch.woke_at is not None:
        return Deadline("silence", watch.woke_at + WAKE_GRACE, watch.bytes_at or watch.begun, limits.silence)
    if watch.connected_at is None:
        return _running("connect", watch.begun, limits.connect)
    if watch.failing_at is not None:
        return _running(
            "gap", watch.failing_at, Limit(min(limits.gap.seconds, ERROR_BODY), limits.gap.source)
        )
    gap, silence = _phase(watch, limits)
    if watch.first_event_at is None:
        meaningful = _running("first_event", watch.connected_at, limits.first_event)
    else:
        meaningful = _gap(watch, limits, gap)
    if watch.bytes_at is None or (watch.first_event_at is None and not watch.signs):
        return meaningful
    return min(meaningful, _running("silence", watch.bytes_at, silence), key=_moment)


def _gap(watch: Watch, limits: AttemptLimits, gap: Limit) -> Deadline:
    if watch.thinking and not watch.open_calls and watch.life_at > watch.progress_at:
        # Signs of life carry a thinking model on, up to a point.
        return min(
            _running("gap", watch.life_at, gap),
            _running("gap", watch.progress_at, limits.thinking),
            key=_moment,
        )
    return _running("gap", watch.progress_at, gap)


def _phase(watch: Watch, limits: AttemptLimits) -> tuple[Limit, Limit]:
    if watch.open_calls:
        return limits.gap_in_call, limits.silence_in_call
    if watch.thinking:
        return limits.gap_thinking, limits.silence_thinking
    return limits.gap, limits.silence


def _running(clock: Clock, since: float, limit: Limit) -> Deadline:
    return Deadline(clock, since + limit.seconds, since, limit)


def _moment(deadline: Deadline) -> float:
    return deadline.when


def forget_wrong(watch: Watch, deadline: Deadline, pace: RoutePace) -> None:
    """A learned limit fired. It may have been learned wrongly, so the default holds again. A prompt that
    was not read in time is remembered in any case."""
    if deadline.clock == "first_event":
        pace.late += 1
    if deadline.limit.source != "learned" or deadline.clock == "connect":
        return
    if deadline.clock == "first_event":
        pace.forget("first_event")
    else:
        pace.forget("gap_in_call" if watch.open_calls else "gap")


def stalled(watch: Watch, deadline: Deadline, now: float, late: float = 0.0) -> Failure:
    """The failure of a clock that fired, with all that a person needs to understand it."""
    waited = (
        f"{now - deadline.since:.3g} s" if now - deadline.since < 1000 else f"{now - deadline.since:.0f} s"
    )
    match deadline.clock:
        case "connect":
            words = f"no connection after {waited}"
        case "first_event":
            words = f"no event after {waited}"
        case "silence":
            words = f"no bytes for {waited}"
        case "gap":
            words = f"no progress for {waited}"
    words = f"{words}{_where(watch)} (limit {deadline.limit})"
    if watch.slept:
        words = f"{words}; the machine slept for {watch.slept:.0f} s of it"
    elif late >= 1.0:
        words = f"{words}; noticed {late:.0f} s late"
    return failure("stalled", words, clock=deadline.clock)


def _where(watch: Watch) -> str:
    activity = watch.activity()
    if activity.waiting == "arguments":
        return f" in the arguments of {activity.tool or 'a call'}"
    return " while thinking" if activity.thinking else ""
