"""Bodies of long conversations are kept encoded, within limits of bytes and time."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from turnbuckle.call import body_cache
from turnbuckle.call.body_cache import IDLE, BodyCache
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.vocab.messages import Message, ProviderState, TextPart
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
        kept = bodies.size
        bodies.encode(request("e", 101, "w" * 300), "openai_chat", Quirks())
        assert bodies.size == kept  # what is too large for all of it drives nobody out

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


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "early, late",
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_what_is_only_equal_to_what_was_kept_is_sent_as_it_is_written(early, late):
    async def scenario():
        bodies = BodyCache(VirtualClock())
        for data in (early, late):
            asked = request("a", 101)
            first = replace(asked.messages[0], state=ProviderState("openai_chat", "m", data))
            asked = replace(asked, messages=(first, *asked.messages[1:]))
            assert bodies.encode(asked, "openai_chat", Quirks()) == whole(asked)

    asyncio.run(scenario())


@pytest.mark.requirement("E12")
def test_a_conversation_of_which_something_was_deleted_is_let_go_of_at_once():
    async def scenario():
        bodies = BodyCache(VirtualClock())
        for name, model in (("a", "m"), ("a", "other"), ("b", "m")):
            bodies.encode(replace(request(name, 101), model=model), "openai_chat", Quirks())
        all_of_it = bodies.size
        bodies.forget("a")
        left = bodies.size
        bodies.forget("b")
        return all_of_it, left, bodies.size

    all_of_it, left, nothing = asyncio.run(scenario())
    assert all_of_it == 3 * left > nothing == 0


def test_of_a_conversation_that_cannot_be_shared_nothing_is_kept():
    async def scenario():
        bodies = BodyCache(VirtualClock())
        asked = request("a", 101)
        state = ProviderState("anthropic", "", {"cache_control": {"type": "ephemeral"}})
        marked = Message("user", (TextPart("This far.", state),))
        asked = replace(asked, messages=(marked, *asked.messages[1:]))
        for _ in range(2):
            body = bodies.encode(asked, "anthropic", Quirks())
            assert body == msgspec.json.encode(PROTOCOLS["anthropic"].build(asked, Quirks()))
        return [entry.prefix.messages for entry in bodies._entries.values()]

    assert asyncio.run(scenario()) == [()]
