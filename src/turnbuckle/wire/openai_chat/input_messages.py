"""A client's messages as a history: the other direction of `request.py`.

All that a client may send of earlier turns is kept: reasoning under any of its names, the state that a host
put beside a call, the name of who speaks. Tool messages behind each other are one message of results, as
histories have them here. Whether each result has its call is not judged: the call may stand in a session that
this request goes on with, and `reply.repair` makes any history legal before it is sent.

State has no model in it, since the client does not say which one made it; so it goes to any model of this
protocol.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from turnbuckle.vocab.messages import (
    CallPart,
    FilePart,
    ImagePart,
    Message,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    TextPart,
)
from turnbuckle.wire.fields import Fields, Refused, Room
from turnbuckle.wire.media import document, picture
from turnbuckle.wire.openai_chat.details import ReasoningDetails

MOST_MESSAGES = 10_000
"""Some ten times the longest histories that agents keep; the limit of the body is met first."""
MOST_CALLS = 1_024
MOST_DETAILS = 1_024

_LONGEST_ID = 8_192  # some hosts put a signature into the id of a call
_LONGEST_NAME = 256
_NOT_STATE = ("id", "type", "function", "index")
_CONTENT = "a string or an array of parts"


def read_messages(body: Fields) -> tuple[Message, ...]:
    """The messages of a request. Raises `Refused`."""
    given = body.objects("messages", MOST_MESSAGES)
    if not body.has("messages"):
        raise body.missing("messages")
    if not given:
        raise body.refused("messages", "is empty; at least one message is needed.", "array_below_min_length")
    history = _History()
    for place, fields in enumerate(given):
        history.take(fields, place)
    history.end_results()
    if not any(_says(part) for message in history.made for part in message.parts):
        raise body.refused("messages", "say nothing: there is no text, picture, file or result in them.")
    return tuple(history.made)


class _History:
    def __init__(self) -> None:
        self.made: list[Message] = []
        self._room = Room()
        self._results: list[ResultPart] = []
        self._functions: dict[
            str, list[str]
        ] = {}  # calls of the old kind without a result, by name: ids that we gave

    def take(self, fields: Fields, place: int) -> None:
        role = fields.need_text("role")
        if role == "tool":
            call_id = fields.need_text("tool_call_id", most=_LONGEST_ID)
            self._results.append(ResultPart(call_id, _result_content(fields, self._room)))
            return
        if role == "function":
            self._results.append(ResultPart(self._answered(fields), _result_content(fields, self._room)))
            return
        self.end_results()
        match role:
            case "system" | "developer":
                self.made.append(Message("system", _named(_system_parts(fields, self._room), fields)))
            case "user":
                self.made.append(Message("user", _named(_user_parts(fields, self._room), fields)))
            case "assistant":
                self.made.append(Message("assistant", self._assistant_parts(fields, place)))
            case _:
                what = f"is {role[:64]!r}; known are system, developer, user, assistant, tool and function."
                raise fields.refused("role", what)

    def end_results(self) -> None:
        """Whatever comes next is no result of the same turn."""
        if self._results:
            self.made.append(Message("tool", tuple(self._results)))
            self._results = []

    def _assistant_parts(self, fields: Fields, place: int) -> tuple[Part, ...]:
        if fields.has("audio"):
            raise fields.refused(
                "audio", "is not supported; send the transcript as content.", "unsupported_parameter"
            )
        parts: list[Part] = [
            *_reasoning(fields),
            *_named(tuple(_assistant_content(fields, self._room)), fields),
        ]
        if refusal := fields.text("refusal"):
            parts.append(RefusalPart(refusal))
        parts += [_call(call) for call in fields.objects("tool_calls", MOST_CALLS)]
        if old := fields.inner("function_call"):
            call = CallPart(f"function_{place}", old.need_text("name", most=_LONGEST_NAME), _arguments(old))
            self._functions.setdefault(call.name, []).append(call.id)
            parts.append(call)
        return tuple(parts)

    def _answered(self, fields: Fields) -> str:
        """The id that we gave to the call which this result of the old kind answers."""
        name = fields.need_text("name", most=_LONGEST_NAME)
        waiting = self._functions.get(name)
        if not waiting:
            raise fields.refused(
                "name", f"is {name!r}, but no function_call of that name without a result is before."
            )
        return waiting.pop()


# The content of each role


def _system_parts(fields: Fields, room: Room) -> tuple[Part, ...]:
    return tuple(_part(part, ("text",)) for part in _content(fields, room, needed=True))


def _user_parts(fields: Fields, room: Room) -> tuple[Part, ...]:
    return tuple(_part(part, ("text", "image_url", "file")) for part in _content(fields, room, needed=True))


def _assistant_content(fields: Fields, room: Room) -> Iterator[Part]:
    for part in _content(fields, room, needed=False):
        if isinstance(part, Fields) and part.raw("type") == "refusal":
            yield RefusalPart(part.text("refusal") or "")
        else:
            yield _part(part, ("text", "refusal"))


def _result_content(fields: Fields, room: Room) -> tuple[TextPart | ImagePart | FilePart, ...]:
    parts = [_part(part, ("text", "image_url", "file")) for part in _content(fields, room, needed=False)]
    return tuple(part for part in parts if not isinstance(part, TextPart) or part.text)


def _content(fields: Fields, room: Room, *, needed: bool) -> list[str | Fields]:
    """The parts of a message: its one string, or the objects of a list."""
    given = fields.raw("content")
    if isinstance(given, str):
        return [given] if given or needed else []
    if given is None:
        if needed:
            raise fields.missing("content")
        return []
    if not isinstance(given, list):
        raise Refused(fields.at("content"), f"{fields.at('content')} must be {_CONTENT}.", "invalid_type")
    if needed and not given:
        raise fields.refused("content", "is empty; at least one part is needed.", "array_below_min_length")
    return list(room.objects(fields, "content"))


def _part(part: str | Fields, known: tuple[str, ...]) -> TextPart | ImagePart | FilePart:
    if isinstance(part, str):
        return TextPart(part)
    kind = part.need_text("type")
    if kind in known:
        match kind:
            case "text":
                return _text(part)
            case "image_url":
                return _picture(part)
            case "file":
                return document(part.need_inner("file"))
    what = f"is {kind[:64]!r}, which is not supported here; supported are: {', '.join(known)}."
    raise part.refused("type", what, "unsupported_value")


def _text(part: Fields) -> TextPart:
    text = part.text("text")
    if text is None:
        raise part.missing("text")
    return TextPart(text)


def _picture(part: Fields) -> ImagePart:
    if isinstance(part.raw("image_url"), str):
        return picture(part, "image_url", None)  # short for an object with nothing else in it
    image = part.need_inner("image_url")
    return picture(image, "url", image.text("detail", most=_LONGEST_NAME))


def _named(parts: tuple[Part, ...], fields: Fields) -> tuple[Part, ...]:
    """The name of who speaks rides on the first text, and goes back to hosts of this protocol from there."""
    name = fields.text("name", most=_LONGEST_NAME)
    place = next((at for at, part in enumerate(parts) if isinstance(part, TextPart)), None)
    if not name or place is None:
        return parts
    said = parts[place]
    assert isinstance(said, TextPart)
    return (*parts[:place], TextPart(said.text, _state({"name": name})), *parts[place + 1 :])


# What a model made


def _reasoning(fields: Fields) -> Iterator[ReasoningPart]:
    """One reasoning. Hosts that give it under two names mean the same, and the first is heard."""
    texts = [fields.text(name) for name in ("reasoning_content", "reasoning", "thinking")]
    text = next((text for text in texts if text), "")
    details = [detail.whole() for detail in fields.objects("reasoning_details", MOST_DETAILS)]
    if details:
        yield ReasoningPart(text or ReasoningDetails().add(details), _state({"reasoning_details": details}))
    elif text:
        yield ReasoningPart(text)


def _call(call: Fields) -> CallPart:
    kind = call.text("type") or "function"
    if kind != "function":
        raise call.refused(
            "type", f"is {kind[:64]!r}; only calls of functions are supported.", "unsupported_value"
        )
    call_id = call.need_text("id", most=_LONGEST_ID)
    function = call.need_inner("function")
    state = call.whole(*_NOT_STATE)
    name = function.need_text("name", most=_LONGEST_NAME)
    return CallPart(call_id, name, _arguments(function), _state(state) if state else None)


def _arguments(function: Fields) -> str:
    """The text of the arguments. Whether it is whole JSON is judged where it matters."""
    if isinstance(function.raw("arguments"), dict):
        return msgspec.json.encode(function.kept("arguments")).decode()  # as some hosts give and take them
    return function.text("arguments") or ""


def _state(data: dict[str, Any]) -> ProviderState:
    return ProviderState("openai_chat", "", data)


def _says(part: Part) -> bool:
    return (
        bool(part.text.strip())
        if isinstance(part, TextPart | RefusalPart)
        else not isinstance(part, ReasoningPart)
    )
