"""A run as one chat completion: what a client gets that does not stream."""

from collections.abc import Sequence
from typing import Any

from turnbuckle.journal.port import Item
from turnbuckle.narrate.told import Notice, Told
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.faces.chat.choices import put_together
from turnbuckle.server.faces.chat.client_calls import chat_call
from turnbuckle.server.faces.chat.renderer import KEY, ChatFold, Events, chat_id
from turnbuckle.server.outcomes import Ending, PlainAnswer, outcome_fields
from turnbuckle.turn.facts import HandedCall
from turnbuckle.vocab.events import Finish, Usage
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.reply import Reply, ReplyBlock, ReplyCall, ReplyReasoning, ReplyRefusal, ReplyText
from turnbuckle.wire.answer_fields import GrowingFields, joined
from turnbuckle.wire.openai_chat.answer_fields import growing
from turnbuckle.wire.openai_chat.content_parts import told_content
from turnbuckle.wire.openai_chat.encode import answer
from turnbuckle.wire.openai_chat.parse_request import PROTOCOL

_FINISHES: dict[str, Finish] = {"length": "length", "content_filter": "filtered"}


class WholeChatRenderer(ChatFold):
    """The answer in one piece: a reader that waits for the end. `answer` is there when it has `ended`."""

    def __init__(
        self, run: RunId, *, model: str, created: int, events: Events = "chunk", queued: str = ""
    ) -> None:
        self._created = created
        self._model = model
        self._extra = events != "none"
        self._notices: list[str] = []  # as many as the run has breaks, which its limits bound
        self._notice = ""
        self._usage = Usage()
        self._ending: Ending | None = None
        self._content: list[tuple[str, dict[str, Any]]] = []  # words with what stands beside them, and parts
        self._thoughts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[HandedCall] = []
        self._pieces: list[dict[str, Any]] = []  # of other answers
        self._fields: dict[str, GrowingFields] = {}
        self._said: dict[str, Any] = {}  # by the provider, of the whole of it
        super().__init__(run, queued)

    def open(self) -> bytes:
        return b""

    def take(self, items: Sequence[Item]) -> bytes:
        self._take(items)
        return b""

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        return b""

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        return b""

    def answer(self) -> PlainAnswer:
        """The whole answer. Raises ValueError before the end."""
        end = self._ending
        if end is None:
            raise ValueError("the run has not ended")
        notices: dict[str, Any] = {"notice": self._notice} if self._notice else {}
        notices |= {"notices": self._notices} if self._notices else {}
        extra = (
            {KEY: {**outcome_fields(end.outcome, self._run), **notices, **self.left.fields}}
            if self._extra
            else {}
        )
        if end.trouble is not None:
            return PlainAnswer(end.status, {**end.trouble.body(), **extra}, end.headers)
        finish = _FINISHES.get(end.finish)
        reply = Reply(tuple(self._blocks()), chat_id(self._run), self._model, finish, usage=self._usage)
        whole = self._whole(answer(reply, created=self._created))
        return PlainAnswer(end.status, {**whole, **extra}, end.headers)

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer with what the provider said beside it."""
        choice = body["choices"][0]
        if isinstance(content := told_content(self._content), list):
            choice["message"]["content"] = content
        if self._calls:
            native = self._protocol == PROTOCOL
            choice["message"]["tool_calls"] = [chat_call(call, native=native) for call in self._calls]
        places = {"reply": body, "choice": choice, "message": choice["message"], "usage": body["usage"]}
        fields = {where: grown.whole() for where, grown in self._fields.items()}
        for where, data in {"reply": self._said, **fields, "usage": self._counted.total()}.items():
            place = places[where]
            place.update(joined({name: place.get(name) for name in data}, data))
        body["choices"] += put_together(self._pieces)
        return body

    def _forget(self) -> None:
        self._said = {}

    def _passed(self, where: str, data: dict[str, Any]) -> None:
        if where == "usage":
            self._counted.note(data)
        elif where == "reply":
            self._said.update(data)
        else:
            self._fields.setdefault(where, growing()).add(data)

    def _blocks(self) -> list[ReplyBlock]:
        return [
            ReplyReasoning("".join(self._thoughts)),
            ReplyText("".join(text for text, _ in self._content)),
            ReplyRefusal("".join(self._refusals)),
            *(ReplyCall(call.id, call.name, call.arguments) for call in self._calls),
        ]

    def _draw(self, told: Told) -> None:
        if isinstance(told, Notice):
            self._notices.append(told.text)
            self._notice = told.text if told.about == "conversation" else self._notice
        super()._draw(told)

    def _answered_by(self, model: str) -> None:
        self._model = model

    def _text(self, text: str) -> None:
        self._content.append((text, {}))

    def _part(self, text: str, beside: dict[str, Any]) -> None:
        self._content.append((text, beside))

    def _reasoning(self, text: str) -> None:
        self._thoughts.append(text)

    def _refusal(self, text: str) -> None:
        self._refusals.append(text)

    def _other(self, choice: dict[str, Any]) -> None:
        self._pieces.append(choice)

    def _call(self, call: HandedCall) -> None:
        self._calls.append(call)

    def _progress(self, progress: dict[str, Any]) -> None:
        pass  # it is over when this is read

    def _aside(self, what: str, about: Any) -> None:
        pass

    def _end(self, end: Ending, usage: Usage) -> None:
        self._ending, self._usage = end, usage
