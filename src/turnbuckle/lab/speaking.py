"""Steps of a script become events: the one player that every scripted model has.

Who plays a script asks for the events of one step after the other. `lab.dialogue` writes them as the bytes of
a protocol; `lab.rehearsal` and the world of `turnbuckle.testing` hand them to the runtime as they are. Text
of one kind stays in one block until something else begins; a call that was left open takes more arguments.
`kill` ends it all behind an exact number of characters.
"""

from collections.abc import Iterator

import msgspec

from turnbuckle.lab import script as steps
from turnbuckle.lab.script_text import ScriptError
from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallClosed,
    CallStarted,
    Event,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
    UsageNoted,
)

ContentStep = steps.Say | steps.Reason | steps.Refuse | steps.Call | steps.More
_DELTAS: dict[str, type[TextDelta] | type[ReasoningDelta] | type[RefusalDelta]] = {
    "text": TextDelta,
    "reasoning": ReasoningDelta,
    "refusal": RefusalDelta,
}


class Speaker:
    """Speaks one reply. `call_ids` stands in front of the numbers of its calls."""

    def __init__(self, call_ids: str) -> None:
        self.calls = self.blocks = 0
        self.sent = {"text": 0, "reasoning": 0, "refusal": 0, "arguments": 0}
        self.kill: steps.KillAfter | None = None
        self.pieces: int | None = None
        """The size of deltas where a pace sets it, whatever the steps say."""
        self.is_killed = False
        self._call_ids = call_ids
        self._open_block: tuple[str, int] | None = None
        self._open_call: int | None = None

    def content(self, step: ContentStep) -> Iterator[Event]:
        """The events of a step, up to the kill."""
        match step:
            case steps.Say():
                yield from self._text("text", step.text * step.times, step.pieces)
            case steps.Reason():
                yield from self._text("reasoning", step.text, step.pieces)
            case steps.Refuse():
                yield from self._text("refusal", step.text, step.pieces)
            case steps.Call():
                yield from self._call(step)
            case steps.More():
                yield from self._more(step)

    def finish(self, step: steps.Finish, honest: Usage) -> Iterator[Event]:
        """What comes before the last word: the reason and the usage."""
        yield from self.close_block()
        reason = step.reason
        if reason == "auto":
            reason = "calls" if self.calls else "refused" if self.sent["refusal"] else "stop"
        if reason != "none":
            yield FinishNoted(reason, step.said)
        usage = honest if step.usage is None else step.usage
        if isinstance(usage, Usage):
            yield UsageNoted(usage)

    def close_block(self) -> Iterator[Event]:
        if self._open_block is not None:
            block = self._open_block[1]
            self._open_block = None
            yield BlockClosed(block)

    def open_block(self) -> int:
        """The block of the text that is being said; a new one if there is none."""
        return self._open_block[1] if self._open_block else self._take_block()

    def _text(self, kind: str, text: str, size: int) -> Iterator[Event]:
        if self._open_block is None or self._open_block[0] != kind:
            yield from self.close_block()
            if not text:
                return
            self._open_block = (kind, self._take_block())
        make, block = _DELTAS[kind], self._open_block[1]
        for piece in self._cut_up(kind, text, size):
            yield make(block, piece)

    def _call(self, step: steps.Call) -> Iterator[Event]:
        yield from self.close_block()
        block = self._take_block()
        self.calls += 1
        yield CallStarted(block, step.id or f"{self._call_ids}{self.calls}", step.name)
        arguments = step.arguments
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        self._open_call = block
        yield from self._more(steps.More(text, step.pieces, step.closed))

    def _more(self, step: steps.More) -> Iterator[Event]:
        block = self._open_call
        if block is None:
            raise ScriptError("more: there is no open call that could get more arguments")
        for piece in self._cut_up("arguments", step.arguments, step.pieces):
            yield CallArgs(block, piece)
        if step.closed and not self.is_killed:
            self._open_call = None
            yield CallClosed(block)

    def _cut_up(self, kind: str, text: str, size: int) -> Iterator[str]:
        """The deltas of a text; the last one before a kill is shortened so that the count is exact."""
        size = (size if self.pieces is None else self.pieces) or len(text) or 1
        for start in range(0, len(text), size):
            room = self._room(kind)
            piece = text[start : start + size][:room]
            self.sent[kind] += len(piece)
            self.is_killed = room is not None and len(piece) == room
            yield piece
            if self.is_killed:
                return

    def _room(self, kind: str) -> int | None:
        """How many more characters may be sent before the kill."""
        if self.kill is None:
            return None
        limit = self.kill.arguments if kind == "arguments" else self.kill.text if kind == "text" else None
        return None if limit is None else max(limit - self.sent[kind], 0)

    def _take_block(self) -> int:
        self.blocks += 1
        return self.blocks - 1
