"""Where a turn stands. A value: every step makes a new one, and nothing in it is a clock, a socket or a
lock."""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.reply.draft import Draft
from turnbuckle.turn.compaction import Compaction, Folding, Measure
from turnbuckle.turn.consent import ConsentRule
from turnbuckle.turn.facts import (
    AskWhy,
    Continue,
    FinishDraft,
    GiveUp,
    HandedCall,
    HeldCall,
    ModelAsked,
    UserSpoke,
)
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.turn.route_uses import with_call
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.ids import DraftId, ProtocolName, RouteName, RunId, SessionId
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.prices import NOTHING_SPENT, Spent
from turnbuckle.vocab.quirks import CapField
from turnbuckle.vocab.reply import Reply
from turnbuckle.vocab.request import RunOptions
from turnbuckle.vocab.route_use import RouteUse
from turnbuckle.vocab.tooling import ToolOutcome

Phase = Literal[
    "new",
    "asking",  # a model call is due
    "streaming",  # a model call is under way
    "deciding",  # a reply broke, and what to do about it is not yet written down
    "compacting",  # a summary is there, or there will be none, and what it stands for is not yet written down
    "tools",  # calls are due, running or done
    "ending",  # the outcome is known and not yet written down
    "ended",
]


class Ask(Struct, frozen=True):
    """The next model call."""

    route: RouteName
    why: AskWhy
    after: float = 0.0
    """Seconds to wait before it."""
    notes: tuple[Message, ...] = ()
    stream: bool = True
    cap: int | None = None
    effort: str | None = None
    cap_field: CapField | None = None
    wanted: Continue | FinishDraft | None = None
    """What this call is to bring to its end, if anything was cut."""
    way: str = ""
    """How the call under way asks for it (see `ladder`); empty: by its notes."""
    folding: Folding | None = None
    """The summary that it asks for; the call itself waits behind it."""


def ask_on(route: RouteFacts, why: AskWhy, **changes: object) -> Ask:
    """A call of this route, with its own cap and effort unless `changes` say otherwise."""
    fields = {"cap": route.cap, "effort": route.effort, **changes}
    return Ask(route.name, why, **fields)  # type: ignore[arg-type]


Answer = Literal["allowed", "denied", "answered", "expired", "withdrawn"]


class Consent(Struct, frozen=True):
    """A person was asked about this very call, by its name and arguments. No `verdict`: nobody has answered
    yet."""

    id: str
    name: str
    arguments: dict[str, Any]
    question: bool = False
    doubt: bool = False
    """Asked behind its start: the server stopped as it ran, and a person says whether the run may go on."""
    expires: float | None = None
    verdict: Answer | None = None
    text: str = ""
    seen: str | None = None
    """The mark of the file that it would change, as it was when a person was asked; None: it changes none."""
    always: tuple[ConsentRule, ...] = ()


class PendingCall(Struct, frozen=True):
    """A call of a complete reply. An orphan was started by a process that is gone, and has no outcome."""

    id: str
    name: str
    arguments: dict[str, Any]
    started: bool = False
    orphan: bool = False
    outcome: ToolOutcome | None = None
    consent: Consent | None = None
    draft: DraftId = DraftId("")
    """The draft that the runtime itself has made this call of."""


class Tally(Struct, frozen=True):
    """What was used and lost so far. The small counts go back to zero with progress; the budgets never do."""

    asks: int = 0
    tool_runs: int = 0
    spent: Spent = NOTHING_SPENT
    call_cost: float = 0.0  # of the last model call that is over, as far as it is known
    routes: tuple[RouteUse, ...] = ()  # the one that was asked last stands last
    retries: int = 0  # silent tries in a row on this route
    waits: int = 0  # waits in a row that the provider asked for
    unproductive: int = 0  # continuations in a row without progress
    cut_tool: str = ""
    cuts: int = 0  # cuts in a row inside `cut_tool`
    malformed: int = 0
    empty: int = 0
    no_reason: bool = False  # the text before ended by its end mark alone
    pauses: int = 0
    splice_failures: int = 0  # finish_calls in a row that did not fit their draft
    curbed: bool = False  # the output cap was lowered to what the provider allows
    renamed: bool = False  # the output cap was sent under its other name
    thin: int = 0  # tries in a row that brought only a few characters each
    refused: int = 0  # rounds of calls in a row of which none could start
    trouble_since: float | None = None  # seconds of work at the first of the failures in a row
    cap_raised: bool = False  # the output cap was raised, or the effort lowered
    plain: bool = False  # the reply was asked for in one piece, since streams of it kept breaking
    retold: int = 0  # so many messages are told in plain words, since a provider refused them as they were
    recoveries: int = 0  # comebacks after a crash without progress
    gained: int = 0  # characters that came and were kept, over all attempts
    lost: int = 0  # characters that came and could not be used
    seconds_lost: float = 0.0
    seconds_idle: float = (
        0.0  # in which nobody worked on it: people were waited for, or the machine was not there
    )
    seconds_asked: float = 0.0  # of them, on waiting for people
    asked_since: float = 0.0  # since when people are waited for, while they are
    compactions: int = 0
    reworded: bool = False  # the history was sent without parts that only their provider knows
    dropped: int = 0  # summaries that were not used, since they made nothing smaller


class Turn(Struct, frozen=True):
    """One turn of one run. `messages` is the history as providers see it. It only ever grows at its end,
    unless a compaction replaces it as a whole."""

    run: RunId = RunId("")
    session: SessionId = SessionId("")
    phase: Phase = "new"
    started_at: float = 0.0
    now: float = 0.0
    messages: tuple[Message, ...] = ()
    began: int = 0
    """How many of them were there when the run began; behind a compaction, where those begin that the run
    added and that are told as they were said."""
    task: tuple[Message, ...] = ()
    """What the user said to begin the turn, and in the midst of it."""
    past: tuple[Message, ...] = ()
    """What the run added before those, as it was said."""
    compaction: Compaction | None = None
    """How the history is told, if not as it was said."""
    told_by: RunId = RunId("")
    """The run whose compaction that is."""
    suspended: Ask | None = None
    """The model call that waits for a summary."""
    measure: Measure | None = None
    """What the first `measured` messages take, if anybody has counted."""
    measured: int = 0
    guessed: int = 0
    """What the request under way takes by length alone, and what it should take."""
    asked_for: int = 0
    refused: dict[RouteName, int] = {}
    """The tokens of the smallest request that a route refused as too large. Another one may take it."""
    refusal: Failure | None = None
    """How its provider said so."""
    unsummarised: int = 0
    """Before so many messages a summary was not worth it, for the reason `too_long`."""
    too_long: str = ""
    words_only: tuple[tuple[RouteName, str], ...] = ()
    """Routes and models that refused parts of their own answers, and are told the words alone."""
    on_trial: bool = False
    """Whether the last of them has not answered yet: it may have refused something else."""
    open_text: tuple[str, ...] = ()
    """Text of the answer that was shown and whose reply was cut; the next reply goes on behind it."""
    ask: Ask | None = None
    protocol: ProtocolName = "openai_chat"
    model: str = ""
    """Who was asked last, as it was then: the settings may name another model for that route by now."""
    asked_at: float = 0.0
    attempt: int = 0
    before_notes: int = 0
    """How long the history was before the notes of the last request."""
    orphan: bool = False
    """The model call under way was lost with the process that made it."""
    reply: Reply | None = None
    calls: tuple[PendingCall, ...] = ()
    drafts: dict[DraftId, Draft] = {}
    drafted: bool = False
    """There is a draft, or there was one: from then on the model is offered to finish it."""
    declined: tuple[DraftId, ...] = ()
    """Drafts that became whole calls which were not allowed to run: kept to be read, and nobody's unfinished
    work."""
    inherited: tuple[DraftId, ...] = ()
    """Drafts that an earlier run left. One that this run does not touch is not its own unfinished work."""
    tried: tuple[str, ...] = ()
    """The ways in which the rest was asked for, and did not come."""
    pieces: dict[DraftId, int] = {}
    """How much of a draft was written by smaller calls in its place."""
    held: tuple[HeldCall, ...] = ()
    """The calls of a reply that was cut, where there is more than the one that is asked for again."""
    failed_routes: tuple[RouteName, ...] = ()
    silent: tuple[RouteName, ...] = ()
    """Routes that were left for a silence."""
    passing: tuple[RouteName, ...] = ()
    """Of them, those that were left for a failure that may pass."""
    resting: tuple[RouteName, ...] = ()
    """Routes that were benched when the last attempt had its last word."""
    same_calls: dict[str, int] = {}
    """How often each call was made since the last one that was new and could have changed anything."""
    tally: Tally = Tally()
    given: int = 0
    """Characters of the history that it began with."""
    options: RunOptions = RunOptions()
    spoken: tuple[UserSpoke, ...] = ()
    """What people said meanwhile, and the model was not told yet."""
    unheard: int = 0
    """For how many model calls they have been waiting, behind a text that was cut."""
    steered: tuple[str, ...] = ()
    """Which of their words the model was told."""
    handed: tuple[HandedCall, ...] = ()
    """Calls that the caller runs. The turn has ended with them."""
    left: bool = False
    """The process before let go of it in good order."""
    rules: tuple[ConsentRule, ...] = ()
    """What people allowed for good in this turn."""
    unasked: tuple[str, ...] = ()
    """Tools of which a call did not run because it needed consent, and there was nobody to ask."""
    stopping: bool = False
    interrupted: bool = False
    """It is stopping by an interrupt: the conversation goes on from what there is."""
    giving_up: GiveUp | None = None
    failure: Failure | None = None
    """What the turn was given up for."""
    outcome: Outcome | None = None

    @property
    def added(self) -> tuple[Message, ...]:
        """All that the run added, as it was said."""
        return (*self.past, *self.messages[self.began :]) if self.past else self.messages[self.began :]

    @property
    def shown(self) -> str:
        """The answer's text so far, as far as it was cut and goes on."""
        return "".join(self.open_text)

    @property
    def has_something(self) -> bool:
        """Whether anything of this turn is worth keeping: shown text, a draft, a whole call, a tool that
        ran."""
        return bool(self.open_text or self.own_drafts or self.held or self.tally.tool_runs)

    @property
    def unfinished_drafts(self) -> tuple[DraftId, ...]:
        """The open drafts that still wait for their rest."""
        return tuple([name for name in self.own_drafts if name not in self.declined])

    @property
    def own_drafts(self) -> tuple[DraftId, ...]:
        """The open drafts of this run's own work: not those that an earlier run left and this one did not
        touch."""
        return tuple([name for name in self.drafts if name not in self.inherited])


def streaming(turn: Turn, asked: ModelAsked) -> Turn:
    """A model is asked, and nothing has come yet."""
    tally = turn.tally
    return replace(
        turn,
        phase="streaming",
        attempt=asked.attempt,
        protocol=asked.protocol,
        model=asked.model,
        asked_at=asked.at,
        before_notes=len(turn.messages),
        tally=replace(tally, asks=tally.asks + 1, routes=with_call(tally.routes, asked.route)),
        orphan=False,
        reply=None,
    )
