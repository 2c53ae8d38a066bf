"""The blocks of one chat reply. The wire has none: a new one begins when the kind of content changes."""

from typing import Any

from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    Event,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)


class OpenBlocks:
    """`text`, `reasoning` and `refusal` are the open block of each kind, -1 if there is none."""

    def __init__(self) -> None:
        self.text = self.reasoning = self.refusal = -1
        self.reply_id = ""
        self.thoughts: list[str] = []
        self.strange = 0
        """Parts that nobody here knows."""
        self._count = 0
        self._closable: dict[int, None] = {}  # in their order

    def say(self, text: str, out: list[Event], *, beside: bool) -> None:
        """Words. `beside`: the thought that stands beside them goes on."""
        if self.text < 0:
            self.text = self._closed_later()
        if not beside:
            self.reasoning = -1
        out.append(TextDelta(self.text, text))

    def think(self, text: str, out: list[Event], *, beside: bool) -> None:
        if not text:
            return
        if self.reasoning < 0:
            self.reasoning = self._closed_later()
        if not beside:
            self.text = -1
        self.thoughts.append(text)
        out.append(ReasoningDelta(self.reasoning, text))

    def begin_thought(self, out: list[Event]) -> int:
        """The open thought, which may have no words."""
        if self.reasoning < 0:
            self.reasoning = self._closed_later()
            out.append(BlockStarted(self.reasoning, "reasoning"))
        return self.reasoning

    def refuse(self, text: str, out: list[Event]) -> None:
        if self.refusal < 0:
            self.refusal = self._closed_later()
        out.append(RefusalDelta(self.refusal, text))

    def put(self, part: dict[str, Any], out: list[Event]) -> None:
        """A part that only the provider's clients understand: a block of its own between the texts."""
        if self.text >= 0:
            del self._closable[self.text]
            out.append(BlockClosed(self.text))
        self.leave()
        self.strange += 1
        block = self.next()
        out += [OpaqueBlock(block, part), BlockClosed(block)]

    def leave(self) -> None:
        """What comes next is another text, and another thought."""
        self.text = self.reasoning = -1

    def close(self, out: list[Event]) -> None:
        for block in self._closable:
            out.append(BlockClosed(block))

    def next(self) -> int:
        self._count += 1
        return self._count - 1

    def number_call(self, call_id: str) -> tuple[int, str]:
        """A call's block, and its id if the server gave none."""
        block = self.next()
        return block, call_id or f"call_{self.reply_id or 'reply'}_{block}"

    def _closed_later(self) -> int:
        self._closable[self._count] = None
        return self.next()
