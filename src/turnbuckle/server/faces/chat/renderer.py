"""A run as a chat completion: as chunks while it happens, or as one answer when it is over.

The texts of all replies become one text. What the model says in one burst is written in one piece. Calls to
our own tools show only as progress; calls for the client show only when they are handed over, whole.

The role comes at once. Progress of our own tools, notices and questions ride on chunks with an empty delta,
under a key that clients do not look at; whoever knows them can have tool progress as named events instead, or
none of it. What a person must know before the answer, or is asked, is also told as reasoning: a plain client
shows that, and takes it for no part of the answer. A run that failed ends with an error event and nothing
behind it, never with a finish that looks like success.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from turnbuckle.journal.port import Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.line_ends import gap
from turnbuckle.narrate.told import (
    AnswerFields,
    HandedOver,
    HeadTold,
    ModelCalled,
    ModelNamed,
    Notice,
    OtherChoice,
    PartState,
    ProviderItem,
    QuestionAnswered,
    QuestionAsked,
    Reasoning,
    ReplyOver,
    RunOver,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
    Waiting,
)
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.faces import approvals
from turnbuckle.server.faces.chat.choices import OWN_ENDS, OtherChoices
from turnbuckle.server.faces.chat.client_calls import chat_call
from turnbuckle.server.faces.chat.tool_progress import tool_progress
from turnbuckle.server.faces.left_out import LeftOut
from turnbuckle.server.outcomes import Ending, ending, outcome_fields
from turnbuckle.server.streaming.first_word import Known
from turnbuckle.turn.facts import Fact, HandedCall, decode
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.wire.across import as_chat_annotations, moved, pages_cited, token_odds
from turnbuckle.wire.answer_fields import CountedFields
from turnbuckle.wire.openai_chat.chunks import ChunkWriter
from turnbuckle.wire.openai_chat.parse_request import PROTOCOL
from turnbuckle.wire.sse import DONE, drained, frame

Events = Literal["chunk", "tools", "hermes", "none"]
"""How tool progress is told: on chunks, as events of our name or of one that frontends know, or not at
all."""
EVENTS: tuple[Events, ...] = ("chunk", "tools", "hermes", "none")

ARGUMENTS_PIECE = 8 * 1024  # characters: some clients work on each piece, and some cap a line
KEY = "turnbuckle"
_NAMES = {"tools": "turnbuckle.tool.progress", "hermes": "hermes.tool.progress"}
ROUNDS = ("after_tools", "steered")
"""Why a model is asked for another reply than the one before."""
GOES_ON = ("continue", "finish_draft", "reask")
"""Why a model is asked with more than the client has sent, and the answer goes on behind what was told."""
WORTH_TELLING = 1.0  # seconds: a shorter wait is over before anybody has read of it
_json = msgspec.json.encode
_sorted = msgspec.json.Encoder(order="sorted").encode


def chat_id(run: RunId) -> str:
    """The id under which a run's chat completion goes."""
    return f"chatcmpl-{run}"


class ChatFold(ABC):
    """One assistant message, whoever writes it down. Keeps no text but the last piece of a thought."""

    def __init__(self, run: RunId, queued: str = "", known: Known | None = None) -> None:
        self.ended = False
        self.route = ""
        """The one that was asked last."""
        self.provider_headers: tuple[tuple[str, str], ...] = ()
        self._run = run
        self._known = known or {}
        self._narration = Narration(run)
        self._asked = ""  # the model that was asked last
        self._protocol = ""  # of the one that was asked last
        self._bound = False  # its thoughts stand behind what the client has sent, and nothing else
        self._length = 0  # characters of the text
        self._where = (0, 0)  # attempt and block of its last words
        self._began = 0  # where in the text that block begins
        self._reply_began = 0  # and where that attempt does
        self._round_began = 0  # and where the first attempt at that reply does
        self._cited = 0  # pages that it refers to and were told
        self._counted = CountedFields()  # by providers of this protocol
        self._labels: dict[str, str] = {}  # of calls that run
        self.left = LeftOut(PROTOCOL)
        self._others = OtherChoices()
        self._piece: dict[str, Any] = {}  # what stands beside the next words, in a part of their own
        self._parts: list[bytes] = []  # parts without words that were told in this round
        self._again: dict[bytes, int] = {}  # of those, what an attempt from the start may bring again
        self._reply = ReplyOver(0)  # the last one
        self._spoke = {False: False, True: False}  # whether there was text, and a refusal
        self._thought: object = None  # which reasoning the last piece of it belonged to
        self._last_thought = ""
        if queued:
            self._aside("waiting", queued)
            self._think(queued, "queued")

    def _take(self, items: Sequence[Item]) -> None:
        narration = self._narration
        for item in items:
            fact = self._decoded(item) if self._known else decode(item.data)
            if text := narration.going_on(fact):
                self._length += len(text)
                self._text(text)
            else:
                self._take_fact(fact)

    def _decoded(self, item: Item) -> Fact:
        """The fact of an item that may have been decoded already. One into which others were merged meanwhile
        has the same number, and says more."""
        before = self._known.pop(item.seq, None)
        return before[1] if before is not None and before[0] == item else decode(item.data)

    def _take_fact(self, fact: Fact) -> None:
        if not self.ended:
            for told in self._narration.take(fact):
                self._draw(told)

    def _draw(self, told: Told) -> None:
        self.left.look(told)
        match told:
            case Text(text, before, refusal):
                # A refusal stands in a place of its own.
                text = text if self._spoke[refusal] else text[before:]
                if not refusal:
                    self._goes_to((told.attempt, told.block), before if self._spoke[False] else 0, len(text))
                self._spoke[refusal] = True
                if self._piece and not refusal:
                    self._part(text, self._piece)
                else:
                    (self._refusal if refusal else self._text)(text)
            case Reasoning(text, attempt, block):
                self._think(text, (attempt, block))
            case Waiting(pause=pause):
                if pause >= WORTH_TELLING:
                    self._aside("notice", f"waiting {pause:.0f} s before the next try")
            case HeadTold(headers=headers):
                self.provider_headers = tuple(headers.items())
            case ModelCalled():
                self._called(told)
            case ModelNamed(model=model):
                self._answered_by(model)
            case ReplyOver():
                self._reply = told
            case ToolBegun(call, tool, _, label) if not told.again:
                self._labels[call] = label
                self._progress(tool_progress(call, tool, label, "running"))
            case ToolEnded(call, tool, outcome) if told.began:
                progress = tool_progress(call, tool, self._labels.pop(call, ""), outcome.status)
                self._progress({**progress, "seconds": round(outcome.seconds, 3)})
            case Notice(text, about):
                self._aside("notice", text)
                if about == "conversation":
                    self._think(text, "notice")
            case QuestionAsked():
                self._aside("approval", approvals.asked(told))
                self._think(approvals.words(told), told.approval)
            case QuestionAnswered():
                self._aside("approval", approvals.answered(told))
            case AnswerFields(protocol, where, data) if protocol == PROTOCOL:
                self._of_provider(where, data)
            case ProviderItem(protocol, data) if protocol == PROTOCOL:
                self._item(data)
            case AnswerFields(protocol, where, data):
                if odds := token_odds(protocol, where, data):
                    self._passed("choice", {"logprobs": {"content": odds}})
            case PartState(attempt, block, data):
                details = data.get("reasoning_details") if self._protocol == PROTOCOL else None
                if details and self._bound:
                    self._passed("message", {"reasoning_details": details})
                elif (attempt, block) == self._where:
                    self._cite(data)
            case OtherChoice(index, data):
                if (shown := self._others.take(index, data)) is not None:
                    self._other(shown)
            case HandedOver(calls):
                for handed in calls:
                    self._call(handed)
            case RunOver():
                self._over(told)
            case _:
                pass

    def _called(self, told: ModelCalled) -> None:
        if told.route != self.route:
            self._forget()
        self.route, self.provider_headers, self._piece = told.route, (), {}
        if told.why in ROUNDS:
            self._parts, self._round_began = [], self._length
        self._again = dict(Counter(self._parts)) if self._parts and self._length == self._round_began else {}
        self._protocol, self._bound = told.protocol, told.why not in GOES_ON
        self._counted.next_call()
        if told.model != self._asked:
            self._asked = told.model
            self._answered_by(told.model)

    def _of_provider(self, where: str, data: dict[str, Any]) -> None:
        """What a chat provider says that means nothing here."""
        if where == "piece":
            self._piece = data
            return
        if where == "message" and "annotations" in data:
            data = {**data, "annotations": moved(data["annotations"], self._reply_began)}
        if where == "message" and "content" in data:
            for part in data["content"]:
                self._part("", part)
            data = {name: value for name, value in data.items() if name != "content"}
        if data:
            self._passed(where, data)

    def _item(self, part: dict[str, Any]) -> None:
        """A part of the content that nobody here knows. One that was told before its reply broke, and is said
        again by a reply from the start, is the same."""
        known = _sorted(part)
        if self._again.get(known):
            self._again[known] -= 1
            return
        self._parts.append(known)
        self._part("", part)

    def _goes_to(self, where: tuple[int, int], gap: int, size: int) -> None:
        if where[0] != self._where[0]:
            self._reply_began = self._length + gap
        if where != self._where:
            self._where, self._began, self._cited = where, self._length + gap, 0
        self._length += size

    def _cite(self, state: dict[str, Any]) -> None:
        """Pages that a provider of another protocol refers to."""
        pages = pages_cited(self._protocol, state, self._began, self._length)[self._cited :]
        if pages:
            self._cited += len(pages)
            self._passed("message", {"annotations": as_chat_annotations(pages)})

    def _think(self, text: str, thought: object) -> None:
        if thought != self._thought:
            self._thought = thought
            text = f"{gap(self._last_thought, text)}{text}"
        self._last_thought = text
        self._reasoning(text)

    def _over(self, told: RunOver) -> None:
        end = ending(told)
        if self._others and end.trouble is None:
            # Each of several answers has an end of its own, and the run's is that of all of them.
            for choice in self._others.last(end.note):
                self._other(choice)
            if word := OWN_ENDS.get(self._reply.finish):
                end = replace(end, finish=word, note="")
        if end.note:
            between = "\n" * told.gap if self._spoke[False] else ""
            self._text(f"{between}{end.note}")
        self.ended = True
        self._end(end, told.usage)

    @abstractmethod
    def _answered_by(self, model: str) -> None:
        """Who speaks from here on."""

    @abstractmethod
    def _forget(self) -> None:
        """What the provider has said of itself: another one is asked."""

    @abstractmethod
    def _passed(self, where: str, data: dict[str, Any]) -> None:
        """Fields of the provider's answer that mean nothing here."""

    @abstractmethod
    def _text(self, text: str) -> None: ...

    @abstractmethod
    def _part(self, text: str, beside: dict[str, Any]) -> None:
        """Words in a part of their own, with what stands there beside them, or a part without words."""

    @abstractmethod
    def _reasoning(self, text: str) -> None: ...

    @abstractmethod
    def _refusal(self, text: str) -> None: ...

    @abstractmethod
    def _other(self, choice: dict[str, Any]) -> None:
        """More of another answer, as a choice of a chunk."""

    @abstractmethod
    def _call(self, call: HandedCall) -> None: ...

    @abstractmethod
    def _progress(self, progress: dict[str, Any]) -> None: ...

    @abstractmethod
    def _aside(self, what: str, about: Any) -> None: ...

    @abstractmethod
    def _end(self, end: Ending, usage: Usage) -> None: ...


class ChatRenderer(ChatFold):
    """The stream. `created` must be the same for every reader of the run: the second in which it started."""

    def __init__(
        self,
        run: RunId,
        *,
        model: str,
        created: int,
        include_usage: bool = False,
        events: Events = "chunk",
        queued: str = "",
        known: Known | None = None,
    ) -> None:
        """`queued` is what the run had to wait for before it began, in words. `known` are facts that were
        decoded already."""
        self._chunks = ChunkWriter(chat_id(run), model, created, usage=include_usage)
        self._out: list[bytes] = []
        self._model = model
        self._events = events
        self._include_usage = include_usage
        self._listed: dict[str, int] = {}  # entries of lists that were told inside the message
        self._calls = 0
        super().__init__(run, queued, known)

    def open(self) -> bytes:
        return self._chunks.role() + drained(self._out)

    def take(self, items: Sequence[Item]) -> bytes:
        if len(items) == 1 and not self._out and not self._known:
            # The token's way: more of the text that is under way.
            fact = decode(items[0].data)
            if text := self._narration.going_on(fact):
                self._length += len(text)
                return self._chunks.text(text)
            self._take_fact(fact)
        else:
            self._take(items)
        return drained(self._out)

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        if self.ended:
            return b""
        if waits is not None and self._events != "none":
            return self._chunks.empty(**{KEY: {"waiting": waits.words}})
        return self._chunks.empty()

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        reason = f"{why[:1].upper()}{why[1:]}." if why else "The server stops."
        message = f"{reason} The run is kept and can be followed at GET /v1/runs/{self._run}/events."
        error = {"message": message, "type": "server_error", "param": None, "code": code}
        extra = {} if self._events == "none" else {KEY: {"run": self._run, "resumable": True}}
        return frame(_json({"error": error, **extra}))

    def _answered_by(self, model: str) -> None:
        if model != self._model:
            self._model = model
            self._chunks.answered_by(model)

    def _forget(self) -> None:
        self._chunks.forget()

    def _passed(self, where: str, data: dict[str, Any]) -> None:
        if where == "usage":
            self._counted.note(data)
        elif where == "reply":
            if rest := self._chunks.beside(data):
                self._out.append(self._chunks.empty(**rest))
        else:
            data = {name: self._numbered(name, value) for name, value in data.items()}
            self._out.append(self._chunks.fields(where, data))

    def _numbered(self, name: str, value: Any) -> Any:
        """Clients put lists together by the index of each entry, and some fail without one. A provider that
        sends a list once needs none: a healed answer may have several."""
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            return value
        before = self._listed.get(name, 0)
        self._listed[name] = before + len(value)
        return [{"index": place, **one} for place, one in enumerate(value, before)] if before else value

    def _text(self, text: str) -> None:
        self._out.append(self._chunks.text(text))

    def _part(self, text: str, beside: dict[str, Any]) -> None:
        part = {"type": "text", "text": text, **beside} if text else beside
        self._out.append(self._chunks.fields("message", {"content": [part]}))

    def _reasoning(self, text: str) -> None:
        self._out.append(self._chunks.reasoning(text))

    def _refusal(self, text: str) -> None:
        self._out.append(self._chunks.refusal(text))

    def _other(self, choice: dict[str, Any]) -> None:
        self._out.append(self._chunks.choice(choice))

    def _call(self, call: HandedCall) -> None:
        index, made = self._calls, chat_call(call, native=self._protocol == PROTOCOL)
        self._calls += 1
        if call.free_text:
            self._out.append(self._chunks.fragment({"index": index, **made}))
            return
        arguments = made["function"]["arguments"]
        made["function"]["arguments"] = ""
        self._out.append(self._chunks.fragment({"index": index, **made}))
        for at in range(0, len(arguments), ARGUMENTS_PIECE):
            self._out.append(self._chunks.arguments(index, arguments[at : at + ARGUMENTS_PIECE]))

    def _progress(self, progress: dict[str, Any]) -> None:
        if self._events == "chunk":
            self._aside("tool", progress)
        elif self._events != "none":
            self._out.append(frame(_json(progress), _NAMES[self._events]))

    def _aside(self, what: str, about: Any) -> None:
        if self._events != "none":
            self._out.append(self._chunks.empty(**{KEY: {what: about}}))

    def _end(self, end: Ending, usage: Usage) -> None:
        extra = (
            {}
            if self._events == "none"
            else {KEY: {**outcome_fields(end.outcome, self._run), **self.left.fields}}
        )
        if end.trouble is not None:
            self._out.append(frame(_json({**end.trouble.body(), **extra})))
            return
        self._out.append(self._chunks.finish(end.finish, **extra))
        if self._include_usage:
            self._out.append(self._chunks.usage(usage, self._counted.total()))
        self._out.append(DONE)
