"""Reasoning that a model writes inline, between tags, taken out of the text.

Rules. `<think>` and its unmistakable relatives open anywhere; words that an ordinary XML answer could use
(`<reason>`, `<thought>` and so on) only at the very beginning. A tag inside code (behind an odd number of
backticks) is text. White space before a first tag and behind any tag belongs to nobody. At most the beginning of
a possible tag is held back; a cut never releases it, because the rest could have made it a tag.
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
_TAG = re.compile("|".join(map(re.escape, _TAGS)))
_LONGEST = max(map(len, _TAGS))
_LEADING_SPACE = 64  # held until it is known whether a tag or text follows it

Piece = tuple[Literal["text", "reasoning"], str]


class ThinkSplitter:
    """`feed` content, get pieces of text and reasoning. `plain` is the fast path's question: nothing is held,
    no tag is open, so a text without `<` or `◁` may pass as it is (after `count_code`)."""

    def __init__(self, mode: Literal["auto", "open", "off"] = "auto") -> None:
        self.plain = mode == "off"
        self._off = mode == "off"
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
        while text:
            if self._trim:
                text = text.lstrip()
                self._trim = not text
            if self._closing:
                inside, tag, text = text.partition(self._closing)
                if not tag:
                    inside = self._hold(inside, (self._closing,))
                yield "reasoning", inside
                if tag:
                    self._closing = ""
                    self._trim = True
                continue
            before, tag, text = self._find_tag(text)
            if not tag:
                before = self._hold(before, _TAGS)
            if not self._begun and before.isspace() and len(before) <= _LEADING_SPACE:
                if not tag:
                    self._held = before + self._held
                before = ""
            self.count_code(before)
            self._begun = self._begun or bool(before)
            yield "text", before
            if tag:
                self._closing = _CLOSES.get(tag, "")
                self._trim = True

    def _find_tag(self, text: str) -> tuple[str, str, str]:
        """Text before the first tag that counts, the tag, and what is behind it."""
        for match in _TAG.finditer(text):
            before = text[: match.start()]
            in_code = self._in_code ^ (before.count("`") % 2 == 1)
            begun = self._begun or bool(before.strip())
            if not in_code and not (begun and match.group() in _AT_START):
                return before, match.group(), text[match.end() :]
        return text, "", ""

    def _hold(self, text: str, tags: tuple[str, ...]) -> str:
        """Keep the end of the text if it may be the beginning of a tag; give back the rest."""
        start = max(text.rfind("<", -_LONGEST), text.rfind("◁", -_LONGEST))
        if start >= 0 and any(tag.startswith(text[start:]) and len(tag) > len(text) - start for tag in tags):
            self._held = text[start:]
            return text[:start]
        return text
