"""A conversation as values: messages made of parts.

Text is normalised; what only its provider understands (signatures, encrypted reasoning, item ids) rides
beside it as `ProviderState`, untouched, and goes back only to the protocol that it came from.
"""

import re
from operator import is_
from typing import Any, Literal

from msgspec import Struct

from turnbuckle.vocab.ids import ProtocolName


class ProviderState(Struct, frozen=True):
    """Opaque data of one provider. `data` is JSON as it arrived; nobody above `wire` looks inside."""

    protocol: ProtocolName
    model: str
    data: dict[str, Any]


class TextPart(Struct, frozen=True, tag_field="kind", tag="text"):
    """Plain words."""

    text: str
    state: ProviderState | None = None


class ImagePart(Struct, frozen=True, tag_field="kind", tag="image"):
    """An image by address (`url`) or by content (`data`, base64, with its media type)."""

    url: str = ""
    data: str = ""
    media_type: str = ""
    detail: str = ""
    state: ProviderState | None = None


class FilePart(Struct, frozen=True, tag_field="kind", tag="file"):
    """A document by address, by content (base64), or by the id that a provider gave it."""

    name: str = ""
    url: str = ""
    data: str = ""
    media_type: str = ""
    file_id: str = ""
    state: ProviderState | None = None


class ReasoningPart(Struct, frozen=True, tag_field="kind", tag="reasoning"):
    text: str
    state: ProviderState | None = None


class RefusalPart(Struct, frozen=True, tag_field="kind", tag="refusal"):
    text: str


class CallPart(Struct, frozen=True, tag_field="kind", tag="call"):
    """A tool call that a model made. `arguments` is its JSON text, as received."""

    id: str
    name: str
    arguments: str
    state: ProviderState | None = None


class OpaquePart(Struct, frozen=True, tag_field="kind", tag="opaque"):
    """A block that only its provider understands, kept whole and in its place."""

    state: ProviderState


Shown = TextPart | ImagePart | FilePart | OpaquePart
"""What a result may hold."""


class ResultPart(Struct, frozen=True, tag_field="kind", tag="result"):
    """What a call gave back. `failed` tells the model that it did not work."""

    call_id: str
    content: tuple[Shown, ...]
    failed: bool = False
    state: ProviderState | None = None


Part = TextPart | ImagePart | FilePart | ReasoningPart | RefusalPart | CallPart | ResultPart | OpaquePart
Role = Literal["system", "user", "assistant", "tool"]


class Message(Struct, frozen=True):
    """One message. `note` marks what the runtime itself wrote to the model, so that nobody takes it
    for the user's words. `partial` marks an assistant message whose reply was cut. `state` is what a client
    wrote beside the parts, in the words of its protocol."""

    role: Role
    parts: tuple[Part, ...]
    note: bool = False
    partial: bool = False
    state: ProviderState | None = None


BORDER = "\n\n"
"""What stands between two texts of one message where they must be one."""
_LOOKED_AT = 10_000  # characters for a title, which is far shorter than a message may be
_FENCE = re.compile(r"^[ ]{0,3}(?:`{3}|~{3})", re.M)


def begins_with(messages: tuple[Message, ...], beginning: tuple[Message, ...]) -> bool:
    """Whether these are its first messages, as they are written. Equal is not enough: to Python 1 equals
    True, and the order of fields does not matter, but a provider is sent both."""
    first = messages[: len(beginning)]
    if len(first) < len(beginning):
        return False
    return all(map(is_, first, beginning)) or (first == beginning and repr(first) == repr(beginning))


def text_of(parts: tuple[Part, ...]) -> str:
    """The plain text of a reply's parts, in order, and nothing else: its pieces go on where the last one
    ended."""
    return "".join([part.text for part in parts if isinstance(part, TextPart)])


def words_of(parts: tuple[Part, ...]) -> str:
    """The plain text of what a person, a client or a tool said. Each part is a text of its own, so that two
    of them are never glued."""
    return BORDER.join([part.text for part in parts if isinstance(part, TextPart) and part.text])


def title_words(parts: tuple[Part, ...]) -> str:
    """What of a message can be its title: its first text, without the files and the code that follow."""
    said = ""
    for part in parts:
        if isinstance(part, TextPart) and part.text and not part.text.isspace():
            said = part.text.lstrip()[:_LOOKED_AT]
            break
    if "```" not in said and "~~~" not in said:  # as nearly always, and then there is no fence
        return said
    before = _FENCE.split(said, maxsplit=1)[0]
    return before if before.strip() else said


def own_data(state: ProviderState | None, protocol: ProtocolName) -> dict[str, Any]:
    """What one protocol's provider or client said beside something; nothing, if it was another's."""
    return state.data if state is not None and state.protocol == protocol else {}
