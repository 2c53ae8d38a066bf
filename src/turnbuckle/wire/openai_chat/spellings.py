"""Reasoning that a host tells under several names is told once.

The name that came first leads, and what it tells is shown. Another name is compared with what the first one
told and has not been repeated yet: where it says the same it is silent, where it is ahead it leads from there
on. Where it says something else it is another reasoning and is shown too, unless it always stood beside the
leading one: then it is only told otherwise there (a summary, or all of it again in each chunk). Work is
linear in the text, whoever is ahead.
"""


class Spellings:
    """`fresh` gives what is new of a piece under some name."""

    def __init__(self) -> None:
        self._lead = ""
        self._follower = ""
        self._ahead: list[str] = []  # told by the lead, not yet looked at
        self._front = ""  # told by the lead, and from `_at` on not by the follower
        self._at = 0
        self._apart: set[str] = set()
        self._mute: set[str] = set()

    @property
    def lead(self) -> str:
        return self._lead

    def fresh(self, name: str, text: str, *, beside: bool = False) -> str:
        """What is new of this piece. `beside`: the lead spoke in the same chunk."""
        self._lead = self._lead or name
        if name == self._lead:
            self._ahead.append(text)
            return text
        if name in self._apart:
            return text
        if name in self._mute or self._follower not in ("", name):
            return ""
        self._follower = name
        at = 0
        while at < len(text):
            if self._at == len(self._front):
                self._front, self._at = "".join(self._ahead), 0
                self._ahead.clear()
            if not self._front:
                self._lead, self._follower = name, self._lead
                self._ahead.append(text[at:])
                return text[at:]
            size = min(len(text) - at, len(self._front) - self._at)
            if not self._front.startswith(text[at : at + size], self._at):
                return self._otherwise(name, text[at:], beside)
            self._at += size
            at += size
        return ""

    def _otherwise(self, name: str, text: str, beside: bool) -> str:
        self._follower = ""
        if beside:
            self._mute.add(name)
            return ""
        self._apart.add(name)
        return text
