"""What a model says on its way to the journal: behind the seam, and watched for going round in circles."""

from msgspec.structs import replace

from turnbuckle.reply.anchored_seam import AnchoredSeam
from turnbuckle.reply.repetition import RepetitionGuard, Where
from turnbuckle.reply.seam import Seam
from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallStarted,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    Usage,
    UsageNoted,
)
from turnbuckle.wire.across import moved

_GENERATED = (TextDelta, ReasoningDelta, RefusalDelta, CallArgs)
_LOOKED_AT = frozenset(
    (*_GENERATED, CallStarted, UsageNoted, StateNoted, FieldsNoted, BlockStarted, BlockClosed, Ended, Cut)
)
"""All others go as they are."""
_PLACES: tuple[Where, ...] = ("text", "reasoning", "arguments")
_WHERE: dict[type, Where] = {ReasoningDelta: "reasoning", CallArgs: "arguments"}


class StreamFilter:
    """Filters the events of one attempt. `shown` is the text that its answer goes on behind, `anchor` what it
    was asked to repeat first; None if nobody asked it to go on. `apart`: what was shown is whole, and this is
    another text. `document`: the whole text is to be one JSON document.

    Text that only repeats what is there already is left out. So is white space with nothing behind it: a
    reply of nothing else is an empty one, and may be asked for again without a trace. What is held back is
    given out, or dropped, before its block is closed and before a call begins, so that the order of things
    stays."""

    def __init__(
        self,
        shown: str = "",
        again: str = "",
        *,
        anchor: str | None = None,
        apart: bool = False,
        document: bool = False,
        from_top: bool = False,
    ) -> None:
        """`again` ends what was shown, and is brought again first where the model went on before it.
        `from_top`: the model was asked for all of it again."""
        self._again = again
        self._early = ""
        self._seam: Seam | AnchoredSeam | None = None
        if shown and (apart or from_top or anchor is not None):
            self._seam = AnchoredSeam(shown, anchor or "", apart=apart, document=document, from_top=from_top)
        elif shown:
            self._seam = Seam(shown)
        self._told = False
        self._skipped = 0  # characters that were only brought again
        self._notes: list[StateNoted | FieldsNoted] = []  # about a text whose place is not known yet
        self._guards = {where: RepetitionGuard(where) for where in _PLACES}
        self._block = 0
        self._begun: set[int] = set()
        self._unheard: set[int] = set()  # blocks of text of which nothing was given out
        self._blank: list[str] = []  # white space at the very beginning
        self._spoke = False
        self.over = False
        """The last word was said. What may follow it is not heard."""
        self.repeats = ""
        """The passage that is said over and over, once it is found."""
        self.repeats_in: Where = "text"
        self.characters = 0
        """What the model has generated so far, shown or not."""
        self.usage: Usage | None = None

    def take(self, events: list[Event]) -> tuple[Event, ...]:
        """The events as they may be shown."""
        if len(events) == 1 and self._spoke and self._seam is None and not (self._again or self.over):
            event = events[0]
            if type(event) is TextDelta and event.text and event.block == self._block:
                # The token's way: more of the text that is under way.
                self.characters += len(event.text)
                self._look_for_circles(event.text, "text")
                self._begun.add(event.block)
                return (event,)
        out: list[Event] = []
        for event in events:
            if self.over:
                break
            if type(event) not in _LOOKED_AT:
                out.append(event)
                continue
            if isinstance(event, TextDelta):
                self.characters += len(event.text)
                self._look_for_circles(event.text, "text")
                self._block = event.block
                if self._spoke and event.text and self._seam is None and not self._again:
                    self._begun.add(event.block)
                    out.append(event)
                else:
                    self._unheard.add(event.block)
                    self._say(self._joined(event.text), out)
                continue
            if isinstance(event, _GENERATED):
                self.characters += len(event.text)
                self._look_for_circles(event.text, _WHERE.get(type(event), "text"))
            elif isinstance(event, CallStarted):
                # The same call again and again is a circle, too.
                self._look_for_circles(event.name, "arguments")
                if isinstance(self._seam, AnchoredSeam) and not self._early:
                    self._seam.call_began()
            elif isinstance(event, UsageNoted):
                self.usage = event.usage
            if isinstance(event, (StateNoted, FieldsNoted)) and "annotations" in event.data:
                self._notes.append(event)
                self._note(out)
                continue
            if isinstance(event, (Ended, Cut, BlockClosed, CallStarted)):
                self._settle(out, cut=isinstance(event, Cut))
                self._note(out)
            if isinstance(event, Cut) and self._proves_an_end(event):
                out += [FinishNoted("stop", ""), Ended("nothing more behind the last words")]
                self.over = True
                break
            if isinstance(event, BlockStarted):
                self._begun.add(event.block)
            if isinstance(event, BlockClosed) and event.block in self._unheard - self._begun:
                continue  # for a reader it never began
            out.append(event)
            self.over = isinstance(event, (Ended, Cut))
        return tuple(out)

    def _note(self, out: list[Event]) -> None:
        """What the text refers to, counted from where it really begins: providers count what they say again,
        too."""
        seam = self._seam
        if not self._notes or self._early or (seam is not None and seam.how == "held" and seam.holding):
            return
        by = -self._skipped - (seam.dropped if seam is not None else 0)
        for note in self._notes:
            data = {**note.data, "annotations": moved(note.data["annotations"], by)}
            out.append(replace(note, data=data) if by else note)
        self._notes.clear()

    def _look_for_circles(self, text: str, where: Where) -> None:
        if not self.repeats and (circle := self._guards[where].feed(text)):
            self.repeats, self.repeats_in = circle, where

    def _joined(self, text: str) -> str:
        """The text without what was shown before."""
        if self._again:
            text, self._early = self._early + text, ""
            if len(text) < len(self._again) and self._again.startswith(text):
                self._early = text
                return ""
            if text.startswith(self._again):
                self._seam, text = None, text[len(self._again) :]
                self._skipped = len(self._again)
            self._again = ""
        return self._seam.feed(text) if self._seam is not None else text

    def take_notice(self) -> str:
        """What the user should know of the seam; given once."""
        notice = self._seam.notice if isinstance(self._seam, AnchoredSeam) and not self._told else ""
        self._told = self._told or bool(notice)
        return notice

    def _settle(self, out: list[Event], *, cut: bool) -> None:
        seam = self._seam
        # A thought that closes before the first word settles nothing: the text is still to come.
        if seam is not None and (seam.holding or (isinstance(seam, AnchoredSeam) and seam.how != "held")):
            self._say(seam.close(cut=cut), out)

    def _proves_an_end(self, cut: Cut) -> bool:
        """Whether the model said its last words again, all of them, and nothing behind them, and only the
        reason is missing: a host that gives none, and a text that was whole."""
        seam = self._seam
        if cut.failure.kind != "no_reason" or seam is None or self._spoke or self._begun:
            return False
        return seam.is_behind_all

    def _say(self, text: str, out: list[Event]) -> None:
        if not text:
            return
        if not self._spoke:
            self._blank.append(text)
            if not text.strip():
                return
            text = "".join(self._blank)
            self._spoke = True
        out.append(TextDelta(self._block, text))
        self._begun.add(self._block)
