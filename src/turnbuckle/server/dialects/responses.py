"""A run as a response: output items in their true order, by the events that the strictest known clients demand.

Items. A text is one message from its first word to the next round of tools. It stays open when its reply is cut, and
the next attempt goes on in it. Reasoning is an item for each block. Calls for the client are `function_call` items and
come last. A call to one of our own tools must not look like those, since agents run every `function_call` that they
find, also one that has its output beside it. So it is an `mcp_call`, which the API itself uses for tools that are run
on its side: added when the tool starts, done with its output when it ends. Who shows only the other kind can ask for
it: a `function_call` that is done when the tool ends, with its `function_call_output` directly behind.

What the user is told before the answer, such as that the conversation begins anew, and what a person is asked, is a
reasoning of its own: any client shows it or leaves it out, and none takes it for a part of the answer. (The API has an
item for requests of approval, but clients answer that with a response of its own, and some fail on one whose server
they do not know.) The same for programs, and every quiet notice, rides on a `response.in_progress`, which may come at
any time, under a key that other clients do not look at; the response object has all of them there, too.

Numbers. Every event has the next one, made by the fold alone, so a reader that comes back asks for those after the
last it has. What keeps a silent stream alive is an event like any other and made of a fact, `Waited`. The farewell of a
server that stops takes the number of the notice that the run was let go of, which is the last thing in the journal
then: that notice is held back until something comes behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from turnbuckle.journal.port import Item
from turnbuckle.server.dialects import approvals
from turnbuckle.server.dialects.chat import ARGUMENTS_PIECE, KEY
from turnbuckle.server.dialects.closing import Closing
from turnbuckle.server.dialects.tool_lines import LEFT, ShownCall, ToolLines
from turnbuckle.server.outcomes import Ending, Plain, told
from turnbuckle.turn.facts import (
    ApprovalAnswered,
    ApprovalAsked,
    CallsHandedOver,
    Decided,
    Fact,
    HandedCall,
    ModelAsked,
    RunEnded,
    RunLeft,
    RunStarted,
    Streamed,
    ToolFinished,
    ToolStarted,
    Waited,
    decode,
)
from turnbuckle.turn.telling import Answerer, Notices, begins_anew, gap
from turnbuckle.turn.waiting import WaitingOn
from turnbuckle.vocab.events import (
    BlockClosed,
    Cut,
    Ended,
    Event,
    FinishNoted,
    ReasoningDelta,
    RefusalDelta,
    StateNoted,
    TextDelta,
    UsageNoted,
)
from turnbuckle.vocab.ids import Protocol, RunId
from turnbuckle.vocab.messages import text_of
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus, result_part
from turnbuckle.wire.openai_responses.asked import grouped
from turnbuckle.wire.openai_responses.open_item import OpenItem
from turnbuckle.wire.openai_responses.output import OutputWriter
from turnbuckle.wire.openai_responses.shapes import response_body

ToolItems = Literal["hosted", "function"]
"""What a call to one of our tools is told as: an `mcp_call`, or a `function_call` and its output."""
TOOL_ITEMS: tuple[ToolItems, ...] = ("hosted", "function")

_HOSTED: dict[ToolStatus, str] = {"finished": "completed", "failed": "failed"}
_SPOKEN = (TextDelta, ReasoningDelta, RefusalDelta)


def response_id(run: RunId) -> str:
    """The id under which a run's response goes."""
    return f"resp_{run}"


class ResponsesDialect:
    """The stream, and the response object at any moment. `echo` are fields of the request that the object repeats;
    `starting_after` is the number of the last event that the client has."""

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
        """`name` is its id, where it is not that of the run: a run that was steered has several. `queued` is what the
        run had to wait for before it began, in words."""
        self.ended = False
        self.merged = False
        """Bursts of it were merged, so events have other numbers than when they were first told."""
        self._hosted = tools == "hosted"
        self._homes = grouped((echo or {}).get("tools"))
        self._run = run
        identity = {"id": name or response_id(run), "object": "response", "created_at": created, "model": model}
        self._wanted = model
        self._answerer = Answerer()
        self._base: dict[str, Any] = {"completed_at": None, **(echo or {}), **identity}
        self._writer = OutputWriter(self._base, after=-1 if starting_after is None else starting_after)
        self._out: list[bytes] = []
        self._closing = Closing()
        self._tools = ToolLines(lambda arguments: "")
        self._calls: dict[str, OpenItem] = {}  # started and not finished, by the id that readers know
        self._message: OpenItem | None = None
        self._where = (0, 0)  # attempt and block of its last words
        self._joined = False  # it was begun by another attempt
        self._blocks: dict[int, OpenItem] = {}  # reasoning and refusals of this attempt
        self._past: set[int] = set()  # those of them that a text ended
        self._protocol: Protocol = "openai_chat"
        self._begun = False
        self._queued = queued
        self._held = ""  # the notice of having been let go of, not yet told
        self._notice = ""
        self._notices = Notices()
        self._noticed: list[str] = []
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
        return self._written()

    def take(self, items: Sequence[Item]) -> bytes:
        self._begun = self._begun or bool(items)
        for item in items:
            fact = decode(item.data)
            if self._held:
                self._tell_held()
            if type(fact) is not Streamed:
                self._rare(fact)
            elif len(fact.events) == 1:
                event = fact.events[0]
                self.merged = self.merged or fact.merged > 0
                if type(event) is TextDelta:
                    self._say(fact.attempt, event.block, event.text)
                else:
                    self._event(fact.attempt, event)
            else:
                self._burst(fact)
        return self._written()

    def _written(self) -> bytes:
        out = self._out
        written = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return written

    def beat(self, now: float, waits: WaitingOn | None = None) -> bytes:
        if self.ended:
            return b""
        if self._held:
            self._tell_held()
        return self._written()

    def interrupted(self, why: str = "", code: str = "interrupted") -> bytes:
        if self.ended:
            return b""
        said = f"{why[:1].upper()}{why[1:]}." if why else "The server stops."
        message = f"{said} The run is kept; go on with starting_after={self.last_number}."
        told = {"code": code, "message": message, "param": None}
        numbered = self._writer.write("error", **told) if self._held else b""
        self._held = ""
        return numbered or self._writer.again("error", **told)

    def body(self) -> dict[str, Any]:
        """The response object as it stands."""
        if self.ended:
            return self._final
        status = "in_progress" if self._begun else "queued"
        body = response_body(self._writer.base, status, self._writer.items())
        return {**body, KEY: extra} if (extra := self._extra()) else body

    def answer(self) -> Plain:
        """The answer to a client that does not stream. Raises ValueError before the end.

        A failed one has the status of an error and is a response all the same: its `error` has the known shape."""
        if self._ending is None:
            raise ValueError("the run has not ended")
        return Plain(self._ending.status, self._final, self._ending.headers)

    # What the model says

    def _burst(self, fact: Streamed) -> None:
        """Words of one block that came together are told together."""
        self.merged = self.merged or fact.merged > 0
        kind: type[Event] | None = None
        block = -1
        pieces: list[str] = []
        for event in fact.events:
            if isinstance(event, _SPOKEN):
                if type(event) is not kind or event.block != block:
                    self._words(fact.attempt, kind, block, pieces)
                    kind, block, pieces = type(event), event.block, []
                pieces.append(event.text)
            else:
                self._words(fact.attempt, kind, block, pieces)
                kind, pieces = None, []
                self._event(fact.attempt, event)
        self._words(fact.attempt, kind, block, pieces)

    def _words(self, attempt: int, kind: type[Event] | None, block: int, pieces: list[str]) -> None:
        if kind is TextDelta:
            self._say(attempt, block, "".join(pieces))
        elif kind is not None:
            self._block(attempt, block, "reasoning" if kind is ReasoningDelta else "refusal", "".join(pieces))

    def _event(self, attempt: int, event: Event) -> None:
        match event:
            case ReasoningDelta(block, text):
                self._block(attempt, block, "reasoning", text)
            case RefusalDelta(block, text):
                self._block(attempt, block, "refusal", text)
            case StateNoted(block, data):
                self._state(attempt, block, data)
            case BlockClosed(block):
                if block in self._blocks:
                    self._close(self._blocks.pop(block), "completed")
            case UsageNoted() | FinishNoted():
                self._closing.note(event)
            case Ended():
                self._close_blocks("completed")
            case Cut():
                self._close_blocks("incomplete")
            case _:
                pass  # calls show by what becomes of them

    def _say(self, attempt: int, block: int, text: str) -> None:
        if not text:
            return
        known = self._message
        if known is None or self._where != (attempt, block):
            known = self._message_for(attempt, block)
        self._out.append(self._writer.grow(known, text))

    def _message_for(self, attempt: int, block: int) -> OpenItem:
        """Where these words go. Only Responses providers mean another message by another block."""
        same_attempt = self._where[0] == attempt
        if same_attempt and self._protocol == "openai_responses":
            self._close_message()
        self._end_thoughts()
        if self._message is None:
            self._message, self._joined = OpenItem("text"), False
            self._out.append(self._writer.begin(self._message))
        elif not same_attempt:
            self._joined = True
        self._where = (attempt, block)
        return self._message

    def _end_thoughts(self) -> None:
        """A text ends what was thought before it: clients know one open item, and chat providers do not say when a
        thought is over. One that goes on all the same is an item of its own beside the text, which it does not end."""
        if self._protocol != "openai_responses":
            self._past.update(self._blocks)
            self._close_open("completed")

    def _block(self, attempt: int, block: int, kind: str, text: str) -> None:
        if not text:
            return
        known = self._blocks.setdefault(block, OpenItem(kind))
        if not known.pieces:
            if block not in self._past:
                self._before_block(attempt)
            self._out.append(self._writer.begin(known))
        if kind == "refusal":
            self._closing.refused = True
        self._out.append(self._writer.grow(known, text))

    def _state(self, attempt: int, block: int, data: dict[str, Any]) -> None:
        """What a Responses provider says of its own items. Nobody else's state has a place in this protocol."""
        message = self._message
        if data.get("type") == "reasoning":
            known = self._blocks.setdefault(block, OpenItem("reasoning"))
            known.state.update(data)
            if not known.begun:
                self._before_block(attempt)
                self._out.append(self._writer.add(known))
        elif message is not None and self._where == (attempt, block) and not self._joined:
            message.state.update(data)

    def _before_block(self, attempt: int) -> None:
        """A text of the same reply ends here. One of a cut reply stays open: this reply is to go on with it."""
        if self._where[0] == attempt:
            self._close_message()

    # What else happens

    def _rare(self, fact: Fact) -> None:
        self._answerer.take(fact)
        if notice := self._notices.take(fact):
            self._noticed.append(notice)
            if isinstance(fact, RunLeft):
                self._held = notice
            else:
                self._aside("notice", notice)
        match fact:
            case RunStarted():
                self._closing.start(fact)
                self._notice = fact.notice
                self._tell(fact.notice)
            case ModelAsked():
                if begins_anew(fact):
                    self._close_message()
                self._protocol = fact.protocol
                self._closing.ask()
                self._base["model"] = self._answerer.model or self._wanted
            case Decided():
                self._closing.decide(fact)
            case ToolStarted():
                self._close_message()
                if (shown := self._tools.start(fact)) is not None:
                    arguments = msgspec.json.encode(fact.arguments).decode()
                    kind = "ran" if self._hosted else "call"
                    self._calls[shown.id] = self._call(kind, shown.id, shown.name, arguments)
            case ToolFinished():
                self._close_message()
                if (shown := self._tools.finish(fact)) is not None:
                    self._result(shown, fact.outcome)
            case ApprovalAsked():
                self._close_message()
                told = self._approvals[fact.approval] = approvals.asked(self._run, fact)
                self._aside("approval", told)
                self._tell(approvals.words(self._run, fact))
            case ApprovalAnswered():
                told = approvals.answered(fact)
                self._approvals[fact.approval] = {**self._approvals.get(fact.approval, {}), **told}
                self._aside("approval", told)
            case Waited():
                self._progress()
            case CallsHandedOver(_, calls):
                self._hand_over(calls)
            case RunEnded():
                self._end(fact)
            case _:
                pass

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
        named = {"notice": self._notice, "notices": self._noticed, "approvals": list(self._approvals.values())}
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

    def _result(self, shown: ShownCall, outcome: ToolOutcome) -> None:
        known = self._calls.pop(shown.id)
        text = text_of(result_part(shown.id, outcome).content)
        if self._hosted:
            self._hosted_result(known, outcome, text)
            return
        self._out.append(self._writer.done(known, "completed"))
        output = {
            "type": "function_call_output",
            "status": "completed" if outcome.fact == "ended" else "incomplete",
            "call_id": shown.id,
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
        self._closing.handed = True
        self._close_message()
        for call in calls:
            group, name = self._homes.get(call.name, ("", call.name))
            known = self._call("call", call.id, name, call.arguments or "{}")
            if group:
                known.state["namespace"] = group
            self._out.append(self._writer.done(known, "completed"))

    def _end(self, fact: RunEnded) -> None:
        for shown in self._tools.left():
            self._result(shown, LEFT)
        ending = self._ending = self._closing.end(fact.outcome)
        status = "completed" if ending.row.response == "completed" else "incomplete"
        self._close_blocks(status)
        if ending.note:
            before = self._message.pieces[-1] if self._message is not None else ""
            self._say(*self._where, f"{gap(before, ending.note)}{ending.note}")
        self._close_message(status)
        body = response_body(
            self._writer.base,
            ending.row.response,
            self._writer.done_items(),
            usage=self._closing.usage,
            reason=ending.row.reason,
        )
        body["completed_at"] = int(fact.at) if ending.row.response == "completed" else None
        body["error"] = None if ending.trouble is None else ending.trouble.body()["error"]
        body[KEY] = {**told(fact.outcome, self._run), **self._extra()}
        self._final, self.ended = body, True
        # Some clients pass over a failed response as if it were a short answer. An error beside it is raised by all.
        beside = {} if ending.trouble is None else ending.trouble.body()
        self._out.append(self._writer.write(ending.row.event, **beside, response=body))

    # Closing

    def _close_message(self, status: str = "completed") -> None:
        if self._message is not None:
            self._close(self._message, status)
            self._message = None

    def _close_blocks(self, status: str) -> None:
        self._close_open(status)
        self._past.clear()

    def _close_open(self, status: str) -> None:
        for known in self._blocks.values():
            self._close(known, status)
        self._blocks.clear()

    def _close(self, known: OpenItem, status: str) -> None:
        self._out.append(self._writer.whole(known) + self._writer.done(known, status))
