"""Facts in, what is told of a run out: the one fold that every surface draws.

The words of a run are one text. A reply that goes on behind a cut goes on in the same words, since seams are
clean already. A new paragraph begins behind a round of tools, behind a question, behind what the user has
said meanwhile, behind a thought in the midst of a reply, between words and a refusal, and where a Responses
provider begins another message. However a text comes in pieces, it has the same paragraphs.

A call is told from its start on, under one id: one that is run again after a crash is still the same call,
and where a model uses an id again, readers never see it twice. One that began has an end, also if the run
ends first. Tools whose names begin with `_` are nobody's business.

The work per fact is constant, and no text is kept. `going_on` is the short way for what nearly every fact is:
more words of the same text. A reader that comes back begins with the first fact, or at a place where nothing
before it matters to it.
"""

from collections.abc import Iterator
from typing import Any

from turnbuckle.narrate.cards import Cards
from turnbuckle.narrate.closing import Closing, compacted_line
from turnbuckle.narrate.line_ends import leading, trailing
from turnbuckle.narrate.notices import Notices
from turnbuckle.narrate.questions import asked, title_of
from turnbuckle.narrate.told import (
    AnswerFields,
    Broke,
    CallGrown,
    HandedOver,
    HeadTold,
    ModelCalled,
    ModelNamed,
    OtherChoice,
    Paragraph,
    PartOver,
    PartState,
    ProviderItem,
    ProviderStage,
    QuestionAnswered,
    Reasoning,
    ReplyOver,
    RunBegun,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
    ToolPrinted,
    UsageCounted,
    UserSaid,
    Waiting,
)
from turnbuckle.narrate.waiting import WaitingFold
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Compacted,
    Decided,
    DraftClosed,
    DraftGrown,
    DraftKept,
    Fact,
    Fallback,
    FinishDraft,
    ModelAsked,
    RunEnded,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolSaid,
    ToolStarted,
    UserSpoke,
)
from turnbuckle.turn.labels import short_argument
from turnbuckle.vocab.events import (
    BlockClosed,
    CallArgs,
    CallNamed,
    CallRewritten,
    CallStarted,
    ChoiceNoted,
    Cut,
    Ended,
    Event,
    FieldsNoted,
    FinishNoted,
    HeadNoted,
    OpaqueBlock,
    ReasoningDelta,
    RefusalDelta,
    StageNoted,
    Started,
    StateNoted,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.tooling import FINISH_CALL, ToolOutcome, is_internal
from turnbuckle.wire.registry import PROTOCOLS

LEFT = ToolOutcome("unknown", "The run ended before this call had an outcome.")
"""What is told of a call whose end is missing when the run ends."""
JOINED = "More of a call that was cut was joined."
NOT_JOINED = "The rest of a call did not fit what is kept, and was not joined."
_PARAGRAPH = Paragraph()
_NOWHERE = (0, -1)
_NOTHING = (CallArgs, 0, -1)
_GROWING = CallArgs | ReasoningDelta
_NO_FINISH = FinishNoted("other", "")
_NO_RUN = RunId("")
_ToolFact = ToolStarted | ToolSaid | ToolFinished | ApprovalAsked | ApprovalAnswered


class Narration:
    """`take` facts in the order of the journal, each once. `waiting` says at any moment what is waited
    for."""

    def __init__(self, run: RunId = _NO_RUN, *, arguments: bool = False) -> None:
        """`run` is needed where its first fact is not taken. `arguments`: also those of calls are told, as
        they arrive."""
        self._arguments = arguments
        self.waiting = WaitingFold()
        self._run = run
        self._began = 0.0
        self.title = ""
        self._cards = Cards()
        self._closing = Closing()
        self._waits = Waiting()
        self._wanted = ""  # the route that was asked for
        self._protocol = ""  # of the one that was asked last
        self._notices = Notices()
        self._tools: dict[str, ToolBegun] = {}  # calls that began and have no end
        self._ids: set[str] = set()  # as many as the run has tool calls, which its limits bound
        # Where the words are
        self._said = False
        self._ends = 0  # line ends behind the last word
        self._apart = False  # the next word begins a paragraph
        self._flows = False  # there were words since the last paragraph was over
        self._where = (0, 0)  # attempt and block of the last words
        self._going_on = _NOWHERE  # the same, if nothing else has come since
        self._growing: tuple[type, int, int] = _NOTHING  # the same of arguments or a thought; of which card
        self._card = 0
        self._refusal = False
        self._compacts = False  # somebody wants the history to be smaller, and this is the answer
        self._silent = 0  # the attempt that writes a summary, which is nobody's answer
        self._texts_are_messages = False  # another block is another message, as Responses providers have it
        self._texts_are_blocks = False  # another block is told apart, though the words flow on
        self._thoughts: set[int] = set()  # blocks of reasoning in this attempt; as many as a reply may have
        self._thoughts_of = 0
        self._open: dict[int, None] = {}  # thoughts and refusals that are not over
        self._opaque: dict[int, dict[str, Any]] = {}  # blocks of this attempt that are not whole
        self._stages: dict[str, list[dict[str, Any]]] = {}  # what was told of those
        self._finish = _NO_FINISH
        self._pieces: list[str] = []
        self._piece: type[Text] | type[Reasoning] | None = None
        self._block = 0
        self._gap = 0

    def going_on(self, fact: Fact) -> str:
        """The words of a fact that only goes on with the text before it. Empty: it says more than that, or
        something else, and is to be taken."""
        if type(fact) is not Streamed:
            return ""
        attempt, block = self._going_on
        events = fact.events
        if fact.attempt != attempt:
            return ""
        if len(events) == 1:
            event = events[0]
            if type(event) is not TextDelta or event.block != block:
                return ""
            text = event.text
        else:
            pieces = []
            for event in events:
                if type(event) is not TextDelta or event.block != block:
                    return ""
                pieces.append(event.text)
            text = "".join(pieces)
        if text[-1:] != "\n":
            self._ends = 0 if text else self._ends
        else:
            self._ends = trailing(text) + (0 if text.strip("\n") else self._ends)
        waiting = self.waiting
        waiting.since = waiting.waits_since = fact.at
        return text

    def take(self, fact: Fact) -> list[Told]:
        self._began = self._began or fact.at
        out: list[Told] = []
        self._going_on = _NOWHERE
        if type(fact) is Streamed and len(fact.events) == 1:
            event = fact.events[0]
            if isinstance(event, _GROWING) and self._growing == (type(event), fact.attempt, event.block):
                return self._grow(fact, event)
        self._growing = _NOTHING
        if isinstance(fact, Streamed):
            self._closing.price = fact.price
            for event in fact.events:
                if fact.attempt != self._silent or isinstance(event, UsageNoted):
                    self._event(fact.attempt, event, out)
            self._flush(out)
        elif isinstance(fact, RunEnded):
            self.waiting.take(fact)
            out.extend(self._end(fact))
            return out
        else:
            self._rare(fact, out)
        self.waiting.take(fact)
        waits = self.waiting.told()
        if waits != self._waits:
            self._waits = waits
            out.append(waits)
        return out

    # What the model says

    def _event(self, attempt: int, event: Event, out: list[Told]) -> None:
        self._growing = _NOTHING
        kind = type(event)
        if kind is TextDelta or kind is RefusalDelta:
            self._words(attempt, event, out)  # type: ignore[arg-type]
            return
        self._going_on = _NOWHERE
        match event:
            case ReasoningDelta(block, text):
                if text:
                    self._thought(attempt, block, out)
                    self._say(Reasoning, text, block, out)
                    self._growing = (ReasoningDelta, attempt, block)
            case CallStarted() | CallNamed() | CallArgs() | CallRewritten():
                self._call(attempt, event, out)
            case StateNoted(block, data):
                self._flush(out)
                if data.get("type") == "reasoning":
                    self._thought(attempt, block, out)
                out.append(PartState(attempt, block, data))
            case OpaqueBlock(block, data):
                if self._texts_are_blocks:  # there it is told when it is over
                    self._opaque[block] = data
                else:
                    self._provider_item(data, out)
            case FieldsNoted(where, data):
                self._flush(out)
                out.append(AnswerFields(self._protocol, where, data))
            case StageNoted(item, data) if item.isdigit() and int(item) in self._opaque:
                self._stages.setdefault(item, []).append(data)
            case StageNoted(item, data):
                self._flush(out)
                out.append(ProviderStage(self._protocol, item, data, attempt))
            case ChoiceNoted(index, data):
                self._flush(out)
                out.append(OtherChoice(index, data))
            case Started(_, model) if model:
                self._flush(out)
                out.append(ModelNamed(attempt, model))
            case BlockClosed(block):
                if block in self._opaque:
                    stages = tuple(self._stages.pop(str(block), ()))
                    self._provider_item(self._opaque.pop(block), out, stages)
                elif block in self._open:
                    del self._open[block]
                    self._flush(out)
                    out.append(PartOver(block))
            case UsageNoted(usage):
                self._closing.count(usage)
                self._flush(out)
                out.append(UsageCounted(attempt, usage))
            case HeadNoted(headers):
                out.append(HeadTold(attempt, headers))
            case FinishNoted(finish):
                self._closing.finish, self._finish = finish, event
            case Ended() | Cut():
                self._open.clear()
                self._flush(out)
                failure = event.failure if isinstance(event, Cut) else None
                why, cost = (self._finish.said, self._finish.detail), self._closing.cost
                out.append(ReplyOver(attempt, self._closing.finish or "", failure, *why, cost))
                if failure is None:
                    out.extend(self._cards.arrived())
            case _:
                pass  # signs of life

    def _call(
        self, attempt: int, event: CallStarted | CallNamed | CallArgs | CallRewritten, out: list[Told]
    ) -> None:
        self._flush(out)
        self._card = self._cards.take(event, attempt, out)
        self._growing = (CallArgs, attempt, event.block) if isinstance(event, CallArgs) else _NOTHING
        if not self._arguments and isinstance(event, (CallArgs, CallRewritten)):
            out.pop()

    def _grow(self, fact: Streamed, event: CallArgs | ReasoningDelta) -> list[Told]:
        """The short way for more of the same arguments, or of the same thought."""
        text, waiting = event.text, self.waiting
        if isinstance(event, CallArgs):
            waiting.heard_arguments(fact.at, len(text))
            return [CallGrown(self._card, text)] if self._arguments else []
        waiting.since = waiting.waits_since = fact.at
        return [Reasoning(text, fact.attempt, event.block)] if text else []

    def _words(self, attempt: int, event: TextDelta | RefusalDelta, out: list[Told]) -> None:
        text, refusal = event.text, type(event) is RefusalDelta
        if not text:
            return
        where, begins = (attempt, event.block), not self._flows
        if where != self._where or refusal != self._refusal:
            begins = True
            another = refusal != self._refusal or (attempt == self._where[0] and self._texts_are_messages)
            if self._said and another:
                self._part(out)
            self._where, self._refusal = where, refusal
        if refusal:
            self._closing.refused = True
            self._open[event.block] = None
        elif begins and self._open and not self._texts_are_messages:
            # Chat providers do not say when a thought is over: a text ends it, or the thought goes on beside.
            self._flush(out)
            out.extend(PartOver(block) for block in self._open)
            self._open.clear()
        gap = 0
        bare = text.strip("\n")
        if self._apart and bare:
            self._apart = False
            gap = max(2 - self._ends - leading(text), 0) if self._said else 0
        self._said = self._flows = True
        self._ends = trailing(text) if bare else self._ends + len(text)
        self._say(Text, "\n" * gap + text, event.block, out, gap)
        self._going_on = _NOWHERE if refusal or self._apart else where

    def _thought(self, attempt: int, block: int, out: list[Told]) -> None:
        """One that goes on behind a text does not end that."""
        if attempt != self._thoughts_of:
            self._thoughts_of = attempt
            self._thoughts.clear()
        self._open[block] = None
        if block not in self._thoughts:
            self._thoughts.add(block)
            if self._where[0] == attempt:
                self._part(out)

    def _provider_item(
        self, data: dict[str, Any], out: list[Told], stages: tuple[dict[str, Any], ...] = ()
    ) -> None:
        (self._part if self._texts_are_blocks else self._flush)(out)  # words behind it are another paragraph
        self._flush(out)
        out.append(ProviderItem(self._protocol, data, stages))

    def _part(self, out: list[Told]) -> None:
        """What comes next is a paragraph of its own."""
        self._apart = True
        if self._flows:
            self._flows = False
            self._flush(out)
            out.append(_PARAGRAPH)

    def _say(
        self, kind: type[Text] | type[Reasoning], text: str, block: int, out: list[Told], gap: int = 0
    ) -> None:
        """Neighbours are told together."""
        apart = kind is Reasoning or self._refusal or self._texts_are_blocks
        if kind is not self._piece or gap or (block != self._block and apart):
            self._flush(out)
            self._piece, self._gap = kind, gap
        self._block = block
        self._pieces.append(text)

    def _flush(self, out: list[Told]) -> None:
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        if self._piece is Text:
            out.append(Text(text, self._gap, self._refusal, self._where[0], self._block))
        else:
            out.append(Reasoning(text, self._thoughts_of, self._block))
        self._piece = None

    # What else happens

    def _rare(self, fact: Fact, out: list[Told]) -> None:
        match fact:
            case RunStarted():
                self._run, self._wanted = fact.run, fact.options.route
                self._compacts = self._notices.compacts = fact.options.compact is not None
                self._closing.start(fact)
                brought = {tool.name for tool in fact.options.tools}
                self._cards.finishes = self.waiting.finishes = FINISH_CALL not in brought
                fresh = fact.messages[max(len(fact.messages) - fact.fresh, 0) :]
                self.title = title_of(fresh)
                out.append(RunBegun(fact.run, fact.session, fresh))
            case UserSpoke(messages=messages):
                out.append(UserSaid(messages))
            case ModelAsked():
                self._asked(fact, out)
            case Decided():
                self._decided(fact, out)
            case DraftKept() | DraftGrown() | DraftClosed():
                self._cards.draft(fact, out)
            case Compacted() if self._compacts:
                self._answer(compacted_line(fact).capitalize() + ".", out)
            case CallsHandedOver(_, calls):
                self._part(out)
                self._closing.handed = True
                out.append(HandedOver(calls, self._cards.hands_over(calls)))
            case ToolStarted() | ToolSaid() | ToolFinished() | ApprovalAsked() | ApprovalAnswered():
                self._tool(fact, out)
            case _:
                pass
        if (notice := self._notices.take(fact)) is not None:
            out.append(notice)

    def _asked(self, fact: ModelAsked, out: list[Told]) -> None:
        self._silent = fact.attempt if fact.folding is not None else self._silent
        if fact.why in ("after_tools", "steered"):  # any other reply goes on with what was said before it
            self._part(out)
        protocol = PROTOCOLS[fact.protocol]
        self._texts_are_messages = protocol.texts_are_messages
        self._texts_are_blocks = protocol.texts_are_blocks
        self._open.clear()
        self._opaque.clear()
        self._stages.clear()
        self._finish = _NO_FINISH
        self._wanted = self._wanted or fact.route
        self._protocol = fact.protocol
        self._closing.ask()
        self._cards.new_attempt()
        stands_in = "" if fact.route == self._wanted else fact.model
        asked = (fact.attempt, fact.route, fact.model, fact.why, fact.stream)
        limits = (fact.max_money or None, fact.max_tokens or None)  # unset is false
        out.append(ModelCalled(*asked, stands_in, fact.expected, fact.window, fact.protocol, *limits))

    def _decided(self, fact: Decided, out: list[Told]) -> None:
        self._closing.verdict = fact.verdict
        decision = fact.decision.then if isinstance(fact.decision, Fallback) else fact.decision
        out.extend(self._cards.broke(decision.draft if isinstance(decision, FinishDraft) else ""))
        broke = (fact.attempt, fact.verdict, fact.evidence, fact.decision, fact.failure, fact.notice)
        tool = "" if fact.tool == FINISH_CALL and self._cards.finishes else fact.tool
        out.append(Broke(*broke, tool, fact.gained, fact.lost))

    def _tool(self, fact: _ToolFact, out: list[Told]) -> None:
        match fact:
            case ToolSaid(_, call_id, text):
                begun = self._tools.get(call_id)
                call, card = (call_id, 0) if begun is None else (begun.call, begun.card)
                out.append(ToolPrinted(call, text, card))
            case ToolStarted(name=name):
                self._part(out)
                if not is_internal(name):
                    out.append(self._start(fact))
            case ToolFinished(_, call_id, name, outcome) if name == FINISH_CALL and self._cards.finishes:
                self._part(out)
                card, tool = self._cards.joined(call_id)
                told = ToolOutcome(outcome.status, JOINED if outcome.ok else NOT_JOINED)
                out.append(ToolEnded(call_id, tool, told, False, card, joins=True))
            case ToolFinished(_, call_id, name, outcome):
                self._part(out)
                if not is_internal(name):
                    begun = self._tools.pop(call_id, None)
                    card = self._cards.of(call_id, name) if begun is None else begun.card
                    call = call_id if begun is None else begun.call
                    out.append(ToolEnded(call, name, outcome, begun is not None, card))
            case ApprovalAsked():
                self._part(out)
                card = self._cards.of(fact.call_id, fact.name)
                out.append(asked(self._run, fact, card, self.title))
            case ApprovalAnswered():
                out.append(QuestionAnswered(fact.approval, fact.verdict, fact.by, fact.text, fact.always))

    def _start(self, fact: ToolStarted) -> ToolBegun:
        before = self._tools.get(fact.call_id)
        call = before.call if before is not None else self._new_id(fact.call_id)
        card = self._cards.starts(fact.call_id, fact.name)
        label = short_argument(fact.arguments)
        begun = ToolBegun(call, fact.name, fact.arguments, label, before is not None, card)
        self._tools[fact.call_id] = begun
        return begun

    def _new_id(self, call_id: str) -> str:
        call, number = call_id, 1
        while call in self._ids:
            number += 1
            call = f"{call_id}-{number}"
        self._ids.add(call)
        return call

    def _answer(self, text: str, out: list[Told]) -> None:
        """Words of the runtime itself, where they are what was asked for."""
        self._said, self._ends = True, 0
        out.append(Text(text))

    def _end(self, fact: RunEnded) -> Iterator[Told]:
        if self._compacts and not self._said and fact.outcome.kind == "completed":
            yield Text(f"{fact.outcome.why or 'Nothing was done'}.".capitalize())
        for begun in self._tools.values():
            yield ToolEnded(begun.call, begun.tool, LEFT, True, begun.card)
        self._tools.clear()
        yield from self._cards.broke()
        missing = max(2 - self._ends, 0) if self._said else 0
        yield self._closing.end(self._run, fact, self._began, missing)
