"""Reasoning that a model writes inline, between tags, taken out of the text.

Rules. Tags count only where reasoning can begin: at the start of the content, behind nothing but white space,
and behind reasoning that was closed, before any text. Behind the first word of text a tag is text, whatever
it says. Words that an ordinary XML answer could use (`<reason>`, `<thought>` and so on) count only where
`words` says so. White space before a first tag and behind any tag belongs to nobody. At most the beginning of
a possible tag is held back; a cut never releases it, because the rest could have made it a tag.

A closing tag alone. Chat templates swallow opening tags, so what looks like text may be reasoning, and nobody
knows before its closing tag comes. That tag is taken out once (and once more for each opening tag that was
nested in reasoning), if it stands like one: a line break or a word follows it. Followed by a blank, a quote
or a full stop it is talked about. So it is in code, and everywhere behind an opening tag that was text.

Reasoning that is never closed is kept as `unclosed`, for whoever finds that the reply has no other text.
"""

import re
from collections.abc import Iterator
from typing import Literal

_SURE = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "◁think▷": "◁/think▷",
}
_WORDS = {
    "<reason>": "</reason>",
    "<reasoning>": "</reasoning>",
    "<thought>": "</thought>",
    "<Thought>": "</Thought>",
}
_CLOSES = {**_SURE, **_WORDS}
_ALONE = tuple(_SURE.values())
_SURE_TAGS = (*_SURE, *_ALONE)
_TAGS = (*_CLOSES, *_ALONE)
_SURE_TAG = re.compile("|".join(map(re.escape, _SURE_TAGS)))
_SPACE = re.compile(r"\s*")
_LONGEST = max(map(len, _TAGS))
_LEADING_SPACE = 64  # held until it is known whether a tag or text follows it

MAY_BE_WHOLE = (None, "stop", "other")
"""Reasons to stop behind which reasoning that was never closed can be the answer."""

Piece = tuple[Literal["text", "reasoning"], str]
Mode = Literal["auto", "open", "off"]


class ThinkSplitter:
    """`feed` content, get pieces of text and reasoning. `plain` is the fast path's question: nothing is held,
    no tag is open, so a text without `<` or `◁` may pass as it is (after `count_code`). `settled`: no tag
    counts any more, so any text may. `words`: the ordinary words count too."""

    def __init__(self, mode: Mode = "auto", *, words: bool = True) -> None:
        self.plain = self.settled = mode == "off"
        self._tags = _TAGS if words else _SURE_TAGS
        self._opening, self._closing = ("<think>", "</think>") if mode == "open" else ("", "")
        self._begun = False  # text other than white space was seen
        self._flowing = False  # so much white space came first that it is text
        self._alone = 1  # closing tags without an opening one that may still be taken out
        self._nested = 0
        self._trim = mode == "open"
        self._held = ""
        self._in_code = False
        self._unclosed: list[str] = []

    @property
    def unclosed(self) -> str:
        """The reasoning whose closing tag has not come."""
        return "".join(self._unclosed)

    def count_code(self, text: str) -> None:
        """Note the backticks of a text that passed by the fast path."""
        if text.count("`") % 2:
            self._in_code = not self._in_code

    def feed(self, text: str) -> list[Piece]:
        if self.settled:
            return [("text", text)] if text else []
        waits = self._begun or self._closing or self._held or self._trim
        if not waits and text and not text[0].isspace() and "<" not in text and "◁" not in text:
            # The usual beginning: a word, and no tag anywhere.
            self._begun = self.plain = True
            self.settled = not self._alone
            self.count_code(text)
            return [("text", text)]
        text = self._held + text
        self._held = ""
        pieces = [piece for piece in self._split(text) if piece[1]]
        self.plain = self._begun and not (self._closing or self._held or self._trim)
        self.settled = self.plain and not self._alone
        return pieces

    def end(self) -> list[Piece]:
        """What was held back and, as the stream is whole, turned out to be no tag."""
        held, self._held = self._held, ""
        if not held:
            return []
        if self._closing:
            self._unclosed.append(held)
            return [("reasoning", held)]
        self._begun = self._begun or not held.isspace()
        return [("text", held)]

    def _split(self, text: str) -> Iterator[Piece]:
        at = 0  # the text is never cut down, since one delta may hold a whole answer
        while at < len(text):
            if self._trim:
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches anything
                self._trim = at == len(text)
            if self._closing:
                end = text.find(self._closing, at)
                thought = text[at:end] if end >= 0 else self._hold(text[at:], (self._closing, self._opening))
                self._nested += thought.count(self._opening)
                self._unclosed.append(thought)
                yield "reasoning", thought
                at = end + len(self._closing) if end >= 0 else len(text)
                if end >= 0:
                    self._close()
            elif self._begun:
                shown, at = self._text(text, at)
                yield "text", shown
            elif at < len(text):
                before, at = self._beginning(text, at)
                yield "text", before

    def _close(self) -> None:
        self._alone, self._nested = self._nested, 0
        self._closing = ""
        self._trim = True
        self._unclosed.clear()

    def _beginning(self, text: str, at: int) -> tuple[str, int]:
        """Where reasoning can begin: the white space that is text after all, and where to go on."""
        start = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches anything
        self._flowing = self._flowing or start - at > _LEADING_SPACE
        space = text[at:start] if self._flowing else ""
        tag = next((tag for tag in self._tags if text.startswith(tag, start)), "")
        if tag in _CLOSES:
            self._opening, self._closing = tag, _CLOSES[tag]
            self._trim = True
            return space, start + len(tag)
        rest = len(text) - start
        if rest < _LONGEST and (not rest or self._may_be_tag(text[start:], self._tags)) and tag not in _ALONE:
            self._held = text[start if self._flowing else at :]
            return space, len(text)
        self._begun = True
        return "", at

    def _text(self, text: str, at: int) -> tuple[str, int]:
        """Behind the first word: how much of it is shown, and where to go on."""
        begun_at = at
        while self._alone:
            tag = _SURE_TAG.search(text, at)
            if tag is None:
                shown = self._hold(text[begun_at:], _SURE_TAGS)
                self.count_code(shown[at - begun_at :])
                return shown, len(text)
            self.count_code(text[at : tag.start()])
            at = tag.end()
            if tag.group() in _SURE:
                self._alone = 0  # tags are talked about here
            elif not self._in_code:
                if at == len(text):
                    self._held = tag.group()
                    return text[begun_at : tag.start()], at
                if text[at].isalnum() or text[at] in "\r\n":
                    self._alone -= 1
                    self._trim = True
                    return text[begun_at : tag.start()], at
        return text[begun_at:], len(text)

    def _hold(self, text: str, tags: tuple[str, ...]) -> str:
        """Keep the end of the text if it may be the beginning of a tag; give back the rest."""
        start = max(text.rfind("<", -_LONGEST), text.rfind("◁", -_LONGEST))
        if start >= 0 and self._may_be_tag(text[start:], tags):
            self._held = text[start:]
            return text[:start]
        return text

    def _may_be_tag(self, text: str, tags: tuple[str, ...]) -> bool:
        return any(tag.startswith(text) and len(tag) > len(text) for tag in tags)
