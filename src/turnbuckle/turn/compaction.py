"""A compaction as a value: from here on, this stands for that.

A compaction changes what models are told, never what was said. It cuts the conversation in two at its
border. Before the border stands a note in place of all messages. Behind it every message stands in its
place, some of them made smaller: the result of a call as one line, a reply without its reasoning. So it is
short, however long the conversation is, and what it stands for stays where it is stored.

Each compaction is whole in itself: whoever knows the last one needs none before it. It lies in the run
that made it, and a run names the one that it stands on.
"""

from typing import Literal

from msgspec import Struct

from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message

Step = Literal["results", "reasoning", "summary", "newest"]
"""Results of old calls as lines, replies without reasoning, a note in place of the oldest part, or
the newest results as lines too, since nothing else helps."""


class ResultLine(Struct, frozen=True):
    """The result of a call, told in a line. `place` counts messages from the border on."""

    place: int
    call_id: str
    text: str


class FileSeen(Struct, frozen=True):
    """A file that the model has read or written. `mark` tells the content that it saw from any other."""

    path: str
    how: Literal["read", "written"]
    mark: str
    characters: int


class Compaction(Struct, frozen=True, omit_defaults=True):
    """`back`: so many messages before what the run added is the border; less than nothing is behind that.
    `opening` are the instructions in front of all, `note` stands for what was before the border. `bare`:
    so many messages behind the border are told without reasoning. The rest is what the note was made of,
    for the next one: the model's summary, the user's words, and the files that were seen."""

    back: int
    opening: tuple[Message, ...] = ()
    note: tuple[Message, ...] = ()
    lines: tuple[ResultLine, ...] = ()
    bare: int = 0
    summary: str = ""
    words: tuple[str, ...] = ()
    files: tuple[FileSeen, ...] = ()
    messages: int = 0
    """So many messages the note stands for, over all compactions."""


class Measure(Struct, frozen=True):
    """What a history took: `tokens` for all but its last `left` messages, as `model` counted them. `ratio` is
    by how much our own estimate was wrong there."""

    tokens: int
    left: int
    ratio: float = 1.0
    model: str = ""


class Folding(Struct, frozen=True, omit_defaults=True):
    """A summary that is being made: of all that is before message `upto`, told in `room` tokens, in `cap`
    tokens at most. `used` is what the history takes before it, `keep` what somebody wants to be kept,
    `failed` are the routes that could not make it. The route that is asked takes no more than `fits`, and
    writes no more than `cap_fits`; 0, if nobody knows. It must free `least` tokens, or it is not used. The
    user's own words beside it take about `words` tokens; 0: as many as it takes itself."""

    upto: int
    room: int
    used: int
    cap: int
    keep: str = ""
    failed: tuple[RouteName, ...] = ()
    tries: int = 0
    fits: int = 0
    cap_fits: int = 0
    least: int = 1
    words: int = 0

    @property
    def told_in(self) -> int:
        """Tokens in which the conversation is told to the route that is asked."""
        return min(self.room, self.fits or self.room)

    @property
    def longest(self) -> int:
        """Tokens of what it may write."""
        return min(self.cap, self.cap_fits or self.cap)
