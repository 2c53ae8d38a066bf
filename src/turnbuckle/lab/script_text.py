"""Scripts in a file, for people who do not want to write Python.

The file is TOML. Each step is a table with the step's name and its main value, and options beside it; a step
that needs no value may be a bare string:

    summary = "two words, a pause, a reset"
    steps = [
      { say = "Once upon" },
      { stall = 2.5 },
      { cut = "reset" },
    ]

`[[requests]]` tables with `steps` of their own give each request its own script; `after_tools` is the script
for a request that brings tool results. Every mistake is answered with where it is, what it is, and the
nearest known word.
"""

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import inspect

from turnbuckle.lab import script
from turnbuckle.lab.script import CONDITION_WORDS, Case, Script, ScriptItem, Step, When
from turnbuckle.vocab.events import Usage

STEPS: dict[str, type[Step]] = {
    "open": script.Open,
    "say": script.Say,
    "reason": script.Reason,
    "refuse": script.Refuse,
    "call": script.Call,
    "more": script.More,
    "finish": script.Finish,
    "raw": script.Raw,
    "frame": script.Frame,
    "stall": script.Stall,
    "comments": script.Comments,
    "cut": script.CutOff,
    "error": script.Error,
    "status": script.Status,
    "garbage": script.Garbage,
    "plain": script.Plain,
    "headers": script.Headers,
    "pace": script.Pace,
    "dribble": script.Dribble,
    "kill_after": script.KillAfter,
    "when": script.When,
}
_CASE_KEYS = ("name", "summary", "steps", "requests", "after_tools", "again")


class ScriptError(ValueError):
    """A script that cannot be played. The message says where, what, and what may have been meant."""


def parse_case(text: str, *, name: str = "script") -> Case:
    """A case from the text of a file. Raises ScriptError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"this is not TOML: {error}") from error
    _check_keys(document, _CASE_KEYS, "key", "")
    if ("steps" in document) == ("requests" in document):
        raise ScriptError('either "steps" or "requests" is needed, and not both')
    if "steps" in document:
        requests: tuple[Script, ...] = (_parse_steps(document["steps"], "steps"),)
    else:
        requests = _parse_requests(document["requests"])
    after_tools = document.get("after_tools")
    return Case(
        name=_typed(document.get("name", name), str, "name"),
        summary=_typed(document.get("summary", "from a file"), str, "summary"),
        requests=requests,
        after_tools=None if after_tools is None else _parse_steps(after_tools, "after_tools"),
        again=_typed(document.get("again", False), bool, "again"),
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: what may have been meant, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _parse_requests(tables: Any) -> tuple[Script, ...]:
    if not isinstance(tables, list) or not tables:
        raise ScriptError("requests: one or more tables with steps are needed")
    scripts = []
    for place, table in enumerate(tables):
        where = f"requests[{place}]"
        if not isinstance(table, dict):
            raise ScriptError(f"{where}: a table with steps is needed")
        _check_keys(table, ("steps",), "key", f"{where}: ")
        scripts.append(_parse_steps(table.get("steps"), f"{where}.steps"))
    return tuple(scripts)


def _parse_steps(steps: Any, where: str) -> tuple[ScriptItem, ...]:
    if not isinstance(steps, list):
        raise ScriptError(f"{where}: a list of steps is needed")
    return tuple(_parse_step(step, f"{where}[{place}]") for place, step in enumerate(steps))


def _parse_step(step: Any, where: str) -> Step:
    if isinstance(step, str):
        return _build(_known_step(step, where), {}, where)
    if not isinstance(step, dict):
        raise ScriptError(f'{where}: a step is a table such as {{ say = "hello" }}, or the name of one')
    # Options of one step may be names of others ("text", "code"), so the step's own key is the first one.
    name = next(iter(step), "")
    if name not in STEPS:
        name = next((key for key in step if key in STEPS), name)
    kind = _known_step(name, where)
    options = {key: value for key, value in step.items() if key != name}
    fields = kind.__struct_fields__
    _check_keys(options, fields[1:], f"option of {name}", f"{where}: ")
    if fields:
        options[fields[0]] = step[name]
    if kind is When:
        return _parse_when(options, where)
    return _build(kind, options, where)


def _parse_when(options: dict[str, Any], where: str) -> When:
    condition = _typed(options["condition"], str, where)
    for word in condition.split():
        if word not in CONDITION_WORDS:
            raise ScriptError(f'{where}: unknown condition "{word}"{nearest(word, CONDITION_WORDS)}')
    steps = _parse_steps(options.get("steps"), f"{where}.steps")
    return When(condition, steps, _parse_steps(options.get("otherwise", []), f"{where}.otherwise"))


def _build(kind: type[Step], options: dict[str, Any], where: str) -> Step:
    if kind is script.Raw and isinstance(options.get("data"), str):
        return script.Raw(options["data"])  # TOML has no bytes; msgspec would read the text as base64
    name = next(name for name, known in STEPS.items() if known is kind)
    main = kind.__struct_fields__[0] if kind.__struct_fields__ else ""
    if main in kind.__struct_fields__[: _required(kind)] and main not in options:
        raise ScriptError(f"{where}: {name} needs a value")
    _check_choices(kind, options, name, where)
    if isinstance(usage := options.get("usage"), dict):
        _check_keys(usage, Usage.__struct_fields__, "count", f"{where}: {name}, usage: ")
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$.")
        option = re.split(r"[.`\[]", path)[0]
        place = name if option in ("", main) else f"{name}, {option}"
        raise ScriptError(f"{where}: {place}: {what}") from error


def _required(kind: type[Step]) -> int:
    return len(kind.__struct_fields__) - len(kind.__struct_defaults__)


def _check_choices(kind: type[Step], options: dict[str, Any], name: str, where: str) -> None:
    """Words of a closed set get an answer that names the nearest one."""
    described = inspect.type_info(kind)
    if not isinstance(described, inspect.StructType):
        return
    for field in described.fields:
        value = options.get(field.name)
        types = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
        words = [str(word) for item in types if isinstance(item, inspect.LiteralType) for word in item.values]
        takes_any_text = any(isinstance(item, inspect.StrType) for item in types)
        if isinstance(value, str) and words and value not in words and not takes_any_text:
            known = ", ".join(word or '""' for word in words)
            raise ScriptError(
                f'{where}: {name}: unknown word "{value}"{nearest(value, words)} (known: {known})'
            )


def _known_step(name: str, where: str) -> type[Step]:
    if name not in STEPS:
        raise ScriptError(f'unknown step "{name}" in {where}{nearest(name, STEPS)}')
    return STEPS[name]


def _check_keys(table: dict[str, Any], known: Iterable[str], what: str, where: str) -> None:
    for key in table:
        if key not in known:
            raise ScriptError(f'{where}unknown {what} "{key}"{nearest(key, known)}')


def _typed(value: Any, kind: type[Any], where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{where}: {error}") from error
