"""What happens in a run, for a program that embeds it: a small closed union, told from the facts of the journal.

Nothing is told that is not stored. The same facts always give the same events, so whoever comes back with the cursor
of the last event that it took in gets exactly those behind it. A cursor is the number of an item in the journal, and
which of the item's events it was if more of them follow.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.errors import CursorGone
from turnbuckle.journal.port import Item
from turnbuckle.tools.registry import is_internal
from turnbuckle.turn import facts
from turnbuckle.turn.telling import Notices, Paragraphs
from turnbuckle.turn.waiting import Waiting as WaitingFold
from turnbuckle.turn.waiting import WaitingKind
from turnbuckle.vocab.events import ReasoningDelta, RefusalDelta, TextDelta
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.outcome import OutcomeKind
from turnbuckle.vocab.tooling import ToolStatus

Verdict = Literal["allowed", "denied", "answered", "expired", "withdrawn"]


class _Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """`cursor` is where this event stands in its run, `at` is wall time in seconds."""

    cursor: str = ""
    at: float = 0.0


class Begun(_Event, frozen=True, tag="begun"):
    """The run has begun. It is stored, and can be followed, stopped and resumed by this id."""

    run: str
    session: str


class Text(_Event, frozen=True, tag="text"):
    """Words of the model. All of them in a row are the text of the run's result, with its paragraphs; nothing is said
    twice and nothing is taken back."""

    text: str


class Reasoning(_Event, frozen=True, tag="reasoning"):
    """What the model writes for itself."""

    text: str


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """A tool starts. `call` is the same in everything that is told of this call."""

    call: str
    tool: str
    arguments: dict[str, Any]


class ToolSaid(_Event, frozen=True, tag="tool_said"):
    """A piece of what a running tool prints."""

    call: str
    text: str


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """How a call went, once for each. A call that never started has only this."""

    call: str
    tool: str
    status: ToolStatus
    text: str
    seconds: float = 0.0


class Notice(_Event, frozen=True, tag="notice"):
    """One quiet line for the user: what broke, what was kept, what is done about it."""

    text: str


class Waiting(_Event, frozen=True, tag="waiting"):
    """What the run waits for from here on: a model's first word, or the time of the next try."""

    kind: WaitingKind
    detail: str


class ApprovalAsked(_Event, frozen=True, tag="approval_asked"):
    """A person must allow this very call, or answer the question that it is. Hand it to `Agent.answer`."""

    run: str
    approval: str
    kind: Literal["approval", "question"]
    tool: str
    arguments: dict[str, Any]
    question: str = ""
    expires: float | None = None


class ApprovalAnswered(_Event, frozen=True, tag="approval_answered"):
    """The one answer that counted, also one that another client gave. `withdrawn`: the run was stopped first."""

    approval: str
    verdict: Verdict
    by: str = ""


class Ended(_Event, frozen=True, tag="ended"):
    """The last event of a run, exactly one."""

    run: str
    outcome: OutcomeKind
    why: str = ""
    drafts: tuple[str, ...] = ()


Event = (
    Begun
    | Text
    | Reasoning
    | ToolStarted
    | ToolSaid
    | ToolFinished
    | Notice
    | Waiting
    | ApprovalAsked
    | ApprovalAnswered
    | Ended
)


class Cursor(Struct, frozen=True):
    """Behind an item; behind one of its events if `part` says which."""

    seq: int = 0
    part: int | None = None

    @property
    def read_after(self) -> int:
        """Where reading begins: an item of which only a part was told is read again."""
        return self.seq if self.part is None else self.seq - 1


def read_cursor(written: str | int) -> Cursor:
    """A cursor from its text. Raises ValueError."""
    seq, _, part = str(written or "0").partition(".")
    if not seq.isdecimal() or (part and not part.isdecimal()):
        raise ValueError(f"{written!r} is no cursor; it is the `cursor` of an event, or a number of the journal")
    return Cursor(int(seq), int(part) if part else None)


class Telling:
    """Items of one run to events, from a cursor on. Those before the cursor are only folded, so that what comes behind
    it is told as it would have been. Constant work for each item."""

    def __init__(self, run: RunId, after: Cursor) -> None:
        self._run = run
        self._after = after
        self._paragraphs = Paragraphs()
        self._notices = Notices()
        self.over = False

    def take(self, item: Item) -> list[Event]:
        """The events of an item. Raises CursorGone."""
        fact, after = facts.decode(item.data), self._after
        self.over = self.over or isinstance(fact, facts.RunEnded)
        behind = item.seq + (after.part is not None)  # a part of it may have been told
        if item.seq <= after.read_after:
            self._told(fact)
            return []
        if isinstance(fact, facts.Streamed) and item.seq - fact.merged < after.seq < behind:
            raise CursorGone(f"events of the run {self._run} around {after.seq} were merged; follow it from the start")
        events = self._told(fact)
        last = len(events) - 1
        numbered = [
            replace(event, cursor=str(item.seq) if place == last else f"{item.seq}.{place}", at=fact.at)
            for place, event in enumerate(events)
        ]
        if item.seq == after.seq and after.part is not None:
            return numbered[after.part + 1 :]
        return numbered

    def _told(self, fact: facts.Fact) -> list[Event]:
        return told(self._run, fact, self._paragraphs, self._notices)


def told(
    run: RunId, fact: facts.Fact, paragraphs: Paragraphs | None = None, notices: Notices | None = None
) -> list[Event]:
    """The events of a fact, in order, still without their places. What stood before it is in the two folds."""
    paragraphs = Paragraphs() if paragraphs is None else paragraphs
    if isinstance(fact, facts.Streamed):
        return _streamed(fact, paragraphs)
    paragraphs.take(fact)
    words = (Notices() if notices is None else notices).take(fact)
    return _rare(run, fact, [Notice(words)] if words else [])


def _rare(run: RunId, fact: facts.Fact, notice: list[Event]) -> list[Event]:
    match fact:
        case facts.RunStarted():
            return [Begun(fact.run, fact.session), *notice]
        case facts.ModelAsked():
            return [_waiting(fact)]
        case facts.Decided(decision=facts.Retry(after) | facts.Reask(after=after)) if after > 0:
            return [*notice, _waiting(fact)]
        case facts.ToolStarted(_, call, name, arguments) if not is_internal(name):
            return [ToolStarted(call, name, arguments)]
        case facts.ToolSaid(_, call, text):
            return [ToolSaid(call, text)]
        case facts.ToolFinished(_, call, name, outcome) if not is_internal(name):
            text = outcome.text or outcome.partial_output
            return [ToolFinished(call, name, outcome.status, text, outcome.seconds)]
        case facts.ApprovalAsked():
            return [asked(run, fact)]
        case facts.ApprovalAnswered(_, approval, verdict, by):
            return [ApprovalAnswered(approval, verdict, by)]
        case facts.RunEnded(_, outcome):
            return [Ended(run, outcome.kind, outcome.why, outcome.drafts)]
        case _:
            return notice


def asked(run: str, fact: facts.ApprovalAsked) -> ApprovalAsked:
    """A stored question as whoever answers it sees it."""
    return ApprovalAsked(run, fact.approval, fact.kind, fact.name, fact.arguments, fact.question, fact.expires)


def _streamed(fact: facts.Streamed, paragraphs: Paragraphs) -> list[Event]:
    """A burst: neighbours of one kind are one event."""
    runs: list[tuple[type[Text] | type[Reasoning], list[str]]] = []
    for event in fact.events:
        before = paragraphs.before(fact.attempt, event)
        if isinstance(event, TextDelta | RefusalDelta):
            kind: type[Text] | type[Reasoning] = Text
        elif isinstance(event, ReasoningDelta):
            kind = Reasoning
        else:
            continue
        if not event.text:
            continue
        if not runs or runs[-1][0] is not kind:
            runs.append((kind, []))
        runs[-1][1].append(f"{before}{event.text}")
    return [kind("".join(texts)) for kind, texts in runs]


def _waiting(fact: facts.ModelAsked | facts.Decided) -> Waiting:
    fold = WaitingFold()
    fold.take(fact)
    on = fold.on(fact.at)
    assert on is not None  # both of these facts begin a wait
    return Waiting(on.kind, on.detail)
