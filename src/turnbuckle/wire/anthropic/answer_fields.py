"""What a Messages provider says that means nothing here: beside the message, at its end, in its usage, and
beside a delta."""

from typing import Any

from turnbuckle.vocab.events import Event, FieldsNoted
from turnbuckle.wire.answer_fields import FreshFields, shallow, unknown_fields, unknown_usage
from turnbuckle.wire.anthropic.frames import AnthropicDelta
from turnbuckle.wire.payload import Unreadable, read_any

_MESSAGE = frozenset("id type role model content stop_reason stop_sequence stop_details usage error".split())
_EVENT = frozenset("type delta usage message index amazon-bedrock-invocationMetrics".split())
_DELTA = frozenset(AnthropicDelta.__struct_fields__)
_COUNTS = frozenset("input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens".split())
_NESTED = {"output_tokens_details": frozenset({"reasoning_tokens", "thinking_tokens"})}
_KINDS = "text_delta input_json_delta thinking_delta signature_delta citations_delta compaction_delta".split()


class MessageFields:
    """One message's."""

    def __init__(self) -> None:
        self._beside = FreshFields(_MESSAGE)
        self._counted: dict[str, Any] = {}

    def of_message(self, message: Any, out: list[Event]) -> None:
        """Of a whole message, or of one that starts."""
        if fresh := self._beside.of(message, 0):
            out.append(FieldsNoted("reply", fresh))

    def of_end(self, data: bytes, out: list[Event]) -> None:
        """Of a `message_delta`."""
        document = document_of(data)
        if found := unknown_fields(document, _EVENT):
            out.append(FieldsNoted("choice", found))
        if found := unknown_fields(document.get("delta"), _DELTA):
            out.append(FieldsNoted("message", found))

    def of_usage(self, usage: Any, out: list[Event]) -> None:
        counted = unknown_usage(usage, _COUNTS, _NESTED)
        if counted and counted != self._counted:
            self._counted = counted
            out.append(FieldsNoted("usage", counted))


def beside_delta(data: bytes) -> dict[str, Any]:
    """What stands beside the text of a delta."""
    return unknown_fields(document_of(data).get("delta"), _DELTA)


def strange_delta(delta: AnthropicDelta | None, data: bytes) -> dict[str, Any]:
    """A delta of a kind that nobody here knows, as it came; empty if it is none."""
    if delta is None or not delta.type or delta.type in _KINDS:
        return {}
    found = document_of(data).get("delta")
    return shallow(found) if isinstance(found, dict) else {}


def document_of(data: bytes) -> dict[str, Any]:
    """An event as it came, as far as it is one."""
    try:
        document = read_any(data)
    except Unreadable:
        return {}
    return document if isinstance(document, dict) else {}
