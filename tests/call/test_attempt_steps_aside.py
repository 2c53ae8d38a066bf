"""When an attempt lets others have the loop, and when it need not."""

import asyncio

import pytest
from support.calls.attempts import AttemptHarness, reply_of, run_scenario

from turnbuckle.lab.cases.whole import ANSWER


def test_a_chunk_that_was_waited_for_is_handed_on_at_once(monkeypatch: pytest.MonkeyPatch):
    """Others had their turn meanwhile, so the reader need not step aside for them once more."""
    aside: list[float] = []
    sleep = asyncio.sleep

    async def scenario(harness: AttemptHarness):
        reader = asyncio.current_task()

        async def counted(seconds: float) -> None:
            if asyncio.current_task() is reader:
                aside.append(seconds)
            await sleep(seconds)

        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", counted)
            return await harness.run()

    batches = run_scenario("slow-drip", scenario)
    assert reply_of(batches).text == ANSWER
    assert len(batches) > 20
    assert aside == []
