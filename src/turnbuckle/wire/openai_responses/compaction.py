"""Compaction items that are ours: a summary in place of a conversation.

The protocol has a field for it that clients hand back without looking into it. Ours holds the text itself,
behind a mark by which we know it again; there is nothing in it that its client did not say or could not see.
Items of a provider have no such mark, and go back to that provider as they came.
"""

import base64
import binascii
from typing import Any

MARK = "tb1."
LONGEST = 400_000
"""Characters of what is read: far more than any summary has."""
_NOTE = (
    "[Runtime] To save room, the conversation before this is told as these notes. "
    "Messages of the user that stand before them are a part of it.\n\n{summary}"
)


def sealed(summary: str) -> str:
    """A summary as a client keeps it."""
    return MARK + base64.urlsafe_b64encode(summary.encode("utf-8", "replace")).decode()


def opened(text: str) -> str | None:
    """The summary in an item of ours; None if it is not ours, or damaged."""
    if not text.startswith(MARK) or len(text) > LONGEST:
        return None
    try:
        data = text[len(MARK) :].encode("ascii", "replace")
        return base64.b64decode(data, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def note_of(summary: str) -> str:
    """What a model is told in place of the item."""
    return _NOTE.format(summary=summary)


def compaction_item(item_id: str, summary: str) -> dict[str, Any]:
    return {"id": item_id, "type": "compaction", "encrypted_content": sealed(summary)}
