"""How long it is believed what a provider said of its window."""

import asyncio

import pytest

from turnbuckle.journal.memory import MemoryJournal
from turnbuckle.runtime.windows import BELIEVED, WindowBook
from turnbuckle.turn.policy import RouteFacts
from turnbuckle.vocab.ids import RouteName

ROUTE = RouteFacts(RouteName("local"), "openai_chat", "qwen")


@pytest.mark.requirement("I1")
@pytest.mark.parametrize("set_by_hand", [None, 32_768], ids=["not in the settings", "in the settings"])
@pytest.mark.parametrize("again", [False, True], ids=["the same process", "another process"])
def test_a_model_server_that_came_back_with_a_larger_window_is_asked_again(
    set_by_hand: int | None, again: bool
) -> None:
    route = RouteFacts(ROUTE.name, ROUTE.protocol, ROUTE.model, window=set_by_hand)
    now = [1_000_000.0]
    journal = MemoryJournal(wall=lambda: now[0])

    def book() -> WindowBook:
        return WindowBook(journal, wall=lambda: now[0])

    async def scenario() -> None:
        first = book()
        await first.learn(route, 4_096)
        now[0] += BELIEVED - 1
        later = book() if again else first
        assert await later.of(route) == 4_096
        now[0] += 2
        assert await (book() if again else first).of(route) == set_by_hand
        await later.learn(route, 4_096)
        assert await later.of(route) == 4_096, "it still says so"
        assert await book().of(route) == 4_096

    asyncio.run(scenario())
