"""Short words for histories in tests."""

import pytest

from turnbuckle.reply.repair import Repaired
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, Part, ProviderState, ResultPart, TextPart
from turnbuckle.wire.registry import PROTOCOLS

every_protocol = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
in_pieces = pytest.mark.parametrize(
    "protocol", [name for name, protocol in PROTOCOLS.items() if protocol.streams_arguments]
)
"""Protocols in which a call can be cut; elsewhere it is there whole, or not at all."""


def user(*parts: str | Part) -> Message:
    return Message("user", tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def assistant(*parts: str | Part, partial: bool = False) -> Message:
    made = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    return Message("assistant", made, partial=partial)


def tool(*results: ResultPart) -> Message:
    return Message("tool", results)


def call(call_id: str, arguments: str = '{"a":1}', name: str = "look") -> CallPart:
    return CallPart(call_id, name, arguments)


def result(call_id: str, text: str = "found") -> ResultPart:
    return ResultPart(call_id, (TextPart(text),))


def passes_of(repaired: Repaired) -> set[str]:
    return {note.pass_name for note in repaired.notes}


def signed(protocol: ProtocolName, model: str = "m") -> ProviderState:
    return ProviderState(
        protocol, model, {"signature": "s", "encrypted_content": "e", "thoughtSignature": "t"}
    )
