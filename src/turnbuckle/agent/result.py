"""How a run ended, as one value."""

from typing import Any

from msgspec import Struct

from turnbuckle.journal.port import StreamRow
from turnbuckle.reply.draft import Draft
from turnbuckle.service.owners import LOCAL
from turnbuckle.service.run_view import ContextUse, RunFold, Tokens
from turnbuckle.turn.ledger import Waste, total
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import OutcomeKind
from turnbuckle.vocab.prices import NOTHING_SPENT, Spent


class Result(Struct, frozen=True):
    """One run that has its end.

    `text` is all that the model said, with a paragraph for what it said behind each round of tools. `outcome`
    is `completed`, `partial` (it gave up, and what it has is kept), `cancelled` or `failed`, and `why` says
    so in a sentence. `usage` is what the providers counted, `wasted` what cuts and stalls have cost, by cause
    in `wastes`. `cost` is US dollars, and None where nobody knows the price of a model that was asked;
    `spent` has all of it, and `context` says how full the model's window was. `drafts` are calls
    that were cut and never finished, with all that arrived. `messages` is what was said in this run, from the
    task on, with calls and results. `notices` are the quiet lines about what broke, and what was done then.
    """

    run: str
    session: str
    outcome: OutcomeKind
    why: str
    text: str
    usage: Tokens
    wasted: Waste
    wastes: tuple[Waste, ...]
    drafts: tuple[Draft, ...]
    messages: tuple[Message, ...]
    model_calls: int = 0
    tool_calls: int = 0
    failure: Failure | None = None
    notices: tuple[str, ...] = ()
    spent: Spent = NOTHING_SPENT
    context: ContextUse = ContextUse()

    @property
    def cost(self) -> float | None:
        """US dollars for all model calls; None if the price of one is not known."""
        return None if self.spent.unpriced_calls else self.spent.cost or 0.0

    @property
    def ok(self) -> bool:
        """Whether it came to its own end."""
        return self.outcome == "completed"

    def __str__(self) -> str:
        return self.text or self.why


def result_of(fold: RunFold, row: StreamRow) -> Result:
    """The result of a run from all its facts, of which its end is one."""
    view, turn, started = fold.view(row, LOCAL, live=False, now=row.updated), fold.turn, fold.started
    assert view.outcome is not None
    before = 0 if started is None else len(started.messages) - started.fresh
    entries = fold.ledger.entries
    kept: dict[Any, Draft] = fold.drafts
    return Result(
        run=view.id,
        session=view.session,
        outcome=view.outcome.kind,
        why=view.outcome.why,
        text=view.output,
        usage=view.usage,
        wasted=total(entries),
        wastes=entries,
        drafts=tuple(kept.values()),
        messages=tuple(one for one in turn.messages[before:] if not one.note and one.role != "system"),
        model_calls=view.model_calls,
        tool_calls=view.tool_calls,
        failure=view.outcome.failure,
        notices=view.notices,
        spent=view.spent,
        context=view.context,
    )
