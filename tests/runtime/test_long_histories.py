"""One more turn is the same work however long its conversation is: counted in calls of functions, not by a clock."""

import asyncio
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from support.turns.turn_facts import MAIN, START, TOOLS, after, recorded

from turnbuckle.call.body_cache import BodyCache
from turnbuckle.runtime.history_book import HistoryBook
from turnbuckle.runtime.room import RoomKeeper
from turnbuckle.runtime.sending import Sending
from turnbuckle.runtime.windows import WindowBook
from turnbuckle.testing.clock import VirtualClock
from turnbuckle.turn.facts import ModelAsked
from turnbuckle.turn.policy import Policy
from turnbuckle.turn.state import Ask
from turnbuckle.vocab.ids import PROTOCOL_NAMES, ProtocolName
from turnbuckle.vocab.messages import CallPart, Message, ResultPart, TextPart
from turnbuckle.vocab.quirks import Quirks

SHORT, LONG, GROWTH = 200, 2_000, 1.2


def talk(rounds: int) -> tuple[Message, ...]:
    """Rounds of a question, a call, its result and an answer."""
    return tuple(
        message
        for number in range(rounds)
        for message in (
            Message("user", (TextPart(f"What is {number}?"),)),
            Message("assistant", (CallPart(f"c{number}", "look", "{}"),)),
            Message("tool", (ResultPart(f"c{number}", (TextPart(f"seen {number}"),)),)),
            Message("assistant", (TextPart(f"It is {number}."),)),
        )
    )


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called in it, Python's own included."""
    count = 0

    def look(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
@pytest.mark.parametrize("same_run", [False, True], ids=["the next run", "the same run"])
def test_one_more_request_of_a_long_conversation_costs_what_is_new(protocol: ProtocolName, same_run: bool):
    policy = Policy((replace(MAIN, protocol=protocol),), TOOLS)
    fold = after(START, policy=policy)
    recorded(fold)
    asked = ModelAsked(2.0, 1, MAIN.name, protocol, MAIN.model, "")
    fold.take(asked)

    def cost(rounds: int) -> int:
        """Of the second request of a process that knows the session."""
        histories, whole = HistoryBook(lambda: 0.0), talk(rounds + 1)
        bodies, rooms = BodyCache(VirtualClock()), RoomKeeper(WindowBook(), histories)
        sending = Sending(histories)

        async def turn(messages: tuple[Message, ...]) -> None:
            now = replace(fold.turn, messages=messages)
            await rooms.size(now, policy, policy.route(MAIN.name), Ask(MAIN.name, ""), ())
            sender = sending if same_run else Sending(histories)
            request = await sender.prepared(now, asked, policy, ())
            bodies.encode(request, protocol, Quirks())

        with asyncio.Runner() as runner:
            runner.run(turn(whole[: 4 * rounds + 1]))
            more = whole[: 4 * rounds + 3] if same_run else (*whole[: 4 * rounds + 4], whole[0])
            return calls_of(lambda: runner.run(turn(more)))

    assert cost(LONG // 4) <= GROWTH * cost(SHORT // 4)
