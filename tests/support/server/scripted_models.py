"""What the provider behind a live server says: small models that know from the history where they stand."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from support.server.live_server import gate

from turnbuckle.lab.received import last_user_text, results_brought
from turnbuckle.lab.script import Call, Finish, LabRequest, Reason, Say, ScriptItem, Stall, Status

THOUGHT = "First a look at the screw."
FIRST = "I write it down, and then I look at it."
LAST = "A turnbuckle has two screws of opposite hand, so that one turn takes up slack at both ends. It is written down."
CUT_AT = 58
NOTE = "Two screws of opposite hand.\n"


def answer(request: LabRequest) -> Iterable[ScriptItem]:
    """A whole answer, at once."""
    return (Reason(THOUGHT), Say(LAST), Finish())


STALL = 0.5
"""Seconds of silence after which the stall in `journey` is one. Everywhere else silence is not."""


def journey(request: LabRequest) -> Iterable[ScriptItem]:
    """Thoughts, text, two tools side by side, then an answer that stalls in the middle of a word and goes on."""
    if not results_brought(request):
        return (
            Reason(THOUGHT),
            Say(FIRST),
            Call("write_file", {"path": "note.txt", "content": NOTE}),
            Call("shell", {"command": "echo one; echo two"}),
            Finish(),
        )
    if went_on(request):
        return (Say(LAST[CUT_AT:]), Finish())
    return (Say(LAST[:CUT_AT]), Stall("forever"))


def went_on(request: LabRequest) -> bool:
    """Whether the model is asked to go on behind its own words."""
    return "Go on" in last_user_text(request)


CONSENT = "echo done >> consent.txt"
OUTSIDE = 'sandbox = "off"'
"""Settings of tools for scenarios that look at a command's process, or let it reach the server: in a sandbox it could not,
and its number would be one of its own world."""
TOOL = "echo $$ > tool.pid; echo begun; sleep 1000"


def model_by_phase() -> Callable[[LabRequest], Iterable[ScriptItem]]:
    """A model that waits at gate 1 where the first word of the task says, and goes on when it is asked again. Each task
    is a story of its own."""
    asked: Counter[str] = Counter()

    def model(request: LabRequest) -> Iterable[ScriptItem]:
        task = task_of(request)
        asked[task] += 1
        return _PHASES[task.split()[0]](asked[task])

    return model


def _first(number: int) -> Iterable[ScriptItem]:
    return (gate(1), Say(LAST), Finish()) if number == 1 else (Say(LAST), Finish())


def _says(number: int) -> Iterable[ScriptItem]:
    if number == 1:
        return (Say(LAST[:CUT_AT]), gate(1), Say(LAST[CUT_AT:]), Finish())
    return (Say(LAST[CUT_AT:]), Finish())


def _halts(number: int) -> Iterable[ScriptItem]:
    """The same in three parts, of which two are cut."""
    if number < 3:
        return (Say((LAST[:CUT_AT], LAST[CUT_AT : CUT_AT + 30])[number - 1]), gate(1))
    return (Say(LAST[CUT_AT + 30 :]), Finish())


def _arguments(number: int) -> Iterable[ScriptItem]:
    """The call is cut, made again, and then told of."""
    whole = {"path": "arguments.txt", "content": NOTE}
    if number == 1:
        return (Call("write_file", '{"path":"arguments.txt","content":"Two scr', 0, closed=False), gate(1))
    return (Call("write_file", whole), Finish()) if number == 2 else (Say(LAST), Finish())


def _tool(number: int) -> Iterable[ScriptItem]:
    return (Call("shell", {"command": TOOL}), Finish()) if number == 1 else (Say(LAST), Finish())


def _backoff(number: int) -> Iterable[ScriptItem]:
    """The provider wants to be asked again much later."""
    if number == 1:
        return (Status(429, "too many requests", headers={"retry-after": "100"}),)
    return (Say(LAST), Finish())


def _consent(number: int) -> Iterable[ScriptItem]:
    """A command that somebody may have to allow."""
    if number == 1:
        return (Call("shell", {"command": CONSENT}), Finish())
    return (Say(LAST), Finish())


def _whole(number: int) -> Iterable[ScriptItem]:
    return (Say(LAST), Finish())


_PHASES = {
    "first": _first,
    "text": _says,
    "halts": _halts,
    "arguments": _arguments,
    "tool": _tool,
    "backoff": _backoff,
    "consent": _consent,
    "whole": _whole,
}


def task_of(request: LabRequest) -> str:
    """The newest thing that the user said, and not the runtime."""
    said = [_text(item["content"]) for item in request.body["messages"] if item["role"] == "user"]
    return [text for text in said if text.split(maxsplit=1)[0] in _PHASES][-1]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def is_alive(pid: int) -> bool:
    """Whether there is a process that does anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
