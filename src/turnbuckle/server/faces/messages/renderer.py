"""A run as a message of Anthropic's API: as events while it happens, or as one answer when it is over.

Blocks. One is open at a time. A text stays open when its reply is cut, and the next attempt goes on in it:
clients that show only the last text have all of it. Texts that a Messages provider keeps apart stay apart,
with what each of them cites. Calls for the client come last and whole: clients run a call as soon as its
block stops, so nothing of it is written before all of it is there. A call to one of our own tools must not
look like those, so it is an `mcp_tool_use`, which the API itself has for tools that are run on its side, with
its `mcp_tool_result` when the tool has ended. Blocks that only a Messages provider understands go through as
they came, a call of its own tools together with its result.

Thoughts. A signature is bound to all that stood before the thought. So a client gets it only if that was what
the client itself has sent: in the first attempt, or in one that asks the same again. What is thought while a
reply goes on behind a cut is not told at all: it would stand in the midst of a text, and nobody takes it
back. Thoughts of other models, and those between tools of ours, are told without a signature, and so are
thoughts that were cut: whoever sends them back to us sends words that go no further.

The start of the message waits for the first word, or for the provider's count of what it was given, so that
this is true. Until then, and in any silence, there are pings. What else there is to tell (notices, questions,
what is waited for) rides on pings, where no client looks; what a person must know is also a thought of its
own.

Usage. `input_tokens` is what the client's own request weighed, since clients take that for the size of their
conversation, and `output_tokens` is all that was generated. Where more than one attempt was made, each is
listed under `iterations`, as the API lists the rounds of one message, so that nothing that was spent is
hidden.
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from turnbuckle.journal.port import Item
from turnbuckle.narrate.fold import Narration
from turnbuckle.narrate.told import (
    AnswerFields,
    HandedOver,
    HeadTold,
    ModelCalled,
    ModelNamed,
    Notice,
    Paragraph,
    PartOver,
    PartState,
    ProviderItem,
    ProviderStage,
    QuestionAnswered,
    QuestionAsked,
    Reasoning,
    ReplyOver,
    RunOver,
    Text,
    Told,
    ToolBegun,
    ToolEnded,
    UsageCounted,
    Waiting,
)
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.faces import approvals
from turnbuckle.server.faces.chat.renderer import ARGUMENTS_PIECE, GOES_ON, KEY, ROUNDS, WORTH_TELLING
from turnbuckle.server.faces.left_out import LeftOut
from turnbuckle.server.faces.messages.cited_pages import CitedPages
from turnbuckle.server.outcomes import Ending, PlainAnswer, ending, outcome_fields, stop_of
from turnbuckle.turn.facts import HandedCall, decode
from turnbuckle.vocab.events import Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import result_part
from turnbuckle.wire.answer_fields import CountedFields, joined
from turnbuckle.wire.anthropic.input_blocks import OWN_SERVER
from turnbuckle.wire.anthropic.message_writer import MessageStream, MessageWriter, WholeMessage, texts_grown
from turnbuckle.wire.anthropic.parse_request import PROTOCOL
from turnbuckle.wire.usage import usage_to_anthropic

W = TypeVar("W", bound=MessageWriter)


def message_id(run: RunId) -> str:
    """The id under which a run's message goes."""
    return f"msg_{run}"


def handed_block(call: HandedCall, *, native: bool) -> dict[str, Any]:
    """A call for the client, without its input. `native`: what its provider noted of it is of this
    protocol."""
    block = {"type": "tool_use", "id": call.id, "name": call.name}
    return {**call.state, **block} if native else block


class _MessageRenderer(Generic[W]):
    """One assistant message, whoever writes it down. Keeps no text."""

    def __init__(self, run: RunId, writer: W, *, model: str, queued: str = "") -> None:
        """`queued` is what the run had to wait for before it began, in words."""
        self.ended = False
        self.route = ""
        """The one that was asked last."""
        self.provider_headers: tuple[tuple[str, str], ...] = ()
        self.left = LeftOut(PROTOCOL)
        self._run = run
        self._writer = writer
        self._narration = Narration(run)
        self._model = model
        self._asked = ""  # the model that was asked last
        # What a provider of this protocol says beside what we know:
        self._noted: dict[tuple[int, int], dict[str, Any]] = {}  # of blocks, by attempt and number
        self._piece: dict[str, Any] = {}  # of the next piece of text
        self._beside: dict[str, Any] = {}  # of the message
        self._stop_fields: dict[str, Any] = {}  # of its end
        self._counted = CountedFields("cache_creation")  # of its usage
        self._started = False
        self._open = ""  # the kind of the block that is open
        self._where = (0, 0)  # attempt and block of its last words
        self._pages = CitedPages()
        self._protocol = ""  # of the one that was asked last
        self._signature = ""  # of the open thought
        self._held: dict[str, dict[str, Any]] = {}  # calls of the provider's own tools that have no result
        self._queue: list[ProviderItem] = []  # those calls and the results that have come, in their order
        self._used: set[str] = set()  # ids of such calls that were told
        self._ids: dict[str, str] = {}  # of the last such call of an id, the one under which it is told
        self._native = False  # who answers speaks this protocol
        self._bound = False  # thoughts stand behind what the client has sent, and nothing else
        self._mute = False  # thoughts of this attempt are not told
        self._usages: dict[int, Usage] = {}  # by attempt; as many as the limits of a turn allow
        self._reply = ReplyOver(0)
        if queued:
            self._aside(waiting=queued)
            self._think(queued)

    def _take(self, items: Sequence[Item]) -> None:
        narration, writer = self._narration, self._writer
        for item in items:
            fact = decode(item.data)
            if (text := narration.going_on(fact)) and self._open == "text":
                self._pages.grew(text)
                writer.grow(text)
            elif text:
                self._say(text, self._where)
            elif not self.ended:
                for told in narration.take(fact):
                    self._draw(told)

    def _draw(self, told: Told) -> None:
        self.left.look(told)
        match told:
            case Text(text, gap):
                self._say(text[gap:], (told.attempt, told.block))
            case Reasoning(text, attempt, block):
                self._thought(text, (attempt, block))
            case PartState():
                self._state(told)
            case PartOver(block):
                if self._open == "thinking" and self._where[1] == block:
                    self._close()
            case Paragraph():
                self._close()
            case ProviderItem() | ProviderStage() | AnswerFields() if told.protocol == PROTOCOL:
                self._of_provider(told)
            case AnswerFields(protocol, "message", data):
                self._cite(self._pages.of_reply(protocol, data))
            case UsageCounted(attempt, usage):
                self._usages[attempt] = usage
                if usage.input:
                    self._start()
            case ModelCalled():
                self._called(told)
            case ModelNamed(model=model):
                self._model = model
            case HeadTold(headers=headers):
                self.provider_headers = tuple(headers.items())
            case ReplyOver(failure=failure):
                self._reply = told
                if self._open == "thinking":
                    if failure is not None:
                        self._signature = ""  # another one might have followed
                    self._close()
                if failure is None:
                    self._release()
                else:
                    self._queue.clear()
                    self._held.clear()
            case HandedOver(calls):
                for call in calls:
                    self._call(handed_block(call, native=self._native), call.arguments or "{}")
            case RunOver():
                self._over(told)
            case _:
                self._aside_of(told)

    # What the model says

    def _say(self, text: str, where: tuple[int, int]) -> None:
        (attempt, block), before = where, self._where
        self._pages.said(text, where)
        if self._open != "text" or (self._native and attempt == before[0] and block != before[1]):
            self._begin({**self._noted.pop(where, {}), "type": "text", "text": ""})
        self._where = where
        self._grow(text)

    def _thought(self, text: str, where: tuple[int, int]) -> None:
        if self._is_untold(where[0]):
            return
        if self._open != "thinking" or where != self._where:
            self._begin({**self._noted.pop(where, {}), "type": "thinking", "thinking": "", "signature": ""})
            self._where = where
        self._grow(text)

    def _grow(self, text: str) -> None:
        beside, self._piece = self._piece, {}
        self._writer.grow(text, beside)

    def _is_untold(self, attempt: int) -> bool:
        """Whether thoughts of an attempt are left out: its answer goes on behind what was told before."""
        return self._mute or (self._open == "text" and attempt != self._where[0])

    def _state(self, told: PartState) -> None:
        data, where = told.data, (told.attempt, told.block)
        vouched = self._bound and not self._is_untold(told.attempt)
        match data.get("type"):
            case "redacted_thinking" if vouched:
                self._begin(data)
                self._close()
            case "thinking" if data.get("signature") and vouched:
                if self._open != "thinking" or where != self._where:
                    self._begin({**data, "type": "thinking", "thinking": "", "signature": ""})
                    self._where = where
                self._signature = data["signature"]
            case "thinking" if self._native:
                self._noted[where] = data
            case _ if not self._native:
                self._cite(self._pages.of_part(self._protocol, data, where))
            case None if data.get("citations") and where == self._where:
                self._cite(data["citations"])
            case None if self._native:
                self._noted[where] = data

    def _cite(self, citations: list[Any]) -> None:
        for citation in citations if self._open == "text" else ():
            self._writer.cite(citation)

    def _of_provider(self, told: ProviderItem | ProviderStage | AnswerFields) -> None:
        """What a Messages provider says that means nothing here."""
        match told:
            case ProviderItem():
                self._provider_item(told)
            case AnswerFields(where="usage", data=data):
                self._counted.note(data)
            case AnswerFields(where="piece", data=data):
                self._piece = data
            case AnswerFields(where="message", data=data):
                self._stop_fields |= data
            case AnswerFields(data=data):
                self._beside |= data
            case ProviderStage(item=item, data=data) if not item:
                self._start()
                self._writer.tell(data)
            case ProviderStage(item=item, data=data):
                if self._open in ("text", "thinking") and self._where == (told.attempt, int(item)):
                    self._writer.tell(data)

    def _provider_item(self, told: ProviderItem) -> None:
        """What a provider's tool is asked waits for its result: alone, nobody takes it back."""
        self._close()
        data = told.data
        if str(data.get("type")).endswith("_tool_use"):
            data = {**data, "id": self._own_id(str(data.get("id")))}
            self._held[data["id"]] = data
        elif "tool_use_id" in data:
            called = str(data["tool_use_id"])
            data = {**data, "tool_use_id": self._ids.get(called, called)}
            self._held.pop(data["tool_use_id"], None)
        self._queue.append(msgspec.structs.replace(told, data=data))
        if not self._held:
            self._release()

    def _own_id(self, given: str) -> str:
        """An id that was told stands for that call only: a provider that is asked again may use it again."""
        made, number = given, 1
        while made in self._used or made in self._held:
            number += 1
            made = f"{given}_{number}"
        self._ids[given] = made
        return made

    def _release(self) -> None:
        queue, self._queue = self._queue, []
        self._held.clear()
        for told in queue:
            data = told.data
            asked = data.get("input")
            if "tool_use_id" not in data:
                self._used.add(str(data.get("id")))
            grown = {name: "" for stage in told.stages for name in texts_grown(data, stage)}
            self._begin({**data, "input": {}, **grown} if isinstance(asked, dict) else {**data, **grown})
            if isinstance(asked, dict):
                self._write_input(msgspec.json.encode(asked).decode())
            for stage in told.stages:
                self._writer.tell(stage)
            self._close()

    def _called(self, told: ModelCalled) -> None:
        if told.route != self.route:
            self._beside, self._stop_fields = {}, {}
        self.route, self.provider_headers = told.route, ()
        if told.model != self._asked:
            self._asked = self._model = told.model
        self._piece = {}
        self._counted.next_call()
        self._noted.clear()
        self._protocol, self._native = told.protocol, told.protocol == PROTOCOL
        if told.why in ROUNDS:
            self._mute = self._bound = False
        elif told.why in GOES_ON:
            self._mute, self._bound = True, False
        elif told.why == "first":
            self._bound = True
        elif told.why == "fallback":
            self._bound = False

    # What else happens

    def _aside_of(self, told: Told) -> None:
        match told:
            case ToolBegun(call, tool, arguments) if not told.again:
                block = {"type": "mcp_tool_use", "id": call, "name": tool, "server_name": OWN_SERVER}
                self._call(block, msgspec.json.encode(arguments).decode())
            case ToolEnded(call) if told.began:
                text = text_of(result_part(call, told.outcome).content)
                self._begin(
                    {
                        "type": "mcp_tool_result",
                        "tool_use_id": call,
                        "is_error": not told.outcome.ok,
                        "content": [{"type": "text", "text": text}],
                    }
                )
                self._close()
            case Notice(text, about):
                self._noticed(text)
                if about == "conversation":
                    self._think(text)
            case Waiting(pause=pause) if pause >= WORTH_TELLING:
                self._aside(waiting=f"waiting {pause:.0f} s before the next try")
            case QuestionAsked():
                self._aside(approval=approvals.asked(told))
                self._think(approvals.words(told))
            case QuestionAnswered():
                self._aside(approval=approvals.answered(told))

    def _noticed(self, text: str) -> None:
        self._aside(notice=text)

    def _aside(self, **about: Any) -> None:
        self._writer.ping({KEY: about})

    def _think(self, words: str) -> None:
        """A thought of its own, which is nobody's."""
        self._begin({"type": "thinking", "thinking": "", "signature": ""})
        self._writer.grow(words)
        self._close()

    # Blocks

    def _start(self) -> None:
        if not self._started:
            self._started = True
            counted = joined(usage_to_anthropic(self._weighed()), self._counted.total())
            self._writer.start(self._model, counted, self._beside)
            self._beside = {}

    def _begin(self, block: dict[str, Any]) -> None:
        self._start()
        self._close()
        if self._queue:
            self._release()
        self._open = block["type"]
        self._writer.begin(block)

    def _close(self) -> None:
        if not self._open:
            return
        if self._signature:
            self._writer.sign(self._signature)
            self._signature = ""
        self._open = ""
        self._writer.stop()

    def _call(self, block: dict[str, Any], arguments: str) -> None:
        self._begin({**block, "input": {}})
        self._write_input(arguments)
        self._close()

    def _write_input(self, text: str) -> None:
        for at in range(0, len(text), ARGUMENTS_PIECE):
            self._writer.grow(text[at : at + ARGUMENTS_PIECE])

    # The end

    def _over(self, told: RunOver) -> None:
        end = ending(told)
        if end.trouble is not None:
            self._fail(end)
            return
        if end.note:
            between = "\n" * told.gap if self._open == "text" else ""
            self._say(f"{between}{end.note}", self._where)
        self._start()
        self._close()
        self.ended = True
        extra = {**self._beside, KEY: {**outcome_fields(told.end, self._run), **self._extra()}}
        stop = {**self._stop_fields, **stop_of(end, told, self._reply)}
        self._writer.end(stop, self._usage(told.usage), extra)
        self._finished(end)

    def _fail(self, end: Ending) -> None:
        assert end.trouble is not None
        self.ended = True
        extra = {KEY: {**outcome_fields(end.outcome, self._run), **self._extra()}}
        self._writer.fail(end.trouble.messages_error(), extra)
        self._finished(end)

    def _finished(self, end: Ending) -> None:
        pass

    def _extra(self) -> dict[str, Any]:
        return self.left.fields

    def _usage(self, spent: Usage) -> dict[str, Any]:
        """`spent` is that of all attempts together."""
        every = list(self._usages.values())
        whole = msgspec.structs.replace(self._weighed(), output=spent.output, reasoning=spent.reasoning)
        made = joined(usage_to_anthropic(whole), self._counted.total())
        if len(every) > 1:
            made["iterations"] = [{"type": "message", **usage_to_anthropic(usage)} for usage in every]
        return made

    def _weighed(self) -> Usage:
        """What the client's own request came to: the first count that is one."""
        return next((usage for usage in self._usages.values() if usage.input), Usage())


class MessagesRenderer(_MessageRenderer[MessageStream]):
    """The stream."""

    def __init__(self, run: RunId, *, model: str, queued: str = "") -> None:
        super().__init__(run, MessageStream(message_id(run)), model=model, queued=queued)

    def open(self) -> bytes:
        self._writer.ping({})
        return self._writer.written()

    def take(self, items: Sequence[Item]) -> bytes:
        self._take(items)
        return self._writer.written()

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        if self.ended:
            return b""
        self._writer.ping({} if waits is None else {KEY: {"waiting": waits.words}})
        return self._writer.written()

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        reason = f"{why[:1].upper()}{why[1:]}." if why else "The server stops."
        message = f"{reason} The run is kept and can be followed at GET /v1/runs/{self._run}/events."
        extra = {KEY: {"run": self._run, "resumable": True, "code": code}}
        error = {"type": "api_error", "message": message, "details": {"error_code": code}}
        self._writer.fail(error, extra)
        return self._writer.written()


class WholeMessageRenderer(_MessageRenderer[WholeMessage]):
    """The answer in one piece: a reader that waits for the end. `answer` is there when it has `ended`."""

    def __init__(self, run: RunId, *, model: str, queued: str = "") -> None:
        self._notices: list[str] = []  # as many as the run has breaks, which its limits bound
        self._ending: Ending | None = None
        super().__init__(run, WholeMessage(message_id(run)), model=model, queued=queued)

    def take(self, items: Sequence[Item]) -> bytes:
        self._take(items)
        return b""

    def answer(self) -> PlainAnswer:
        """The whole answer. Raises ValueError before the end."""
        if self._ending is None:
            raise ValueError("the run has not ended")
        return PlainAnswer(self._ending.messages_status, self._writer.body, self._ending.headers)

    def _noticed(self, text: str) -> None:
        self._notices.append(text)

    def _extra(self) -> dict[str, Any]:
        return {**self.left.fields, **({"notices": self._notices} if self._notices else {})}

    def _finished(self, end: Ending) -> None:
        self._ending = end
