"""The rest of a text that was cut, as plain words of a model that makes no use of `finish_call`.

Small models go on with a text far better than they quote its end. So they are asked for nothing but text, and
the runtime makes the call of it. There are three ways:

- `prefill`: the server goes on behind what is kept. It is kept up to a line end (a word end, where there are
  no lines), since a cut inside a token breaks every model.
- `whole`: all of it again, as one code block, never mixed with what is kept, and with every line that had
  arrived: a model that changes or drops one of them has written another text.
- `anchored`: the last telling line again and what comes behind it. That line must stand once in what is kept
  and once in the answer, and before it only kept lines in their order.

What was held back of the kept text (the line that was cut) must come again, letter by letter: that proves the
place, and nothing that arrived is lost. Everything else is refused. None of this proves that nothing is
missing at the end, so what can be checked of the whole is checked: that code can be parsed, that tags are
closed, that no words of ours and no marks for a part that was left out are in it.
"""

import ast
import json
import re
import tomllib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Way = Literal["prefill", "whole", "anchored"]
WHOLE_MOST = 6_000
"""Characters up to which a text is small enough to be written again."""
SHOWN = 2_400
"""Characters of the kept text that are shown where the rest is asked for behind an anchor."""
_TELLING = 4
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_OURS = ("[Runtime]", "<<<", ">>>", "<tool_call>", '"arguments":')
_LEFT_OUT = re.compile(
    r"^\W*(?:\.\.\.|…|(?:the )?rest of (?:the |your )?(?:code|file|content|text|lines)\b.*"
    r"|(?:same|unchanged) as (?:before|above)\b.*|existing code\b.*|continue(?:s|d)? (?:here|from "
    r"here)\b.*)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_LOOSE = frozenset(("p", "li", "td", "th", "tr", "dt", "dd", "option", "thead", "tbody", "tfoot", "colgroup"))
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)[^<>]*?(/?)>")
_BRACED = frozenset("c cc cpp cs css dart go h hpp java js jsx kt less mjs php rs scss swift ts tsx".split())
_QUOTED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
_UNFINISHED = ("never closed", "unexpected EOF", "unterminated", "expected an indented block", "was never")


class Unfit(Struct, frozen=True):
    """Why an answer is not taken as the rest. A plain phrase."""

    why: str


class ContinuationPoint(Struct, frozen=True):
    """Where an answer goes on: behind `kept`. `back` was received behind it and must come again. `anchor` is
    the line that the answer repeats first, if one is asked for."""

    kept: str
    back: str
    anchor: str = ""


def line_end(text: str) -> ContinuationPoint:
    """Behind the last whole line; behind the last whole word, where there is no line."""
    at = text.rfind("\n") + 1
    if not at:
        at = max(text.rfind(" "), text.rfind("\t")) + 1
    return ContinuationPoint(text[:at], text[at:])


def word_end(text: str) -> ContinuationPoint:
    """Behind the last whole word, without the white space that follows it."""
    found = re.search(r"\s+\S*\Z", text)
    at = found.start() if found is not None else 0
    return ContinuationPoint(text[:at], text[at:])


def anchored(text: str) -> ContinuationPoint | None:
    """Behind the last whole line that tells where it stands: long enough, and only once in the text."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.strip()] = counts.get(line.strip(), 0) + 1
    end = sum(map(len, lines))
    for line in reversed(lines[-20:]):
        told = line.strip()
        if len(told) >= _TELLING and counts[told] == 1:
            return ContinuationPoint(text[:end], text[end:], line.rstrip("\r\n"))
        end -= len(line)
    return None


def fence_for(text: str) -> str:
    """A code fence that the text does not hold itself."""
    longest = max((len(found[1]) for found in _FENCE.finditer(text)), default=0)
    return "`" * max(longest + 1, 3)


def join(text: str, way: Way, answer: str, *, ended: bool, fence: str = "```") -> str | Unfit:
    """All of the text with the rest that this answer brings; of an answer that has not `ended`, as much as is
    certain. `text` is what is kept, `fence` what the prefilled block was opened with."""
    if any(mark in answer and mark not in text for mark in _OURS):
        return Unfit("it holds words or marks of this runtime")
    if "\\n" in answer and "\n" not in answer.strip() and len(answer) > 40:
        return Unfit("its line breaks are written as letters")
    match way:
        case "prefill":
            return _prefilled(text, answer, fence, ended=ended)
        case "whole":
            return _whole(text, answer, ended=ended)
        case "anchored":
            return _anchored(text, answer, ended=ended)


def _prefilled(text: str, answer: str, fence: str, *, ended: bool) -> str | Unfit:
    place = line_end(text)
    opened = _FENCE.match(answer.lstrip("\n"))
    if opened is not None and answer.lstrip("\n")[opened.end() :].lstrip("\n").startswith(place.kept[:200]):
        answer = answer.lstrip("\n")[opened.end() + 1 :]  # the host repeats what it was given
    if place.kept and answer.startswith(place.kept):
        answer = answer[len(place.kept) :]
    rest, closed = _up_to_fence(answer, fence)
    if ended and not closed:
        return Unfit("its code block has no end")
    return _behind(place, rest)


def _behind(place: ContinuationPoint, rest: str) -> str | Unfit:
    if len(rest) < len(place.back) and place.back.startswith(rest):
        return Unfit("it brings nothing new")
    if not rest.startswith(place.back):
        return Unfit("it does not bring again what had arrived behind it")
    return place.kept + rest


def _up_to_fence(answer: str, fence: str) -> tuple[str, bool]:
    """The answer up to the line that closes its block, and whether there is one."""
    for found in _FENCE.finditer(answer):
        if found[0].strip() == fence:
            return answer[: found.start()], True
    return answer, False


def _block(answer: str, *, ended: bool) -> tuple[str, bool] | Unfit:
    """What stands in the one code block of an answer, and whether it is closed. Plain text is its own
    block."""
    fences = list(_FENCE.finditer(answer))
    if not fences:
        return answer.lstrip("\n"), ended
    mark = fences[0][1]
    closing = [one for one in fences[1:] if one[0].strip() == mark]
    begin = fences[0].end() + 1
    if not closing:
        return (answer[begin:], False) if not ended else Unfit("its code block has no end")
    if any(one.start() > closing[0].end() and one[0].strip() != mark for one in fences[1:]):
        return Unfit("it holds more than one code block")
    return answer[begin : closing[0].start()], True


def _whole(text: str, answer: str, *, ended: bool) -> str | Unfit:
    if ended and _FENCE.search(answer) is None:
        return Unfit("it is not a code block")
    found = _block(answer, ended=ended)
    if isinstance(found, Unfit):
        return found
    block = found[0]
    if not ended:
        return block if block.startswith(text) else Unfit("it brings nothing new")
    if len(block) + 1 < len(text):
        return Unfit("it is shorter than what had arrived")
    if not _tidy(block).startswith(_tidy(text)):
        return Unfit("it is another text than the one that had arrived")
    return block


def _tidy(text: str) -> str:
    """The text without the white space at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _anchored(text: str, answer: str, *, ended: bool) -> str | Unfit:
    place = anchored(text)
    if place is None:
        return Unfit("no line of it tells where it stands")
    found = _block(answer, ended=ended)
    if isinstance(found, Unfit):
        return found
    lines = found[0].splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if line.strip() == place.anchor.strip()]
    if len(places) != 1:
        return Unfit(
            "the line to begin with is missing" if not places else "the line to begin with stands there twice"
        )
    before = [line.strip() for line in lines[: places[0]] if line.strip()]
    kept = [line.strip() for line in place.kept.splitlines() if line.strip()][:-1]
    if before and kept[-len(before) :] != before:
        return Unfit("it begins with something else than the end of what had arrived")
    return _behind(place, "".join(lines[places[0] + 1 :]))


def has_its_own_end(answer: str) -> bool:
    """Whether the answer itself says where it ends: by the fence around it."""
    return _FENCE.search(answer) is not None


def fault(name: str, kept: str, whole: str) -> str:
    """What is wrong with a text that is said to be whole; empty if nothing can be seen. `name` is its path,
    if it has one, and `kept` what had arrived of it: what was wrong there already is not held against the
    rest."""
    rest = whole[len(kept) :] if whole.startswith(kept) else whole
    if _LEFT_OUT.search(rest) and not _LEFT_OUT.search(kept):
        return "it leaves a part out"
    match name.rsplit(".", 1)[-1].lower() if "." in name else "":
        case "json":
            return _parse_fault(json.loads, "JSON", whole)
        case "toml":
            return _parse_fault(tomllib.loads, "TOML", whole)
        case "py" | "pyi":
            return _python_fault(kept, whole)
        case "html" | "htm" | "xml" | "svg" | "vue":
            return _tag_fault(whole)
        case "md" | "markdown":
            return "a code block is not closed" if len(_FENCE.findall(whole)) % 2 else ""
        case "csv" | "tsv":
            return _row_fault(whole)
        case ending if ending in _BRACED:
            return _brace_fault(whole)
    return ""


def _parse_fault(parse: Callable[[str], object], what: str, whole: str) -> str:
    try:
        parse(whole)
    except (ValueError, RecursionError) as error:
        return f"it is not {what} ({error})"
    return ""


def _row_fault(whole: str) -> str:
    """A last row that is shorter than all the others, which are alike."""
    *rows, last = [re.split(r"[,;\t]", line) for line in whole.splitlines() if line.strip()] or [[]]
    lengths = {len(row) for row in rows}
    is_short = len(rows) > 1 and '"' not in whole and len(lengths) == 1 and len(last) < len(rows[0])
    return "its last row is not whole" if is_short else ""


def _brace_fault(whole: str) -> str:
    """Braces that are open at the end, whether or not those in strings and comments count."""
    bare = _QUOTED.sub("", whole)
    return "a brace is not closed" if all(text.count("{") > text.count("}") for text in (whole, bare)) else ""


def _python_fault(kept: str, whole: str) -> str:
    try:
        ast.parse(whole)
    except SyntaxError as error:
        told = error.msg or "it cannot be parsed"
        own = (error.lineno or 0) > kept.count("\n")
        return f"it is not Python ({told})" if own or any(word in told for word in _UNFINISHED) else ""
    except (ValueError, RecursionError, MemoryError) as error:
        return f"it is not Python ({error})"
    return ""


def _tag_fault(whole: str) -> str:
    counts: dict[str, int] = {}
    for closing, name, alone in _TAG.findall(whole):
        tag = name.lower()
        if tag not in _VOID and tag not in _LOOSE and not alone:
            counts[tag] = counts.get(tag, 0) + (-1 if closing else 1)
    unclosed = [tag for tag, count in counts.items() if count > 0]
    return f"{', '.join(unclosed[:3])} is not closed" if unclosed else ""
