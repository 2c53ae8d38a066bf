"""The body of a request, joined from what was encoded before and what is new.

Theory of operation. A conversation only grows at its end, so nearly all of a body was in the one before it.
`EncodedPrefix` is that part as bytes: the messages up to a place where the model begins to speak. At such a
place no protocol joins what stands before it with what comes behind. A property test holds each of them to
that: a body made with a prefix is, byte by byte, the one made without.

The last turns are always encoded again, since what is marked in a body (for caches, or as the beginning of
the answer) stands among its last messages. A result stands in the same part as its call. Where a client wrote
the system prompt in its own words, or has marks of its own, all of the body is encoded.
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from turnbuckle.vocab.messages import CallPart, Message, ResultPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest
from turnbuckle.wire.protocol import Protocol

LEAST = 32
"""From so many new messages on a prefix is made longer."""
_OPEN_TURNS = 3
_Messages = tuple[Message, ...]


class EncodedPrefix(Struct, frozen=True):
    """The first messages of a conversation, encoded for one protocol, host, model and set of tools. `raw` is
    without the brackets around it; None: these messages cannot be shared. `opening`: so many messages of the
    body stand before it, which are the system prompt."""

    messages: _Messages = ()
    raw: bytes | None = b""
    opening: int = 0


NO_PREFIX = EncodedPrefix()


def encode_body(
    request: ModelRequest, protocol: Protocol, quirks: Quirks, prefix: EncodedPrefix = NO_PREFIX
) -> bytes:
    """The body. `prefix` is how its conversation begins. Raises TypeError or ValueError for what cannot be
    written as JSON."""
    rest = request.messages[len(prefix.messages) :]
    if not prefix.raw or not _can_share(request, protocol) or not _is_whole(rest):
        return msgspec.json.encode(protocol.build(request, quirks))
    body = protocol.build(replace(request, messages=(*_opening(request.messages), *rest)), quirks)
    history = body[protocol.history_field]
    first = prefix.opening
    body[protocol.history_field] = [*history[:first], Raw(prefix.raw), *history[first:]]
    return msgspec.json.encode(body)


def longer_prefix(
    request: ModelRequest, protocol: Protocol, quirks: Quirks, prefix: EncodedPrefix, least: int = LEAST
) -> EncodedPrefix:
    """The prefix for this request and for the next ones of its conversation. It grows in large steps."""
    messages, count = request.messages, len(prefix.messages)
    end = _border(messages, count) if len(messages) - count >= least else count
    if end - count < least // 2 or end == count or prefix.raw is None:
        return prefix
    opening = _opening(messages)
    new = messages[count or len(opening) : end]
    if not _can_share(request, protocol) or not _is_whole(new):
        return EncodedPrefix(messages[:end], None)
    raw = msgspec.json.encode(_elements(new, request, protocol, quirks))[1:-1]
    if protocol.rules.cache_mark and f'"{protocol.rules.cache_mark}":'.encode() in raw:
        return EncodedPrefix(messages[:end], None)
    first = prefix.opening if count else len(_elements(opening, request, protocol, quirks))
    return EncodedPrefix(messages[:end], b",".join(filter(None, (prefix.raw, raw))), first)


def _elements(
    messages: _Messages, request: ModelRequest, protocol: Protocol, quirks: Quirks
) -> list[dict[str, object]]:
    """Some messages of a request as they stand in its body."""
    if not messages:
        return []
    bare = replace(request, messages=messages, cache_key="", extra={}, prefill=False)
    elements: list[dict[str, object]] = protocol.build(bare, quirks)[protocol.history_field]
    return elements


def _opening(messages: _Messages) -> _Messages:
    """The system prompt, which some protocols have beside the conversation and some in it."""
    end = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    return messages[:end]


def _border(messages: _Messages, start: int) -> int:
    """Where the last few turns of the model begin; at `start`, if there are no more than those."""
    open_turns = 0
    for place in range(len(messages) - 1, start, -1):
        begins = messages[place].role == "assistant" and messages[place - 1].role in ("user", "tool")
        open_turns += begins
        if begins and open_turns > _OPEN_TURNS:
            return place
    return start


def _can_share(request: ModelRequest, protocol: Protocol) -> bool:
    own_words = any(message.state is not None for message in _opening(request.messages))
    return not own_words and protocol.history_field not in request.extra


def _is_whole(messages: _Messages) -> bool:
    """Whether each result stands behind its call here."""
    called: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, CallPart):
                called.add(part.id)
            elif isinstance(part, ResultPart) and part.call_id not in called:
                return False
    return True
