"""What the rehearsal model was asked to do: a task in words becomes steps.

A task is split where a new verb begins behind "then", "and" or a comma. What stands in backquotes is never
looked into. How a step shall break, and how slowly it shall go, is taken out first; the rest is a verb with
its objects.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from turnbuckle.runtime.rehearsal_words import HELP, MARKDOWN, lines, story, thoughts

Break = Literal["cut", "stall", "lie", "fail", "busy", "refuse"]

LONGEST_TASK = 4_000
"""Characters of a task that is looked into. People write a line or two; what is longer is a program's
prompt."""
MOST_STEPS = 20
MOST_BREAKS = 20
MOST_WAIT = 600.0

_VERBS = "write|append|add|edit|replace|change|read|list|search|run|fetch|ask|wait|sleep|think|show|tell"
_VERBS += "|say|call|use"
_THEN = r"(?:\s*[,;.]\s*|\s+)(?:and\s+)?then\s+"
_NEXT = re.compile(rf"(?:{_THEN}|\s*,\s*(?:and\s+)?|\.\s+|\s+and\s+)(?=(?:{_VERBS})(?:\s|$))", re.I)
_NEXT_OF_RUN = re.compile(rf"{_THEN}(?=(?:{_VERBS})(?:\s|$))", re.I)
_TIMES = r"(?:\s+(?P<times>once|twice|\d{1,2}\s+times|every\s+time|always|for\s+ever))?"
_HOW = rf"(?P<how>cut|stall|lie|fail|be\s+busy|refuse){_TIMES}(?=$|[\s,.;!?])"
_BREAKS = re.compile(
    rf"(?:(?:\s*,\s*|\s+)(?:and\s+|but\s+|then\s+|please\s+)+|\s*,\s*|\s+break\s+(?:by|with)\s+(?:a\s+)?){_HOW}",
    re.I,
)
_BREAK_ALONE = re.compile(rf"^\s*(?:(?:please|break|by|with|a|just)\s+)*{_HOW}", re.I)
_SLOWLY = re.compile(r"(?:\s*,)?\s*\b(?:very )?slowly\b", re.I)
_AT_ONCE = re.compile(r"(?:\s*,)?\s*\b(?:at once|in parallel|at the same time)\b", re.I)
_QUOTED = re.compile(r"`([^`]+)`")
_HIDDEN = re.compile("\0(\\d+)\0")
_POLITE = re.compile(
    (
        r"^(?:(?:please|now|first|next|also|then|just|hello|hi|can you|could you|would you|i want you "
        r"to|you)[\s,:]+)+"
    ),
    re.I,
)
_NO_NAMES = frozenset(
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
    """All steps of a task. `at_once`: their calls are made together."""

    steps: tuple[Step, ...]
    at_once: bool = False


def plan_of(task: str) -> Plan:
    """What to do for a task; a step that says what is possible if it was not understood."""
    if len(task) > LONGEST_TASK:
        return Plan((Step(HELP),))
    kept: list[str] = []

    def hide(quoted: re.Match[str]) -> str:
        kept.append(quoted[1])
        return f"\0{len(kept) - 1}\0"

    def show(text: str) -> str:
        return _HIDDEN.sub(lambda hidden: kept[int(hidden[1])], text).strip()

    words = _QUOTED.sub(hide, task.replace("\0", " ")).strip().rstrip(".!")
    together = _AT_ONCE.sub("", words)
    made: list[Step] = []
    path = ""
    for text in _parts(together):
        step = _step(text, show, path)
        path = step.arguments.get("path", path)
        made.append(step)
        if len(made) == MOST_STEPS:
            break
    return Plan(tuple(made), together != words)


def _parts(text: str) -> Iterator[str]:
    """The steps of a task, each from its verb to the next one. A command goes on up to a "then"."""
    while text:
        is_run = re.match(r"(?:\S+\s+){0,3}?run\s", text, re.I)
        found = (_NEXT_OF_RUN if is_run else _NEXT).search(text)
        if found is None:
            yield text
            return
        if text[: found.start()].strip():
            yield text[: found.start()]
        text = text[found.end() :]


def _step(text: str, show: Callable[[str], str], path: str) -> Step:
    breaks, every = _wanted_breaks(text)
    rest = _SLOWLY.sub("", _BREAK_ALONE.sub("", _BREAKS.sub("", text)))
    rest = _POLITE.sub("", rest.strip()).strip().rstrip(",;.")
    did = _done(rest, show, path) or Step(story(12) if breaks else HELP)
    return msgspec.structs.replace(did, breaks=breaks, every=every, slowly=bool(_SLOWLY.search(text)))


def _wanted_breaks(text: str) -> tuple[tuple[Break, ...], bool]:
    found: list[Break] = []
    every = False
    alone = _BREAK_ALONE.match(text)
    for one in (*([alone] if alone else []), *_BREAKS.finditer(text, alone.end() if alone else 0)):
        how: Any = one["how"].lower().split()[-1]
        times = (one["times"] or "once").lower()
        count = {"once": 1, "twice": 2}.get(times, int(times.split()[0]) if times[0].isdigit() else 1)
        every = every or times.startswith(("every", "always", "for"))
        found += [how] * count
    return tuple(found[:MOST_BREAKS]), every


def _done(text: str, show: Callable[[str], str], path: str) -> Step | None:
    """The step that a text without its breaks asks for: by the verb that it begins with, else by one inside
    it."""
    for look in (re.Pattern.match, re.Pattern.search):
        for pattern, make in _REQUESTS:
            found = look(pattern, text)
            if found is None:
                continue
            given = {name: show(value) for name, value in found.groupdict().items() if value}
            if "path" in given:
                given["path"] = (
                    path if given["path"] in ("it", "that") and path else given["path"].rstrip(".;:!")
                )
                if given["path"].lower() in _NO_NAMES:
                    continue
            return make(given)
    return None


def _write(given: dict[str, str]) -> Step:
    content = given["words"] + "\n" if "words" in given else lines(int(given.get("count", 1)))
    arguments = {"path": given["path"], "content": content}
    return Step(f"I will write {given['path']}.\n", tool="write_file", arguments=arguments)


def _append(given: dict[str, str]) -> Step:
    content = given["words"] + "\n" if "words" in given else lines(int(given.get("count", 1)), "appended")
    arguments = {"path": given["path"], "content": content}
    return Step(f"I will add to {given['path']}.\n", tool="append_file", arguments=arguments)


def _edit(given: dict[str, str]) -> Step:
    arguments = {
        "path": given["path"],
        "old": given.get("old", "line 1 of"),
        "new": given.get("new", "line one of"),
    }
    return Step(f"I will change {given['path']}.\n", tool="edit_file", arguments=arguments)


def _read(given: dict[str, str]) -> Step:
    return Step(f"I will read {given['path']}.\n", tool="read_file", arguments={"path": given["path"]})


def _list(given: dict[str, str]) -> Step:
    arguments = {"path": given["path"]} if "path" in given else {}
    return Step("I will look at the files.\n", tool="list_files", arguments=arguments)


def _search(given: dict[str, str]) -> Step:
    arguments = {"pattern": re.escape(given["words"])}
    return Step("I will search the files.\n", tool="search_files", arguments=arguments)


def _run(given: dict[str, str]) -> Step:
    return Step("I will run a command.\n", tool="shell", arguments={"command": given["command"]})


def _wait(given: dict[str, str]) -> Step:
    seconds = min(float(given.get("seconds", 3)), MOST_WAIT)
    arguments = {"command": f"sleep {seconds:g}", "timeout": seconds + 30}
    return Step(f"I will wait {seconds:g} seconds.\n", tool="shell", arguments=arguments)


def _fetch(given: dict[str, str]) -> Step:
    return Step(
        f"I will fetch {given['url']}.\n", tool="fetch_url", arguments={"url": given["url"].rstrip(".,;")}
    )


def _ask(given: dict[str, str]) -> Step:
    question = given.get("question", "what shall I do next").strip().rstrip("?") + "?"
    arguments = {"question": question[0].upper() + question[1:]}
    return Step("I have a question.\n", tool="ask_user", arguments=arguments)


def _call(given: dict[str, str]) -> Step:
    try:
        arguments = msgspec.json.decode(given.get("json", "{}"), type=dict[str, Any])
    except msgspec.DecodeError as error:
        return Step(f"The arguments of {given['tool']} must be a JSON object: {error}.\n")
    return Step(f"I will call {given['tool']}.\n", tool=given["tool"], arguments=arguments)


def _think(given: dict[str, str]) -> Step:
    return Step("I have thought about it.\n", thoughts(given.get("words", "nothing in particular")))


_PATH = r"(?:(?:a|the) file (?:called |named )?)?(?P<path>[^\s,]+?)"
_REQUESTS: tuple[tuple[re.Pattern[str], Callable[[dict[str, str]], Step]], ...] = tuple(
    (re.compile(pattern if pattern[0] == "^" else rf"\b{pattern}", re.I | re.S), make)
    for pattern, make in (
        (r"write (?P<count>\d{1,5}) lines? (?:in)?to (?P<path>[^\s,]+)", _write),
        (
            rf"write {_PATH}(?: with (?P<count>\d{{1,5}}) lines?|(?: saying|:) (?P<words>.+)|(?=[\s,]|$))",
            _write,
        ),
        (r"^(?:append|add) (?P<count>\d{1,5}) lines? to (?P<path>[^\s,]+)", _append),
        (rf"^(?:append|add) (?:to )?{_PATH}(?:(?: saying|:) (?P<words>.+)|(?=[\s,]|$))", _append),
        (r"^(?:replace|change) (?P<old>.+?) (?:by|with|to|into) (?P<new>.+?) in (?P<path>[^\s,]+)", _edit),
        (rf"edit {_PATH}(?:[\s,:]+replac\w+ (?P<old>.+?) (?:by|with) (?P<new>.+)|(?=[\s,]|$))", _edit),
        (rf"read {_PATH}(?=[\s,]|$)", _read),
        (r"search (?:the files |all files )?for (?P<words>.+)", _search),
        (r"run (?P<command>.+)", _run),
        (r"fetch (?P<url>https?://\S+)", _fetch),
        (r"^ask me(?: (?P<question>.+))?", _ask),
        (r"^(?:wait|sleep)(?: for)?(?: (?P<seconds>\d{1,3}(?:\.\d{1,3})?))?(?=[\s,]|$)", _wait),
        (r"^(?:call|use) (?P<tool>[\w.-]+)(?: with (?P<json>\{.*\}))?", _call),
        (r"list\b(?:.* in (?P<path>[^\s,]*[/\0][^\s,]*))?", _list),
        (r"^say (?P<words>.+)", lambda given: Step(given["words"] + "\n")),
        (r"^think(?: about (?P<words>.+)|\b)", _think),
        (r"(?:show|answer in) markdown", lambda given: Step(MARKDOWN)),
        (r"story\b(?:.*?(?P<count>\d{1,5}) lines)?", lambda given: Step(story(int(given.get("count", 12))))),
        (r"help\b", lambda given: Step(HELP)),
    )
)
