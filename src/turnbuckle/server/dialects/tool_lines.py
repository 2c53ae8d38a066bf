"""The life of tool calls as readers see it: each call that is shown begins once and ends once, under one id.

A call is shown from its start on. One that never started (denied, unknown, a piece of a draft) has no start and is
not shown at all, and neither are tools whose names begin with `_`. A call that is run again after a crash is still the
same call. Models may use an id again in a later reply; readers never see the same one twice.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from turnbuckle.tools.registry import is_internal
from turnbuckle.turn.facts import ToolFinished, ToolStarted
from turnbuckle.turn.labels import emoji_of, short_argument
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus

Label = Callable[[dict[str, Any]], str]

_STATUSES: dict[ToolStatus, str] = {"finished": "completed"}
"""What a status is called on a stream. The others keep their names."""
LEFT = ToolOutcome("unknown", "The run ended before this call had an outcome.")
"""What is told of a call whose end is missing when the run ends."""


class ShownCall(Struct, frozen=True):
    """A call as readers know it."""

    id: str
    name: str
    label: str

    def progress(self, outcome: ToolOutcome | None = None) -> dict[str, Any]:
        """Where it is: running, or how it ended."""
        told: dict[str, Any] = {
            "toolCallId": self.id,
            "tool": self.name,
            "label": self.label,
            "emoji": emoji_of(self.name),
            "status": "running",
        }
        if outcome is not None:
            told["status"] = _STATUSES.get(outcome.status, outcome.status)
            told["seconds"] = round(outcome.seconds, 3)
        return told


class ToolLines:
    """Starts and ends in, calls that are to be shown out."""

    def __init__(self, label: Label = short_argument) -> None:
        self._label = label
        self._open: dict[str, ShownCall] = {}
        self._ids: set[str] = set()  # as many as the run has tool calls, which its limits bound

    def start(self, fact: ToolStarted) -> ShownCall | None:
        """The call that begins here; None if it is not shown, or began before."""
        if is_internal(fact.name) or fact.call_id in self._open:
            return None
        shown = ShownCall(self._new_id(fact.call_id), fact.name, self._label(fact.arguments))
        self._open[fact.call_id] = shown
        return shown

    def finish(self, fact: ToolFinished) -> ShownCall | None:
        """The call that ends here; None if nobody saw it begin."""
        return self._open.pop(fact.call_id, None)

    def left(self) -> list[ShownCall]:
        """The calls that began and will not end any more."""
        calls = list(self._open.values())
        self._open.clear()
        return calls

    def _new_id(self, call_id: str) -> str:
        shown, number = call_id, 1
        while shown in self._ids:
            number += 1
            shown = f"{call_id}-{number}"
        self._ids.add(shown)
        return shown
