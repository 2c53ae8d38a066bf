"""Texts for the scorecard's model, and how much of one a client was told.

Theory of operation. In each text every stretch of `WINDOW` characters occurs once, so any stretch that the
client was shown has one place in the text. `told` walks over what was shown, finds the next known stretch,
follows it as far as it agrees, and compares its place with how far the telling had come: further on means
that something is missing, further back that something was said again. What is not of the text (a note, a line
between two parts) is passed over.
"""

from msgspec import Struct

WINDOW = 10

TALE = (
    "Before dawn the harbour crew checked every shackle on the northern pier. Salt had eaten into two "
    "pins, so Marta "
    "sent a boy for spares and oil. Meanwhile Jonas read yesterday's log: gusts of forty knots, a parted "
    "stay, one "
    "lamp lost. Nobody hurried. They tightened seven lines by hand, counted threads left in each "
    "turnbuckle, then "
    "wrote those figures down in chalk. When grey light finally reached water, all masts stood quiet, "
    "and breakfast "
    "smelled of smoke."
)
PIPES = (
    "Grüße aus Köln, 漢字かな交じり文, Ελληνικά γράμματα, a 👩‍👩‍👧 family, 🇩🇪🇳🇴 flags, e\u0301 and the very "
    "end."
)
WRITTEN = "The note is on disk, and that was all there was to do."
LEFT = "I leave that command alone, since it was not wanted after all."
NOTE = "".join(
    f"entry {number:04}: {number * 7919 % 9973:04} fathoms under the keel\n" for number in range(330)
)
"""Long enough to be cut three times at 4,000 characters."""
SHORT_NOTE = NOTE[: NOTE.index("entry 0012")]

CUTS = {"word": TALE.index("turnbuckle") + 4, "end": TALE.index(" Nobody"), "space": TALE.index("They tight")}
"""Places to break the tale: inside a word, right behind a full stop, behind the blank that follows one."""


class Coverage(Struct, frozen=True):
    """`reached` characters from the beginning, of which so many are `missing`, and so many were said
    twice."""

    reached: int = 0
    missing: int = 0
    repeated: int = 0
    size: int = 0

    @property
    def whole(self) -> bool:
        return self.reached == self.size and not self.missing


def told(shown: str, text: str) -> Coverage:
    """How much of a text is in what was shown."""
    places = {text[start : start + WINDOW]: start for start in range(len(text) - WINDOW + 1)}
    at = reached = missing = repeated = 0
    while at + WINDOW <= len(shown):
        place = places.get(shown[at : at + WINDOW])
        if place is None:
            at += 1
            continue
        length = _agreeing(shown, at, text, place)
        missing += max(place - reached, 0)
        repeated += min(max(reached - place, 0), length)
        reached = max(reached, place + length)
        at += length
    return Coverage(reached, missing, repeated, len(text))


def _agreeing(shown: str, at: int, text: str, place: int) -> int:
    most = min(len(shown) - at, len(text) - place)
    return next((length for length in range(most) if shown[at + length] != text[place + length]), most)
