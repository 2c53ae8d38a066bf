"""The commands of the rehearsal model: a line of words becomes steps.

Theory of operation. The line is cut into words; what stands in backquotes is one word, whatever it holds.
Words are then read from left to right by this grammar, and by nothing else:

    line     = step { next step }
    next     = "then" | "," | "and" | "."        where a verb stands behind it; behind `run` only "then"
    step     = [courtesy] ["slowly"] verb objects { modifier }
    modifier = "slowly" | "at once" | ("and" | "but" | ",") break [times]
    break    = "cut" | "stall" | "lie" | "fail" | "be busy" | "refuse"
    times    = "once" | "twice" | N "times" | "every time"

Each verb has one function that reads its objects. It gives None if they do not fit, and the step then says
what is possible. `words.HELP` is the same for people.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from turnbuckle.lab.rehearsal.words import HELP, MARKDOWN, lines, story, thoughts

Break = Literal["cut", "stall", "lie", "fail", "busy", "refuse"]

LONGEST_TASK = 4_000
"""Characters of a line that is read. People write a line or two; what is longer is a program's prompt."""
MOST_STEPS = 20
MOST_BREAKS = 20
MOST_LINES = 99_999
MOST_WAIT = 600.0

_PUNCTUATION = ",.;:!?"
_COURTESIES = (
    ("i", "want", "you", "to"),
    ("can", "you"),
    ("could", "you"),
    ("would", "you"),
    *((word,) for word in ("please", "now", "first", "next", "also", "then", "just", "hello", "hi", "you")),
)
_CONNECTIVES = frozenset({"and", "but", "then", "please"})
_BREAKS = frozenset(get_args(Break)) - {"busy"}
_FOR_EVER = (("every", "time"), ("always",), ("for", "ever"))
_AT_ONCE = (("at", "once"), ("in", "parallel"), ("at", "the", "same", "time"))
_SLOWLY = (("very", "slowly"), ("slowly",))
_NOT_NAMES = frozenset(
    {"a", "an", "the", "me", "us", "some", "down", "up", "to", "about", "something", "code"}
)


class Step(Struct, frozen=True):
    """One thing to do: say something, or call one tool. `breaks` is how it goes wrong, one after the other;
    `every` time if it never goes right."""

    text: str = ""
    reasoning: str = ""
    tool: str = ""
    arguments: dict[str, Any] = {}
    breaks: tuple[Break, ...] = ()
    every: bool = False
    slowly: bool = False


class Plan(Struct, frozen=True):
    """All steps of a line. `at_once`: their calls are made together."""

    steps: tuple[Step, ...]
    at_once: bool = False


class _Word(Struct, frozen=True):
    """A word, the space in front of it, the punctuation behind it. One in backquotes is never a keyword."""

    text: str
    space: str = ""
    after: str = ""
    is_quoted: bool = False

    @property
    def key(self) -> str:
        return "" if self.is_quoted else self.text.lower()


class _Modifiers(Struct, frozen=True):
    breaks: tuple[Break, ...] = ()
    every: bool = False
    slowly: bool = False
    at_once: bool = False


def plan_of(task: str) -> Plan:
    """What to do for a task; a step that says what is possible if it was not understood."""
    if len(task) > LONGEST_TASK:
        return Plan((Step(HELP),))
    left = _words(task)
    steps: list[Step] = []
    path, at_once = "", False
    while left and len(steps) < MOST_STEPS:
        words, left = _first_step(left)
        step, together = _step(words, path)
        path = step.arguments.get("path", path)
        at_once = at_once or together
        steps.append(step)
    return Plan(tuple(steps), at_once)


def is_understood(task: str) -> bool:
    """Whether the first thing that it says is a command."""
    steps = plan_of(task).steps
    return bool(steps) and steps[0].text != HELP


# Words


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    at = 0
    while at < len(text):
        begin = at
        while at < len(text) and text[at].isspace():
            at += 1
        space, start = text[begin:at], at
        if at == len(text):
            break
        close = text.find("`", at + 1) if text[at] == "`" else -1
        at = close + 1 if close > start + 1 else at
        while at < len(text) and not text[at].isspace() and not (text[at] == "`" and at > start):
            at += 1
        words.append(_word(text[start:at], space, close - start))
    return words


def _word(text: str, space: str, close: int) -> _Word:
    """`close` is where its closing backquote stands, if it has one."""
    if close > 1:
        return _Word(text[1:close], space, text[close + 1 :], is_quoted=True)
    bare = text.rstrip(_PUNCTUATION) or text  # a dot alone is a folder
    return _Word(bare, space, text[len(bare) :])


def _said(words: Sequence[_Word]) -> str:
    """Words as they were written, without backquotes and without the punctuation behind the last."""
    if not words:
        return ""
    whole = "".join(f"{word.space}{word.text}{word.after}" for word in words)
    return whole.removesuffix(words[-1].after).strip() + ("?" if words[-1].after == "?" else "")


def _keys(words: Sequence[_Word], at: int, count: int) -> tuple[str, ...]:
    return tuple(word.key for word in words[at : at + count])


def _phrase(words: Sequence[_Word], at: int, phrases: Sequence[tuple[str, ...]]) -> int:
    """How many words of a phrase stand here; 0 if it is none of these."""
    return next((len(phrase) for phrase in phrases if _keys(words, at, len(phrase)) == phrase), 0)


def _find(words: Sequence[_Word], *keys: str) -> int:
    """Where the first of these keywords stands; the number of words if there is none."""
    return next((at for at, word in enumerate(words) if word.key in keys), len(words))


# Steps and their modifiers


def _first_step(words: list[_Word]) -> tuple[list[_Word], list[_Word]]:
    """The words of the first step, and all behind it."""
    is_run = "run" in _keys(words, _courtesy(words), 2)
    for at in range(1, len(words)):
        then = at + (words[at].key == "and")
        is_then = then < len(words) and words[then].key == "then"
        joined = words[at].key == "and" or (set(words[at - 1].after) & set(",.") and not words[at].is_quoted)
        begin = then + 1 if is_then else then
        if (is_then or (joined and not is_run)) and begin < len(words) and words[begin].key in _VERBS:
            return words[:at], words[begin:]
    return words, []


def _step(words: list[_Word], path: str) -> tuple[Step, bool]:
    """A step, and whether it asks for all calls at once."""
    words = words[_courtesy(words) :]
    early = _phrase(words, 0, _SLOWLY)
    words = words[early:]
    found, size = _Modifiers(), len(words)
    for at in range(len(words)):
        if (read := _modifiers(words, at)) is not None:
            found, size = read, at
            break
    did = _command(words[:size], path) or Step(story(12) if found.breaks else HELP)
    step = msgspec.structs.replace(
        did, breaks=found.breaks, every=found.every, slowly=bool(early) or found.slowly
    )
    return step, found.at_once


def _courtesy(words: Sequence[_Word]) -> int:
    at = 0
    while count := _phrase(words, at, _COURTESIES):
        at += count
    return at


def _modifiers(words: list[_Word], at: int) -> _Modifiers | None:
    """The modifiers from here to the end of a step; None if something else stands among them."""
    breaks: list[Break] = []
    every = slowly = at_once = False
    while at < len(words):
        start = at
        while at < len(words) and words[at].key in _CONNECTIVES:
            at += 1
        is_joined = at > start or at == 0 or "," in words[at - 1].after
        if count := _phrase(words, at, _SLOWLY):
            slowly, at = True, at + count
        elif count := _phrase(words, at, _AT_ONCE):
            at_once, at = True, at + count
        else:
            begin = _break_word(words, at)
            how, count = _break(words, begin)
            if how is None or not (is_joined or begin > at):
                return None
            times, for_ever, size = _times(words, begin + count)
            breaks += [how] * times
            every, at = every or for_ever, begin + count + size
    return _Modifiers(tuple(breaks[:MOST_BREAKS]), every, slowly, at_once)


def _break_word(words: list[_Word], at: int) -> int:
    """Behind "break by", "break with a", if that stands here."""
    if _keys(words, at, 2) not in (("break", "by"), ("break", "with")):
        return at
    return at + 2 + (_keys(words, at + 2, 1) == ("a",))


def _break(words: list[_Word], at: int) -> tuple[Break | None, int]:
    if _keys(words, at, 2) == ("be", "busy"):
        return "busy", 2
    key: Any = words[at].key if at < len(words) else ""
    return (key, 1) if key in _BREAKS else (None, 0)


def _times(words: list[_Word], at: int) -> tuple[int, bool, int]:
    """How often, whether forever, and how many words say so."""
    if size := _phrase(words, at, _FOR_EVER):
        return 1, True, size
    first, second = (*_keys(words, at, 2), "", "")[:2]
    if first in ("once", "twice"):
        return 1 + (first == "twice"), False, 1
    if second == "times" and (count := _number(first)) is not None:
        return int(count), False, 2
    return 1, False, 0


# Commands: each reads the words behind its verb


def _command(words: list[_Word], path: str) -> Step | None:
    read = _VERBS.get(words[0].key) if words else None
    step = read(words[1:]) if read is not None else None
    if step is None:
        return _story(words)
    named = step.arguments.get("path")
    if named in ("it", "that") and path:
        return msgspec.structs.replace(step, arguments={**step.arguments, "path": path})
    return step


def _number(text: str) -> float | None:
    """A number as people write it: digits, perhaps with a point."""
    whole, point, rest = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 5 and (not point or rest.isdigit())):
        return None
    return float(text)


def _count_of_lines(words: Sequence[_Word]) -> int | None:
    """The N of `N lines` at the beginning."""
    first, second = (*_keys(words, 0, 2), "", "")[:2]
    count = _number(first) if second in ("line", "lines") else None
    return None if count is None else min(int(count), MOST_LINES)


def _path(words: list[_Word]) -> tuple[str, list[_Word], bool]:
    """A file's name, the words behind it, and whether a colon stands between. Empty: there is no name."""
    if _keys(words, 0, 2) in (("a", "file"), ("the", "file")):
        words = words[2:]
        words = words[1:] if _keys(words, 0, 1) in (("called",), ("named",)) else words
    if not words or words[0].key in _NOT_NAMES:
        return "", [], False
    return words[0].text, words[1:], ":" in words[0].after


def _content(rest: list[_Word], is_colon: bool, count: int | None, verb: str) -> str:
    """What goes into a file: given words, or lines that the model makes up."""
    if is_colon and rest:
        return _said(rest) + "\n"
    if _keys(rest, 0, 1) == ("saying",) and len(rest) > 1:
        return _said(rest[1:]) + "\n"
    if count is None and _keys(rest, 0, 1) == ("with",):
        count = _count_of_lines(rest[1:])
    return lines(1 if count is None else count, verb)


def _write(words: list[_Word]) -> Step | None:
    count = _count_of_lines(words)
    if count is not None:
        if _keys(words, 2, 1) not in (("to",), ("into",)):
            return None
        words = words[3:]
    path, rest, is_colon = _path(words)
    arguments = {"path": path, "content": _content(rest, is_colon, count, "written")}
    return Step(f"I will write {path}.\n", tool="write_file", arguments=arguments) if path else None


def _append(words: list[_Word]) -> Step | None:
    count = _count_of_lines(words)
    words = words if count is None else words[2:]
    words = words[1:] if _keys(words, 0, 1) == ("to",) else words
    path, rest, is_colon = _path(words)
    arguments = {"path": path, "content": _content(rest, is_colon, count, "appended")}
    return Step(f"I will add to {path}.\n", tool="append_file", arguments=arguments) if path else None


def _replace(words: list[_Word]) -> Step | None:
    """OLD by NEW in FILE."""
    middle = _find(words, "by", "with", "to", "into")
    place = middle + _find(words[middle:], "in")
    path, _, _ = _path(words[place + 1 :])
    if not (0 < middle < place - 1) or not path:
        return None
    return _changed(path, _said(words[:middle]), _said(words[middle + 1 : place]))


def _edit(words: list[_Word]) -> Step | None:
    path, rest, _ = _path(words)
    if not path:
        return None
    middle = _find(rest, "by", "with")
    if rest and rest[0].key.startswith("replac") and 1 < middle < len(rest) - 1:
        return _changed(path, _said(rest[1:middle]), _said(rest[middle + 1 :]))
    return _changed(path, "line 1 of", "line one of")


def _changed(path: str, old: str, new: str) -> Step:
    arguments = {"path": path, "old": old, "new": new}
    return Step(f"I will change {path}.\n", tool="edit_file", arguments=arguments)


def _read(words: list[_Word]) -> Step | None:
    path, _, _ = _path(words)
    return Step(f"I will read {path}.\n", tool="read_file", arguments={"path": path}) if path else None


def _list(words: list[_Word]) -> Step:
    """Of a folder if one is named by its path; "in this folder" is not a path."""
    named = words[_find(words, "in") + 1 :][:1]
    is_path = bool(named) and (named[0].is_quoted or "/" in named[0].text)
    arguments = {"path": named[0].text} if is_path else {}
    return Step("I will look at the files.\n", tool="list_files", arguments=arguments)


def _search(words: list[_Word]) -> Step | None:
    wanted = _said(words[_find(words, "for") + 1 :])
    arguments = {"pattern": re.escape(wanted)}
    return Step("I will search the files.\n", tool="search_files", arguments=arguments) if wanted else None


def _run(words: list[_Word]) -> Step | None:
    command = _said(words)
    arguments = {"command": command}
    return Step("I will run a command.\n", tool="shell", arguments=arguments) if command else None


def _wait(words: list[_Word]) -> Step:
    words = words[1:] if _keys(words, 0, 1) == ("for",) else words
    given = _number(words[0].key) if words else None
    seconds = min(3.0 if given is None else given, MOST_WAIT)
    arguments = {"command": f"sleep {seconds:g}", "timeout": seconds + 30}
    return Step(f"I will wait {seconds:g} seconds.\n", tool="shell", arguments=arguments)


def _fetch(words: list[_Word]) -> Step | None:
    url = words[0].text if words else ""
    if not url.startswith(("http://", "https://")):
        return None
    return Step(f"I will fetch {url}.\n", tool="fetch_url", arguments={"url": url})


def _ask(words: list[_Word]) -> Step | None:
    if _keys(words, 0, 1) != ("me",):
        return None
    question = (_said(words[1:]).rstrip("?") or "what should I do next") + "?"
    arguments = {"question": question[0].upper() + question[1:]}
    return Step("I have a question.\n", tool="ask_user", arguments=arguments)


def _call(words: list[_Word]) -> Step | None:
    if not words:
        return None
    name, given = words[0].text, _said(words[2:]) if _keys(words, 1, 1) == ("with",) else ""
    try:
        arguments = msgspec.json.decode(given or "{}", type=dict[str, Any])
    except msgspec.DecodeError as error:
        return Step(f"The arguments of {name} must be a JSON object: {error}.\n")
    return Step(f"I will call {name}.\n", tool=name, arguments=arguments)


def _say(words: list[_Word]) -> Step | None:
    return Step(_said(words) + "\n") if words else None


def _think(words: list[_Word]) -> Step:
    about = _said(words[1:]) if _keys(words, 0, 1) == ("about",) else ""
    return Step("I have thought about it.\n", thoughts(about or "nothing in particular"))


def _show(words: list[_Word]) -> Step | None:
    return Step(MARKDOWN) if _keys(words, 0, 1) == ("markdown",) else None


def _answer(words: list[_Word]) -> Step | None:
    return Step(MARKDOWN) if _keys(words, 0, 2) == ("in", "markdown") else None


def _story(words: list[_Word]) -> Step | None:
    """A story, by whatever verb it is asked for."""
    at = _find(words, "story")
    if at == len(words):
        return None
    counts = (_count_of_lines(words[place:]) for place in range(at, len(words)))
    return Step(story(next((count for count in counts if count is not None), 12)))


_VERBS: dict[str, Callable[[list[_Word]], Step | None]] = {
    "write": _write,
    "append": _append,
    "add": _append,
    "replace": _replace,
    "change": _replace,
    "edit": _edit,
    "read": _read,
    "list": _list,
    "search": _search,
    "run": _run,
    "fetch": _fetch,
    "ask": _ask,
    "wait": _wait,
    "sleep": _wait,
    "call": _call,
    "use": _call,
    "say": _say,
    "think": _think,
    "show": _show,
    "answer": _answer,
    "tell": _story,
    "help": lambda words: Step(HELP),
}
