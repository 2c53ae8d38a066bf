"""A short campaign of `scripts/campaign`: random clients, kills, pauses and a full disk, with real processes."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaigning.heard import Heard
from campaigning.play import campaign
from campaigning.world import Broken, Seen
from support.server.live_server import Frame, run

pytestmark = [pytest.mark.process, pytest.mark.realtime]

SECONDS = 10.0


@pytest.mark.requirement("E2", "E4", "D3", "G6")
def test_a_short_random_campaign_breaks_no_promise(tmp_path: Path):
    world = run(campaign(7, SECONDS, tmp_path))
    assert world.runs
    assert any(reader.frames for reader in world.readers)
    assert {"say", "read", "began"} <= set(world.counts)
    assert {"kill", "term", "pause", "disk"} & set(world.counts)


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
