"""Which streams a search shows, whatever store their texts are in (`sqlite.search` has the theory)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from turnbuckle.journal.port import SearchHit, SearchPlace, StreamRow
from turnbuckle.journal.words import Question, leading, snippet

MOST_LOOKED = 2000
"""Streams whose texts one page looks through."""
MOST_PLACES = 50_000
"""Texts that one page comes by, also those of other people's streams."""
MOST_TEXTS = 50_000
"""Texts that one page looks through for scripts without spaces: some 50 MB, a tenth of a second."""


class StreamFinder(ABC):
    """Looks at streams, each once. A store says where their rows and texts are."""

    def __init__(self, asked: list[Question], after: SearchPlace) -> None:
        self.count = 0
        self.rest: SearchPlace | None = None
        """Where the next page begins although all places were looked at that one page looks at."""
        self._asked = asked
        self._lead = leading(asked)
        self._after = after
        self._seen: set[int] = set()

    @abstractmethod
    def _row(self, stream: int) -> StreamRow | None:
        """The stream, if it is one of those that are wanted."""

    @abstractmethod
    def _texts(self, stream: int) -> Sequence[tuple[int, str]]:
        """Its texts with their numbers, the newest first, without those that came after the search began."""

    def at(self, place: int, stream: int) -> SearchHit | None:
        """What is shown, if this is where the stream belongs and it has all the words."""
        if stream in self._seen:
            return None
        row = self._row(stream)
        if row is None:
            self._seen.add(stream)
            return None
        self.count += 1
        texts = self._texts(stream)
        belongs = next(((at, text) for at, text in texts if self._lead.fits(text)), None)
        if belongs is not None and belongs[0] < place:
            return None  # it only looked so: its own place comes later
        self._seen.add(stream)
        if belongs is None or belongs[0] >= self._after.below:
            return None
        if not all(any(word.fits(text) for _, text in texts) for word in self._asked):
            return None
        return SearchHit(row, snippet(belongs[1], self._asked), SearchPlace(place, self._after.newest))


def like_pattern(word: str) -> str:
    """For `LIKE`: anything that holds the word, whose own signs mean nothing."""
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
