"""What a protocol's providers take in a history, as one value. Data.

Each protocol gives its own (`wire/<protocol>/rules.py`). Repair and its judge, in `reply`, work by these
fields and know no protocol by name. Where providers of one protocol differ, a rule is the strictest of them,
so that a history may go to any; what one of them alone wants is a quirk.
"""

import re
from typing import Literal

from msgspec import Struct

from turnbuckle.vocab.ids import ProtocolName
from turnbuckle.vocab.quirks import Quirks


class NamePattern(Struct, frozen=True):
    """`pattern` must fit the whole word; `most` is how long it may be, if that matters."""

    pattern: str
    most: int | None = None

    def takes(self, word: str) -> bool:
        return (self.most is None or len(word) <= self.most) and re.fullmatch(
            self.pattern, word, re.ASCII
        ) is not None


class HistoryRules(Struct, frozen=True, kw_only=True):
    """Every field is one way in which protocols differ about what was said before."""

    protocol: ProtocolName
    """Whose state may go back. State of any other protocol is taken off."""

    # Calls and results
    tool_names: NamePattern
    """Models invent names, and one of them in a history would have every later request refused."""
    call_ids: NamePattern
    results: Literal["behind", "anywhere"] = "behind"
    """Where the results of a turn stand: directly behind it, or anywhere later."""
    free_text_calls: frozenset[str] = frozenset()
    """Types in a call's state that mark its arguments as text of any kind."""
    items_have_identity: bool = False
    """What comes back under its id must be what was sent: a call that we changed loses its state, and so does
    what followed reasoning that is gone."""

    # Messages
    joins_turns: bool = True
    """Assistant messages behind each other are read as one turn."""
    user_first: bool = False
    system_apart: bool = False
    """The system prompt stands beside the conversation, in which something must be said."""
    refuses_blank_text: bool = False
    runs_text_together: bool = False
    """All text of a message is one string, so two texts need a break between them."""
    parts_bound_to_model: bool = False
    """Many hosts speak it, and each knows parts of its own and refuses those of others."""
    takes_own_parts: bool = True
    """Parts of an answer that only its host knows go back to it. Not where it was seen to refuse them."""
    cache_mark: str = ""
    """The field by which clients mark what is to be kept in a cache, also those of other protocols. Where one
    has, we do not."""

    # Reasoning
    takes_plain_reasoning: bool = False
    """Reasoning that nothing vouches for may stand in a history."""
    vouched_by: frozenset[str] = frozenset()
    """Fields of its state, one of which reasoning must have. Empty: any state will do."""
    vouched_by_store: bool = False
    """Reasoning that the provider stored needs none of them."""
    reasoning_leads: bool = True
    """Reasoning stands in an order with the rest, and something must follow it."""
    reasoning_leads_to_whole: bool = False
    """What follows it must be the finished item that it led to."""
    reasoning_bound_to_tools: bool = False
    """Reasoning is good only for the list of tools that it was made with."""

    def takes_call_id(self, call_id: str, quirks: Quirks) -> bool:
        """Some hosts put data of any length into an id and want it back; others count, and say so by a
        quirk."""
        most = quirks.longest_call_id
        return self.call_ids.takes(call_id) and (not most or len(call_id) <= most)
