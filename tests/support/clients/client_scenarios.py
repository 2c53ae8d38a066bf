"""What the provider behind the server does in each scenario. A prompt names its scenario and a key of its own:

    scenario stall a1b2: What is a turnbuckle?

So one provider plays all scenarios for all clients at once, each as if it were alone.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from turnbuckle.lab.cases.whole import ANSWER, THOUGHT
from turnbuckle.lab.received import last_user_text, results_brought, shown_draft
from turnbuckle.lab.script import (
    Call,
    Case,
    CutOff,
    Finish,
    KillAfter,
    LabRequest,
    Reason,
    Say,
    ScriptItem,
    Stall,
    Status,
)

CUT_AT = 44
"""Where the answer breaks, in the scenarios in which it does: in the middle of a word."""
NARRATION = "I will write it down."
NOTE = "The shackle is old.\n"
WRITTEN = "The note is written, and it says that the shackle is old."
FORM = '{"city":"Oslo","sunny":true}'
SUNNY = "It is sunny in Oslo."
LONG = "".join(
    f"{number:05}: each turn of the screw takes up a little more slack\n" for number in range(600)
)[:30_000]
_KILLED_AFTER = 4_000
_MARK = re.compile(r"scenario ([a-z-]+) (\w+)")


class Situation(NamedTuple):
    """Where a scenario stands: how many tool results came since its prompt, and how often it was asked at that point."""

    key: str
    results: int
    attempt: int
    request: LabRequest


Scenario = Callable[[Situation], Iterable[ScriptItem]]


def _happy(_: Situation) -> Iterable[ScriptItem]:
    return (Reason(THOUGHT), Say(ANSWER), Finish())


def _tool(at: Situation) -> Iterable[ScriptItem]:
    """Two tools of the server, one after the other."""
    path = f"{at.key}.txt"
    match at.results:
        case 0:
            return (Say(NARRATION), Call("write_file", {"path": path, "content": NOTE}), Finish())
        case 1:
            return (Call("read_file", {"path": path}), Finish())
        case _:
            return (Say(WRITTEN), Finish())


def _stall(at: Situation) -> Iterable[ScriptItem]:
    if at.attempt == 1:
        return (Reason(THOUGHT), Say(ANSWER[:CUT_AT]), Stall("forever"))
    return (Say(ANSWER[CUT_AT:]), Finish())


def _refused(_: Situation) -> Iterable[ScriptItem]:
    return (Status(401, "the provider does not know this key", "invalid_api_key"),)


def _broken(_: Situation) -> Iterable[ScriptItem]:
    return (Status(500, "the engine is broken"),)


def _breaks_later(at: Situation) -> Iterable[ScriptItem]:
    """A tool of the server has done something that must not be done twice, and then the provider is broken."""
    if at.results:
        return _broken(at)
    return (Call("append_file", {"path": f"{at.key}.txt", "content": NOTE}), Finish())


def _dies(at: Situation) -> Iterable[ScriptItem]:
    """Half an answer, and never a word again."""
    return (Say(ANSWER[:CUT_AT]), CutOff("reset")) if at.attempt == 1 else (CutOff("reset"),)


def _weather(at: Situation) -> Iterable[ScriptItem]:
    """A tool of the client."""
    if at.results:
        return (Say(SUNNY), Finish())
    return (Call("get_weather", {"city": "Oslo"}), Finish())


def _cut_weather(at: Situation) -> Iterable[ScriptItem]:
    """The same, but its call is cut twice before it is whole."""
    if at.results or at.attempt > 2:
        return _weather(at)
    return (Call("get_weather", '{"city":"Os', 0, closed=False), CutOff("reset"))


def _mixed(at: Situation) -> Iterable[ScriptItem]:
    """First a tool of the server, then one of the client, then the answer."""
    match at.results:
        case 0:
            return (Call("write_file", {"path": f"{at.key}.txt", "content": NOTE}), Finish())
        case 1:
            return (Call("get_weather", {"city": "Oslo"}), Finish())
        case _:
            return (Say(SUNNY), Finish())


def _form(_: Situation) -> Iterable[ScriptItem]:
    """An answer of a certain form."""
    return (Say(FORM, pieces=5), Finish())


def _long(at: Situation) -> Iterable[ScriptItem]:
    """A call of the client's tool with 30,000 characters, and every stream dies after 4,000 of them."""
    if at.results:
        return (Say("It is kept."), Finish())
    kill = KillAfter(arguments=_KILLED_AFTER, how="reset")
    asked = shown_draft(last_user_text(at.request))
    if asked is None:
        return (kill, Call("keep_text", {"text": LONG}, 40), Finish())
    tail = asked.tail
    rest = LONG[LONG.index(tail) + len(tail) :]
    return (kill, Call("finish_call", {"draft": asked.id, "after": tail[-60:], "rest": rest}, 40), Finish())


SCENARIOS: dict[str, Scenario] = {
    "happy": _happy,
    "tool": _tool,
    "stall": _stall,
    "refused": _refused,
    "broken": _broken,
    "breaks-later": _breaks_later,
    "dies": _dies,
    "weather": _weather,
    "cut-weather": _cut_weather,
    "mixed": _mixed,
    "form": _form,
    "long": _long,
}


class ScenarioModel:
    """Plays the scenario that the newest prompt names."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, int]] = Counter()

    def case(self) -> Case:
        return Case("scenarios", "plays the scenario that the prompt names", ((self.play,),))

    def play(self, request: LabRequest) -> Iterable[ScriptItem]:
        name, key, since = _newest(request)
        results = results_brought(since)
        self._asked[key, results] += 1
        return SCENARIOS[name](Situation(key, results, self._asked[key, results], request))


def marks(body: Any) -> list[tuple[str, str]]:
    """The scenarios that a request names, with their keys, oldest first."""
    return _MARK.findall(msgspec.json.encode(body).decode())


def _newest(request: LabRequest) -> tuple[str, str, LabRequest]:
    """The newest scenario, its key, and the request from there on."""
    field = "input" if request.protocol == "openai_responses" else "messages"
    items = request.body[field]
    last = max(index for index, item in enumerate(items) if marks(item))
    name, key = marks(items[last])[-1]
    return name, key, msgspec.structs.replace(request, body={**request.body, field: items[last + 1 :]})
