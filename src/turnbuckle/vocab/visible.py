"""Text that cannot command a terminal, and hides nothing from whoever reads it.

What a terminal obeys (escapes and other control characters), what turns text around (bidi signs) and what
is not seen at all (zero-width signs, tags, fillers) is spelled out: `\\x1b`, `\\u202e`. Nothing is taken out:
nobody wonders at what is missing. Signs that join letters and pictures stay in running text where they do
that; behind anything else they only hide something.
"""

import re

# Categories Cc, Cf, Cs, Zl and Zp, and what Unicode says is not shown; a test compares.
_RANGES = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY = re.compile(f"[{_RANGES}]")
_IN_TEXT = re.compile(
    r"\r(?=\n)"  # the end of a line, as some write it
    # a selector behind a sign of its own, or in a key cap; a joiner behind such a sign or such a selector
    "|(?<=[^\x00-\x7f\u200b-\u200f\ufe00-\ufe0f\U000e0000-\U000e0fff])[\u200c\u200d\ufe0e\ufe0f]"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)|(?<=\ufe0f)\u200d"
    rf"|(?P<sign>(?![\n\t])[{_RANGES}])"
)
_IN_JSON = re.compile(rf"(?!\n)[{_RANGES}]")  # outside of strings there are only ends of lines


def visible_line(text: str) -> str:
    """One line: the ends of lines are spelled out, too."""
    return text if text.isascii() and text.isprintable() else _ANY.sub(_spelled, text)


def visible_text(text: str, before: str = "") -> str:
    """Running text of any number of lines. `before` is what stands in front of it, where it comes in
    pieces."""
    if text.isascii() and text.isprintable():
        return text
    start = len(before)

    def shown(found: re.Match[str]) -> str:
        if found.start() < start:
            return found[0]
        return _spelled(found) if found["sign"] else found[0].replace("\r", "")

    return _IN_TEXT.sub(shown, before + text)[start:]


def visible_json(text: str) -> str:
    """JSON that means the same: what would be spelled out is written as JSON's own escapes."""
    return text if text.isascii() and text.isprintable() else _IN_JSON.sub(_escaped, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
