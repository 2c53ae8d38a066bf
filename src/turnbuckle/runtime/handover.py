"""Calls that were handed over come back with their results: here they meet the run that made them again.

A client keeps its own copy of the conversation, and that copy is poorer than ours. It holds the call that we handed
over, but not what the model thought before it, nor the state that its provider wants back, nor the tools of ours that
ran in the same turn, nor the draft that the call was healed from. So wherever a client's history holds a call of ours,
the messages of the run that made it stand in for the client's copy, and the results get the ids that the model knows.
A run that is no longer there, or that belongs to somebody else, changes nothing: then the client's copy must do.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.turn.facts import HandedCall
from turnbuckle.turn.handing import run_of
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart

MOST_CACHED = 256
"""Runs whose messages are kept at hand: an agent sends its whole history with each of its requests."""


class Spoken(Struct, frozen=True):
    """What a run added to its history, and the calls that it ended with."""

    messages: tuple[Message, ...]
    handed: tuple[HandedCall, ...]


Find = Callable[[RunId, str], Awaitable[Spoken | None]]
"""What a run of this user said; None if there is no such run, or it has not ended."""


class Handover:
    """`restored` gives a client's history the messages of the runs that it came from."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._known: OrderedDict[tuple[str, str], Spoken] = OrderedDict()

    async def restored(self, messages: tuple[Message, ...], user: str) -> tuple[Message, ...]:
        out: list[Message] = []
        inner: dict[str, str] = {}
        for message in messages:
            spoken = await self._behind(message, user)
            if spoken is not None:
                inner.update((call.id, call.inner) for call in spoken.handed)
                out.extend(spoken.messages)
            else:
                out.append(_renamed(message, inner))
        return tuple(out)

    async def answers(self, messages: tuple[Message, ...], user: str) -> tuple[Message, ...]:
        """Results alone, where the history before them is ours already."""
        inner: dict[str, str] = {}
        for message in messages:
            for part in message.parts:
                if isinstance(part, ResultPart) and (spoken := await self._spoken(part.call_id, user)) is not None:
                    inner.update((call.id, call.inner) for call in spoken.handed)
        return tuple(_renamed(message, inner) for message in messages)

    async def _behind(self, message: Message, user: str) -> Spoken | None:
        """The run behind an assistant's message, if all its calls are those that the run handed over."""
        calls = [part for part in message.parts if isinstance(part, CallPart)]
        if message.role != "assistant" or not calls:
            return None
        spoken = await self._spoken(calls[0].id, user)
        if spoken is None or {call.id for call in calls} != {call.id for call in spoken.handed}:
            return None
        return spoken

    async def _spoken(self, call_id: str, user: str) -> Spoken | None:
        run = run_of(call_id)
        if not run:
            return None
        key = (user, run)
        known = self._known.get(key)
        if known is None:
            known = await self._find(RunId(run), user)
            if known is None:
                return None
            self._known[key] = known
            if len(self._known) > MOST_CACHED:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return known


def _renamed(message: Message, inner: dict[str, str]) -> Message:
    if message.role != "tool" or not inner:
        return message
    return replace(message, parts=tuple(_answer(part, inner) for part in message.parts))


def _answer(part: Part, inner: dict[str, str]) -> Part:
    if isinstance(part, ResultPart) and part.call_id in inner:
        return replace(part, call_id=inner[part.call_id])
    return part
