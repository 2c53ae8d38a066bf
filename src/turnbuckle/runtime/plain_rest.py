"""Requests for the rest of a cut call as plain text, and their answers on the way to the journal.

Such a request goes out without tools, with the beginning of the answer in it where the host goes on behind
that. What comes back is not a text for anybody to read: readers see it grow as the arguments of the
`finish_call` that it stands for.
"""

import msgspec
from msgspec.structs import replace

from turnbuckle.reply.repetition import Where
from turnbuckle.runtime.stream_filter import StreamFilter
from turnbuckle.turn import ladder
from turnbuckle.turn.prompts import joint_of
from turnbuckle.turn.state import Turn
from turnbuckle.vocab.events import (
    BlockClosed,
    BlockStarted,
    CallArgs,
    CallClosed,
    CallStarted,
    Cut,
    Ended,
    Event,
    TextDelta,
    Usage,
)
from turnbuckle.vocab.ids import RouteName
from turnbuckle.vocab.messages import Message
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.vocab.tooling import FINISH_CALL

_MOST_ROUTES = 1_000


class WayBook:
    """Which way to finish a cut call worked on which route and model: shared by all sessions of a process."""

    def __init__(self) -> None:
        self._worked: dict[tuple[RouteName, str], str] = {}

    def best(self, route: RouteName, model: str) -> str:
        return self._worked.get((route, model), "")

    def note(self, turn: Turn, route: RouteName, way: str) -> None:
        """Learn from where the turn stands behind an answer that was asked for in this way."""
        key = (route, turn.model)
        if way and turn.phase == "tools" and len(self._worked) < _MOST_ROUTES:
            self._worked[key] = way
        elif way and self._worked.get(key) == way and turn.phase == "deciding":
            del self._worked[key]


def shaped(request: ModelRequest, turn: Turn, way: str) -> ModelRequest:
    """The request as this way wants it."""
    if not way:
        return request
    begun = ladder.prefill(turn, way)
    if ladder.drafted(turn) is None:
        return replace(request, messages=(*request.messages[:-1], begun), prefill=True) if begun else request
    messages = (*request.messages, begun) if begun is not None else request.messages
    return replace(
        request,
        messages=messages,
        tools=(),
        tool_choice="auto",
        parallel_calls=None,
        response_format=None,
        prefill=begun is not None,
    )


def speech_for(turn: Turn, shown: str, way: str, notes: tuple[Message, ...]) -> "StreamFilter | RestSpeech":
    draft = ladder.drafted(turn)
    if way and draft is not None:
        return RestSpeech(draft.id, f"{ladder.SAME_TOOL}{turn.attempt}")
    joint = joint_of(notes)
    document = turn.options.response_format is not None
    return StreamFilter(
        shown,
        ladder.held_back(turn, way),
        anchor=joint.anchor,
        apart=joint.apart,
        document=document,
        from_top=way == ladder.AGAIN,
    )


class RestSpeech:
    """Tells the text of an answer as the arguments of a call, piece by piece, in valid JSON."""

    def __init__(self, draft: str, call_id: str) -> None:
        self._speech = StreamFilter()
        self._draft = draft
        self._call_id = call_id
        self._block: int | None = None
        self._texts: set[int] = set()
        self._closed = False

    def take_notice(self) -> str:
        return self._speech.take_notice()

    @property
    def over(self) -> bool:
        return self._speech.over

    @property
    def repeats(self) -> str:
        return self._speech.repeats

    @property
    def repeats_in(self) -> Where:
        return self._speech.repeats_in

    @property
    def characters(self) -> int:
        return self._speech.characters

    @property
    def usage(self) -> Usage | None:
        return self._speech.usage

    def take(self, events: list[Event]) -> tuple[Event, ...]:
        out: list[Event] = []
        for event in self._speech.take(events):
            match event:
                case TextDelta(block, text):
                    self._texts.add(block)
                    self._say(block, text, out)
                case BlockStarted(block) | BlockClosed(block) if self._is_text(event, block):
                    pass
                case Ended() | Cut():
                    if isinstance(event, Ended):
                        self._close(out)
                    out.append(event)
                case _:
                    out.append(event)
        return tuple(out)

    def _is_text(self, event: BlockStarted | BlockClosed, block: int) -> bool:
        return block in self._texts or (isinstance(event, BlockStarted) and event.kind == "text")

    def _say(self, block: int, text: str, out: list[Event]) -> None:
        if self._block is None:
            self._block = block
            named = msgspec.json.encode(self._draft).decode()
            out.append(CallStarted(block, self._call_id, FINISH_CALL))
            out.append(CallArgs(block, f'{{"draft":{named},"rest":"'))
        out.append(CallArgs(self._block, msgspec.json.encode(text).decode()[1:-1]))

    def _close(self, out: list[Event]) -> None:
        if self._block is not None and not self._closed:
            self._closed = True
            out += [CallArgs(self._block, '"}'), CallClosed(self._block)]
