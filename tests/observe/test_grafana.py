"""The dashboard in docs/grafana.json: that it asks for metrics that exist, and leaves out none."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from turnbuckle.observe.metrics import Metrics

BOARD = Path(__file__).parents[2] / "docs" / "grafana.json"
NAME = re.compile(r"\b(turnbuckle_\w+?)(?:_bucket|_count|_sum)?(?=[\[{)])")
LABELS = re.compile(r"by \(([\w, ]+)\)")


def _panels() -> list[dict[str, Any]]:
    board = json.loads(BOARD.read_text("utf-8"))
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def _asked() -> set[str]:
    return {
        name for panel in _panels() for target in panel["targets"] for name in NAME.findall(target["expr"])
    }


def _existing() -> set[str]:
    told = Metrics().render().decode()
    return set(re.findall(r"^# TYPE (turnbuckle_\w+)", told, re.MULTILINE))


@pytest.mark.requirement("H11", "H5")
def test_the_dashboard_and_the_metrics_name_the_same_numbers():
    assert _asked() == _existing()


@pytest.mark.requirement("H11")
def test_every_panel_says_what_it_shows_and_stands_in_its_own_place():
    places = [tuple(panel["gridPos"].values()) for panel in _panels()]
    assert len(set(places)) == len(places)
    assert all(panel["title"] and panel["targets"] for panel in _panels())
    assert {panel["datasource"]["uid"] for panel in _panels()} == {"${source}"}


@pytest.mark.requirement("H11")
def test_every_legend_names_a_label_that_its_question_keeps():
    for panel in _panels():
        for target in panel["targets"]:
            kept = {label.strip() for found in LABELS.findall(target["expr"]) for label in found.split(",")}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, target
