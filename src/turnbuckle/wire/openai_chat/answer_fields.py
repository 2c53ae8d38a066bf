"""What a provider says that means nothing here: found in its chunks and answers, and put together again.

A chunk is read by structs that know every usual field; one that they do not know is found here, in the plain
document. So the usual chunk costs nothing more, and what is unusual is found wherever it stands. Of the usual
fields a few mean nothing here, too: a document is made for them only where they say something new.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from turnbuckle.vocab.events import Event, FieldsNoted
from turnbuckle.wire.answer_fields import (
    FreshFields,
    GrowingFields,
    item_name,
    unknown_fields,
    unknown_usage,
)
from turnbuckle.wire.loose_json import objects, whole_number
from turnbuckle.wire.openai_chat.frames import CHUNK, Chunk, UsualChunk
from turnbuckle.wire.payload import Unreadable, read_any

_REPLY = frozenset("id object created model choices usage error base_resp x_groq obfuscation".split())
_CHOICE = frozenset("index delta message finish_reason".split())
_MESSAGE = frozenset(
    "role content reasoning_content reasoning thinking reasoning_details refusal tool_calls function_call "
    "extra_content".split()
)
_CALL = frozenset("index id type function custom extra_content thoughtSignature".split())
CALLED = frozenset("name arguments input".split())
"""The fields of what is called."""
_USAGE = frozenset("prompt_tokens completion_tokens total_tokens".split())
_NESTED = {
    "prompt_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "completion_tokens_details": frozenset({"reasoning_tokens"}),
}
_TOLD_OTHERWISE = ("content", "annotations", "citations")
"""Fields of a message that are translated for clients of other protocols, or looked into."""


class UnknownFields:
    """One reply's. What stands beside the whole reply is told again only if it has changed."""

    def __init__(self) -> None:
        self._beside = FreshFields(_REPLY)
        self._looked = b""  # the chunk that was looked at last

    def unusual(self, data: bytes, choice_number: int, out: list[Event]) -> Chunk | None:
        """A chunk that only has fields which nobody here knows, if it is one."""
        try:
            chunk = CHUNK.decode(data)
        except Unreadable:
            return None
        note_calls(chunk, self._look(data, choice_number, out))
        return chunk

    def look(self, chunk: Chunk, data: bytes, choice_number: int, out: list[Event]) -> None:
        """Note what a chunk holds, once."""
        if isinstance(chunk, UsualChunk) and self._has_told(chunk):
            self._note_usage(chunk.usage, out)
        elif data is not self._looked:
            self._look(data, choice_number, out)

    def _has_told(self, chunk: UsualChunk) -> bool:
        """Whether a usual chunk says nothing new in fields that mean nothing here."""
        for choice in chunk.choices or ():
            if choice.native_finish_reason is not None:
                return False
        told = self._beside.told
        tier, system, provider = chunk.service_tier, chunk.system_fingerprint, chunk.provider
        return (
            (tier is None or tier == told.get("service_tier"))
            and (system is None or system == told.get("system_fingerprint"))
            and (provider is None or provider == told.get("provider"))
        )

    def _look(self, data: bytes, choice_number: int, out: list[Event]) -> Any:
        """Note what a chunk's document holds, and give it as it is."""
        self._looked = data
        try:
            document = read_any(data)
        except Unreadable:
            return None  # the reader of chunks says so
        self.note(document, choice_number, len(data), out)
        return document

    def note(self, document: Any, choice_number: int, size: int, out: list[Event]) -> None:
        """Note the fields of a chunk or an answer that nobody here knows. `size` is how long it was."""
        if not isinstance(document, dict):
            return
        if fresh := self._beside.of(document, size):
            out.append(FieldsNoted("reply", fresh))
        choices = document.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and whole_number(choice.get("index")) in (None, choice_number):
                # What belongs to a piece of text, such as its odds, goes as far as the text does.
                if found := unknown_fields(choice.get("delta") or choice.get("message"), _MESSAGE):
                    out.append(FieldsNoted("message", found))
                if found := unknown_fields(choice, _CHOICE):
                    out.append(FieldsNoted("choice", found))
        self._note_usage(document.get("usage"), out)

    def _note_usage(self, usage: Any, out: list[Event]) -> None:
        if unknown := unknown_usage(usage, _USAGE, _NESTED):
            out.append(FieldsNoted("usage", unknown))


def note_calls(chunk: Chunk, document: Any) -> None:
    """Put beside each call of a chunk what else stands in it: it belongs to the call, wherever that comes
    from."""
    choices = objects(document.get("choices")) if isinstance(document, dict) else []
    for choice, given in zip(chunk.choices or [], choices, strict=False):
        delta, told = (choice.delta, "delta") if choice.delta is not None else (choice.message, "message")
        inner = given.get(told)
        listed = inner.get("tool_calls") if isinstance(inner, dict) else None
        if delta is None or not delta.tool_calls or not isinstance(listed, list):
            continue
        for call, found in zip(delta.tool_calls, listed, strict=False):
            call.beside = beside_call(found) or None


def beside_call(found: Any) -> dict[str, Any]:
    """What else a call holds, also inside of what it calls."""
    made = unknown_fields(found, _CALL)
    for name in ("function", "custom"):
        if isinstance(found, dict) and (inner := unknown_fields(found.get(name), CALLED)):
            made[name] = inner
    return made


def growing(*texts: str) -> GrowingFields:
    """Fields of an answer that come in the pieces of a stream. Sound comes as text that goes on."""
    return GrowingFields(*texts, inner={"audio": ("data", "transcript")})


def token_odds(where: str, data: Mapping[str, Any]) -> Any:
    odds = data.get("logprobs") if where == "choice" else None
    return odds.get("content") if isinstance(odds, dict) else odds


def untold_fields(where: str, data: Mapping[str, Any]) -> Iterator[str]:
    if where == "message":
        yield from (item_name(part) for part in data.get("content", ()))
        yield from (field for field in data if field not in _TOLD_OTHERWISE)
