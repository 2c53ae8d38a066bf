"""One text of a provider that has blocks of its own, and the blocks that it becomes here.

Reasoning between tags becomes blocks beside those of the text, numbered as they begin: text, reasoning, and
text again in a new block. A block of reasoning is closed by the text behind it, all others when the provider
closes its own, so that state which comes last still finds the text open. What a text holds back it gives up
when the provider closes it, begins something else (no tag goes on behind that, and the order is kept) or ends
properly, and never at a cut.

Only unmistakable tags count in these protocols: hosted models are asked for all kinds of XML. They count
until a word of text was said, in whichever text of the reply.
"""

from collections.abc import Callable

from turnbuckle.vocab.events import BlockClosed, BlockStarted, Event, ReasoningDelta, TextDelta
from turnbuckle.wire.think import Mode, Piece, ThinkSplitter


class Speech:
    """What the texts of one reply share: the numbers of blocks, and how the first of them begins."""

    def __init__(self, think: Mode, next_block: Callable[[], int]) -> None:
        self.next_block = next_block
        self.latest: TextBlocks | None = None
        self.said = False  # a word of text
        self._think = think

    def splitter(self) -> ThinkSplitter:
        """For the next text that says something. An opening tag can only be missing from the first."""
        made = ThinkSplitter("off" if self.said else self._think, words=False)
        if self._think == "open":
            self._think = "auto"
        return made

    def give_back(self, out: list[Event]) -> None:
        """The reply ended properly and has nothing else to show: reasoning that was never closed is its
        text."""
        answer = self.latest.unclosed if self.latest is not None and not self.said else ""
        if answer.strip():
            block = self.next_block()
            out.extend((BlockStarted(block, "text"), TextDelta(block, answer), BlockClosed(block)))

    def release(self, out: list[Event]) -> None:
        """Something else begins."""
        if self.latest is not None:
            self.latest.release(out)


class TextBlocks:
    """One text. `text` is its only or last block of text. `plain`: a piece without `<`, `◁` and backtick is
    one delta of that block."""

    __slots__ = ("_open", "_speech", "_splitter", "_thought", "plain", "text")

    def __init__(self, block: int, speech: Speech) -> None:
        self.text = block
        self.plain = False
        self._speech = speech
        self._splitter: ThinkSplitter | None = None
        self._thought = -1  # the open block of reasoning
        self._open = [block]  # blocks of text

    def take(self, piece: str, out: list[Event]) -> None:
        """Emit a piece, as far as it is known what it is."""
        splitter = self._splitter
        if splitter is None:
            splitter = self._splitter = self._speech.splitter()
        if self.plain and "<" not in piece and "◁" not in piece:
            splitter.count_code(piece)
            out.append(TextDelta(self.text, piece))
            return
        self._speech.latest = self
        for found in splitter.feed(piece):
            self._emit(found, out)
        self.plain = splitter.plain

    @property
    def unclosed(self) -> str:
        """Reasoning whose closing tag has not come."""
        return self._splitter.unclosed if self._splitter is not None else ""

    def release(self, out: list[Event]) -> None:
        """Emit what was held back, since nothing follows that could make it a tag."""
        if self._splitter is not None:
            for found in self._splitter.end():
                self._emit(found, out)

    def close(self, out: list[Event]) -> None:
        """Close all blocks that are open."""
        if self._thought >= 0:
            self._open.append(self._thought)
        out.extend(BlockClosed(block) for block in self._open)
        self._open, self._thought = [], -1

    def _emit(self, found: Piece, out: list[Event]) -> None:
        kind, piece = found
        if kind == "reasoning":
            if self._thought < 0:
                self._thought = self._speech.next_block()
                out.append(BlockStarted(self._thought, "reasoning"))
            out.append(ReasoningDelta(self._thought, piece))
            return
        if self._thought >= 0:
            out.append(BlockClosed(self._thought))
            self._thought = -1
            self.text = self._speech.next_block()
            self._open.append(self.text)
            out.append(BlockStarted(self.text, "text"))
        self._speech.said = self._speech.said or not piece.isspace()
        out.append(TextDelta(self.text, piece))
