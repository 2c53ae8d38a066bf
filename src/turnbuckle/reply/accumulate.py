"""Events to a reply, with constant work per event.

Pieces are appended to lists and joined only when somebody asks for a snapshot; arguments are never parsed as
they grow. Folding the same events twice gives the same reply.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from turnbuckle.vocab.arguments import canonical, distinct_objects, judge, split_objects
from turnbuckle.vocab.events import (
    Alive,
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    ChoiceNoted,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    LastWord,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    Skipped,
    StageNoted,
    Started,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
    worse,
)
from turnbuckle.vocab.reply import (
    Reply,
    ReplyBlock,
    ReplyCall,
    ReplyOpaque,
    ReplyReasoning,
    ReplyRefusal,
    ReplyText,
)

_MEDIA = ("images", "audio")
"""Fields of a message that hold what it shows, and not what is said of it."""


class _OpenBlock:
    __slots__ = ("call_id", "closed", "data", "kind", "name", "pieces", "state")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.closed = False
        self.call_id = ""
        self.name = ""
        self.state: dict[str, Any] | None = None
        self.data: dict[str, Any] = {}


class Accumulator:
    """`add` events in order; `snapshot` whenever a value is wanted."""

    def __init__(self) -> None:
        self._blocks: dict[int, _OpenBlock] = {}
        self._pieces: dict[int, list[str]] = {}  # of the blocks whose deltas are plain appends
        self._id = ""
        self._model = ""
        self._finish: FinishNoted | None = None
        self._usage: Usage | None = None
        self._skipped = 0
        self._others = self._media = False
        self._last: LastWord | None = None

    def add(self, event: Event) -> None:
        """Fold one event in. What comes behind a last word is refused."""
        self.add_all((event,))

    def add_all(self, events: Iterable[Event]) -> "Accumulator":
        """Fold events in, in order."""
        known = self._pieces
        for event in events:
            kind = type(event)
            if kind is TextDelta or kind is CallArgs or kind is ReasoningDelta:
                pieces = known.get(event.block)  # type: ignore[union-attr]
                if pieces is not None:
                    pieces.append(event.text)  # type: ignore[union-attr]
                    continue
            if kind is not Alive:
                self._add_rare(event)
        return self

    def _add_rare(self, event: Event) -> None:
        if self._last is not None:
            raise ValueError(f"{type(event).__name__} after the last word of a stream")
        match event:
            case TextDelta(block, text) | ReasoningDelta(block, text) | CallArgs(block, text):
                self._begin(block, _KINDS[type(event)]).pieces.append(text)
            case CallStarted(block, call_id, name) | CallNamed(block, call_id, name):
                call = self._block(block, "call")
                call.call_id, call.name = call_id, name
            case CallRewritten(block, arguments):
                pieces = self._block(block, "call").pieces
                pieces[:] = [arguments]
            case BlockStarted(block, kind):
                self._block(block, kind)
            case CallClosed(block):
                self._block(block, "call").closed = True
            case BlockClosed(block):
                self._block(block, "text").closed = True
            case RefusalDelta(block, text):
                self._block(block, "refusal").pieces.append(text)
            case StateNoted(block, data):
                noted = self._block(block, "reasoning")
                noted.state = {**(noted.state or {}), **data}
            case OpaqueBlock(block, data):
                self._block(block, "opaque").data = data
            case Started(reply_id, model):
                self._id, self._model = reply_id or self._id, model or self._model
            case UsageNoted(usage):
                self._usage = usage
            case FinishNoted():
                self._finish = worse(self._finish, event)
            case ChoiceNoted():
                self._others = True
            case Skipped():
                self._skipped += not event.harmless
            case Ended() | Cut():
                self._last = event
                self._pieces = {}  # so that a delta behind it takes the slow way and is refused
            case FieldsNoted(where, data):
                self._media = self._media or (where == "message" and any(map(data.get, _MEDIA)))
            case Alive() | StageNoted():
                pass

    def snapshot(self) -> Reply:
        """The reply as far as it came."""
        finish = self._finish
        return Reply(
            blocks=self._all_blocks(),
            id=self._id,
            model=self._model,
            finish=finish.finish if finish else None,
            finish_said=finish.said if finish else "",
            finish_detail=finish.detail if finish else "",
            usage=self._usage,
            skipped=self._skipped,
            others=self._others,
            media=self._media,
            last=self._last,
        )

    def _all_blocks(self) -> tuple[ReplyBlock, ...]:
        made = tuple(made for block in self._blocks.values() for made in self._values(block))
        calls = [block.id for block in made if isinstance(block, ReplyCall)]
        return made if len(set(calls)) == len(calls) else _settled(made)

    def _block(self, number: int, kind: str) -> _OpenBlock:
        return self._blocks.get(number) or self._begin(number, kind)

    def _begin(self, number: int, kind: str) -> _OpenBlock:
        block = self._blocks[number] = _OpenBlock(kind)
        self._pieces[number] = block.pieces
        return block

    def _values(self, block: _OpenBlock) -> list[ReplyBlock]:
        if len(block.pieces) > 1:
            block.pieces[:] = ["".join(block.pieces)]
        text = block.pieces[0] if block.pieces else ""
        match block.kind:
            case "text":
                return [ReplyText(text, block.closed, block.state)]
            case "reasoning":
                return [ReplyReasoning(text, block.closed, block.state)]
            case "refusal":
                return [ReplyRefusal(text, block.closed)]
            case "opaque":
                return [ReplyOpaque(block.data, block.closed)]
        return list(_calls(block, text))


_BLANK = " \t\r\n"
_KINDS: dict[type, str] = {TextDelta: "text", ReasoningDelta: "reasoning", CallArgs: "call"}


def _calls(block: _OpenBlock, arguments: str) -> list[ReplyBlock]:
    """One call, or several: some models put whole objects behind each other into one call's arguments. An
    object that is there twice is one call, and an empty one before the others is none: hosts begin with
    it."""
    texts: tuple[str, ...] = (arguments,)
    if block.closed:
        if arguments.strip(_BLANK) == "null":
            texts = ("{}",)
        elif judge(arguments).status == "malformed":
            texts = distinct_objects(split_objects(arguments)) or (arguments,)
    return [ReplyCall(block.call_id, block.name, text, block.closed, block.state) for text in texts]


def _settled(blocks: tuple[ReplyBlock, ...]) -> tuple[ReplyBlock, ...]:
    """Each call once, under an id of its own. The same call under the same id was told again; another one
    under an id that is taken gets one that is not."""
    times = Counter(block.id for block in blocks if isinstance(block, ReplyCall))
    taken = set(times)
    known: dict[str, set[tuple[str, bytes]]] = {}
    numbers: dict[str, Iterator[int]] = {}
    kept: list[ReplyBlock] = []
    for block in blocks:
        if not isinstance(block, ReplyCall) or times[block.id] == 1:
            kept.append(block)
            continue
        is_first = block.id not in known
        said = known.setdefault(block.id, set())
        if block.closed:
            meaning = (block.name, canonical(block.arguments))
            if meaning in said:
                continue
            said.add(meaning)
        number = numbers.setdefault(block.id, count(1))
        kept.append(block if is_first else replace(block, id=_free_id(block.id, number, taken)))
    return tuple(kept)


def _free_id(call_id: str, numbers: Iterator[int], taken: set[str]) -> str:
    made = next(made for at in numbers if (made := f"{call_id}_{at}") not in taken)
    taken.add(made)
    return made


def fold(events: list[Event]) -> Reply:
    """All events of a stream as one reply."""
    return Accumulator().add_all(events).snapshot()
