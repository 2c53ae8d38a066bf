"""`@file` in a message: names of files of the workspace, to complete and to send.

What is sent is the path and not the content. The model reads the file by its own tool, when it needs it: by
the same rules as any other file, as it is then, and in pieces if it is long. So nothing is sent that the
rules keep from the model, and a message stays as short as it looks. What is not a path of the workspace stays
as it was typed.

A server on another machine cannot read files of this one. There the content is sent, behind the message, each
file under its name, as the console does with what is attached. What cannot be sent is refused in words, and
then nothing is sent.

A listing is bounded in every way, since a workspace may hold a million files.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from turnbuckle.tools.builtin.files import SKIPPED_FOLDERS
from turnbuckle.tools.protected import NAMES
from turnbuckle.tools.spec import ToolError
from turnbuckle.turn.consent import ConsentRule, rule_for

MOST_SEEN = 5_000
"""Entries that are looked at for one list: a few hundredths of a second on a slow disk."""
MOST_OFFERED = 30
DEEPEST = 12
MOST_NAMED = 50
"""`@` words of one message that are looked up."""
MOST_ATTACHED = 10
MOST_CONTENT = 200_000
MOST_TOGETHER = 500_000
"""Of files whose content is sent."""
_NAMED = re.compile(r'(?<!\S)@(?:"([^"\n]{1,1000})"|([^\s"]{1,1000}))')
_TYPED = re.compile(r'(?:^|(?<=\s))@("[^"\n]*|[^\s"]*)$')
_BEHIND = ".,;:!?)]}'"


def typed_name(before: str) -> str | None:
    """The name that is being typed at the end of a text, without its `@`; None if there is none."""
    found = _TYPED.search(before)
    return None if found is None else found[1].removeprefix('"')


class ChatFiles:
    """The files that a message may name. `data` is the folder of the journal, and `rules` are those of
    consent: what `read_file` is denied is not offered."""

    def __init__(self, root: Path, data: Path, rules: tuple[ConsentRule, ...] = ()) -> None:
        self._root = root
        self._data = os.path.realpath(data)
        self._rules = rules

    def offered(self, typed: str) -> list[str]:
        """The paths that fit best, folders with a slash behind them."""
        wanted = typed.casefold()

        def weight(path: str) -> tuple[bool, bool, int, str]:
            name = path.rstrip("/").rpartition("/")[2]
            plain = path.casefold()
            return (
                not plain.startswith(wanted),
                not name.casefold().startswith(wanted),
                path.rstrip("/").count("/"),
                plain,
            )

        fitting = [path for path in self._walk("/." in f"/{typed}") if wanted in path.casefold()]
        return sorted(fitting, key=weight)[:MOST_OFFERED]

    def named(self, text: str) -> str:
        """A message with the paths that it names, without their `@`."""
        return self._found(text)[0]

    def _found(self, text: str) -> tuple[str, list[str]]:
        """The same, and the paths, each once."""
        left, paths = MOST_NAMED, []

        def path_of(found: "re.Match[str]") -> str:
            nonlocal left
            left -= 1
            if left < 0:
                return found[0]
            if found[1] is not None:
                if not self._is_there(found[1]):
                    return found[0]
                paths.append(found[1])
                return f'"{found[1]}"'
            path, behind = found[2], ""
            while path and not self._is_there(path) and path[-1] in _BEHIND:
                path, behind = path[:-1], path[-1] + behind
            if not path or not self._is_there(path):
                return found[0]
            paths.append(path)
            return f"{path}{behind}"

        text = _NAMED.sub(path_of, text) if "@" in text else text
        return text, list(dict.fromkeys(paths))

    def _is_there(self, path: str) -> bool:
        steps = path.rstrip("/").split("/")
        if path.startswith("/") or ".." in steps or "\0" in path:
            return False
        return self._may(path) and os.path.lexists(self._root / path)

    def _may(self, path: str) -> bool:
        return rule_for(self._rules, "read_file", {"path": path}, "path") != "deny"

    def _walk(self, hidden: bool) -> Iterator[str]:
        """Nearest first. No link is followed."""
        seen = 0
        folders: deque[tuple[str, int]] = deque([("", 0)])
        while folders:
            inside, depth = folders.popleft()
            try:
                with os.scandir(self._root / inside) as entries:
                    for entry in entries:
                        seen += 1
                        if seen > MOST_SEEN:
                            return
                        name = entry.name
                        if name.casefold() in NAMES or (name.startswith(".") and not hidden):
                            continue
                        path = inside + name
                        if not entry.is_dir(follow_symlinks=False):
                            if self._may(path):
                                yield path
                        elif name not in SKIPPED_FOLDERS and os.path.realpath(entry.path) != self._data:
                            yield f"{path}/"
                            if depth < DEEPEST:
                                folders.append((f"{path}/", depth + 1))
            except OSError:
                continue  # it is gone, or not ours to read


class AttachedFiles(ChatFiles):
    """The files of this machine, for a server that cannot read them: their content is sent."""

    def named(self, text: str) -> str:
        """A message with the content of the files that it names behind it. Raises ToolError, and then nothing
        is to be sent."""
        text, paths = self._found(text)
        if len(paths) > MOST_ATTACHED:
            raise ToolError(f"not sent: {len(paths)} files are named, and {MOST_ATTACHED} are the most")
        contents = {path: self._content(path) for path in paths}
        if sum(map(len, contents.values())) > MOST_TOGETHER:
            raise ToolError(f"not sent: the files have more than {MOST_TOGETHER:,} characters together")
        return "\n\n".join([text, *(_framed(path, content) for path, content in contents.items())])

    def _content(self, path: str) -> str:
        root = os.path.realpath(self._root)
        real = os.path.realpath(self._root / path)
        if os.path.commonpath((root, real)) != root:
            raise ToolError(f"not sent: {path} leads out of this folder")
        if not self._may(os.path.relpath(real, root)):
            raise ToolError(f"not sent: {path} leads to a file that a rule denies to read_file")
        if self._data in (real, *map(str, Path(real).parents)):
            raise ToolError(f"not sent: {path} is in the data folder, which holds keys")
        try:
            kind = os.stat(real).st_mode
            if stat.S_ISDIR(kind):
                raise ToolError(f"not sent: {path} is a folder; name a file in it")
            if not stat.S_ISREG(kind):
                raise ToolError(f"not sent: {path} is not a file")
            with open(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                data = file.read(MOST_CONTENT + 1)
        except OSError as error:
            raise ToolError(f"not sent: {path}: {error.strerror}") from None
        if len(data) > MOST_CONTENT:
            raise ToolError(f"not sent: {path} has more than {MOST_CONTENT:,} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise ToolError(f"not sent: {path} is not text")
        return text


def _framed(path: str, text: str) -> str:
    """Under its name, in a fence that is longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{path}:\n{fence}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"
