"""How long each clock waits, and who says so.

A number in the settings always wins and holds as it is written. "auto" starts from a default that fits the
route (a local machine may be slow), the size of the prompt and the effort asked for, and is then scaled by
what the route showed lately: four times its longest wait, within bounds. Where another route stands ready, it
is waited for half as long: to go there costs less than to go on waiting. A limit that was learned and then
fired may have been wrong, so what was learned is forgotten and the default holds again.

A machine of one's own may read a prompt no faster than somebody reads it aloud. There the first clock follows
the size of the prompt and how fast such a machine was seen to read. As long as that is not known it is not
learned down, and each time that it fires in vain it is doubled for the next attempt, which would only begin
to read from the start.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

Setting = Annotated[float, Meta(gt=0)] | Literal["auto"]
Source = Literal["configured", "default", "learned"]
Learnable = Literal["first_event", "gap", "gap_in_call"]

_HARD_EFFORTS = frozenset({"high", "xhigh", "max"})
_PLAIN_FIRST = 600.0
"""A whole answer must be generated before its first byte comes."""
_WITH_ANOTHER = 0.5
_BEFORE_READING = 60.0
"""A model may have to be loaded first."""
_DOUBLED = 4
ERROR_BODY = 10.0
"""An error's body is only worth a short wait: the status already says most."""


class StallSettings(Struct, frozen=True):
    """When a model call counts as stalled: seconds, or "auto". `gap_in_call` is longer than `gap`, since some
    providers hold arguments back. If only `gap` is set, `gap_in_call` and `thinking` follow it."""

    connect: Annotated[
        Setting, Meta(description="Abort if there is no connection after this many seconds.")
    ] = 10.0
    first_event: Annotated[
        Setting,
        Meta(
            description=(
                "Abort if no event has arrived after this many seconds. `auto` grows with the prompt."
            )
        ),
    ] = "auto"
    gap: Annotated[Setting, Meta(description="Abort after this many seconds without new output.")] = "auto"
    gap_in_call: Annotated[
        Setting, Meta(description="The same while the arguments of a tool call arrive.")
    ] = "auto"
    thinking: Annotated[
        Setting, Meta(description="Abort when only keep-alive pings arrive for this many seconds.")
    ] = "auto"
    silence: Annotated[
        Setting, Meta(description="Abort when not a single byte arrives for this many seconds.")
    ] = "auto"


class Limit(Struct, frozen=True):
    """`default` is what would hold if nothing were set or learned; waits are measured against it."""

    seconds: float
    source: Source = "default"
    default: float = 0.0

    def __str__(self) -> str:
        return f"{self.seconds:g} s, {self.source}"


class AttemptLimits(Struct, frozen=True):
    """The effective limits of one attempt. Silence has one for each phase, as gap has."""

    connect: Limit
    first_event: Limit
    gap: Limit
    gap_thinking: Limit
    gap_in_call: Limit
    thinking: Limit
    silence: Limit
    silence_thinking: Limit
    silence_in_call: Limit


class _Defaults(Struct, frozen=True):
    first: float
    first_each: float  # per 1,000 characters of prompt
    first_most: float
    gap: float
    in_call: float
    thinking: float


_REMOTE = _Defaults(first=120, first_each=1, first_most=900, gap=120, in_call=360, thinking=600)
_LOCAL = _Defaults(first=300, first_each=3, first_most=3600, gap=240, in_call=480, thinking=1200)


class RoutePace:
    """What one route showed lately: its longest waits, each as a share of the default limit that held for
    it."""

    ENOUGH = 8
    KEPT = 32
    FACTOR = 4.0
    LEAST = 0.375
    MOST = 2.5
    TELLING = 4_000
    """Characters of a prompt from which on the time for it says how fast it is read."""

    def __init__(self) -> None:
        self._shares: dict[Learnable, list[float]] = {"first_event": [], "gap": [], "gap_in_call": []}
        self._reading: list[float] = []
        self.late = 0
        """How often in a row the first event did not come in time."""
        self._new, self._telling = _Untold(), _Untold()
        self._late_told = self._late_telling = 0

    @property
    def reading(self) -> float | None:
        """The longest that it took over 1,000 characters of a prompt lately; None while that is not known."""
        return max(self._reading, default=None)

    def note_reading(self, seconds: float, prompt_size: int) -> None:
        """A prompt of this size was read in so many seconds. Short ones say nothing: they are all
        overhead."""
        self.late = 0
        if prompt_size >= self.TELLING:
            for known in (self._reading, self._new.reading):
                known.append(seconds * 1000 / prompt_size)
                del known[: -self.KEPT]

    def note(self, what: Learnable, seconds: float, limit: Limit) -> None:
        """A finished attempt waited so long at most, under this limit."""
        for shares in (self._shares[what], self._new.shares.setdefault(what, [])):
            shares.append(seconds / limit.default)
            del shares[: -self.KEPT]

    def forget(self, what: Learnable) -> None:
        self._shares[what].clear()
        self._new.forget(what)

    def scale(self, what: Learnable) -> float | None:
        """By what to multiply the default; None while too little is known."""
        shares = self._shares[what]
        if len(shares) < self.ENOUGH:
            return None
        return min(max(self.FACTOR * max(shares), self.LEAST), self.MOST)

    @property
    def is_news(self) -> bool:
        """Whether something was seen, or forgotten, that the others do not know."""
        return self._new.is_any or self._telling.is_any or self.late != self._late_told

    def seen(self) -> "PaceSeen":
        """What is known."""
        return PaceSeen(
            {what: list(known) for what, known in self._shares.items()}, [*self._reading], self.late
        )

    def to_tell(self) -> "PaceSeen":
        """The same, to be told to others. `told` says that they know it: what is seen until then is told the
        next time."""
        self._gather()
        self._late_telling = self.late
        return self.seen()

    def told(self) -> None:
        self._telling, self._late_told = _Untold(), self._late_telling

    def hear(self, theirs: "PaceSeen") -> None:
        """What others know takes the place of what is known here. What was seen here since it was last told
        comes behind it, and what was forgotten here stays forgotten."""
        self._gather()
        untold = self._telling
        for what in self._shares:
            known = [] if what in untold.forgot else theirs.shares.get(what, [])
            self._shares[what] = [*known, *untold.shares.get(what, [])][-self.KEPT :]
        self._reading = [*theirs.reading, *untold.reading][-self.KEPT :]
        if self.late == self._late_told:
            self.late = theirs.late
        self._late_told = theirs.late

    def _gather(self) -> None:
        self._telling.add(self._new, self.KEPT)
        self._new = _Untold()


class _Untold(Struct):
    """What others do not know yet of a route: what was seen, and what was forgotten before that."""

    shares: dict[Learnable, list[float]] = {}
    reading: list[float] = []
    forgot: set[Learnable] = set()

    @property
    def is_any(self) -> bool:
        return bool(self.shares or self.reading or self.forgot)

    def forget(self, what: Learnable) -> None:
        self.shares.pop(what, None)
        self.forgot.add(what)

    def add(self, later: "_Untold", most: int) -> None:
        for what in later.forgot:
            self.forget(what)
        for what, shares in later.shares.items():
            self.shares[what] = [*self.shares.get(what, []), *shares][-most:]
        self.reading = [*self.reading, *later.reading][-most:]


class PaceSeen(Struct):
    """What was seen of a route: shares of the default limits, seconds for 1,000 characters of a prompt, and
    how often in a row the first event was late."""

    shares: dict[Learnable, list[float]] = {}
    reading: list[float] = []
    late: int = 0


def limits_for(
    settings: StallSettings,
    *,
    prompt_size: int,
    local: bool = False,
    streaming: bool = True,
    effort: str | None = None,
    pace: RoutePace | None = None,
    alternative: bool = False,
) -> AttemptLimits:
    """The effective limits of one attempt, each with its source. `alternative`: another route stands
    ready."""
    base = _defaults(local, prompt_size, streaming, effort)
    if alternative:
        base = _Defaults(*(value * _WITH_ANOTHER for value in msgspec.structs.astuple(base)))
    gap = _limit(settings.gap, base.gap, "gap", pace)
    fixed = gap.source == "configured"
    wide = 2.0 if effort in _HARD_EFFORTS else 1.0
    # How fast text comes says nothing about how long the model thinks, so this one is never learned down.
    gap_thinking = gap if fixed else Limit(max(gap.seconds, base.gap) * 2 * wide)
    if fixed and settings.gap_in_call == "auto":
        gap_in_call = gap
    else:
        gap_in_call = _limit(settings.gap_in_call, base.in_call, "gap_in_call", pace)
    return AttemptLimits(
        connect=_limit(settings.connect, 10.0),
        first_event=_first_event(settings.first_event, base, local, prompt_size, pace),
        gap=gap,
        gap_thinking=gap_thinking,
        gap_in_call=gap_in_call,
        thinking=_limit(settings.thinking, max(base.thinking * wide, gap_thinking.seconds)),
        silence=_silence(settings.silence, gap, 0.75),
        silence_thinking=_silence(settings.silence, gap_thinking),
        silence_in_call=_silence(settings.silence, gap_in_call),
    )


def _defaults(local: bool, prompt_size: int, streaming: bool, effort: str | None) -> _Defaults:
    base = _LOCAL if local else _REMOTE
    first = base.first if streaming else max(base.first, _PLAIN_FIRST) * (2 if local else 1)
    if effort in _HARD_EFFORTS:
        first *= 2  # some hosts think in silence before their first event
    first = min(first + base.first_each * prompt_size / 1000, max(base.first_most, first))
    return _Defaults(first, base.first_each, base.first_most, base.gap, base.in_call, base.thinking)


def _limit(
    setting: Setting, default: float, what: Learnable | None = None, pace: RoutePace | None = None
) -> Limit:
    if setting != "auto":
        return Limit(setting, "configured", default)
    scale = pace.scale(what) if pace is not None and what is not None else None
    return Limit(default, "default", default) if scale is None else Limit(default * scale, "learned", default)


def _first_event(
    setting: Setting, base: _Defaults, local: bool, prompt_size: int, pace: RoutePace | None
) -> Limit:
    limit = _limit(setting, base.first, "first_event", pace)
    if limit.source == "configured" or not local or pace is None:
        return limit
    known = pace.reading
    least = base.first if known is None else _BEFORE_READING + RoutePace.FACTOR * known * prompt_size / 1000
    seconds = min(
        max(limit.seconds, least) * 2.0 ** min(pace.late, _DOUBLED), max(base.first_most, limit.seconds)
    )
    return limit if seconds == limit.seconds else Limit(seconds, "learned", base.first)


def _silence(setting: Setting, gap: Limit, share: float = 1.0) -> Limit:
    """In the middle of text no byte at all is worse than no progress, so it is waited for less long; but
    never less than a gap that somebody asked for. Models that think, and hosts that hold arguments back, may
    well send nothing."""
    if setting != "auto":
        return Limit(setting, "configured")
    return gap if gap.source == "configured" else Limit(gap.seconds * share, gap.source)
