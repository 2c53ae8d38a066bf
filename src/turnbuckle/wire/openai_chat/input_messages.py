"""A client's messages as a history: the other direction of `request.py`.

All that a client may send of earlier turns is kept: reasoning under any of its names, the state that a host
put beside a call, the name of who speaks, parts and fields that only its host knows. What has no place in our
own values rides as state beside the message or the part that it was written in, and goes back to hosts of
this protocol from there; `KeptFields` remembers what that is called, for whoever must go without it.

Tool messages behind each other are one message of results, as histories have them here. Whether each result
has its call is not judged: the call may stand in a session that this request goes on with, and `reply.repair`
makes any history legal before it is sent.

State has no model in it, since the client does not say which one made it; so it goes to any model of this
protocol.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from turnbuckle.vocab.free_text import INPUT, wrapped
from turnbuckle.vocab.messages import (
    CallPart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ProviderState,
    ReasoningPart,
    RefusalPart,
    ResultPart,
    Role,
    Shown,
    TextPart,
)
from turnbuckle.wire.field_table import FieldValues
from turnbuckle.wire.fields import Fields, Refused, Room
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.media import document, picture
from turnbuckle.wire.openai_chat import message_fields as fields_of
from turnbuckle.wire.openai_chat.answer_fields import CALLED
from turnbuckle.wire.openai_chat.details import ReasoningDetails
from turnbuckle.wire.openai_chat.message_fields import LONGEST_NAME, MOST_CALLS, MOST_DETAILS, MOST_MESSAGES
from turnbuckle.wire.openai_chat.request import CUSTOM

_SIGNED = ("extra_content", "thoughtSignature")
"""State of a provider beside a call, which no other one misses."""
_CONTENT = "a string or an array of parts"
_LISTED: list[Any] = []  # in state, in place of content: it was a list
_REASONING = ("reasoning_content", "reasoning", "thinking")


def read_messages(body: Fields, kept: KeptFields) -> tuple[Message, ...]:
    """The messages of a request. Raises `Refused`."""
    given = body.objects("messages", MOST_MESSAGES)
    if not given:
        raise body.refused("messages", "is empty; at least one message is needed.", "array_below_min_length")
    history = _History(kept)
    for place, fields in enumerate(given):
        history.take(fields, place)
    history.end_results()
    if not any(_says(part) for message in history.made for part in message.parts):
        raise body.refused("messages", "say nothing: there is no text, picture, file or result in them.")
    return tuple(history.made)


class _History:
    def __init__(self, kept: KeptFields) -> None:
        self.made: list[Message] = []
        self._kept = kept
        self._room = Room()
        self._results: list[ResultPart] = []
        self._functions: dict[
            str, list[str]
        ] = {}  # calls of the old kind without a result, by name: ids that we gave

    def take(self, fields: Fields, place: int) -> None:
        role = fields.need_text("role")
        if role == "tool":
            self._result(fields, fields.need_text("tool_call_id"), fields_of.TOOL.read(fields).rest)
            return
        if role == "function":
            self._result(fields, self._answered(fields), {})
            return
        self.end_results()
        match role:
            case "system" | "developer":
                given = fields_of.SYSTEM.read(fields)
                spoken_as = {"role": role} if role != "system" else {}
                self._say(fields, "system", self._content(fields, fields_of.TEXT_ALONE), given, spoken_as)
            case "user":
                given = fields_of.USER.read(fields)
                self._say(fields, "user", self._content(fields, fields_of.SHOWN), given)
            case "assistant":
                given = fields_of.ASSISTANT.read(fields)
                self._say(fields, "assistant", self._assistant_parts(fields, place), given)
            case _:
                what = f"is {role[:64]!r}; known are system, developer, user, assistant, tool and function."
                raise fields.refused("role", what)

    def _say(
        self,
        fields: Fields,
        role: Role,
        parts: tuple[Part, ...],
        given: FieldValues,
        spoken_as: dict[str, Any] | None = None,
    ) -> None:
        name = given.get("name")
        named = {"name": name, **given.rest} if name else given.rest
        state = self._beside(fields, {**(spoken_as or {}), **named}, named)
        self.made.append(Message(role, parts, state=state))

    def _result(self, fields: Fields, call_id: str, beside: dict[str, Any]) -> None:
        content = tuple(
            part
            for part in self._content(fields, fields_of.SHOWN, needed=False)
            if not isinstance(part, TextPart) or part.text
        )
        self._results.append(ResultPart(call_id, content, state=self._beside(fields, beside, beside)))

    def _beside(self, fields: Fields, data: dict[str, Any], named: dict[str, Any]) -> ProviderState | None:
        """What was written beside the parts, and that they stood in a list, or that there was a text of
        nothing."""
        given = fields.raw("content")
        spelled: dict[str, Any] = {"content": _LISTED} if isinstance(given, list) else {}
        if given == "" and fields.raw("tool_calls"):
            spelled = {"content": ""}
        return self._kept.state({**data, **spelled}, fields, named)

    def end_results(self) -> None:
        """Whatever comes next is not a result of the same turn."""
        if self._results:
            self.made.append(Message("tool", tuple(self._results)))
            self._results = []

    def _assistant_parts(self, fields: Fields, place: int) -> tuple[Part, ...]:
        parts: list[Part] = [
            *self._reasoning(fields),
            *self._content(fields, fields_of.SPOKEN, needed=False),
        ]
        if refusal := fields.text("refusal"):
            parts.append(RefusalPart(refusal))
        parts += [self._call(call) for call in fields.objects("tool_calls", MOST_CALLS)]
        if old := fields.inner("function_call"):
            call = CallPart(f"function_{place}", old.need_text("name", most=LONGEST_NAME), _arguments(old))
            self._functions.setdefault(call.name, []).append(call.id)
            parts.append(call)
        return tuple(parts)

    def _answered(self, fields: Fields) -> str:
        """The id that we gave to the call which this result of the old kind answers."""
        name = fields.need_text("name", most=LONGEST_NAME)
        waiting = self._functions.get(name)
        if not waiting:
            raise fields.refused(
                "name", f"is {name!r}, but no function_call of that name without a result is before."
            )
        return waiting.pop()

    # The content of each role

    def _content(self, fields: Fields, known: tuple[str, ...], *, needed: bool = True) -> tuple[Shown, ...]:
        """The parts of a message: its one string, or the objects of a list."""
        given = fields.raw("content")
        if isinstance(given, str):
            return (TextPart(given),) if given or needed else ()
        if given is None:
            if needed:
                raise fields.missing("content")
            return ()
        if not isinstance(given, list):
            raise Refused(fields.at("content"), f"{fields.at('content')} must be {_CONTENT}.", "invalid_type")
        if needed and not given:
            raise fields.refused(
                "content", "is empty; at least one part is needed.", "array_below_min_length"
            )
        return tuple(self._part(part, known) for part in self._room.objects(fields, "content"))

    def _part(self, part: Fields, known: tuple[str, ...]) -> Any:
        kind = part.need_text("type")
        if kind == "text":
            beside = fields_of.TEXT_PART.read(part)
            return TextPart(beside.values["text"], self._kept.state(beside.rest, part))
        if kind == "refusal" and kind in known:
            return RefusalPart(fields_of.REFUSAL_PART.read(part).values["refusal"])
        if kind == "image_url" and kind in known:
            return self._picture(part)
        if kind == "file" and kind in known:
            beside = fields_of.FILE_PART.read(part)
            inner = part.need_inner("file")
            made = document(inner)
            within = inner.whole("file_id", "file_data", "filename")
            for field in within:
                self._kept.name(inner, field)
            state = {**beside.rest, "file": within} if within else beside.rest
            return msgspec.structs.replace(made, state=self._kept.state(state, part, beside.rest))
        if kind in fields_of.PARTS:
            what = f"is {kind!r}, which is not supported here; supported are: {', '.join(known)}."
            raise part.refused("type", what, "unsupported_value")
        self._kept.name(part, kind)
        return OpaquePart(self._kept.sure(part.whole()))

    def _picture(self, part: Fields) -> ImagePart:
        beside = fields_of.IMAGE_PART.read(part).rest
        if isinstance(part.raw("image_url"), str):
            # Short for an object with nothing else in it.
            return msgspec.structs.replace(
                picture(part, "image_url", None), state=self._kept.state(beside, part)
            )
        image = part.need_inner("image_url")
        given = fields_of.IMAGE.read(image)
        detail = given.get("detail")
        made = picture(image, "url", detail)
        within = {**given.rest, "detail": detail} if detail == "auto" else given.rest
        state = {**beside, "image_url": within} if within else beside
        return msgspec.structs.replace(made, state=self._kept.state(state, part, {**beside, **given.rest}))

    # What a model made

    def _reasoning(self, fields: Fields) -> Iterator[ReasoningPart]:
        """One reasoning. Hosts that give it under two names mean the same, and the first is heard."""
        told = {name: text for name in _REASONING if (text := fields.text(name))}
        text = next(iter(told.values()), "")
        details = [detail.whole() for detail in fields.objects("reasoning_details", MOST_DETAILS)]
        state: dict[str, Any] = {"spelled": list(told)} if told else {}
        if details:
            state["reasoning_details"] = details
            yield ReasoningPart(text or ReasoningDetails().add(details), self._kept.sure(state))
        elif text:
            yield ReasoningPart(text, self._kept.sure(state))

    def _call(self, call: Fields) -> CallPart:
        kind = call.text("type") or "function"
        given = fields_of.CALL.read(call)
        if kind not in ("function", CUSTOM):
            what = f"is {kind[:64]!r}; known are function and {CUSTOM}."
            raise call.refused("type", what, "unsupported_value")
        state = {name: value for name, value in given.rest.items() if value is not None}
        function = call.need_inner(kind)
        name = function.need_text("name", most=LONGEST_NAME)
        named = {field: value for field, value in state.items() if field not in _SIGNED}
        if within := function.whole(*CALLED):
            state[kind] = within
            for field in within:
                self._kept.name(function, field)
        if kind == CUSTOM:
            said = wrapped(function.text(INPUT) or "")
            return CallPart(
                given.values["id"], name, said, self._kept.state({**state, "type": CUSTOM}, call, named)
            )
        return CallPart(given.values["id"], name, _arguments(function), self._kept.state(state, call, named))


def _arguments(function: Fields) -> str:
    """The text of the arguments. Whether it is whole JSON is judged where it matters."""
    if isinstance(function.raw("arguments"), dict):
        return msgspec.json.encode(function.kept("arguments")).decode()  # as some hosts give and take them
    return function.text("arguments") or ""


def _says(part: Part) -> bool:
    return (
        bool(part.text.strip())
        if isinstance(part, (TextPart, RefusalPart))
        else not isinstance(part, ReasoningPart)
    )
