"""A model that writes, edits and runs for a coding agent, at a provider where every way breaks.

The task: a file of 30,000 characters, one edit in it, a command, and a word at the end. The streams of the file
are cut after 6,000 characters each, the edit's stalls, the command's ends in the midst of its JSON and calls that
an end, and the last words are cut by a reset.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

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
)

LONG = "".join(f"{number:05}: each turn of the screw takes up more slack\n" for number in range(600))[:30_000]
EDITED = LONG.replace("00007: each turn", "00007: EVERY turn")
DONE = "The file is written, edited and measured: nothing of it was lost on the way."
CUT_AFTER = 6_000
COMMAND = "cat big.txt >> twice.txt"
"""Run twice, it would show."""


class CodingModel:
    """Plays the task by how many results have come; `seen` has every request."""

    def __init__(self, folder: Path, *, names: tuple[str, str, str] = ("Write", "Edit", "Bash")) -> None:
        self._folder = folder
        self._write, self._edit, self._run = names
        self._asked: Counter[int] = Counter()
        self.seen: list[LabRequest] = []

    def case(self) -> Case:
        return Case("coding", "writes, edits and runs, and every way breaks", ((self.play,),))

    def play(self, request: LabRequest) -> Iterable[ScriptItem]:
        self.seen.append(request)
        if not request.body.get("tools"):
            return (Say("ok"), Finish())  # a small job of the client's own, such as a title
        results = results_brought(request)
        self._asked[results] += 1
        return self._step(results, self._asked[results] == 1, request)

    def _step(self, results: int, first: bool, request: LabRequest) -> Iterable[ScriptItem]:
        path = str(self._folder / "big.txt")
        match results:
            case 0:
                return self._file(request, path)
            case 1:
                edit = {
                    "file_path": path,
                    "old_string": "00007: each turn",
                    "new_string": "00007: EVERY turn",
                }
                if first:
                    return (
                        Say("Now the edit."),
                        Call(self._edit, '{"file_path": "', closed=False),
                        Stall("forever"),
                    )
                return (Call(self._edit, edit), Finish())
            case 2:
                if first:
                    return (Call(self._run, '{"command": "cat big.tx'), Finish("calls"))
                return (Call(self._run, {"command": COMMAND, "description": "Double it"}), Finish())
            case _:
                if first:
                    return (Say(DONE[:40]), CutOff("reset"))
                return (Say(DONE[40:]), Finish())

    def _file(self, request: LabRequest, path: str) -> Iterable[ScriptItem]:
        kill = KillAfter(arguments=CUT_AFTER)
        asked = shown_draft(last_user_text(request))
        if asked is None:
            call = Call(self._write, {"file_path": path, "content": LONG}, 200)
            return (Reason("I write it."), Say("I write the file."), kill, call, Finish())
        rest = LONG[LONG.index(asked.tail) + len(asked.tail) :]
        finish = {"draft": asked.id, "after": asked.tail[-60:], "rest": rest}
        return (kill, Call("finish_call", finish, 200), Finish())
