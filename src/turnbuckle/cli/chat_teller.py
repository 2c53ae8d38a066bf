"""One run as a chat tells it: its facts become pieces, each of them once, also when it has to be read again."""

from turnbuckle.cli.chat_story import ChatPiece, ChatStory
from turnbuckle.cli.follow import waste_lines
from turnbuckle.cli.story import Line, Text
from turnbuckle.runtime.price import price_of
from turnbuckle.turn.facts import Fact, RunEnded
from turnbuckle.turn.ledger import Ledger
from turnbuckle.turn.waiting import Waiting


class Teller:
    """`take` the facts in their order. `after` is the number of the last one."""

    def __init__(self, reasoning: bool) -> None:
        self.after = 0
        self.story = ChatStory(reasoning)
        self.waiting = Waiting()
        self._ledger = Ledger(price_of)
        self._run = ""
        self._told: list[int] = [0, 0]  # characters of text and other pieces that were told
        self._skip: list[int] = [0, 0]  # and those that were told before it had to be read again

    def again(self, reasoning: bool) -> "Teller":
        """The same run from its beginning, without what was told already: merging changes no word and no order."""
        made = Teller(reasoning)
        made._skip = [*self._told]
        return made

    def take(self, seq: int, fact: Fact) -> list[ChatPiece]:
        self.after = seq
        self.waiting.take(fact)
        self._ledger.take(fact)
        pieces = self.story.take(fact)
        if isinstance(fact, RunEnded):
            pieces += waste_lines(self._ledger.entries)
            pieces += [Line(f"draft kept: /drafts show {self._run}:{one}", "notice") for one in fact.outcome.drafts]
        self._run = self._run or getattr(fact, "run", "")
        return [left for piece in pieces if (left := self._new(piece)) is not None]

    def _new(self, piece: ChatPiece) -> ChatPiece | None:
        """What of a piece was not told yet."""
        if not isinstance(piece, Text):
            self._told[1] += 1
            return piece if self._told[1] > self._skip[1] else None
        before = max(self._skip[0] - self._told[0], 0)
        self._told[0] += len(piece.text)
        if before >= len(piece.text):
            return None
        return Text(piece.text[before:], piece.reasoning, piece.apart if not before else "")
