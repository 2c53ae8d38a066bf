"""Calls that were handed over come back with their results: here they meet the run that made them again.

A client keeps its own copy of the conversation, and that copy is poorer than ours. It holds the call that we
handed over, but not what the model thought before it, nor the state that its provider wants back, nor the
tools of ours that ran in the same turn, nor the draft that the call was healed from. So wherever a client's
history holds a call of ours, the messages of the run that made it stand in for the client's copy, and the
results get the ids that the model knows. A run that is no longer there, or that belongs to somebody else,
changes nothing: then the client's copy must do.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import Reader, StreamQuery
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.runs import KIND, RUNNING
from turnbuckle.turn.client_calls import run_of
from turnbuckle.turn.facts import HandedCall, RunStarted, decode
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.policy import Policy
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import CallPart, Message, Part, ResultPart, text_of

MOST_CACHED = 256
"""Runs whose messages are kept at hand: an agent sends its whole history with each of its requests."""


class RunAdditions(Struct, frozen=True):
    """What a run added to its history, and the calls that it ended with."""

    messages: tuple[Message, ...]
    handed: tuple[HandedCall, ...]


Find = Callable[[RunId, str], Awaitable[RunAdditions | None]]
"""What a run of this user said; None if there is no such run, or it has not ended."""


def finder(journal: Reader, policy: Policy) -> Find:
    """Find runs in a journal. One of another user is as unknown as one that never was."""

    async def find(run: RunId, user: str) -> RunAdditions | None:
        rows = await journal.streams(StreamQuery(kind=KIND, name=run, user=user), limit=1)
        if not rows or rows[0].status == RUNNING:
            return None
        fold, before = TurnFold(policy), 0
        async for items in read_all(journal, run):
            for item in items:
                fact = decode(item.data)
                if isinstance(fact, RunStarted):
                    before = len(fact.messages)
                fold.take(fact)
        return RunAdditions(fold.turn.messages[before:], fold.turn.handed)

    return find


class Handover:
    """`restored` gives a client's history the messages of the runs that it came from."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._known: OrderedDict[tuple[str, str], RunAdditions] = OrderedDict()

    async def restored(self, messages: tuple[Message, ...], user: str) -> tuple[Message, ...]:
        out: list[Message] = []
        inner: dict[str, str] = {}
        own = 0  # behind this place in `out` only the assistant has spoken
        for message in messages:
            spoken = await self._behind(message, user)
            if spoken is not None:
                inner.update((call.id, call.inner) for call in spoken.handed)
                del out[_begin(out, own, spoken) :]
                out.extend(spoken.messages)
            else:
                out.append(_renamed(message, inner))
            if spoken is not None or _is_the_clients(message, inner):
                own = len(out)
        return tuple(out)

    async def answers(self, messages: tuple[Message, ...], user: str) -> tuple[Message, ...]:
        """Results alone, where the history before them is ours already."""
        inner: dict[str, str] = {}
        for message in messages:
            for part in message.parts:
                if (
                    isinstance(part, ResultPart)
                    and (spoken := await self._spoken(part.call_id, user)) is not None
                ):
                    inner.update((call.id, call.inner) for call in spoken.handed)
        return tuple(_renamed(message, inner) for message in messages)

    async def _behind(self, message: Message, user: str) -> RunAdditions | None:
        """The run behind an assistant's message, if all its calls are those that the run handed over."""
        calls = [part for part in message.parts if isinstance(part, CallPart)]
        if message.role != "assistant" or not calls:
            return None
        spoken = await self._spoken(calls[0].id, user)
        if spoken is None or {call.id for call in calls} != {call.id for call in spoken.handed}:
            return None
        return spoken

    async def _spoken(self, call_id: str, user: str) -> RunAdditions | None:
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


def _is_the_clients(message: Message, inner: dict[str, str]) -> bool:
    """Whether this came from the client: its words, or the results of calls that it was handed."""
    if message.role == "tool":
        return any(isinstance(part, ResultPart) and part.call_id in inner for part in message.parts)
    return message.role != "assistant"


def _begin(out: list[Message], own: int, spoken: RunAdditions) -> int:
    """Where the client's copy of a run begins. In some protocols it takes several messages: what was said and
    which tools of ours ran before the calls were handed over stands in front of them."""
    run = run_of(spoken.handed[0].id)
    text = "".join(text_of(message.parts) for message in spoken.messages if message.role == "assistant")
    at = len(out)
    while at > own and _is_told_by(out[at - 1], run, text):
        at -= 1
    return at


def _is_told_by(message: Message, run: str, said: str) -> bool:
    calls = [part.id for part in message.parts if isinstance(part, CallPart)]
    results = [part.call_id for part in message.parts if isinstance(part, ResultPart)]
    if calls or results:
        return all(run in name for name in (*calls, *results))
    return message.role == "assistant" and text_of(message.parts).strip() in said


def _renamed(message: Message, inner: dict[str, str]) -> Message:
    if message.role != "tool" or not inner:
        return message
    return replace(message, parts=tuple(_answer(part, inner) for part in message.parts))


def _answer(part: Part, inner: dict[str, str]) -> Part:
    if isinstance(part, ResultPart) and part.call_id in inner:
        return replace(part, call_id=inner[part.call_id])
    return part
