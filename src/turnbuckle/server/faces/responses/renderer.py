"""A run as a response: output items in their true order, by the events that the strictest known clients
demand.

Items. A text is one message from its first word to the next round of tools. It stays open when its reply is
cut, and the next attempt goes on in it. Reasoning is an item for each block. Calls for the client are
`function_call` items and come last. A call to one of our own tools must not look like those, since agents run
every `function_call` that they find, also one that has its output beside it. So it is an `mcp_call`, which
the API itself uses for tools that are run on its side: added when the tool starts, done with its output when
it ends. Who shows only the other kind can ask for it: a `function_call` that is done when the tool ends, with
its `function_call_output` directly behind.

What the user is told before the answer, such as that the conversation starts fresh, and what a person is
asked, is a reasoning of its own: any client shows it or leaves it out, and none takes it for a part of the
answer. (The API has an item for requests of approval, but clients answer that with a response of its own, and
some fail on one whose server they do not know.) The same for programs, and every quiet notice, rides on a
`response.in_progress`, which may come at any time, under a key that other clients do not look at; the
response object has all of them there, too.

Numbers. Every event has the next one, made by the fold alone, so a reader that comes back asks for those
after the last it has. What keeps a silent stream alive is an event like any other and made of a fact,
`Waited`. The farewell of a server that stops takes the number of the notice that the run was let go of, which
is the last thing in the journal then: that notice is held back until something comes behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

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
)
from turnbuckle.narrate.waiting import WaitingOn
from turnbuckle.server.faces import approvals
from turnbuckle.server.faces.chat.renderer import ARGUMENTS_PIECE, KEY
from turnbuckle.server.faces.left_out import LeftOut
from turnbuckle.server.outcomes import Ending, PlainAnswer, ending, outcome_fields
from turnbuckle.turn.facts import HandedCall, Streamed, Waited, decode
from turnbuckle.vocab.free_text import unwrapped
from turnbuckle.vocab.ids import RunId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus, result_part
from turnbuckle.wire.across import moved, pages_cited, token_odds
from turnbuckle.wire.answer_fields import CountedFields
from turnbuckle.wire.openai_responses.frames import ADDED, CALLS
from turnbuckle.wire.openai_responses.open_item import OpenItem
from turnbuckle.wire.openai_responses.output import OutputWriter
from turnbuckle.wire.openai_responses.parse_request import PROTOCOL, grouped
from turnbuckle.wire.openai_responses.shapes import response_body
from turnbuckle.wire.sse import drained

ToolItems = Literal["hosted", "function"]
"""What a call to one of our tools is told as: an `mcp_call`, or a `function_call` and its output."""

_HOSTED: dict[ToolStatus, str] = {"finished": "completed", "failed": "failed"}


def response_id(run: RunId) -> str:
    """The id under which a run's response goes."""
    return f"resp_{run}"


class ResponsesRenderer:
    """The stream, and the response object at any moment. `echo` are fields of the request that the object
    repeats; `starting_after` is the number of the last event that the client has."""

    def __init__(
        self,
        run: RunId,
        *,
        model: str,
        created: int,
        echo: Mapping[str, Any] | None = None,
        starting_after: int | None = None,
        tools: ToolItems = "hosted",
        name: str = "",
        queued: str = "",
    ) -> None:
        """`name` is its id, where it is not that of the run: a run that was steered has several. `queued` is
        what the run had to wait for before it began, in words."""
        self.ended = False
        self.route = ""
        self.provider_headers: tuple[tuple[str, str], ...] = ()
        """The one that was asked last."""
        self.merged = False
        """Bursts of it were merged, so events have other numbers than when they were first told."""
        self.left = LeftOut(PROTOCOL)
        self._hosted = tools == "hosted"
        self._homes = grouped((echo or {}).get("tools"))
        self._run = run
        identity = {
            "id": name or response_id(run),
            "object": "response",
            "created_at": created,
            "model": model,
        }
        self._asked = ""  # the model that was asked last
        self._protocol = ""  # and how it is spoken to
        self._began = 0  # where in the message its last part begins
        self._reply_began = 0  # and where the last attempt does
        self._cited: list[Any] = []  # what was cited before that part
        self._beside: dict[str, Any] = {}  # what the provider says of the next piece of text
        self._counted = CountedFields()  # what it counts that we do not know
        self._narration = Narration(run)
        self._base: dict[str, Any] = {"completed_at": None, **(echo or {}), **identity}
        self._own = dict(self._base)  # without what a provider says of itself
        self._writer = OutputWriter(self._base, after=-1 if starting_after is None else starting_after)
        self._out: list[bytes] = []
        self._calls: dict[str, OpenItem] = {}  # started and not finished, by the id that readers know
        self._message: OpenItem | None = None
        self._where = (0, 0)  # attempt and block of its last words
        self._joined = False  # it was begun by another attempt
        self._blocks: dict[int, OpenItem] = {}  # reasoning and refusals of this attempt
        self._begun = False
        self._queued = queued
        self._held = ""  # the notice of having been let go of, not yet told
        self._notice = ""
        self._notices: list[str] = []
        self._approvals: dict[str, dict[str, Any]] = {}
        self._ending: Ending | None = None
        self._final: dict[str, Any] = {}

    @property
    def last_number(self) -> int:
        """The number of the last event; -1 before the first."""
        return self._writer.last_number + bool(self._held)

    def open(self) -> bytes:
        """To be called before anything is taken."""
        self._out.append(self._writer.open())
        self._tell(self._queued)
        return drained(self._out)

    def take(self, items: Sequence[Item]) -> bytes:
        self._begun = self._begun or bool(items)
        narration = self._narration
        for item in items:
            fact = decode(item.data)
            if self._held:
                self._tell_held()
            if type(fact) is Streamed:
                self.merged = self.merged or fact.merged > 0
                if text := narration.going_on(fact):
                    assert self._message is not None  # that is what it goes on with
                    self._out.append(self._writer.grow(self._message, text))
                    continue
            for told in narration.take(fact):
                self._draw(told)
            if type(fact) is Waited:
                self._progress()
        return drained(self._out)

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        return b""  # what keeps it alive is a fact, and the notice of a stop waits for what comes behind it

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        reason = f"{why[:1].upper()}{why[1:]}." if why else "The server stops."
        message = f"{reason} The run is kept; go on with starting_after={self.last_number}."
        error = {"code": code, "message": message, "param": None}
        numbered = self._writer.write("error", **error) if self._held else b""
        self._held = ""
        return numbered or self._writer.again("error", **error)

    def body(self) -> dict[str, Any]:
        """The response object as it stands."""
        if self.ended:
            return self._final
        status = "in_progress" if self._begun else "queued"
        body = response_body(self._writer.base, status, self._writer.items())
        return {**body, KEY: extra} if (extra := self._extra()) else body

    def answer(self) -> PlainAnswer:
        """The answer to a client that does not stream. Raises ValueError before the end.

        A failed one has the status of an error and is a response all the same: its `error` has the known
        shape."""
        if self._ending is None:
            raise ValueError("the run has not ended")
        return PlainAnswer(self._ending.status, self._final, self._ending.headers)

    def _draw(self, told: Told) -> None:
        self.left.look(told)
        match told:
            case Text(_, gap, False):
                self._say(told.text[gap:], (told.attempt, told.block))
            case Text(text, gap, True, _, block):
                self._block(block, "refusal", text[gap:])
            case Reasoning(text, _, block):
                self._block(block, "reasoning", text)
            case Paragraph():
                self._close_message()
            case PartState():
                self._state(told)
            case ProviderItem() | ProviderStage() | AnswerFields() if told.protocol == PROTOCOL:
                self._of_provider(told)
            case AnswerFields(protocol, where, data):
                if odds := token_odds(protocol, where, data):
                    self._beside = {"logprobs": odds}
                elif where == "message" and self._message is not None:
                    self._cite(self._message, data, self._reply_began)
            case PartOver(block):
                if block in self._blocks:
                    self._close(self._blocks.pop(block), "completed")
            case ReplyOver(failure=failure):
                self._close_blocks("completed" if failure is None else "incomplete")
                self._out.append(self._writer.give_up())
            case Notice():
                self._noticed(told)
            case HeadTold(headers=headers):
                self.provider_headers = tuple(headers.items())
            case ModelCalled(route=route, model=model):
                if route != self.route:
                    self._forget()
                self.route, self.provider_headers, self._beside = route, (), {}
                self._protocol = told.protocol
                self._counted.next_call()
                self._out.append(self._writer.give_up())
                if model != self._asked:
                    self._asked = self._base["model"] = model
            case ModelNamed(model=model):
                self._base["model"] = model
            case ToolBegun(call, tool, arguments) if not told.again:
                written = msgspec.json.encode(arguments).decode()
                self._calls[call] = self._call("ran" if self._hosted else "call", call, tool, written)
            case ToolEnded() if told.began:
                self._result(told)
            case QuestionAsked(_, approval):
                shown = self._approvals[approval] = approvals.asked(told)
                self._aside("approval", shown)
                self._tell(approvals.words(told))
            case QuestionAnswered(approval):
                answer = approvals.answered(told)
                self._approvals[approval] = {**self._approvals.get(approval, {}), **answer}
                self._aside("approval", answer)
            case HandedOver(calls):
                self._hand_over(calls)
            case RunOver():
                self._end(told)
            case _:
                pass

    # What the model says

    def _say(self, text: str, where: tuple[int, int]) -> None:
        if self._message is None:
            self._message, self._joined = OpenItem("text"), False
            self._out.append(self._writer.begin(self._message))
            self._reply_began = 0
        elif where[0] != self._where[0]:
            self._joined, self._reply_began = True, self._message.length
        if where != self._where:
            self._began = self._message.length
            self._cited = list(self._message.state.get("annotations") or [])
        self._where = where
        beside, self._beside = self._beside, {}
        if logprobs := beside.get("logprobs"):
            self._message.state.setdefault("type", "message")
            self._message.state.setdefault("logprobs", []).extend(logprobs)
        self._out.append(self._writer.grow(self._message, text, beside))

    def _block(self, block: int, kind: str, text: str) -> None:
        known = self._blocks.setdefault(block, OpenItem(kind))
        if not known.pieces:
            self._out.append(self._writer.begin(known))
        self._out.append(self._writer.grow(known, text))

    def _state(self, told: PartState) -> None:
        """What a Responses provider says of its own items. Nobody else's state has a place in this
        protocol."""
        if told.data.get("type") == "reasoning":
            known = self._blocks.setdefault(told.block, OpenItem("reasoning"))
            known.state.update(told.data)
            if not known.begun:
                self._out.append(self._writer.add(known))
        elif self._message is not None and self._where == (told.attempt, told.block):
            if self._protocol == PROTOCOL:
                self._note_message(self._message, told.data)
            else:
                self._cite(self._message, told.data, self._began)

    def _note_message(self, message: OpenItem, data: dict[str, Any]) -> None:
        """What a Responses provider notes of its message. One that goes on with another attempt's is still
        that, and only what its text refers to is new."""
        if data.get("annotations"):
            every = [*self._cited, *moved(data["annotations"], self._began)]
            self._annotate(message, every)
            data = {**data, "annotations": every}
        if not self._joined:
            message.state.update(data)
        elif "annotations" in data:
            message.state.setdefault("type", "message")
            message.state["annotations"] = data["annotations"]

    def _cite(self, message: OpenItem, state: dict[str, Any], began: int) -> None:
        """Pages that a provider of another protocol refers to."""
        pages = pages_cited(self._protocol, state, began, message.length)
        if pages:
            known = message.state.get("annotations") or []
            every = [*known, *(page for page in pages if page not in known)]
            self._annotate(message, every)
            message.state.update({"type": "message", "annotations": every})

    def _annotate(self, message: OpenItem, annotations: list[Any]) -> None:
        """Tell what is new of what a text refers to."""
        known = len(message.state.get("annotations") or [])
        for place, annotation in enumerate(annotations[known:], known):
            self._out.append(
                self._writer.write(
                    "response.output_text.annotation.added",
                    **message.where(),
                    annotation_index=place,
                    annotation=annotation,
                )
            )

    def _forget(self) -> None:
        """Another provider is asked: what the one before said of itself holds no longer."""
        named = {**self._own, "model": self._base["model"]}
        self._base.clear()
        self._base.update(named)

    def _of_provider(self, told: ProviderItem | ProviderStage | AnswerFields) -> None:
        """What a Responses provider says that means nothing here."""
        writer, data = self._writer, told.data
        match told:
            case AnswerFields(where="reply"):
                self._base.update(data)
            case AnswerFields(where="usage"):
                self._counted.note(data)
            case AnswerFields():
                self._beside = data
            case ProviderStage(item=item) if data["type"] == ADDED:
                self._close_message()
                if not writer.is_placed(item):
                    self._out.append(writer.place(data["item"]))
            case ProviderStage(item=item):
                if writer.is_placed(item):
                    self._out.append(writer.stage(item, data))
                elif not item:
                    self._out.append(writer.write(data["type"], **data))
                elif self._message is not None and not writer.was_placed(item):
                    self._out.append(writer.stage_of(self._message, data))
            case ProviderItem():
                self._close_message()
                placed = writer.is_placed(str(data.get("id")))
                self._out.append(writer.settle(data) if placed else writer.item(data))

    # What else happens

    def _noticed(self, told: Notice) -> None:
        self._notices.append(told.text)
        if told.about == "left":
            self._held = told.text
            return
        self._aside("notice", told.text)
        if told.about == "conversation":
            self._notice = told.text
            self._tell(told.text)

    def _tell(self, words: str) -> None:
        """A reasoning of its own."""
        if words:
            known = OpenItem("reasoning")
            self._out.append(self._writer.begin(known))
            self._out.append(self._writer.grow(known, words))
            self._close(known, "completed")

    def _tell_held(self) -> None:
        held, self._held = self._held, ""
        self._aside("notice", held)

    def _aside(self, what: str, about: Any) -> None:
        self._progress(**{KEY: {what: about}})

    def _progress(self, **more: Any) -> None:
        body = response_body(self._writer.base, "in_progress", [])
        self._out.append(self._writer.write("response.in_progress", response=body, **more))

    def _extra(self) -> dict[str, Any]:
        """What was told aside, once more and together."""
        named = {
            "notice": self._notice,
            "notices": self._notices,
            "approvals": list(self._approvals.values()),
            **self.left.fields,
        }
        return {key: value for key, value in named.items() if value}

    def _call(self, kind: str, call_id: str, name: str, arguments: str) -> OpenItem:
        """A call with all its arguments, not yet done."""
        known = OpenItem(kind)
        known.call_id, known.name = call_id, name
        self._out.append(self._writer.begin(known))
        if kind == "ran":
            self._out.append(self._writer.write("response.mcp_call.in_progress", **known.where()))
        for at in range(0, len(arguments), ARGUMENTS_PIECE):
            self._out.append(self._writer.grow(known, arguments[at : at + ARGUMENTS_PIECE]))
        self._out.append(self._writer.whole(known))
        return known

    def _result(self, told: ToolEnded) -> None:
        known, outcome = self._calls.pop(told.call), told.outcome
        text = text_of(result_part(told.call, outcome).content)
        if self._hosted:
            self._hosted_result(known, outcome, text)
            return
        self._out.append(self._writer.done(known, "completed"))
        output = {
            "type": "function_call_output",
            "status": "completed" if outcome.fact == "ended" else "incomplete",
            "call_id": told.call,
            "output": [{"type": "input_text", "text": text}],
        }
        self._out.append(self._writer.item(output))

    def _hosted_result(self, known: OpenItem, outcome: ToolOutcome, text: str) -> None:
        known.state["output"] = text
        if not outcome.ok:
            content = [{"type": "text", "text": text}]
            known.state["error"] = {"type": "mcp_tool_execution_error", "content": content}
        word = "completed" if outcome.ok else "failed"
        self._out.append(self._writer.write(f"response.mcp_call.{word}", **known.where()))
        self._out.append(self._writer.done(known, _HOSTED.get(outcome.status, "incomplete")))

    def _hand_over(self, calls: tuple[HandedCall, ...]) -> None:
        for call in calls:
            group, name = self._homes.get(call.name, ("", call.name))
            if call.free_text:
                known = self._call("custom", call.id, name, unwrapped(call.arguments))
            else:
                known = self._call("call", call.id, name, call.arguments or "{}")
            if call.state.get("type") in CALLS:
                known.state.update({key: value for key, value in call.state.items() if value is not None})
            if group:
                known.state["namespace"] = group
            self._out.append(self._writer.done(known, "completed"))

    def _end(self, told: RunOver) -> None:
        end = self._ending = ending(told)
        status = "completed" if end.row.response == "completed" else "incomplete"
        self._close_blocks(status)
        if end.note:
            between = told.gap * "\n" if self._message is not None else ""
            self._say(f"{between}{end.note}", self._where)
        self._close_message(status)
        body = response_body(
            self._writer.base,
            end.row.response,
            self._writer.done_items(),
            usage=told.usage,
            counted=self._counted.total(),
            reason=end.row.reason,
        )
        body["completed_at"] = int(told.at) if end.row.response == "completed" else None
        body["error"] = None if end.trouble is None else end.trouble.body()["error"]
        body[KEY] = {**outcome_fields(told.end, self._run), **self._extra()}
        self._final, self.ended = body, True
        # Some clients pass over a failed response as if it were a short answer. An error beside it is raised
        # by all.
        beside = {} if end.trouble is None else end.trouble.body()
        self._out.append(self._writer.write(end.row.event, **beside, response=body))

    # Closing

    def _close_message(self, status: str = "completed") -> None:
        if self._message is not None:
            self._close(self._message, status)
            self._message = None

    def _close_blocks(self, status: str) -> None:
        for known in self._blocks.values():
            self._close(known, status)
        self._blocks.clear()

    def _close(self, known: OpenItem, status: str) -> None:
        self._out.append(self._writer.whole(known) + self._writer.done(known, status))
