"""How a second telling compares with the first, character by character. Nothing is emitted here."""

from turnbuckle.wire.payload import whole_text

_SHORT = 12


class Echo:
    """A text that may be told again from its top. What agrees with it is held back, until all of it was heard
    again or something else comes: then it was no echo, and all is new."""

    __slots__ = ("_at", "_known", "heard")

    def __init__(self, known: str) -> None:
        self.heard = False  # all of it
        self._known = known
        self._at = 0

    def fresh(self, piece: str) -> str:
        """What is new, as far as it is known. Once that is something, or `heard`, the echo is over."""
        known, at = self._known, self._at
        if known.startswith(piece, at):
            self._at += len(piece)
            self.heard = self._at == len(known)
            return ""
        if piece.startswith(known[at : at + len(piece)]):
            self.heard = True
            return piece[len(known) - at :]
        return self.held() + piece

    def held(self) -> str:
        """What was held back and has not become an echo."""
        return "" if self.heard else self._known[: self._at]


def is_telling(text: str) -> bool:
    """Whether a text is long enough that its repetition is not an accident: models do say a word twice."""
    return len(text) > _SHORT or len(text.split()) > 1


def untold(told: str, known: str) -> tuple[str, str] | None:
    """What one text of a whole message has more than all that is known, and what of that is left for the next
    texts; None if the two do not fit together."""
    told = whole_text(told)
    for left in (known, known.lstrip()):
        if left.startswith(told):
            return "", left[len(told) :]
        if told.startswith(left):
            return told[len(left) :], ""
    return ("", "") if told.strip() == known.strip() else None
