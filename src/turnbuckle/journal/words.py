"""What can be searched for, the same in every body: a text as it is kept, and a question as the words it is
made of.

A word of a text is a run of letters and numbers. A word of a question is what stands between spaces; if it
holds signs, as `foo_bar` does, it is several words that must stand side by side. Scripts that are written
without spaces between words, as Chinese, Japanese and Thai, are found by any part of them.
"""

import re
import unicodedata

from turnbuckle.journal.port import MAX_WORDS, IndexUpdate

MOST_WORDS = 16  # of one question; nobody remembers more
_WORD = re.compile(r"[^\W_]+")
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")


_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
SNIPPET_WORDS = 16  # a quarter of them before the one that was found
_SNIPPET_SIGNS = 120  # of a text without spaces


def kept(text: str) -> str:
    """A text that any store takes: without half characters and zero bytes."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def kept_words(text: str) -> str:
    """As much of a text as is kept to be found by."""
    return kept(text[:MAX_WORDS])


def kept_fields(note: IndexUpdate) -> dict[str, str]:
    """The texts of a note by name, as any store takes them. Somebody may have said 31 MB of words: what is
    not kept of them is not looked at either."""
    fields: dict[str, str] = {}
    for name in note.__struct_fields__:
        text = getattr(note, name)
        if isinstance(text, str):
            fields[name] = kept_words(text) if name == "words" else kept(text)
    return fields


def asked_words(question: str) -> list[str]:
    """The words of a question, without those that are only signs. Of very many the first count."""
    parts = kept_words(question).split()
    return [part for part in parts if _WORD.search(part)][:MOST_WORDS]


def plain_words(text: str) -> list[str]:
    """Every word of a text, in small letters and without accents."""
    if text.isascii():
        return _WORD.findall(text.lower())
    return [_plain(word) for word in _WORD.findall(unicodedata.normalize("NFC", text))]


def plain_text(text: str) -> str:
    """A text in small letters and without accents."""
    return _ACCENT.sub("", unicodedata.normalize("NFD", text.lower()))


class Question:
    """One word of a question: what stands between two spaces. `may_begin`: it may be the beginning of a
    word."""

    def __init__(self, word: str, *, may_begin: bool) -> None:
        self.word = word
        self.may_begin = may_begin
        self.phrase = plain_words(word)
        self.is_unspaced = _UNSPACED.search(word) is not None
        self.plain = unicodedata.normalize("NFC", word).lower()

    def fits(self, text: str) -> bool:
        """Whether a text holds it."""
        if self.is_unspaced:
            return self.plain in unicodedata.normalize("NFC", text).lower()
        return _holds(plain_words(text), self.phrase, self.may_begin)


def questions(words: str) -> list[Question]:
    """The words of a question. Only the last may be the beginning of one."""
    asked = asked_words(words)
    return [Question(word, may_begin=at == len(asked) - 1) for at, word in enumerate(asked)]


def leading(asked: list[Question]) -> Question:
    """The word that leads a search. Scripts without spaces only lead where nothing else can."""
    spaced = [one for one in asked if not one.is_unspaced]
    whole = [one for one in spaced if not one.may_begin]
    return max(whole or spaced or asked, key=lambda one: len(one.word))


def snippet(text: str, asked: list[Question]) -> str:
    """A line of the text around a place where one of the words stands."""
    for one in asked:
        if one.is_unspaced and (at := text.lower().find(one.plain)) >= 0:
            begins = max(at - _SNIPPET_SIGNS // 4, 0)
            return " ".join(text[begins : begins + _SNIPPET_SIGNS].split())
    parts = text.split()
    near = (
        at
        for at, part in enumerate(parts)
        for word in plain_words(part)
        if any(word.startswith(one.phrase[0]) for one in asked if one.phrase)
    )
    start = max(next(near, 0) - SNIPPET_WORDS // 4, 0)
    return " ".join(parts[start : start + SNIPPET_WORDS])


def _holds(words: list[str], phrase: list[str], may_begin: bool) -> bool:
    """Whether these words stand side by side; the last of them may be the beginning of one."""
    *whole, last = phrase
    for at in range(len(words) - len(whole)):
        end = words[at + len(whole)]
        if words[at : at + len(whole)] == whole and (end == last or (may_begin and end.startswith(last))):
            return True
    return False


def _plain(word: str) -> str:
    return "".join(
        sign for sign in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(sign)
    )
