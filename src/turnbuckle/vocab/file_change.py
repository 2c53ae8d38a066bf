"""What a call does to a file, or would do: a value that the journal keeps and every surface draws.

A diff is made of two contents and nothing else, line by line, with three lines around each place. The work is
bounded: what is alike at both ends is left out first, and where the rest is too much to compare, all of it is
shown as taken out and put in. A diff that is too long is cut, and says so.
"""

import difflib
import hashlib
from collections.abc import Iterable

from msgspec import Struct

LARGEST = 2 * 1024 * 1024
"""Bytes of a content that is compared and kept."""
MOST_LINES = 1_000
MOST_CHARACTERS = 60_000
"""Of one diff, as it is stored and shown."""
_CONTEXT = 3
_MOST_COMPARED = 1_000_000  # pairs of lines
_SAMPLE = 8192
_NO_END = "\\ No newline at end of file"


class FileChange(Struct, frozen=True, omit_defaults=True):
    """`before` and `after` are marks of the two contents, the same for the same content; empty: there is no
    file. `note` says why there is no diff, or what else a reader must know. `kept`: both contents are kept,
    so that it can be undone."""

    path: str
    before: str = ""
    after: str = ""
    diff: str = ""
    added: int = 0
    removed: int = 0
    note: str = ""
    kept: bool = False


class Diff(Struct, frozen=True):
    """A unified diff without its two lines of names, the lines it adds and takes out, and why it is not all
    of it."""

    text: str = ""
    added: int = 0
    removed: int = 0
    note: str = ""


def mark_of(content: bytes) -> str:
    """The mark of a content."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def counts(change: FileChange) -> str:
    """How much it changes, in a few signs: `+3 −1`."""
    return f"+{change.added:,} −{change.removed:,}"


def diff_of(before: bytes | None, after: bytes | None) -> Diff:
    """What makes one content of the other. None: there is no file."""
    if before == after:
        return Diff(note="nothing changes")
    texts = [_text(before), _text(after)]
    if texts[0] is None or texts[1] is None:
        return Diff(note=f"not a text: {_size(before)} before, {_size(after)} after")
    old, new = (_lines(text or "") for text in texts)
    blocks = _blocks(old, new)
    removed = sum(end - start for kind, start, end, _, _ in blocks if kind != "equal")
    added = sum(end - start for kind, _, _, start, end in blocks if kind != "equal")
    lines: list[str] = []
    for group in _groups(blocks):
        lines += _hunk(group, old, new)
    text, note = _cut(lines)
    return Diff(text, added, removed, note)


_Block = tuple[str, int, int, int, int]


def _text(content: bytes | None) -> str | None:
    """None, if it is not text."""
    if content is None:
        return ""
    if b"\0" in content[:_SAMPLE]:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _size(content: bytes | None) -> str:
    return "no file" if content is None else f"{len(content):,} bytes"


def _lines(text: str) -> list[str]:
    """The lines with their ends, so that the last one differs if its end is missing."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _blocks(old: list[str], new: list[str]) -> list[_Block]:
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    ends = (len(old) - last, len(new) - last)
    middle = (old[first : ends[0]], new[first : ends[1]])
    if len(middle[0]) * len(middle[1]) > _MOST_COMPARED:
        found: list[_Block] = [("replace", 0, len(middle[0]), 0, len(middle[1]))]
    else:
        found = list(difflib.SequenceMatcher(None, *middle, autojunk=False).get_opcodes())
    moved = [(kind, a + first, b + first, c + first, d + first) for kind, a, b, c, d in found]
    head: list[_Block] = [("equal", 0, first, 0, first)] if first else []
    tail: list[_Block] = [("equal", ends[0], len(old), ends[1], len(new))] if last else []
    return [*head, *moved, *tail]


def _alike(one: list[str], other: list[str]) -> int:
    """How many lines at the beginning are the same."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _groups(blocks: list[_Block]) -> list[list[_Block]]:
    """Changes with the lines around them; those that are near each other together."""
    groups: list[list[_Block]] = []
    group: list[_Block] = []
    for place, (kind, a, b, c, d) in enumerate(blocks):
        if kind != "equal":
            group.append((kind, a, b, c, d))
            continue
        is_last, is_first = place == len(blocks) - 1, not group and not groups
        if is_first:
            group.append((kind, max(a, b - _CONTEXT), b, max(c, d - _CONTEXT), d))
        elif is_last or b - a > 2 * _CONTEXT:
            group.append((kind, a, min(b, a + _CONTEXT), c, min(d, c + _CONTEXT)))
            groups.append(group)
            group = [] if is_last else [(kind, max(a, b - _CONTEXT), b, max(c, d - _CONTEXT), d)]
        else:
            group.append((kind, a, b, c, d))
    return [*groups, group] if any(kind != "equal" for kind, *_ in group) else groups


def _hunk(group: list[_Block], old: list[str], new: list[str]) -> list[str]:
    a, b, c, d = group[0][1], group[-1][2], group[0][3], group[-1][4]
    lines = [f"@@ -{_range(a, b)} +{_range(c, d)} @@"]
    for kind, i, j, k, m in group:
        if kind == "equal":
            lines += [line for one in old[i:j] for line in _shown(" ", one)]
            continue
        lines += [line for one in old[i:j] for line in _shown("-", one)]
        lines += [line for one in new[k:m] for line in _shown("+", one)]
    return lines


def _shown(sign: str, line: str) -> list[str]:
    return [f"{sign}{line[:-1]}"] if line.endswith("\n") else [f"{sign}{line}", _NO_END]


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _cut(lines: list[str]) -> tuple[str, str]:
    size = 0
    for place, line in enumerate(lines):
        size += len(line) + 1
        if place == MOST_LINES or size > MOST_CHARACTERS:
            note = f"{len(lines) - place:,} more lines of the diff are not shown"
            if place == 0:  # one line is longer than all of it may be
                return lines[0][:MOST_CHARACTERS], note
            return "\n".join(lines[:place]), note
    return "\n".join(lines), ""


class TouchedFile(Struct, frozen=True):
    """A file that a run has changed, from before its first change to behind its last one. `calls` is how
    often it was changed. `kept`: both contents are kept, so that the whole diff can be shown and undone."""

    path: str
    before: str = ""
    after: str = ""
    calls: int = 1
    kept: bool = False


def touched(changes: Iterable[FileChange]) -> tuple[TouchedFile, ...]:
    """The files of a run, in the order in which they were first changed. A file that somebody else changed in
    between is told as its last stretch, since what lies before is not this run's alone."""
    files: dict[str, TouchedFile] = {}
    for change in changes:
        known = files.get(change.path)
        joins = known is not None and known.after == change.before
        files[change.path] = TouchedFile(
            change.path,
            known.before if known is not None and joins else change.before,
            change.after,
            1 if known is None else known.calls + 1,
            change.kept and (known is None or not joins or known.kept),
        )
    return tuple(files.values())
