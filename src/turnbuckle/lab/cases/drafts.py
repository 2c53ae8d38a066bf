"""A file of 30,000 characters through a provider that ends every stream after 4,000 characters of arguments.

Three models, and each is a function of the request alone: one that finishes drafts as it is asked to, one that ignores
drafts but makes smaller calls, and one that does the same thing for ever.
"""

import re
from collections.abc import Iterable

from turnbuckle.lab.asked import brings_results, last_user_text, results_brought
from turnbuckle.lab.script import Call, Case, Cut, Finish, KillAfter, LabRequest, Say, ScriptItem, When

SIZE = 30_000
KILLED_AFTER = 4_000
PATH = "long.txt"
TEXT = "".join(f"{number:05}: a line that takes up a little more slack\n" for number in range(SIZE))[:SIZE]
_AFTER = 60
_SMALL = 3_000
_PIECES = 40
_DRAFT = re.compile(r"as draft `(?P<id>[^`]+)`.*?<<<(?P<tail>.*)>>>", re.DOTALL)
_KILL = KillAfter(arguments=KILLED_AFTER, how="fin")
_DONE: tuple[ScriptItem, ...] = (Say("The file is written."), Finish())
_WHOLE: tuple[ScriptItem, ...] = (_KILL, Call("write_file", {"path": PATH, "content": TEXT}, _PIECES), Finish())


def finishes_drafts(request: LabRequest) -> Iterable[ScriptItem]:
    """Sends only what is missing, behind the characters that it is shown."""
    if brings_results(request):
        return _DONE
    asked = _DRAFT.search(last_user_text(request))
    if asked is None:
        return _WHOLE
    tail = asked["tail"]
    rest = TEXT[TEXT.index(tail) + len(tail) :]
    arguments = {"draft": asked["id"], "after": tail[-_AFTER:], "rest": rest}
    return (_KILL, Call("finish_call", arguments, _PIECES), Finish())


def makes_smaller_calls(request: LabRequest) -> Iterable[ScriptItem]:
    """Starts again with a small piece, and appends the others one by one."""
    done = results_brought(request)
    if not done and not _DRAFT.search(last_user_text(request)):
        return _WHOLE
    piece = TEXT[done * _SMALL : (done + 1) * _SMALL]
    if not piece:
        return _DONE
    return (_KILL, Call("append_file" if done else "write_file", {"path": PATH, "content": piece}, _PIECES), Finish())


NOTE = "The rope is new, the shackle is old, and the turnbuckle between them wants a drop of oil before the wind comes."
_NOTE_AT = 70
_ECHO = 50


def _cut_note(request: LabRequest) -> Iterable[ScriptItem]:
    return (Call("write_file", f'{{"path":"note.md","content":"{NOTE[:_NOTE_AT]}', 0, closed=False), Cut("reset"))


def _repeats_the_tail(request: LabRequest) -> Iterable[ScriptItem]:
    """Finishes its draft, but says the last characters of it once more."""
    asked = _DRAFT.search(last_user_text(request))
    if brings_results(request) or asked is None:
        return _DONE
    rest = NOTE[_NOTE_AT - _ECHO :]
    arguments = {"draft": asked["id"], "after": NOTE[_NOTE_AT - 40 : _NOTE_AT], "rest": rest}
    return (Call("finish_call", arguments, 0), Finish())


def _ignores_the_tail(request: LabRequest) -> Iterable[ScriptItem]:
    """Finishes its draft behind words that are not there."""
    asked = _DRAFT.search(last_user_text(request))
    if brings_results(request) or asked is None:
        return (Say("I leave it at that."), Finish())
    arguments = {"draft": asked["id"], "after": "words that were never written here", "rest": NOTE[_NOTE_AT:]}
    return (Call("finish_call", arguments, 0), Finish())


def _forgets_the_flags(request: LabRequest) -> Iterable[ScriptItem]:
    """Finishes its draft without the arguments that were lost behind it."""
    asked = _DRAFT.search(last_user_text(request))
    if brings_results(request) or asked is None:
        return (Say("I leave it at that."), Finish())
    arguments = {"draft": asked["id"], "after": NOTE[_NOTE_AT - 40 : _NOTE_AT], "rest": NOTE[_NOTE_AT:]}
    return (Call("finish_call", arguments, 0), Finish())


def _cut_mail(request: LabRequest) -> Iterable[ScriptItem]:
    return (Call("send_mail", f'{{"text":"{NOTE[:_NOTE_AT]}', 0, closed=False), Cut("reset"))


DRAFTS: tuple[Case, ...] = (
    Case(
        "long-write-by-drafts",
        "30 kB, cut every 4,000; the model finishes drafts",
        ((finishes_drafts,),),
        scenarios=("T2",),
    ),
    Case(
        "long-write-by-smaller-calls",
        "the same; ignores drafts, makes smaller calls",
        ((makes_smaller_calls,),),
        scenarios=("T2",),
    ),
    Case(
        "draft-with-overlap",
        "cut; finishes its draft and repeats its tail",
        ((_cut_note,), (_repeats_the_tail,)),
        scenarios=("T3",),
    ),
    Case(
        "draft-with-wrong-anchor",
        "cut; finishes its draft behind other words",
        ((_cut_note,), (_ignores_the_tail,)),
        scenarios=("T3",),
    ),
    Case(
        "draft-without-flags",
        "cut before its flags, which it then forgets",
        ((_cut_mail,), (_forgets_the_flags,)),
        scenarios=("T5",),
    ),
    Case(
        "long-write-stubborn",
        "the same; makes the same call for ever, also plain",
        ((When("streaming", _WHOLE, (Say("Once more."), Cut("fin"))),),),
        scenarios=("L9",),
    ),
)
