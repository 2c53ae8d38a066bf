"""Bodies of long conversations are kept encoded, within limits of bytes and time."""

import asyncio

import msgspec

from turnbuckle.call import body_cache
from turnbuckle.call.body_cache import IDLE, BodyCache
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.messages import Message, TextPart
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.request import ModelRequest, ToolSpec
from turnbuckle.wire.registry import PROTOCOLS

TOOLS = (ToolSpec("look"),)


def request(
    conversation: str, length: int, words: str = "word", tools: tuple[ToolSpec, ...] = TOOLS
) -> ModelRequest:
    messages = tuple(
        Message("assistant" if place % 2 else "user", (TextPart(f"{words} {place}"),))
        for place in range(length)
    )
    return ModelRequest("m", messages, tools, conversation=conversation)


def whole(asked: ModelRequest) -> bytes:
    return msgspec.json.encode(PROTOCOLS["openai_chat"].build(asked, Quirks()))


def test_each_request_has_its_own_words_whatever_was_kept():
    async def scenario():
        bodies = BodyCache(VirtualClock())
        for asked in (
            request("a", 101),
            request("a", 103),
            request("b", 101, "other"),
            request("a", 141),
            request("a", 141, "edited"),
            request("a", 141, tools=(ToolSpec("write"),)),
            request("a", 21),
            request("", 101),
        ):
            assert bodies.encode(asked, "openai_chat", Quirks()) == whole(asked)

    asyncio.run(scenario())


def test_no_more_is_kept_than_the_limit_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(body_cache, "MOST_BYTES", 10_000)

    async def scenario():
        bodies = BodyCache(VirtualClock())
        for name in ("a", "b", "c", "d"):
            bodies.encode(request(name, 101, "w" * 30), "openai_chat", Quirks())
        assert 0 < bodies.size <= 10_000
        bodies.encode(request("e", 101, "w" * 300), "openai_chat", Quirks())
        assert bodies.size == 0

    asyncio.run(scenario())


def test_what_nobody_used_for_a_while_is_dropped():
    async def scenario():
        clock = VirtualClock()
        bodies = BodyCache(clock)
        bodies.encode(request("a", 101), "openai_chat", Quirks())
        kept = bodies.size
        await clock.advance(IDLE)
        bodies.encode(request("b", 101), "openai_chat", Quirks())
        assert 0 < bodies.size <= kept

    asyncio.run(scenario())
