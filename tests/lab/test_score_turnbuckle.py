"""Turnbuckle's own server on the scorecard: every mark that it promises, as an agent and as a relay."""

from pathlib import Path

import pytest
from support.server import live_server
from support.server.live_server import Gates, LabProvider, serve_live

from turnbuckle.lab.score.card import foot, line, totals
from turnbuckle.lab.score.player import Scorer, ScoreRow, Scoring, new_score_provider
from turnbuckle.lab.score.trials import USUAL, Trial

CLOCKS = {"gap": 1.0, "first_event": 3.0, "server": "drain = 0"}
AS_RELAY = tuple(
    trial for trial in USUAL if trial.deed or trial.name in ("clean", "reset-in-text", "comes-back")
)


class Unhurried(Scoring, frozen=True):
    """Short pauses, as in a scoring of a few seconds, and the patience of somebody with a busy machine."""

    seconds: float = 100.0

    @property
    def slow(self) -> float:
        return 0.25

    @property
    def rest(self) -> float:
        return 0.1


def scored(folder: Path, model: str, trials: tuple[Trial, ...]) -> list[ScoreRow]:
    async def main() -> list[ScoreRow]:
        async with (
            new_score_provider("127.0.0.1", 0) as provider,
            serve_live(folder, LabProvider(provider.provider, Gates()), **CLOCKS) as server,
        ):
            scoring = Unhurried(f"http://127.0.0.1:{server.port}", "0123456789ab", model, canary=server.work)
            return [row async for row in Scorer(provider, scoring).rows(trials)]

    return live_server.run(main())


@pytest.mark.realtime
@pytest.mark.requirement("H4")
@pytest.mark.parametrize("model, own, trials", [("agent", True, USUAL), ("lab", False, AS_RELAY)])
def test_the_server_gets_every_mark_that_applies(
    model: str, own: bool, trials: tuple[Trial, ...], tmp_path: Path
):
    rows = scored(tmp_path, model, trials)
    lines = "\n".join(line(row) for row in rows)
    assert "✗" not in lines, lines
    assert "not played" not in lines, lines
    assert {row.play.wanted.own_tools for row in rows if row.trial == "long-write"} == {own}
    assert {name for name, (_, of) in totals(rows).items() if not of} == set()
    assert {row.trial for row in rows} == {trial.name for trial in trials}
    assert "comes back 1/1" in foot(rows)
