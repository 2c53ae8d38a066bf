"""How a turn ended: exactly one of four, the same on every surface."""

from typing import Literal

from msgspec import Struct

from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import DraftId

OutcomeKind = Literal["completed", "partial", "cancelled", "failed"]


class Outcome(Struct, frozen=True):
    """The end of a turn. `why` is one plain sentence; `drafts` are kept and can be read."""

    kind: OutcomeKind
    why: str = ""
    failure: Failure | None = None
    drafts: tuple[DraftId, ...] = ()
