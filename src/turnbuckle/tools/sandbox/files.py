"""Which files a command in a sandbox sees, and which of them it may change. Both mechanisms follow this.

Named is what is seen; everything else is not there. Programs and libraries of the system are read, the
workspace is written. Below a folder that may be written lie exceptions: what is hidden (the data folder, keys
in a home), what is fixed (what decides later what runs, see `tools/protected`), and folders that are pinned:
they may be written but not moved away, since a fixed file could be replaced together with its folder.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from turnbuckle.tools.protected import ENDINGS, NAMES, interpreter_in

_SYSTEM = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix/store /gnu/store /snap".split()
_BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "include")
_KEYS = (
    ".ssh .gnupg .aws .azure .kube .docker .netrc .git-credentials .npmrc .pypirc .config/gcloud .config/gh "
    ".config/op .local/share/keyrings .mozilla .config/google-chrome .config/chromium .password-store"
).split()
_VERSION_CONTROL = {".git": ("config", "hooks"), ".hg": ("hgrc",), ".jj": ("repo/config.toml",), ".svn": ()}
_NOT_LOOKED_INTO = frozenset({"node_modules", "target", "site-packages", ".tox", ".mypy_cache", "vendor"})
_MOST_FOLDERS = 200
"""Folders of the workspace that are looked into for protected names before each command, the uppermost first;
a large tree costs no more."""
_MOST_FIXED = 200
_MOST_OF_SYSTEM = 20_000


class FileRules(Struct, frozen=True):
    """Real paths. `sealed` are folders that are not there and stay empty."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()


class Visible(Struct, frozen=True):
    """What is the same for all commands: the folders of the settings, and those of the user."""

    workspace: str
    data: str
    home: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    hidden: tuple[str, ...]
    protected: tuple[str, ...]
    kernel: tuple[str, ...] = ()
    """Where the kernel takes orders from root, with or without any capability."""


def visible(
    workspace: Path,
    data: Path,
    environment: Mapping[str, str],
    *,
    readable: Iterable[str] = (),
    writable: Iterable[str] = (),
    protected: Iterable[str] = (),
    prefixes: Iterable[str] = (),
    is_root: bool = False,
) -> Visible:
    """Look at the machine once. `prefixes` are the places of this very program's Python."""
    root, hidden_data = os.path.realpath(workspace), os.path.realpath(data)
    home = os.path.realpath(environment.get("HOME") or "/")
    read = [path for path in _SYSTEM if os.path.exists(path)]
    named = [*prefixes, *_programs(environment.get("PATH", ""), home)]
    wanted = [_of_user(path, home) for path in readable]
    read += [path for path in map(os.path.realpath, named) if not _inside_any(path, (*read, root))]
    write = (root, *(os.path.realpath(_of_user(path, home)) for path in writable))
    keys = [os.path.join(home, name) for name in _KEYS]
    closed = [*_closed_to_others("/etc")] if is_root else []
    shown = (*read, *map(os.path.realpath, wanted), *write)
    asked = (*map(os.path.realpath, wanted), *write[1:])
    hidden = [path for path in keys if os.path.exists(path) and _inside_any(path, shown)]
    hidden = [path for path in hidden if not any(_inside(one, path) for one in asked)]
    if _inside_any(hidden_data, shown):
        hidden.append(hidden_data)
    return Visible(
        root,
        hidden_data,
        home,
        tuple(dict.fromkeys((*read, *map(os.path.realpath, wanted)))),
        write,
        (*hidden, *closed),
        tuple(path for path in protected if _inside_any(path, write)),
        _orders_to_kernel() if is_root else (),
    )


def rules_for(seen: Visible, *, network: bool) -> FileRules:
    """The rules of one command, by what lies in the workspace now."""
    names = "/etc/resolv.conf"
    read = seen.read
    if network and not _inside_any(os.path.realpath(names), read):  # who knows the names of machines
        read = (*read, os.path.realpath(names))
    fixed, pinned, sealed = _kept(seen)
    return FileRules(read, seen.write, seen.hidden, pinned, (*fixed, *seen.kernel), sealed)


def _kept(seen: Visible) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    own = [path for path in (*seen.protected, *interpreter_in(seen.workspace)) if os.path.exists(path)]
    compiled = [os.path.join(os.path.dirname(path), "__pycache__") for path in own if path.endswith(".py")]
    fixed = [*own, *filter(os.path.isdir, compiled)]
    # Whoever could move the folder of such a file away could put another in its place.
    pinned = [str(folder) for path in own for folder in _between(path, seen.write)]
    sealed: list[str] = []
    for path in _by_name(seen.workspace, (seen.data, *seen.hidden, *own)):
        parts = _VERSION_CONTROL.get(os.path.basename(path).casefold())
        if parts is None or not os.path.isdir(path):
            fixed.append(path)
            continue
        pinned.append(path)
        homes = [path, *_children(os.path.join(path, "modules"))]
        for part in (os.path.join(home, part) for home in homes for part in parts):
            if os.path.exists(part):
                fixed.append(part)
            elif os.path.basename(part) == "hooks":
                sealed.append(part)
    return tuple(fixed[:_MOST_FIXED]), tuple(dict.fromkeys(pinned)), tuple(sealed)


def _by_name(workspace: str, left_out: tuple[str, ...]) -> list[str]:
    """What is protected by its name, from the top of the workspace downwards as far as that is cheap."""
    found: list[str] = []
    waiting, looked = [workspace], 0
    while waiting and looked < _MOST_FOLDERS:
        folder = waiting.pop(0)
        looked += 1
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            name = entry.name.casefold()
            if entry.is_symlink() or name == "__pycache__" or entry.path in left_out:
                continue
            if name in NAMES or name.endswith(ENDINGS):
                found.append(entry.path)
            elif entry.is_dir(follow_symlinks=False) and name not in _NOT_LOOKED_INTO:
                waiting.append(entry.path)
    return found


def _programs(path: str, home: str) -> list[str]:
    """The folders of programs that the user has at home, with what lies beside them and belongs to them."""
    found: list[str] = []
    for folder in path.split(os.pathsep):
        if os.path.isabs(folder) and os.path.isdir(folder):
            found.append(folder)
            if os.path.basename(folder) == "bin":
                beside = (os.path.join(os.path.dirname(folder), name) for name in _BESIDE_PROGRAMS)
                found += filter(os.path.isdir, beside)
    return [one for one in found if os.path.realpath(one) not in (home, "/")]


def _closed_to_others(folder: str) -> list[str]:
    """What root may read and nobody else: in a sandbox, root is nobody else."""
    found: list[str] = []
    waiting, looked = [folder], 0
    while waiting and looked < _MOST_OF_SYSTEM:
        for entry in _entries(waiting.pop()):
            looked += 1
            if entry.is_symlink():
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if not mode & 0o004:
                found.append(entry.path)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return found


def _orders_to_kernel() -> tuple[str, ...]:
    return tuple(
        entry.path
        for entry in _entries("/proc")
        if not entry.name.isdigit()
        and not entry.is_symlink()
        and (entry.is_dir() or entry.stat().st_mode & 0o222)
    )


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _children(folder: str) -> list[str]:
    return [entry.path for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)]


def _between(path: str, roots: Iterable[str]) -> list[Path]:
    """The folders on the way from a root to a path."""
    return [
        folder
        for root in roots
        if Path(path).is_relative_to(root)
        for folder in Path(path).parents
        if folder != Path(root) and folder.is_relative_to(root)
    ]


def _of_user(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _inside(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _inside_any(path: str, folders: Iterable[str]) -> bool:
    return any(_inside(path, folder) for folder in folders)


def without_hidden(folders: Iterable[str], hidden: Iterable[str]) -> tuple[str, ...]:
    """The same folders for a mechanism that can only add: one that holds something hidden is taken apart."""
    hidden = tuple(hidden)
    found: list[str] = []
    waiting = list(folders)
    while waiting:
        path = waiting.pop()
        if path in hidden:
            continue
        if any(_inside(one, path) for one in hidden):
            waiting += [entry.path for entry in _entries(path)]
        else:
            found.append(path)
    return tuple(found)
