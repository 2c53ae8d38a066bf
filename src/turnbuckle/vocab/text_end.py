"""Whether a text ends like one that was finished. A sign, never a proof."""

import unicodedata

_MARKS = frozenset(".!?\u2026。！？؟।*_`~|>}])\"'\u201d\u2019»」』）】")


def ends_like_an_end(text: str) -> bool:
    """Behind a sentence, a closed bracket, quote or code block; not inside a code block, nor behind a mere
    word."""
    text = text.rstrip()
    if not text or text.count("```") % 2:
        return False
    return text[-1] in _MARKS or unicodedata.category(text[-1]) == "So"
