"""What the provider shall play, as words inside the user's message, because these are what every server hands
on.

    play:<chunks>:<milliseconds between two>:<end|hold>

With a gap of 0 all chunks come at once. `hold` says nothing more after the last chunk and keeps the stream
open.
"""

import re
from typing import NamedTuple

SAID = re.compile(rb"play:(\d+):(\d+):(end|hold)")


class Script(NamedTuple):
    chunks: int
    gap: int = 0
    end: str = "end"

    def __str__(self) -> str:
        return f"play:{self.chunks}:{self.gap}:{self.end}"


def find(body: bytes) -> Script:
    """The last one counts: a server may send earlier turns again."""
    said = SAID.findall(body)
    if not said:
        return Script(1)
    chunks, gap, end = said[-1]
    return Script(int(chunks), int(gap), end.decode())
