"""Tools of other people's servers, as one life of a run knows them.

A yes for good holds for the tool that a person saw. What a server says of a tool is known only while it runs,
so it is asked before the first call is judged, and what it said then holds for the rest of that life. What
people have allowed is looked at before each round of calls.
"""

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from turnbuckle.runtime.consent_book import OwnersRules
from turnbuckle.runtime.ports import Tools
from turnbuckle.turn.fold import TurnFold
from turnbuckle.vocab.clock import StopSignal
from turnbuckle.vocab.request import ToolSpec


class ForeignTools:
    """Puts into the rules of a run what the servers say. `given` is what its owner has allowed."""

    def __init__(
        self, tools: Tools, fold: TurnFold, stop: StopSignal, given: OwnersRules | None = None
    ) -> None:
        self._tools = tools
        self._fold = fold
        self._stop = stop
        self._given = given
        self._known = False

    async def before_judging(self) -> None:
        """A run that came back may have a call to judge before its model is asked again."""
        calls = self._fold.turn.calls
        if calls and any(call.consent is None and call.outcome is None for call in calls):
            await self.ready()
            if self._given is not None:
                await self._given.look()  # last, so that nothing is waited for between it and the verdict

    async def ready(self) -> None:
        """Wait for servers that are just starting, unless the run is to stop."""
        if self._known or not self._fold.policy.foreign:
            return
        await _unless_stopped(self._tools, self._stop)
        policy = self._fold.policy
        self._fold.policy = replace(policy, marks=marks_of(self._tools.specs(), policy.foreign))
        self._known = not self._stop.is_set()


def marks_of(specs: Sequence[ToolSpec], foreign: tuple[str, ...]) -> dict[str, str]:
    """What tools of other people's servers say of themselves, each as a hash."""
    told = {spec.name: (spec.description, spec.parameters) for spec in specs if spec.name.startswith(foreign)}
    return {
        name: hashlib.sha256(msgspec.json.encode(one, order="deterministic")).hexdigest()[:32]
        for name, one in told.items()
    }


async def _unless_stopped(tools: Tools, stop: StopSignal) -> None:
    ready = asyncio.ensure_future(tools.ready())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((ready, stopping), return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
    finally:
        for task in (ready, stopping):
            task.cancel()
        await asyncio.gather(ready, stopping, return_exceptions=True)
