"""A file of 30,000 characters through a provider that ends every stream after 4,000 characters of arguments.

Three models, and each is a function of the request alone: one that finishes drafts as it is asked to, one
that ignores drafts but makes smaller calls, and one that does the same thing forever.
"""

import json
from collections.abc import Callable, Iterable

from turnbuckle.lab.received import (
    asked_reading,
    brings_results,
    last_result,
    last_user_text,
    results_brought,
    shown_draft,
)
from turnbuckle.lab.script import Call, Case, CutOff, Finish, KillAfter, LabRequest, Say, ScriptItem, When

Step = Callable[[LabRequest], Iterable[ScriptItem]]

SIZE = 30_000
KILLED_AFTER = 4_000
PATH = "long.txt"
TEXT = "".join(f"{number:05}: a line that takes up a little more slack\n" for number in range(SIZE))[:SIZE]
_AFTER = 60
_SMALL = 3_000
_PIECES = 40
_KILL = KillAfter(arguments=KILLED_AFTER, how="fin")
_DONE: tuple[ScriptItem, ...] = (Say("The file is written."), Finish())
_WHOLE: tuple[ScriptItem, ...] = (
    _KILL,
    Call("write_file", {"path": PATH, "content": TEXT}, _PIECES),
    Finish(),
)


def finishes_drafts(request: LabRequest) -> Iterable[ScriptItem]:
    """Sends only what is missing, behind the characters that it is shown."""
    if brings_results(request):
        return _DONE
    asked = shown_draft(last_user_text(request))
    if asked is None:
        return _WHOLE
    tail = asked.tail
    rest = TEXT[TEXT.index(tail) + len(tail) :]
    arguments = {"draft": asked.id, "after": tail[-_AFTER:], "rest": rest}
    return (_KILL, Call("finish_call", arguments, _PIECES), Finish())


def makes_smaller_calls(request: LabRequest) -> Iterable[ScriptItem]:
    """Starts again with a small piece, and appends the others one by one."""
    done = results_brought(request)
    if not done and not shown_draft(last_user_text(request)):
        return _WHOLE
    piece = TEXT[done * _SMALL : (done + 1) * _SMALL]
    if not piece:
        return _DONE
    return (
        _KILL,
        Call("append_file" if done else "write_file", {"path": PATH, "content": piece}, _PIECES),
        Finish(),
    )


NOTE = (
    "The rope is new, the shackle is old, and the turnbuckle between them wants a drop of oil before "
    "the wind comes."
)
_NOTE_AT = 70
_ECHO = 50


def _cut_write(text: str, at: int) -> Step:
    def step(request: LabRequest) -> Iterable[ScriptItem]:
        return (
            Call("write_file", f'{{"path":"note.md","content":"{text[:at]}', 0, closed=False),
            CutOff("reset"),
        )

    return step


def _finishes(text: str, at: int, rest: str, reading: str) -> Step:
    """Finishes its draft with this rest. Asked how that was meant, it takes the reading that begins so."""

    def step(request: LabRequest) -> Iterable[ScriptItem]:
        told = last_result(request)
        if draft := asked_reading(told):
            letter = next(line[0] for line in told.splitlines() if line[1:].startswith(f") {reading}: "))
            answer = {"draft": draft, "after": "", "rest": "", "reading": letter}
            return (Call("finish_call", answer, 0), Finish())
        asked = shown_draft(last_user_text(request))
        if brings_results(request) or asked is None:
            return _DONE
        return (
            Call("finish_call", {"draft": asked.id, "after": text[at - 40 : at], "rest": rest}, 0),
            Finish(),
        )

    return step


_cut_note = _cut_write(NOTE, _NOTE_AT)
_repeats_the_tail = _finishes(
    NOTE, _NOTE_AT, NOTE[_NOTE_AT - _ECHO :], f"without the first {_ECHO} characters of your rest"
)
_in_a_fence = _finishes(
    NOTE,
    _NOTE_AT,
    f"```\n{NOTE[_NOTE_AT:]}\n```",
    "without the first 4 characters of your rest and its last 4 characters",
)
_behind_a_preface = _finishes(
    NOTE, _NOTE_AT, f"Continuing: {NOTE[_NOTE_AT:]}", "without the first 12 characters of your rest"
)
BLOCK = (
    "The wave lifts the boat, the rope takes up the slack, and nobody on board says a single word about it. "
)
BLOCKS = BLOCK * 4
_BLOCKS_AT = 150
_equal_blocks = _finishes(BLOCKS, _BLOCKS_AT, BLOCKS[_BLOCKS_AT:], "your rest as it is")


def _ignores_the_tail(request: LabRequest) -> Iterable[ScriptItem]:
    """Finishes its draft behind words that are not there."""
    asked = shown_draft(last_user_text(request))
    if brings_results(request) or asked is None:
        return (Say("I leave it at that."), Finish())
    arguments = {"draft": asked.id, "after": "words that were never written here", "rest": NOTE[_NOTE_AT:]}
    return (Call("finish_call", arguments, 0), Finish())


def _forgets_the_flags(request: LabRequest) -> Iterable[ScriptItem]:
    """Finishes its draft without the arguments that were lost behind it."""
    asked = shown_draft(last_user_text(request))
    if brings_results(request) or asked is None:
        return (Say("I leave it at that."), Finish())
    arguments = {"draft": asked.id, "after": NOTE[_NOTE_AT - 40 : _NOTE_AT], "rest": NOTE[_NOTE_AT:]}
    return (Call("finish_call", arguments, 0), Finish())


def _cut_mail(request: LabRequest) -> Iterable[ScriptItem]:
    return (Call("send_mail", f'{{"text":"{NOTE[:_NOTE_AT]}', 0, closed=False), CutOff("reset"))


SMALL_FILE = TEXT[:2_400]
_SMALL_AT = 1_503


def _cut_small(request: LabRequest) -> Iterable[ScriptItem]:
    arguments = f'{{"path":"small.txt","content":{json.dumps(SMALL_FILE[:_SMALL_AT])[:-1]}'
    return (Call("write_file", arguments, _PIECES, closed=False), CutOff("reset"))


def _writes_instead(content: str) -> Step:
    """Makes a new call with this content, whatever it was asked for, and says that all is well."""

    def step(request: LabRequest) -> Iterable[ScriptItem]:
        if brings_results(request):
            return _DONE
        return (Call("write_file", {"path": "small.txt", "content": content}, _PIECES), Finish())

    return step


_answers_in_text: tuple[ScriptItem, ...] = (
    Say(f"Here is the rest:\n```\n{SMALL_FILE[_SMALL_AT:]}\n```"),
    Finish(),
)

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
        "draft-in-a-fence",
        "cut; finishes its draft inside a code fence",
        ((_cut_note,), (_in_a_fence,)),
        scenarios=("T3",),
    ),
    Case(
        "draft-behind-a-preface",
        "cut; finishes its draft behind words about it",
        ((_cut_note,), (_behind_a_preface,)),
        scenarios=("T3",),
    ),
    Case(
        "draft-of-equal-blocks",
        "cut inside the second of four equal blocks",
        ((_cut_write(BLOCKS, _BLOCKS_AT),), (_equal_blocks,)),
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
        "small-model-copies-the-tail",
        "cut; a new file begins with the tail it was shown",
        ((_cut_small,), (_writes_instead(SMALL_FILE[_SMALL_AT - 120 :]),)),
        scenarios=("T3",),
    ),
    Case(
        "small-model-shortens-the-file",
        "cut; a new file that is shorter than what arrived",
        ((_cut_small,), (_writes_instead("A short file in place of the long one.\n" * 5),)),
        scenarios=("T3",),
    ),
    Case(
        "small-model-answers-in-text",
        "cut; the rest as words, and no call",
        ((_cut_small,), _answers_in_text),
        scenarios=("T3",),
    ),
    Case(
        "long-write-stubborn",
        "the same; makes the same call forever, plain too",
        ((When("streaming", _WHOLE, (Say("Once more."), CutOff("fin"))),),),
        scenarios=("L9",),
    ),
)
