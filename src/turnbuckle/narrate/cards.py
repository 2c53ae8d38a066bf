"""The calls of a run, one card for each piece of work, from their first character on.

However often a call was cut, what finishes it belongs to its card: a `finish_call` that brings the rest of a
draft has no card of its own. Calls are found by their id within their attempt. Models that give no id, or the
same one twice, are renamed by the turn, so then the next whole call of that name is taken.
"""

from collections.abc import Iterator

from turnbuckle.narrate.told import CallArriving, CallGrown, CallMoved, CallState, DraftMoved, Told
from turnbuckle.turn.facts import DraftClosed, DraftGrown, DraftKept, HandedCall
from turnbuckle.vocab.events import CallArgs, CallNamed, CallRewritten, CallStarted
from turnbuckle.vocab.tooling import FINISH_CALL, REST_OF_A_CALL


class _Card:
    __slots__ = ("call_id", "id", "joins", "name", "number", "state")

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.id = ""  # by which the model knows its call
        self.call_id = ""  # by which it goes on, once that is known
        self.state: CallState | None = None  # None: it runs, or has run
        self.joins = False  # what arrives is the rest of a draft


class Cards:
    """Keeps the cards of the attempt that is under way, and those of drafts."""

    def __init__(self) -> None:
        self._number = 0
        self._cards: list[_Card] = []  # of this attempt; as many as a reply may have calls
        self._blocks: dict[int, _Card] = {}
        self._nameless: dict[int, str] = {}
        self._drafts: dict[str, _Card] = {}  # those that are open
        self._rest_of = ""
        self.finishes = True
        """Whether `finish_call` is ours, and not a tool that the caller brought."""

    def name(self, card: _Card) -> str:
        """As readers see it: how the rest of a call is sent is a matter between the model and us."""
        return REST_OF_A_CALL if self.finishes and card.name == FINISH_CALL else card.name

    def new_attempt(self) -> None:
        self._cards = []
        self._blocks.clear()
        self._nameless.clear()

    # As the model says them

    def take(
        self, event: CallStarted | CallNamed | CallArgs | CallRewritten, attempt: int, out: list[Told]
    ) -> int:
        """The card of the call; 0, while nothing is known of it but that it begins."""
        block = event.block
        match event:
            case CallArgs(_, text):
                card = self._blocks.get(block) or self._open(block, "", "", attempt, out)
                out.append(CallGrown(card.number, text))
                return card.number
            case CallRewritten(_, arguments):
                card = self._blocks.get(block) or self._open(block, "", "", attempt, out)
                out.append(CallGrown(card.number, arguments, True))
                return card.number
            case CallStarted(_, call_id, name):
                if name:
                    return self._open(block, call_id, name, attempt, out).number
                self._nameless[block] = call_id
                return 0
            case CallNamed(_, call_id, name):
                known = self._blocks.get(block)
                if known is None:
                    return self._open(block, call_id, name, attempt, out).number
                known.id = call_id or known.id
                if not known.joins and name:
                    known.name = name
                    out.append(CallMoved(known.number, self.name(known), "arriving"))
                return known.number

    def _open(self, block: int, call_id: str, name: str, attempt: int, out: list[Told]) -> _Card:
        draft = self._draft_to_finish() if self.finishes and name == FINISH_CALL else None
        card = self._new(name) if draft is None else draft
        card.id, card.call_id = call_id or self._nameless.get(block, ""), ""
        card.joins, card.state = draft is not None, "arriving"
        if draft is not None:
            self._cards.append(card)
        self._blocks[block] = card
        out.append(CallArriving(card.number, self.name(card), attempt, card.joins))
        return card

    def _new(self, name: str) -> _Card:
        self._number += 1
        card = _Card(self._number, name)
        self._cards.append(card)
        return card

    def _draft_to_finish(self) -> _Card | None:
        asked = self._drafts.get(self._rest_of)
        for card in (asked, *self._drafts.values()):  # a run has few
            if card is not None and card not in self._cards:
                return card
        return None

    def arrived(self) -> Iterator[Told]:
        """The reply is whole: its calls may run."""
        return self._move(("arriving",), "ready")

    def broke(self, rest_of: str = "") -> Iterator[Told]:
        """The reply was cut: none of its calls runs. `rest_of` is the draft that is to be finished."""
        self._rest_of = rest_of
        return self._move(("arriving", "ready"), "dropped")

    def _move(self, states: tuple[CallState, ...], to: CallState) -> Iterator[Told]:
        for card in self._cards:
            if card.state in states:
                card.state = "draft" if card.joins and to == "dropped" else to
                yield CallMoved(card.number, self.name(card), card.state)

    # Drafts

    def draft(self, fact: DraftKept | DraftGrown | DraftClosed, out: list[Told]) -> None:
        match fact:
            case DraftKept(_, draft):
                card = self._cards[-1] if self._cards else self._new(draft.tool)
                self._drafts[draft.id] = card
                card.state = "draft"
                out.append(
                    DraftMoved(
                        draft.id,
                        card.number,
                        added=draft.text,
                        tool=draft.tool,
                        argument=draft.argument,
                        settled=draft.settled,
                    )
                )
            case DraftGrown(_, draft_id, kept, added):
                if (known := self._drafts.get(draft_id)) is not None:
                    out.append(DraftMoved(draft_id, known.number, kept, added))
            case DraftClosed(_, draft_id, how):
                if (known := self._drafts.pop(draft_id, None)) is not None:
                    out.append(DraftMoved(draft_id, known.number, how=how))
                    if how == "superseded" and known.state == "draft":
                        known.state = "superseded"
                        out.append(CallMoved(known.number, self.name(known), known.state))

    # As they run

    def of(self, call_id: str, name: str) -> int:
        """The card of a call; a new one, if nobody saw it arrive: the turn made two of one, say."""
        return self._found(call_id, name).number

    def joined(self, call_id: str) -> tuple[int, str]:
        """The card of a `finish_call`, and the tool that it is about, if there is such a draft."""
        card = self._found(call_id, FINISH_CALL)
        return card.number, self.name(card)

    def starts(self, call_id: str, name: str) -> int:
        card = self._found(call_id, name)
        card.name, card.state = name, None
        return card.number

    def hands_over(self, calls: tuple[HandedCall, ...]) -> tuple[int, ...]:
        cards = [self._found(call.inner, call.name) for call in calls]
        for card, call in zip(cards, calls, strict=True):
            card.name, card.state = call.name, "handed"
        return tuple(card.number for card in cards)

    def _found(self, call_id: str, name: str) -> _Card:
        unbound = [card for card in self._cards if not card.call_id]
        card = (
            next((card for card in self._cards if card.call_id == call_id), None)
            or next((card for card in unbound if card.id == call_id), None)
            or next((card for card in unbound if card.name == name and card.state == "ready"), None)
            or self._new(name)
        )
        card.call_id = call_id
        return card
