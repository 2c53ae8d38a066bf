"""A shell command taken apart as far as one can without running it: which programs it starts, with which
words.

Quotes, comments, here-documents, separators and substitutions are understood; variables stay as they are
written. Anything that starts another command (`sudo`, `env`, `bash -c`, `xargs`) is looked through. Nothing
here raises, and the work is bounded whatever the text.
"""

import re
import shlex
from collections.abc import Iterator

_UNKNOWN = "$SUBSTITUTED"
"""What only the shell could have told: the outcome of a substitution, or what comes through a pipe."""
_MOST = 20_000
_DEEPEST = 6
_SEPARATORS = frozenset(";&|\n()")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_REDIRECT = re.compile(r"\d*(?:>>|>|<)&?-?|&>>?")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_BEGINNINGS = frozenset(
    {"{", "}", "!", "if", "then", "else", "elif", "do", "while", "until", "time", "fi", "done"}
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"})
_LOOKED_THROUGH: dict[str, frozenset[str]] = {
    # What stands in front of a command, and its options that take a word of their own
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-r", "-t", "-T", "-U"}),
    "doas": frozenset({"-u", "-C"}),
    "pkexec": frozenset({"--user"}),
    "env": frozenset({"-u", "-C", "-S"}),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "timeout": frozenset({"-k", "-s"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-a", "-E", "-s"}),
    "watch": frozenset({"-n"}),
    "nsenter": frozenset({"-t"}),
    **dict.fromkeys(("nohup", "exec", "command", "builtin", "setsid", "busybox", "eval"), frozenset[str]()),
}
_FIRST_IS_NO_COMMAND = frozenset({"timeout"})


def programs(command: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Every program that the command would start, by its bare name, with its words."""
    if depth > _DEEPEST:
        return
    for piece in _pieces(_without_here_documents(command[:_MOST])):
        if piece.startswith("\0"):  # inside a substitution
            yield from programs(piece[1:], depth + 1)
            continue
        yield from _started(_words(piece), depth)


def _started(words: list[str], depth: int) -> Iterator[tuple[str, ...]]:
    words = _past_beginnings(words)
    if not words:
        return
    name, rest = words[0].rpartition("/")[2], words[1:]
    yield (name, *rest)
    if name in _SHELLS and (script := _script_of(rest)) is not None:
        yield from programs(script, depth + 1)
    elif name in _LOOKED_THROUGH and depth < _DEEPEST:
        inner = _past_options(name, rest)
        if name == "eval":
            yield from programs(" ".join(inner), depth + 1)
        else:
            yield from _started([*inner, _UNKNOWN] if name == "xargs" else inner, depth + 1)


def _past_beginnings(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (words[at] in _BEGINNINGS or _ASSIGNMENT.match(words[at])):
        at += 1
    return words[at:]


def _past_options(name: str, words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        at += 2 if words[at] in _LOOKED_THROUGH[name] else 1
    return words[at + (name in _FIRST_IS_NO_COMMAND) :]


def _script_of(words: list[str]) -> str | None:
    """What `bash -c` is given; also in one word with other options, as in `-lc`."""
    for place, word in enumerate(words):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word:
            return words[place + 1] if place + 1 < len(words) else None
    return None


def _words(piece: str) -> list[str]:
    try:
        words = shlex.split(piece)
    except ValueError:
        words = piece.split()
    made: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            if word.startswith("/proc/"):
                made.append(f">{word}")
        elif redirect := _REDIRECT.match(word):
            skip = redirect.end() == len(word)
            if not skip and word[redirect.end() :].startswith("/proc/"):
                made.append(f">{word[redirect.end() :]}")
        else:
            made.append(word)
    return made


def _without_here_documents(command: str) -> str:
    """Files that are written by the command are not commands. What is fed to a shell is."""
    lines = command.split("\n")
    kept: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        here = _HERE.search(line)
        if here is None:
            kept.append(line)
            continue
        end = next((n for n in range(at, len(lines)) if lines[n].strip() == here[2]), len(lines))
        first = _past_beginnings(_words(line[: here.start()]))
        kept.append(f"{line[: here.start()]} {line[here.end() :]}")
        if first and first[0].rpartition("/")[2] in _SHELLS:
            kept.extend(lines[at:end])
        at = end + 1
    return "\n".join(kept)


def _pieces(command: str) -> Iterator[str]:
    """Simple commands in their own quotes, and what stands in substitutions, marked by a NUL."""
    piece: list[str] = []
    quote = ""
    at = 0
    while at < len(command):
        char = command[at]
        if char == "\\" and quote != "'":
            piece.append(command[at : at + 2])
            at += 2
            continue
        opened = "`" if char == "`" else "$(" if command.startswith("$(", at) else ""
        if quote != "'" and opened:
            end = _end_of(command, at + len(opened), opened)
            yield "\0" + command[at + len(opened) : end]
            piece.append(_UNKNOWN)
            at = end + 1
            continue
        at += 1
        if quote:
            quote = "" if char == quote else quote
            piece.append(char)
        elif char in "'\"":
            quote = char
            piece.append(char)
        elif char == "#" and (not piece or piece[-1].isspace()):
            at = _next_line(command, at)
        elif char in _SEPARATORS and not _is_redirect(command, at - 1):
            yield "".join(piece)
            piece = []
        else:
            piece.append(char)
    yield "".join(piece)


def _next_line(command: str, at: int) -> int:
    end = command.find("\n", at)
    return len(command) if end < 0 else end


def _is_redirect(command: str, at: int) -> bool:
    """`2>&1` and `&>file` are not separators."""
    if command[at] != "&":
        return False
    return (at > 0 and command[at - 1] in "<>") or command[at + 1 : at + 2] == ">"


def _end_of(command: str, at: int, opened: str) -> int:
    """Where a substitution ends: its own back tick, or the bracket that belongs to it."""
    if opened == "`":
        end = command.find("`", at)
        return len(command) if end < 0 else end
    depth, quote = 1, ""
    while at < len(command):
        char = command[at]
        if char == "\\":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if not depth:
                return at
        at += 1
    return len(command)
