"""What a tool returns reaches the model, whatever it is: the tool has run, and is not called for again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support.tools.toolbox import Toolbox

from turnbuckle.tools.model_types import reader_of
from turnbuckle.tools.spec import tool


class Item(BaseModel):
    name: str
    count: int = 1


@dataclass
class Box:
    items: list[Item]


class Report:
    def __str__(self) -> str:
        return "<Report of 3 rows>"


class Endless:
    pass


ROUND: list[Any] = []
ROUND.append(ROUND)


@pytest.mark.requirement("D5")
@pytest.mark.parametrize(
    "value, text",
    [
        (Item(name="tea"), '{"name":"tea","count":1}'),
        ([Item(name="tea", count=2)], '[{"name":"tea","count":2}]'),
        (Box([Item(name="tea")]), '{"items":[{"name":"tea","count":1}]}'),
        ({"of": Report()}, '{"of":"<Report of 3 rows>"}'),
        (ROUND, "It is done. What it returned (list) cannot be shown as JSON."),
    ],
    ids=str,
)
def test_what_a_tool_returns_is_told_and_never_makes_a_failure_of_work_that_is_done(
    value: Any, text: str, tmp_path: Path
):
    @tool
    def give() -> Any:
        """Give it."""
        return value

    outcome = Toolbox(tmp_path, (give,)).do("give")
    assert (outcome.status, outcome.text) == ("finished", text)


def test_a_type_that_no_model_can_be_told_of_is_named_when_the_tool_is_made():
    def send(to: str, what: Endless) -> str:
        """Send it."""
        return to

    with pytest.raises(
        TypeError, match="send: the type of what cannot be described to a model: use what JSON can"
    ):
        tool(send)
    with pytest.raises(TypeError, match="Endless cannot be described to a model: use what JSON can"):
        reader_of(Endless)
