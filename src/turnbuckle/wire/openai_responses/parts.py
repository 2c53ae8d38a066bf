"""What is known of one output item while it is received, and how its fields are read whatever they hold."""

from typing import Any

import msgspec

from turnbuckle.vocab.arguments import same_arguments
from turnbuckle.vocab.events import BlockClosed, Event
from turnbuckle.wire.openai_responses.frames import CALLS
from turnbuckle.wire.payload import Unreadable, mend_all, read_any
from turnbuckle.wire.text_blocks import TextBlocks

APART = "\n\n"
"""What stands between the parts of one reasoning."""


class Part:
    """One part that grows. Pieces are kept as received, to be settled against the whole when it comes.

    It is one block, or, if it is text with reasoning inside, several: then `block` is the last one of
    text."""

    __slots__ = ("annotations", "begun_at", "block", "closed", "index", "make", "pieces", "spoken")

    def __init__(self, block: int, make: Any, index: object, spoken: TextBlocks | None = None) -> None:
        self.block = block
        self.make = make
        self.index = index  # which part of the item is growing; reasoning has several in one block
        self.pieces: list[str] = []
        self.begun_at = 0  # where in `pieces` the growing part begins
        self.closed = False
        self.spoken = spoken  # of text
        self.annotations: list[Any] = []  # those that were told before the whole

    @property
    def plain(self) -> bool:
        """Whether a piece is one delta of `block`, if it has nothing in it of which a tag is made."""
        return self.spoken is None or self.spoken.plain

    def text(self, start: int = 0) -> str:
        return "".join(self.pieces[start:])

    def say(self, text: str, out: list[Event]) -> None:
        """Emit what was received."""
        if self.spoken is None:
            out.append(self.make(self.block, text))
        else:
            self.spoken.take(text, out)
            self.block = self.spoken.text

    def release(self, out: list[Event]) -> None:
        """Emit what was held back: nothing follows that could make it a tag."""
        if self.spoken is not None:
            self.spoken.release(out)
            self.block = self.spoken.text

    def close(self, out: list[Event]) -> None:
        """The end of a part of a message."""
        self.closed = True
        if self.spoken is None:
            out.append(BlockClosed(self.block))
        else:
            self.spoken.close(out)


class OutputItem:
    """One output item. `parts` has one entry per content part of a message, one in all for anything else."""

    __slots__ = ("call_id", "done", "item_id", "kind", "name", "parts", "seed", "spelled", "strange")

    def __init__(self, kind: str, item_id: str, seed: dict[str, Any]) -> None:
        self.kind = kind
        self.item_id = item_id
        self.seed = seed  # the item as it was added: the only telling of it if the others are left out
        self.parts: dict[object, Part] = {}
        self.strange: set[object] = set()  # places of parts that nobody here knows and that were told
        self.done = False
        self.spelled = ""  # where this reasoning's text is read: its summary or its content
        self.call_id = ""
        self.name = ""


def text_of(given: Any) -> str:
    """Text as it is; arguments that a server sent as a JSON value, as JSON."""
    if isinstance(given, str):
        return given
    return "" if given is None else json_text(given)


def may_be(item: OutputItem, told: dict[str, Any]) -> bool:
    """Whether this can be the same item: calls that were given different ids are different calls."""
    given, call_id = word(item.seed.get("call_id")), word(told.get("call_id"))
    return not given or not call_id or given == call_id


def fits(item: OutputItem, told: dict[str, Any]) -> bool:
    """Whether a call that is told whole can be this one: the same name, and arguments that go on where it
    stands."""
    if item.kind not in CALLS:
        return False
    name, have = word(told.get("name")), item.parts[0].text() if item.parts else ""
    arguments = text_of(told.get(CALLS[item.kind]))
    same_name = not name or not item.name or name == item.name
    return same_name and (arguments.startswith(have) or same_arguments(arguments, have))


def says_the_same(item: OutputItem, told: dict[str, Any], _: int) -> bool:
    """Whether an item of the same type says what this one has said."""
    if item.kind in CALLS:
        have = item.parts[0].text() if item.parts else ""
        return word(told.get("name")) == item.name and same_arguments(
            text_of(told.get(CALLS[item.kind])), have
        )
    if item.kind == "message":
        have = "".join(part.text() for part in item.parts.values())
        content = told.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        return bool(have) and have == "".join(
            text_of(part.get("text", part.get("refusal"))) for part in parts
        )
    if item.kind == "reasoning":
        have = item.parts[0].text() if item.parts else ""
        return bool(have) and have in (thoughts(told, "summary"), thoughts(told, "content"))
    return False


def thoughts(told: dict[str, Any], spelled: str) -> str:
    """The text of a reasoning item, from its summary or from its content."""
    parts = told.get(spelled)
    texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return APART.join(text for text in texts if isinstance(text, str) and text)


def word(value: Any) -> str:
    """An id or a name as text; anything else as nothing."""
    return str(value) if isinstance(value, (str, int)) else ""


def annotation_of(data: bytes) -> Any:
    """What a text refers to, as one event tells it."""
    try:
        document = read_any(data)
    except Unreadable:
        return None
    return document.get("annotation") if isinstance(document, dict) else None


def json_text(value: Any) -> str:
    """Any value as JSON that can be sent."""
    try:
        return msgspec.json.encode(mend_all(value)).decode()
    except Unreadable:
        return ""  # nested deeper than can be written
