"""Reasoning that a model writes inline, between tags, taken out of the text.

Rules. `<think>` and its unmistakable relatives open anywhere; words that an ordinary XML answer could use
(`<reason>`, `<thought>` and so on) only at the very beginning, and only where `words` says so. A tag inside code
(behind an odd number of backticks) is text. White space before a first tag and behind any tag belongs to nobody. At
most the beginning of a possible tag is held back; a cut never releases it, because the rest could have made it a tag.
"""

import re
from collections.abc import Iterator
from typing import Literal

_ANYWHERE = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "◁think▷": "◁/think▷",
}
_AT_START = {
    "<reason>": "</reason>",
    "<reasoning>": "</reasoning>",
    "<thought>": "</thought>",
    "<Thought>": "</Thought>",
}
_CLOSES = {**_ANYWHERE, **_AT_START}
# A closing tag whose opening one the chat template swallowed is not text either.
_STRAY = tuple(_ANYWHERE.values())
_TAGS = (*_CLOSES, *_STRAY)
_SURE_TAGS = (*_ANYWHERE, *_STRAY)
_TAG, _SURE_TAG = (re.compile("|".join(map(re.escape, tags))) for tags in (_TAGS, _SURE_TAGS))
_SPACE = re.compile(r"\s*")
_LONGEST = max(map(len, _TAGS))
_LEADING_SPACE = 64  # held until it is known whether a tag or text follows it

Piece = tuple[Literal["text", "reasoning"], str]
Mode = Literal["auto", "open", "off"]


class ThinkSplitter:
    """`feed` content, get pieces of text and reasoning. `plain` is the fast path's question: nothing is held,
    no tag is open, so a text without `<` or `◁` may pass as it is (after `count_code`). `words`: the ordinary words
    count too, at the start."""

    def __init__(self, mode: Mode = "auto", *, words: bool = True) -> None:
        self.plain = mode == "off"
        self._off = mode == "off"
        self._tags, self._tag = (_TAGS, _TAG) if words else (_SURE_TAGS, _SURE_TAG)
        self._closing = "</think>" if mode == "open" else ""
        self._begun = False  # text other than white space was seen
        self._trim = mode == "open"
        self._held = ""
        self._in_code = False

    def count_code(self, text: str) -> None:
        """Note the backticks of a text that passed by the fast path."""
        if text.count("`") % 2:
            self._in_code = not self._in_code

    def feed(self, text: str) -> list[Piece]:
        if self._off:
            return [("text", text)] if text else []
        text = self._held + text
        self._held = ""
        pieces = [piece for piece in self._split(text) if piece[1]]
        self.plain = self._begun and not (self._closing or self._held or self._trim)
        return pieces

    def end(self) -> list[Piece]:
        """What was held back and, as the stream is whole, turned out to be no tag."""
        held, self._held = self._held, ""
        self._begun = self._begun or bool(held and not self._closing)
        return [("reasoning" if self._closing else "text", held)] if held else []

    def _split(self, text: str) -> Iterator[Piece]:
        at = 0  # the text is never cut down, since one delta may hold a whole answer
        while at < len(text):
            if self._trim:
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches anything
                self._trim = at == len(text)
            if self._closing:
                end = text.find(self._closing, at)
                if end < 0:
                    yield "reasoning", self._hold(text[at:], (self._closing,))
                    return
                yield "reasoning", text[at:end]
                at = end + len(self._closing)
                self._closing = ""
                self._trim = True
                continue
            tag = self._find_tag(text, at)
            before = text[at : tag.start()] if tag else self._hold(text[at:], self._tags)
            if not self._begun and before.isspace() and len(before) <= _LEADING_SPACE:
                if not tag:
                    self._held = before + self._held
                before = ""
            self.count_code(before)
            self._begun = self._begun or bool(before)
            yield "text", before
            if not tag:
                return
            self._closing = _CLOSES.get(tag.group(), "")
            self._trim = True
            at = tag.end()

    def _find_tag(self, text: str, at: int) -> re.Match[str] | None:
        """The first tag from `at` on that counts."""
        in_code, begun = self._in_code, self._begun
        for match in self._tag.finditer(text, at):
            in_code ^= text.count("`", at, match.start()) % 2 == 1
            begun = begun or bool(text[at : match.start()].strip())
            if not in_code and not (begun and match.group() in _AT_START):
                return match
            begun = True
            at = match.end()
        return None

    def _hold(self, text: str, tags: tuple[str, ...]) -> str:
        """Keep the end of the text if it may be the beginning of a tag; give back the rest."""
        start = max(text.rfind("<", -_LONGEST), text.rfind("◁", -_LONGEST))
        if start >= 0 and any(tag.startswith(text[start:]) and len(tag) > len(text) - start for tag in tags):
            self._held = text[start:]
            return text[:start]
        return text
