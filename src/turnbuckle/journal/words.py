"""What can be searched for, the same in every body: a text as it is kept, and a question as the words it is made of.

A word of a text is a run of letters and numbers. A word of a question is what stands between spaces; if it holds signs,
as `foo_bar` does, it is several words that must stand side by side.
"""

import re
import unicodedata

from turnbuckle.journal.port import MAX_WORDS

MOST_WORDS = 16  # of one question; nobody remembers more
_WORD = re.compile(r"[^\W_]+")


def kept(text: str) -> str:
    """A text that any store takes: without half characters and zero bytes."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def kept_words(text: str) -> str:
    """As much of a text as is kept to be found by."""
    return kept(text[:MAX_WORDS])


def asked_words(question: str) -> list[str]:
    """The words of a question, without those that are only signs. Of very many the first count."""
    parts = kept_words(question).split()
    return [part for part in parts if _WORD.search(part)][:MOST_WORDS]


def plain_words(text: str) -> list[str]:
    """Every word of a text, in small letters and without accents."""
    return [_plain(word) for word in _WORD.findall(unicodedata.normalize("NFC", text))]


def _plain(word: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(sign))
