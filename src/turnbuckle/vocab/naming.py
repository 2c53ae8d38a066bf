"""Which names of tools and which ids of calls a protocol's providers take in a history. Data.

Models invent names (`functions.shell`, two words, a page of text), and some providers refuse a request whose history
holds one, for the rest of the session. A rule is the strictest of those that speak the protocol, so that a history may
go to any of them.
"""

import re

from msgspec import Struct

from turnbuckle.vocab.ids import Protocol
from turnbuckle.vocab.quirks import Quirks


class Spelling(Struct, frozen=True):
    """`pattern` must fit the whole word; `most` is how long it may be, if that matters."""

    pattern: str
    most: int | None = None

    def takes(self, word: str) -> bool:
        return (self.most is None or len(word) <= self.most) and re.fullmatch(self.pattern, word, re.ASCII) is not None


TOOL_NAMES: dict[Protocol, Spelling] = {
    "openai_chat": Spelling(r"[a-zA-Z_][a-zA-Z0-9_-]*", 64),  # OpenAI's; Gemini wants a letter first
    "openai_responses": Spelling(r"[a-zA-Z0-9_-]+", 64),
    "anthropic": Spelling(r"[a-zA-Z0-9_-]+", 128),
}
CALL_IDS: dict[Protocol, Spelling] = {
    "openai_chat": Spelling(r"[!-~]+"),
    "openai_responses": Spelling(r"[!-~]+", 64),
    "anthropic": Spelling(r"[a-zA-Z0-9_-]+"),
}


def takes_call_id(call_id: str, protocol: Protocol, quirks: Quirks) -> bool:
    """Whether this provider takes this id. Some chat hosts put data of any length into it and want it back; others
    count, and say so by a quirk."""
    most = quirks.longest_call_id if protocol == "openai_chat" else 0
    return CALL_IDS[protocol].takes(call_id) and (not most or len(call_id) <= most)
