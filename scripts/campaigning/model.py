"""The provider of a campaign: a model that does what it is told, under another number each time, on a bad
line."""

import random
import re
from collections.abc import Iterable

from turnbuckle.lab.received import brings_results, last_user_text
from turnbuckle.lab.script import (
    Call,
    CutOff,
    Error,
    Finish,
    Garbage,
    LabRequest,
    Pace,
    Reason,
    Say,
    ScriptItem,
    Stall,
    Status,
)

_TASK = re.compile(r"do (?P<nonce>n[0-9a-z]+)")
_LONG = " ".join(f"word{number}" for number in range(60))


class CampaignModel:
    """Effects get numbers of their own: the number of the request makes each call another one, whoever
    repeats it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed}:provider")
        self._asked = 0
        self.calm = False
        """Nothing breaks any more."""

    def __call__(self, request: LabRequest) -> Iterable[ScriptItem]:
        self._asked += 1
        steps = self._said(request)
        return steps if self.calm else self._broken(steps)

    def _said(self, request: LabRequest) -> list[ScriptItem]:
        task = _TASK.search(last_user_text(request))
        if task is None or brings_results(request):
            return [Pace(9, 0.004), Reason("Let me see. "), Say(f"It is done now. {_LONG}"), Finish()]
        nonce = f"{task['nonce']}.{self._asked}"
        calls = [
            Call("shell", {"command": f"echo {nonce}.{place} >> effects.txt; sleep 0.{place}"})
            for place in (1, 2)
        ]
        kept = calls[: self._random.randint(1, 2)]
        return [Pace(7, 0.004), Say("I do it. "), *kept, Finish()]

    def _broken(self, steps: list[ScriptItem]) -> list[ScriptItem]:
        chance = self._random.random()
        if chance < 0.6:
            return steps
        before = steps[: self._random.randint(1, len(steps) - 1)]
        match self._random.randrange(6):
            case 0:
                return [*before, CutOff("reset")]
            case 1:
                return [*before, CutOff("fin")]
            case 2:
                return [*before, Stall("forever")]
            case 3:
                return [Status(self._random.choice((500, 503, 529)))]
            case 4:
                return [*before, Error("overloaded")]
            case _:
                return [Garbage()]
