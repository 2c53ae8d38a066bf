"""A body that is joined from what was encoded before is the one that is encoded whole."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.wire.any_history import HISTORIES, QUIRKS

from turnbuckle.reply.repair import repair
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, ProviderState, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS, rules_of
from turnbuckle.wire.request_body import NO_PREFIX, encode_body, longer_prefix

every_protocol = pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
BEGIN = (Message("system", (TextPart("Be good."),)), Message("user", (TextPart("Do it."),)))
TOOLS = (ToolSpec("look"),)


def round_of(number: int) -> tuple[Message, ...]:
    """One turn with a call, and what the user says to its answer."""
    return (
        Message("assistant", (TextPart(f"I look {number}."), CallPart(f"c{number}", "look", '{"a":1}'))),
        Message("tool", (ResultPart(f"c{number}", (TextPart(f"seen {number}"),)),)),
        Message("assistant", (TextPart(f'It is "{number}".'),)),
        Message("user", (TextPart(f"And {number + 1}?"),)),
    )


def whole(request: ModelRequest, protocol: ProtocolName, quirks: Quirks) -> bytes:
    return msgspec.json.encode(PROTOCOLS[protocol].build(request, quirks))


@every_protocol
@pytest.mark.parametrize("cache_key", ["", "k"])
@pytest.mark.parametrize("prefill", [False, True])
def test_a_conversation_is_encoded_once_and_each_body_is_the_same_to_the_byte(
    protocol: ProtocolName, cache_key: str, prefill: bool
) -> None:
    messages: tuple[Message, ...] = BEGIN
    prefix, shared = NO_PREFIX, 0
    quirks = Quirks(prefill="prefix", signature_fallback=True)
    for number in range(30):
        messages = (*messages, *round_of(number))
        now = (*messages, Message("assistant", (TextPart("It"),))) if prefill else messages
        request = ModelRequest("m", now, TOOLS, cache_key=cache_key, prefill=prefill, extra={"user": "me"})
        prefix = longer_prefix(request, PROTOCOLS[protocol], quirks, prefix)
        shared = len(prefix.raw or b"")
        assert encode_body(request, PROTOCOLS[protocol], quirks, prefix) == whole(request, protocol, quirks)
    assert shared > len(whole(request, protocol, quirks)) / 2


@every_protocol
@settings(max_examples=40)
@given(pieces=st.lists(HISTORIES, max_size=3), quirks=QUIRKS, key=st.sampled_from(["", "k"]))
def test_any_history_that_grows_makes_the_same_bodies(
    protocol: ProtocolName, pieces: list[tuple[Message, ...]], quirks: Quirks, key: str
) -> None:
    history = tuple(message for piece in pieces for message in piece)
    legal = repair(history, rules_of(protocol), model="m", quirks=quirks).messages
    prefix = NO_PREFIX
    for length in range(1, len(legal) + 1):
        request = ModelRequest("m", legal[:length], TOOLS, cache_key=key)
        prefix = longer_prefix(request, PROTOCOLS[protocol], quirks, prefix, least=2)
        try:
            expected = whole(request, protocol, quirks)
        except ValueError:
            return  # half a character, which nobody can send
        assert encode_body(request, PROTOCOLS[protocol], quirks, prefix) == expected


def test_a_client_that_marks_its_own_messages_has_them_as_it_marked_them() -> None:
    state = ProviderState("anthropic", "", {"cache_control": {"type": "ephemeral"}})
    marked = Message("user", (TextPart("This far.", state),))
    messages = (*BEGIN, *round_of(0), marked, *(message for n in range(1, 20) for message in round_of(n)))
    request = ModelRequest("m", messages, TOOLS, cache_key="k")
    prefix = longer_prefix(request, PROTOCOLS["anthropic"], Quirks(), NO_PREFIX)
    assert prefix.raw is None
    body = encode_body(request, PROTOCOLS["anthropic"], Quirks(), prefix)
    assert body == whole(request, "anthropic", Quirks())
    assert body.count(b'"cache_control"') == 1
