"""Before a request goes out: how large it will be, and what is due first if it would not fit."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.request_tools import offered, offers_finishing
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.turn import compact, summary
from turnbuckle.turn.compact import NothingToShrink
from turnbuckle.turn.compaction import Folding
from turnbuckle.turn.facts import Compacted, GiveUp, ModelAsked
from turnbuckle.turn.policy import Policy, RouteFacts
from turnbuckle.turn.state import Ask, Turn
from turnbuckle.turn.window import estimate, room_of, tokens_of_tools
from turnbuckle.vocab.events import Cut, Ended, Event
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.request import ModelRequest, RunOptions, ToolSpec
from turnbuckle.wire.registry import rules_of


class RequestSize(Struct, frozen=True):
    """What a request should take, what it takes by length alone, and of how much. `first` is due before
    it."""

    expected: int = 0
    guessed: int = 0
    window: int | None = None
    first: Compacted | Folding | GiveUp | NothingToShrink | None = None
    folding: Folding | None = None
    """The summary that it asks for, as this route can be asked for it."""


def _is_hearsay(turn: Turn, route: RouteFacts, size: RequestSize) -> bool:
    """Whether nobody but an earlier refusal, or a table, says that a request of this turn is too large. Then
    its provider is asked before the turn ends: it may be another one by now."""
    known = route.window is None or (size.window is not None and size.window < route.window)
    return known and not turn.refused


class RoomKeeper:
    """Sizes the requests of one run."""

    def __init__(self, windows: WindowBook, histories: HistoryBook) -> None:
        self._windows = windows
        self._histories = histories
        self._tools: dict[bool, int] = {}

    async def fitting(
        self,
        turn: Turn,
        policy: Policy,
        usable: Callable[[RouteName], RouteName],
        ask: Ask,
        own: tuple[ToolSpec, ...],
    ) -> tuple[RouteFacts, RequestSize]:
        """Who is asked, and how large that is: whoever answers for the route that is wanted, unless the
        conversation cannot be made small enough for it, and another one takes it. `usable` is who answers for
        a route."""
        full: list[tuple[RouteFacts, RequestSize]] = []
        wanted = dict.fromkeys([ask.route, *[route.name for route in policy.routes]])
        for route in map(policy.route, dict.fromkeys(map(usable, wanted))):
            size = await self.size(turn, policy, route, ask, own)
            if not isinstance(size.first, GiveUp):
                return route, size
            full.append((route, size))
        for route, size in full:
            if _is_hearsay(turn, route, size):
                return route, replace(size, first=None)
        return full[0]

    async def size(
        self, turn: Turn, policy: Policy, route: RouteFacts, ask: Ask, own: tuple[ToolSpec, ...]
    ) -> RequestSize:
        """The size of the next request to this route, and what is due before it."""
        if ask.folding is not None:
            window = await self._windows.of(route, ask.folding.room)
            folding = compact.fitted(ask.folding, window, compact.ratio_of(turn))
            guessed = estimate(summary.request_messages(turn, folding))
            return RequestSize(guessed, guessed, window, folding=folding)
        tools = self._tools_size(turn, route, own)
        more = (*ask.notes, *[message for spoken in turn.spoken for message in spoken.messages])
        guessed = self._histories.estimate(turn.session, turn.messages) + estimate(more) + tools
        used = compact.used_by(turn, guessed, route.model, more)
        window = await self._windows.of(route, used)
        rules = policy.compaction
        if rules is None:
            nothing = NothingToShrink() if turn.options.compact is not None else None
            return RequestSize(used, guessed, window, nothing)
        room = room_of(window, turn.refused.get(route.name, 0), rules.threshold, ask.cap or route.cap)
        bound = rules_of(route.protocol).reasoning_bound_to_tools
        writer = policy.route(rules.route or route.name)
        summarising = await self._windows.of(writer, used) if writer.name != route.name else window
        first = compact.next_step(turn, policy, room, used, bound=bound, summarising=summarising)
        return RequestSize(used, guessed, window, first)

    async def learn(self, route: RouteFacts, heard: list[Event], size: RequestSize) -> None:
        """A refusal may name the window. An answer to what is larger shows that it was not so."""
        last = heard[-1] if heard else None
        if isinstance(last, Cut) and last.failure.window:
            await self._windows.learn(route, last.failure.window)
        elif isinstance(last, Ended) and size.window and size.expected > size.window:
            await self._windows.unlearn(route)

    def _tools_size(self, turn: Turn, route: RouteFacts, own: tuple[ToolSpec, ...]) -> int:
        finishing = offers_finishing(route.protocol, route.effort, drafted=turn.drafted)
        if finishing not in self._tools:
            tools = offered(own, turn.options, finishing=finishing)
            self._tools[finishing] = tokens_of_tools(tools) if turn.options.tools else size_of(tools)
        return self._tools[finishing]


_sized: list[tuple[tuple[ToolSpec, ...], int]] = []
"""The sets of tools that were sized last. Our own is one tuple for all runs."""
_MOST_SIZED = 4


def usual_size(own: tuple[ToolSpec, ...]) -> int:
    """The tokens of our own tools as a request offers them that wants nothing else."""
    return size_of(offered(own, RunOptions(), finishing=False))


def size_of(tools: tuple[ToolSpec, ...]) -> int:
    for known, size in _sized:
        if known is tools:
            return size
    size = tokens_of_tools(tools)
    _sized.insert(0, (tools, size))
    del _sized[_MOST_SIZED:]
    return size


def summary_request(turn: Turn, asked: ModelAsked) -> ModelRequest:
    """What a model is asked for a summary. It gets no tools, and nothing of it is part of the
    conversation."""
    assert asked.folding is not None
    return ModelRequest(
        model=asked.model,
        messages=summary.request_messages(turn, asked.folding),
        max_output_tokens=asked.cap,
        effort=asked.effort,
        stream=asked.stream,
        cap_field=asked.cap_field,
    )
