"""A run as the API shows it: a fold over its facts, and the shapes that come of it."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.journal.port import StreamRow
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import (
    HandedOver,
    ModelCalled,
    ModelNamed,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    Text,
    Told,
    ToolEnded,
    UsageCounted,
)
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.reply.draft import Draft
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import RUNNING
from turnbuckle.runtime.undo import FileUndone
from turnbuckle.service.changed_files import ChangedFile, changed_file
from turnbuckle.service.owners import Owner, public_session
from turnbuckle.turn import budget
from turnbuckle.turn.approvals import open_in
from turnbuckle.turn.budget import BudgetLeft
from turnbuckle.turn.facts import Compacted, Fact, HandedCall, RunEnded, RunStarted
from turnbuckle.turn.fold import TurnFold
from turnbuckle.turn.ledger import Ledger, Waste, total
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.file_change import FileChange, TouchedFile, touched
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import NOTHING_SPENT, Spent

RunStatus = Literal[
    "queued", "running", "waiting_for_approval", "interrupted", "completed", "partial", "cancelled", "failed"
]
ApprovalStatus = Literal["pending", "allowed", "denied", "answered", "expired", "withdrawn"]


class Tokens(Struct, frozen=True):
    """What the providers counted, over all model calls. `cached` and `cache_written` are parts of `input`:
    what came from the provider's cache, and what went to it."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0


class ContextUse(Struct, frozen=True):
    """How full the model's window is: what the last request and its reply took, of how many tokens.
    `window` is null where nobody knows it. `compactions`: how often the run has made its history smaller."""

    used: int = 0
    window: int | None = None
    compactions: int = 0


class ApprovalView(Struct, frozen=True):
    """What a person was asked. `arguments` are exactly those that the consent is for. `title` is that of the
    task, `why` says which rule asks, `command` is the command that would run, `changes` what would be done to
    files as they were then, `always` the rules that `allow_always` would write."""

    id: str
    run: str
    kind: Literal["approval", "question"]
    tool: str
    arguments: dict[str, Any]
    question: str
    status: ApprovalStatus
    asked_at: float
    expires_at: float | None = None
    answered_at: float | None = None
    answered_by: str = ""
    title: str = ""
    why: str = ""
    command: str = ""
    changes: tuple[FileChange, ...] = ()
    always: tuple[str, ...] = ()


class RunView(Struct, frozen=True):
    """One run. `interrupted`: nobody drives it at this moment; it is kept, and goes on when it is taken up.
    `output` is all that the model said in it, also a refusal, with a paragraph for what it said behind each
    round of tools. `notices` are the quiet lines that every surface shows beside that: what broke, what was
    kept, what was done. `usage` is what the providers counted; `spent` is that with estimates for replies
    that broke, and what it cost. `left` is what remains of the limits of the run. `changes` are the files
    that its file tools have changed; `/changes` has the diffs."""

    id: str
    session: str
    status: RunStatus
    title: str
    model: str
    created_at: float
    updated_at: float
    output: str
    outcome: Outcome | None
    usage: Tokens
    model_calls: int
    tool_calls: int
    waiting_on: WaitingOn | None
    approvals: tuple[ApprovalView, ...]
    drafts: tuple[str, ...]
    handed_calls: tuple[HandedCall, ...]
    last_event: int
    notices: tuple[str, ...] = ()
    context: ContextUse = ContextUse()
    spent: Spent = NOTHING_SPENT
    left: BudgetLeft | None = None
    changes: tuple[ChangedFile, ...] = ()
    object: Literal["run"] = "run"


class RunLine(Struct, frozen=True):
    """A run in a list. `spent` is null where it is not known: the run has no end yet, or is of a version that
    did not count. `route` is the one that answered, or was asked last. `last_event` is only told where one
    run is asked for."""

    id: str
    session: str
    status: RunStatus
    title: str
    created_at: float
    updated_at: float
    spent: Spent | None = None
    route: str = ""
    last_event: int | None = None
    object: Literal["run"] = "run"


class DraftView(Struct, frozen=True):
    """What is kept of a cut call. `text` only where one draft is asked for."""

    id: str
    run: str
    tool: str
    argument: str
    characters: int
    settled: dict[str, Any]
    closed: bool
    text: str | None = None


class LedgerView(Struct, frozen=True):
    """What was wasted, by cause, and all of it together."""

    entries: tuple[Waste, ...]
    total: Waste


class RunFold:
    """`take` every fact; then ask for what is to be shown."""

    def __init__(self, policy: Policy) -> None:
        self.started: RunStarted | None = None
        self.ledger = Ledger()
        self.last = 0
        self._turn = TurnFold(policy)
        self._narration = Narration()
        self._text: list[str] = []
        self._notices: list[str] = []  # as many as the run has breaks, which its limits bound
        self._model = ""
        self._asked = ""  # the model that was asked last, which its provider may name otherwise
        self._usage: dict[int, Usage] = {}
        self._context = ContextUse()
        self._spent: Spent | None = None  # as its end has it
        self._summary = 0  # the attempt that writes a summary
        self._approvals: dict[str, ApprovalView] = {}
        self._handed: tuple[HandedCall, ...] = ()
        self._changes: list[FileChange] = []  # as many as the run has tool calls

    @property
    def turn(self) -> Turn:
        return self._turn.turn

    @property
    def drafts(self) -> dict[Any, Draft]:
        return self._turn.turn.drafts

    @property
    def touched(self) -> tuple[TouchedFile, ...]:
        """The files that it has changed so far."""
        return touched(self._changes)

    @property
    def output(self) -> str:
        """What the model said so far, as every surface tells it."""
        return "".join(self._text)

    @property
    def approvals(self) -> tuple[ApprovalView, ...]:
        return tuple(self._approvals.values())

    def take(self, seq: int, fact: Fact) -> None:
        self.last = seq
        self._turn.take(fact)
        self.ledger.take(fact)
        if text := self._narration.going_on(fact):
            self._text.append(text)
            return
        if isinstance(fact, RunStarted):
            self.started = fact
        elif isinstance(fact, Compacted):
            count = self._context.compactions + 1
            self._context = replace(self._context, used=fact.after, compactions=count)
        elif isinstance(fact, RunEnded):
            self._spent = fact.spent
        for told in self._narration.take(fact):
            self._draw(told, fact.at)

    def _draw(self, told: Told, at: float) -> None:
        match told:
            case Text(text):
                self._text.append(text)
            case Notice(text):
                self._notices.append(text)
            case ModelCalled(why="compact"):
                self._summary = told.attempt
                self._context = replace(self._context, window=self._context.window or told.window)
            case ModelCalled(model=model):
                if model != self._asked:
                    self._asked = self._model = model
                self._context = replace(self._context, used=told.expected, window=told.window)
            case ModelNamed(model=model):
                self._model = model
            case UsageCounted(attempt, usage):
                self._usage[attempt] = usage
                if attempt != self._summary and usage.input:
                    self._context = replace(self._context, used=usage.input + (usage.output or 0))
            case QuestionAsked():
                self._approvals[told.approval] = ApprovalView(
                    told.approval,
                    told.run,
                    told.kind,
                    told.tool,
                    told.arguments,
                    told.question,
                    "pending",
                    at,
                    told.expires,
                    title=told.title,
                    why=told.why,
                    command=told.command,
                    changes=told.changes,
                    always=told.always,
                )
            case QuestionAnswered(approval, verdict, by):
                asked = self._approvals.get(approval)
                if asked is not None and asked.status == "pending":
                    settled = replace(asked, status=verdict, answered_at=at, answered_by=by)
                    self._approvals[approval] = settled
            case HandedOver(calls):
                self._handed = calls
            case ToolEnded(outcome=outcome):
                self._changes += outcome.changes
            case _:
                pass

    def _answered_by(self) -> str:
        """Who answers, in its provider's own word; before that, who was asked for."""
        asked = self.started.origin.model if self.started is not None else ""
        return self._model or asked

    def view(
        self,
        row: StreamRow,
        owner: Owner,
        *,
        live: bool,
        now: float,
        undone: tuple[FileUndone, ...] = (),
    ) -> RunView:
        """The run as it stands."""
        turn = self._turn.turn
        waiting = self._narration.waiting.on(now) if live else None
        return RunView(
            row.name,
            public_session(owner, row.parent),
            self._status(live),
            row.title,
            self._answered_by(),
            row.created,
            row.updated,
            self.output,
            turn.outcome,
            self._tokens(),
            turn.tally.asks,
            turn.tally.tool_runs,
            waiting,
            tuple(approval for approval in self.approvals if approval.status == "pending"),
            tuple(turn.drafts),
            self._handed,
            self.last,
            tuple(self._notices),
            self._context,
            turn.tally.spent if self._spent is None else self._spent,
            None if turn.outcome is not None else budget.left(turn, self._turn.policy),
            tuple(changed_file(file, undone) for file in self.touched),
        )

    @property
    def context(self) -> ContextUse:
        return self._context

    def _tokens(self) -> Tokens:
        counted = self._usage.values()
        return Tokens(
            sum(usage.input or 0 for usage in counted),
            sum(usage.output or 0 for usage in counted),
            sum(usage.cached for usage in counted),
            sum(usage.cache_written for usage in counted),
        )

    def ledger_view(self) -> LedgerView:
        return LedgerView(self.ledger.entries, total(self.ledger.entries))

    def _status(self, live: bool) -> RunStatus:
        outcome = self._turn.turn.outcome
        if outcome is not None:
            return outcome.kind
        if any(approval.status == "pending" for approval in self._approvals.values()):
            return "waiting_for_approval"
        return "running" if live else "interrupted"


def queued_view(run: str, session: str, at: float, waits: WaitingOn | None = None) -> RunView:
    """A run that waits for its turn in a session."""
    nothing: tuple[()] = ()
    return RunView(
        run, session, "queued", "", "", at, at, "", None, Tokens(), 0, 0, waits, nothing, nothing, nothing, 0
    )


def line_of(
    row: StreamRow, owner: Owner, running: Running | None, spent: Spent | None = None, route: str = ""
) -> RunLine:
    """A run in a list: what the index knows of it, and whoever drives it."""
    status: Any = row.status if row.status != RUNNING else "interrupted"
    if row.status == RUNNING and running is not None:
        status = "waiting_for_approval" if open_in(running.turn) else "running"
        spent = running.turn.tally.spent
    session = public_session(owner, row.parent)
    return RunLine(row.name, session, status, row.title, row.created, row.updated, spent, route)


def draft_of(run: str, draft: Draft, *, with_text: bool = False) -> DraftView:
    return DraftView(
        draft.id,
        run,
        draft.tool,
        draft.argument,
        len(draft.text),
        draft.settled,
        draft.closed,
        draft.text if with_text else None,
    )
