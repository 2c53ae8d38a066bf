"""What a Responses provider says that means nothing here: beside the response, its usage, and pieces of text.

Fields of the response that repeat the request (instructions, tools and the like) are not passed on: a healed
answer is made of several requests, and the client gets back what it asked itself.
"""

from collections.abc import Mapping
from typing import Any

from turnbuckle.vocab.events import Event, FieldsNoted
from turnbuckle.wire.answer_fields import FreshFields, unknown_fields, unknown_usage
from turnbuckle.wire.openai_responses.frames import StreamEvent
from turnbuckle.wire.payload import Unreadable, read_any

_RESPONSE = frozenset(
    "id object created_at completed_at status error incomplete_details output usage model instructions input "
    "tools tool_choice previous_response_id conversation background store metadata max_output_tokens "
    "prompt_cache_key output_text".split()
)
_USAGE = frozenset("input_tokens output_tokens total_tokens".split())
_NESTED = {
    "input_tokens_details": frozenset({"cached_tokens", "cache_write_tokens"}),
    "output_tokens_details": frozenset({"reasoning_tokens"}),
}
_PIECE = frozenset({*StreamEvent.__struct_fields__, "sequence_number", "obfuscation", "name"})
PART = frozenset("type text refusal annotations logprobs".split())
PART_FIELDS = "content_part"
"""Where the state of a text keeps what else its part had."""
_ABOUT_ORDER = frozenset("type sequence_number obfuscation output_index".split())


class ResponseFields:
    """One response's."""

    def __init__(self) -> None:
        self._beside = FreshFields(_RESPONSE)

    def of_event(self, data: bytes, out: list[Event]) -> None:
        """What an event says of the response that it holds."""
        if isinstance(document := _document(data), dict):
            self.of(document.get("response"), len(data), out)

    def of(self, response: Any, size: int, out: list[Event]) -> None:
        if fresh := self._beside.of(response, size):
            out.append(FieldsNoted("reply", fresh))
        usage = response.get("usage") if isinstance(response, dict) else None
        if counted := unknown_usage(usage, _USAGE, _NESTED):
            out.append(FieldsNoted("usage", counted))

    def of_piece(self, data: bytes, out: list[Event]) -> None:
        """What stands beside a piece of text."""
        if found := {
            name: value for name, value in unknown_fields(_document(data), _PIECE).items() if value != []
        }:
            out.append(FieldsNoted("piece", found))


def stage_of(kind: str, data: bytes) -> dict[str, Any]:
    """An event as it came, without its place among the others: that is ours to say."""
    return {"type": kind, **unknown_fields(_document(data), _ABOUT_ORDER)}


def token_odds(where: str, data: Mapping[str, Any]) -> Any:
    return data.get("logprobs") if where == "piece" else None


def _document(data: bytes) -> Any:
    try:
        return read_any(data)
    except Unreadable:
        return None
