"""A client's input items as a history: the other direction of `request.py`, and as items that can be listed
again.

Items of one side that stand behind each other are one message, as a reply of this protocol is: reasoning,
text and calls of an assistant, or results. What a provider put beside an item (its id, its encrypted form)
becomes state in the shape in which the decoder notes it, so it goes back exactly as it came. Items that
nobody here understands are kept whole and in their place, and only providers of this protocol get them back.

A message item of an assistant begins a new message if text stands before it, because protocols without items
would run the two together. Not behind reasoning: all that one reasoning led to stays with it.

State has no model in it, since the client does not say which one made it; so it goes to any model of this
protocol.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.vocab.free_text import wrapped
from turnbuckle.vocab.messages import (
    CallPart,
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
from turnbuckle.wire.answer_fields import unknown_fields
from turnbuckle.wire.fields import Fields, Refused, Room
from turnbuckle.wire.kept import KeptFields
from turnbuckle.wire.media import document, picture
from turnbuckle.wire.openai_responses.answer_fields import PART, PART_FIELDS
from turnbuckle.wire.openai_responses.compaction import note_of, opened
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.openai_responses.item_fields import (
    INPUT_FILE,
    INPUT_IMAGE,
    INPUT_TEXT,
    LONGEST_ID,
    LONGEST_NAME,
    MESSAGE,
    MOST_ITEMS,
    MOST_NOTES,
    OUTPUT,
    OUTPUTS,
    PARTS,
    TEXTS,
    UNSUPPORTED,
)
from turnbuckle.wire.openai_responses.namespaces import grouped_name
from turnbuckle.wire.openai_responses.parts import thoughts
from turnbuckle.wire.openai_responses.shapes import OWN_LABEL
from turnbuckle.wire.payload import Unreadable

Stored = Mapping[str, dict[str, Any]]
"""Items that were kept earlier, by their ids."""

_ROLES: dict[str, Role] = {
    "user": "user",
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
}
_KNOWN_PARTS: dict[Role, tuple[str, ...]] = {
    "user": ("input_text", "input_image", "input_file"),
    "tool": ("input_text", "input_image", "input_file"),
    "system": ("input_text",),
    "assistant": ("output_text", "refusal"),
}
_OF_MESSAGE = frozenset({"type", "id", "status", "phase"})
_OF_CALL = frozenset({"type", "id", "status", "namespace", "caller"})
"""What others do not miss of an item."""
_PLAIN = frozenset({"type", "status"})  # what an item that no provider made has, too


class _Reference(Struct, gc=False):
    type: Any = None
    id: Any = None
    role: Any = None


class _References(Struct, gc=False):
    input: list[_Reference] | str | None = None


_REFERENCES = msgspec.json.Decoder(_References)


def references(body: bytes) -> tuple[str, ...]:
    """The ids of earlier items that an input only names. Whoever reads the request must look them up
    before."""
    try:
        found = _REFERENCES.decode(body).input
    except Unreadable:
        return ()  # whatever is wrong is told when the request is read
    items = found if isinstance(found, list) else []
    ids = [item.id for item in items if _is_reference(item.type, item.role) and isinstance(item.id, str)]
    return tuple(dict.fromkeys(ids))


def read_input(
    body: Fields, stem: str, stored: Stored, kept: KeptFields
) -> tuple[tuple[Message, ...], list[dict[str, Any]]]:
    """The history that the input is, and its items as they are to be listed. Raises `Refused`."""
    given = body.raw("input")
    conversation = _Conversation(stem, stored, kept)
    if isinstance(given, str):
        body.need_text("input")
        conversation.take(Fields({"role": "user", "content": given}, "input"))
    elif given is not None and not isinstance(given, list):
        raise Refused("input", "input must be a string or an array of items.", "invalid_type")
    for item in body.objects("input", MOST_ITEMS) if isinstance(given, list) else []:
        conversation.take(item)
    conversation.end_turn()
    return tuple(conversation.made), conversation.items


class _Conversation:
    def __init__(self, stem: str, stored: Stored, kept: KeptFields) -> None:
        self._kept = kept
        self.made: list[Message] = []
        self.items: list[dict[str, Any]] = []
        self._stem = f"{stem}_" if stem else ""
        self._stored = stored
        self._room = Room()
        self._said: list[Part] = []  # of the assistant's message that is open
        self._results: list[ResultPart] = []

    def take(self, item: Fields) -> None:
        kind = item.need_text("type") if item.text("type") else "message" if item.has("role") else ""
        if not kind and not item.has("id"):
            raise item.missing("type")
        if _is_reference(kind, item.raw("role")):
            item = self._resolved(item)
            kind = item.need_text("type")
        if kind == "message":
            self._message(item)
        elif kind in CALLS:
            self._say(_call(item, kind, self._kept))
            self._keep(item, status="completed")
        elif kind in OUTPUTS:
            self._result(item)
        elif kind == "reasoning":
            self._say(_thought(item))
            self._keep(item)
        elif kind == "mcp_call" and item.raw("server_label") == OWN_LABEL:
            self._ran(item)
        elif kind == "compaction" and (summary := opened(item.text("encrypted_content") or "")) is not None:
            self.end_turn()
            if summary:  # an empty one stands for nothing: what it was made of stands before it
                self.made.append(Message("user", (TextPart(note_of(summary)),), note=True))
            self._keep(item)
        elif kind in UNSUPPORTED:
            what = f"is {kind}, which is not supported: {UNSUPPORTED[kind]}."
            raise item.refused("type", what, "unsupported_value")
        else:
            self._kept.name(item, kind[:64])
            self._say(OpaquePart(_state(item.whole())))
            self._keep(item)

    def end_turn(self) -> None:
        """What comes next is said by somebody else."""
        if self._said:
            self.made.append(Message("assistant", tuple(self._said)))
            self._said = []
        if self._results:
            self.made.append(Message("tool", tuple(self._results)))
            self._results = []

    def _resolved(self, item: Fields) -> Fields:
        item_id = item.need_text("id", most=LONGEST_ID)
        found = self._stored.get(item_id)
        if found is None:
            what = f"is {item_id[:128]}, an item that is not kept here; send the item itself."
            raise item.refused("id", what, "item_not_found")
        return Fields({"type": "message", **found}, item.path)

    def _message(self, item: Fields) -> None:
        said_as = item.need_text("role")
        role = _ROLES.get(said_as)
        if role is None:
            what = f"is {said_as[:64]!r}; known are user, assistant, system and developer."
            raise item.refused("role", what)
        content = _content(item, "content", role, self._room)
        if role == "assistant":
            if any(isinstance(part, TextPart) for part in self._said) and not self._reasons():
                self.end_turn()
            frame = {"type": "message", **item.whole("content", "role")}
            for name in frame.keys() - _OF_MESSAGE:
                self._kept.name(item, name)
            self._say(*(_spoken(part, frame, self._kept) for part in content))
        else:
            self.end_turn()
            parts = tuple(self._shown(part, role) for part in content)
            self.made.append(Message(role, parts, state=self._beside(item, said_as)))
        self._keep(item, status="completed", content=[_listed(part, role) for part in content])

    def _result(self, item: Fields) -> None:
        call_id = item.need_text("call_id", most=LONGEST_ID)
        if not item.has("output"):
            raise item.missing("output")
        parts = [self._shown(part, "tool") for part in _content(item, "output", "tool", self._room)]
        if self._said:
            self.end_turn()
        shown = tuple(part for part in parts if not isinstance(part, TextPart) or part.text)
        beside = {name: value for name, value in OUTPUT.read(item).rest.items() if value is not None}
        named = dict(beside)
        if own_id := item.text("id", most=LONGEST_ID):
            beside["id"] = own_id
        if isinstance(item.raw("output"), list):
            beside["output"] = []
        self._results.append(ResultPart(call_id, shown, state=self._kept.state(beside, item, named)))
        self._keep(item, status="completed")

    def _ran(self, item: Fields) -> None:
        """A call that was run here, and what it gave, as we told it in an earlier response."""
        call_id = item.need_text("id", most=LONGEST_ID)
        name = item.need_text("name", most=LONGEST_NAME)
        output = item.text("output") or ""
        self._say(CallPart(call_id, name, item.text("arguments") or "{}"))
        self.end_turn()
        self._results.append(ResultPart(call_id, (TextPart(output),) if output else (), item.has("error")))
        self._keep(item, status="completed")

    def _beside(self, item: Fields, role: str) -> ProviderState | None:
        """What was written beside the parts, as whom it was said, and that they stood in a list. Of a system
        message there is always something: what came as an item goes back as one, and not as instructions."""
        rest = {name: value for name, value in MESSAGE.read(item).rest.items() if value is not None}
        for name in rest:
            self._kept.name(item, name)
        if own_id := item.text("id", most=LONGEST_ID):
            rest["id"] = own_id  # nobody else misses it
        listed: dict[str, Any] = {"content": []} if isinstance(item.raw("content"), list) else {}
        spoken_as = {"role": role} if role != "user" else {}
        return _state(data) if (data := {**rest, **spoken_as, **listed}) else None

    def _shown(self, part: Fields, role: Role) -> Shown:
        kind = part.need_text("type")
        if kind in TEXTS:
            given = INPUT_TEXT.read(part)
            return TextPart(given.values["text"], self._kept.state(given.rest, part))
        if kind == "input_image" and kind in _KNOWN_PARTS[role] and not part.has("file_id"):
            given = INPUT_IMAGE.read(part)
            shown = picture(part, "image_url", given.get("detail"))
            return replace(shown, state=self._kept.state(given.rest, part))
        if kind == "input_file" and kind in _KNOWN_PARTS[role]:
            given = INPUT_FILE.read(part)
            return replace(document(part, url="file_url"), state=self._kept.state(given.rest, part))
        if kind in PARTS and not part.has("file_id"):
            raise _unsupported(part, kind, role)
        self._kept.name(part, kind[:64])
        return OpaquePart(_state(part.whole()))

    def _say(self, *parts: Part) -> None:
        if self._results:
            self.end_turn()
        self._said += parts

    def _reasons(self) -> bool:
        return any(isinstance(part, ReasoningPart) for part in self._said)

    def _keep(self, item: Fields, *, status: str = "", **changed: Any) -> None:
        """List the item in its full form: with a type and an id, and with a status where it has one."""
        told = item.whole()
        kind = told.get("type", "message")
        stem = "msg" if kind == "message" else "item"
        item_id = item.text("id", most=LONGEST_ID) or f"{stem}_{self._stem}{len(self.items)}"
        made = {**told, "type": kind, "id": item_id, **changed}
        if status:
            made.setdefault("status", status)
        self.items.append(made)


# Parts


def _content(item: Fields, name: str, role: Role, room: Room) -> list[Fields]:
    """The parts of a message or a result; one string is one part of text."""
    given = item.raw(name)
    if given is None:
        raise item.missing(name)
    if isinstance(given, str):
        return [Fields({"type": _KNOWN_PARTS[role][0], "text": given}, item.at(name))]
    if not isinstance(given, list):
        raise Refused(
            item.at(name), f"{item.at(name)} must be a string or an array of parts.", "invalid_type"
        )
    if not given and role in ("user", "system"):
        raise item.refused(name, "is empty; at least one part is needed.", "array_below_min_length")
    return room.objects(item, name)


def _spoken(part: Fields, frame: dict[str, Any], kept: KeptFields) -> Part:
    """A part of an assistant's message; `frame` is what a provider said of the item around it."""
    kind = part.need_text("type")
    if kind == "refusal":
        refusal = part.text("refusal")
        if refusal is None:
            raise part.missing("refusal")
        return RefusalPart(refusal)
    if kind in PARTS and kind not in TEXTS:
        raise _unsupported(part, kind, "assistant")
    if kind not in TEXTS:
        return OpaquePart(_state(part.whole()))
    annotations = [note.whole() for note in part.objects("annotations", MOST_NOTES)]
    state = {**frame, "annotations": annotations} if annotations else frame
    if annotations:
        kept.name(part, "annotations")
    if beside := unknown_fields(part.whole(), PART):
        state = {**state, PART_FIELDS: beside}
        for name in beside:
            kept.name(part, name)
    return TextPart(_text(part), _state(state) if state.keys() - _PLAIN else None)


def _text(part: Fields) -> str:
    text = part.text("text")
    if text is None:
        raise part.missing("text")
    return text


def _listed(part: Fields, role: Role) -> dict[str, Any]:
    told = part.whole()
    if told["type"] not in TEXTS:
        return told
    made = {**told, "type": _KNOWN_PARTS[role][0]}
    return {"annotations": [], **made} if role == "assistant" else made


def _unsupported(part: Fields, kind: str, role: Role) -> Refused:
    what = f"is {kind[:64]!r}, which is not supported here; supported are: {', '.join(_KNOWN_PARTS[role])}."
    return part.refused("type", what, "unsupported_value")


# Items of an assistant


def _call(item: Fields, kind: str, kept: KeptFields) -> CallPart:
    call_id = item.need_text("call_id", most=LONGEST_ID)
    name = item.need_text("name", most=LONGEST_NAME)
    if group := item.text("namespace", most=LONGEST_NAME):
        name = grouped_name(group, name)
    field = CALLS[kind]
    arguments = item.text(field)
    if arguments is None:
        raise item.missing(field)
    state = item.whole("call_id", "name", field)
    for name_of in state.keys() - _OF_CALL:
        kept.name(item, name_of)
    bare = kind == "function_call" and not state.keys() - _PLAIN
    if kind != "function_call":
        arguments = wrapped(arguments)
    return CallPart(call_id, name, arguments, None if bare else _state(state))


def _thought(item: Fields) -> ReasoningPart:
    for name in ("summary", "content"):
        _all_texts(item.objects(name, MOST_NOTES))
    item.text("encrypted_content")
    told = item.whole()
    return ReasoningPart(thoughts(told, "summary") or thoughts(told, "content"), _state(told))


def _all_texts(parts: Iterable[Fields]) -> None:
    for part in parts:
        part.text("text")


def _is_reference(kind: Any, role: Any) -> bool:
    """A reference may leave out its type; then it is what has no role either."""
    return kind == "item_reference" or (not kind and role is None)


def _state(data: dict[str, Any]) -> ProviderState:
    return ProviderState("openai_responses", "", data)
