"""Short campaigns of `scripts/campaign`, with real processes: random clients, kills, pauses and a full disk; and nodes
on one database, with lines between them that fail."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaigning.heard import Heard
from campaigning.play import campaign, nodes_campaign
from campaigning.world import Breaking, Broken, Seen
from support.server.live_server import Frame, run

pytestmark = [pytest.mark.process, pytest.mark.realtime]

SECONDS = 10.0
NODES_SECONDS = 7.0


@pytest.mark.long(12)
@pytest.mark.requirement("E2", "E4", "D3", "G6")
def test_a_short_random_campaign_breaks_no_promise(tmp_path: Path):
    world = run(campaign(7, SECONDS, tmp_path))
    assert world.runs
    assert any(reader.frames for reader in world.readers)
    assert {"say", "read", "began"} <= set(world.counts)
    assert {"kill", "term", "pause", "disk"} & set(world.counts)


@pytest.mark.long(12)
@pytest.mark.requirement("K3", "K5", "K6")
def test_a_short_random_campaign_with_three_nodes_breaks_no_promise(tmp_path: Path):
    world = run(nodes_campaign(42, NODES_SECONDS, tmp_path, 3, set_clocks=False))
    assert world.runs
    assert any(reader.frames for reader in world.readers)
    assert {"kill", "restart"} <= set(world.counts), "a node died, and the database was away"


def test_who_breaks_alone_waits_for_the_others_and_they_for_it():
    async def main():
        breaking, order = Breaking(), []

        async def one(turn, name):
            async with turn():
                order.append(name)
                await asyncio.sleep(0)
                order.append(name)

        shared = [one(breaking.shared, name) for name in "ab"]
        await asyncio.gather(*shared, one(breaking.alone, "C"), one(breaking.shared, "d"))
        return "".join(order)

    assert asyncio.run(main()) == "ababCCdd"


def test_a_reader_that_is_told_an_event_again_is_a_broken_promise():
    seen = Seen("r")
    seen.take([Frame(b"id: 1", "1"), Frame(b": beat"), Frame(b"id: 2", "2")])
    with pytest.raises(Broken, match="got 2 behind 2"):
        seen.take([Frame(b"id: 2", "2")])


@pytest.mark.parametrize("face", ["chat", "responses", "messages"])
def test_an_answer_that_is_not_what_the_run_said_is_a_broken_promise(face: str):
    whole = [Frame(b"", event=one["type"], data=msgspec.json.encode(one)) for one in TOLD[face]]
    whole += [Frame(b"", data=b"[DONE]")] if face == "chat" else []
    assert Heard(face, "r", whole).fault("One.\n\nTwo.") == ""
    assert "told 'One.\\n\\nTwo.'" in Heard(face, "r", whole).fault("One.\n\nTwo. Three.")
    assert Heard(face, "r", whole[:-1]).fault("One.\n\nTwo. Three.") == "", "it may still come"
    assert "told" in Heard(face, "r", whole[:-1]).fault("Another.")


def delta(place: int, text: str) -> dict[str, Any]:
    kind = "response.output_text.delta"
    return {"type": kind, "output_index": place, "delta": text}


def block(place: int, text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": place, "delta": {"type": "text_delta", "text": text}}


TOLD: dict[str, list[dict[str, Any]]] = {
    "chat": [
        {"type": "", "choices": [{"delta": {"content": text}}]}
        for text in ("One.", "\n\nTwo", ".\n\n[Stopped.]")
    ],
    "responses": [delta(1, "One."), delta(3, "Two"), delta(3, "."), {"type": "response.completed"}],
    "messages": [block(0, "One."), block(2, "Two"), block(2, "."), {"type": "message_stop"}],
}
