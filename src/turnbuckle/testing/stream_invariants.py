"""What must be true of every stream of events, whoever made it and however it ended.

Checks return sentences, one per breach; an empty tuple means that all is well. They hold for any protocol.
"""

from collections.abc import Sequence

from msgspec import Struct

from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallNamed,
    CallRewritten,
    CallStarted,
    Cut,
    Ended,
    Event,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
)

_DELTAS = {TextDelta: "text", ReasoningDelta: "reasoning", RefusalDelta: "refusal"}


class ClosedCall(Struct, frozen=True):
    """A call that its protocol declared over."""

    id: str
    name: str
    arguments: str


class Content(Struct, frozen=True):
    """What a reader of the events would have seen."""

    text: str
    reasoning: str
    refusal: str
    closed_calls: tuple[ClosedCall, ...]


def check_stream(events: Sequence[Event]) -> tuple[str, ...]:
    """One last word and nothing behind it; every event fits the block that it names."""
    problems = list(_check_last_word(events))
    blocks = _Blocks(problems)
    for event in events:
        blocks.take(event)
    return tuple(problems)


def check_cut(
    whole: Sequence[Event], cut: Sequence[Event], *, end_is_terminal: bool = False
) -> tuple[str, ...]:
    """What a cut stream showed is the beginning of what the whole one shows.

    `end_is_terminal`: a tidy end counts as the terminal event here, so "ended" may be said early.
    """
    before, after = content_of(whole), content_of(cut)
    problems = [
        f"{name} {_tail(seen)} is not how the whole {name} begins"
        for name, seen, full in (
            ("text", after.text, before.text),
            ("reasoning", after.reasoning, before.reasoning),
            ("refusal", after.refusal, before.refusal),
        )
        if not full.startswith(seen)
    ]
    missing = list(before.closed_calls)
    for call in after.closed_calls:
        if call in missing:
            missing.remove(call)
        else:
            problems.append(f"{call} is reported closed but is not a call of the whole")
    if cut and isinstance(cut[-1], Ended) and not end_is_terminal:
        if not isinstance(whole[-1], Ended):
            problems.append("the cut stream ended, the whole one did not")
        if after != before:
            problems.append("the cut stream ended, but with less than the whole")
    return tuple(problems)


def content_of(events: Sequence[Event]) -> Content:
    """Fold events to what they show, without judging them."""
    pieces: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
    calls: dict[int, tuple[str, str, list[str]]] = {}
    closed: list[ClosedCall] = []
    for event in events:
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                pieces[_DELTAS[type(event)]].append(event.text)
            case CallStarted():
                calls[event.block] = (event.call_id, event.name, [])
            case CallNamed() if event.block in calls:
                calls[event.block] = (event.call_id, event.name, calls[event.block][2])
            case CallArgs() if event.block in calls:
                calls[event.block][2].append(event.text)
            case CallRewritten() if event.block in calls:
                calls[event.block][2][:] = [event.arguments]
            case CallClosed() if event.block in calls:
                call_id, name, arguments = calls[event.block]
                closed.append(ClosedCall(call_id, name, "".join(arguments)))
            case _:
                pass
    shown = {kind: "".join(texts) for kind, texts in pieces.items()}
    return Content(shown["text"], shown["reasoning"], shown["refusal"], tuple(closed))


def _check_last_word(events: Sequence[Event]) -> list[str]:
    places = [place for place, event in enumerate(events) if isinstance(event, Ended | Cut)]
    if not places:
        return ["there is no last word"]
    problems = []
    if len(places) > 1:
        problems.append(f"there are {len(places)} last words")
    if places[-1] != len(events) - 1:
        problems.append(f"{type(events[-1]).__name__} follows the last word")
    return problems


class _Blocks:
    """Which blocks have begun, as what, and whether they are over."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._kinds: dict[int, str] = {}
        self._closed: set[int] = set()
        self._only_state: set[int] = set()

    def take(self, event: Event) -> None:
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                self._in_block(event.block, _DELTAS[type(event)], event, may_begin=True)
            case CallStarted():
                self._begin(event.block, "call", event)
            case BlockStarted():
                self._begin(event.block, event.kind, event)
            case CallArgs() | CallNamed() | CallRewritten():
                self._in_block(event.block, "call", event)
            case CallClosed():
                self._in_block(event.block, "call", event)
                self._closed.add(event.block)
            case BlockClosed():
                self._close(event)
            case OpaqueBlock():
                self._in_block(event.block, "opaque", event, may_begin=True)
            case StateNoted():
                self._note_state(event.block)
            case _:
                pass

    def _note_state(self, block: int) -> None:
        # Reasoning that is kept secret has state and no text; state may come before the start or behind the
        # close.
        if block not in self._kinds:
            self._kinds[block] = "reasoning"
            self._only_state.add(block)

    def _begin(self, block: int, kind: str, event: Event) -> None:
        if block in self._kinds and block not in self._only_state:
            self._problem(event, "begins a block that had begun")
        self._in_block(block, kind, event, may_begin=True)

    def _in_block(self, block: int, kind: str, event: Event, *, may_begin: bool = False) -> None:
        known = self._kinds.get(block)
        self._only_state.discard(block)
        if known is None and not may_begin:
            self._problem(event, "names a block that has not begun")
        elif known is None:
            if self._kinds and block < max(self._kinds):
                self._problem(event, "begins a block behind a later one")
            self._kinds[block] = kind
        elif known != kind:
            self._problem(event, f"names a block of {known}")
        if block in self._closed:
            self._problem(event, "comes after its block was closed")

    def _close(self, event: BlockClosed) -> None:
        if event.block not in self._kinds:
            self._problem(event, "names a block that has not begun")
        if self._kinds.get(event.block) == "call":
            self._problem(event, "closes a call; only CallClosed may")
        if event.block in self._closed:
            self._problem(event, "closes a block that was closed")
        self._closed.add(event.block)

    def _problem(self, event: Event, what: str) -> None:
        self._problems.append(f"{type(event).__name__} of block {getattr(event, 'block', '?')} {what}")


def _tail(text: str) -> str:
    return repr(text if len(text) <= 40 else "…" + text[-40:])
