"""The arguments for bubblewrap: a place of its own with files, processes, users and a network of its own.

Mounts are made from the outside to the inside, so that what lies deeper stands above. Of several rules for
one path the stricter one comes last.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from turnbuckle.tools.sandbox.files import FileRules

PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin", "/run/current-system/sw/bin")
"""Where it is looked for: nowhere that a model may write."""
APART = (
    "--unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --die-with-parent "
    "--new-session --cap-drop ALL"
).split()
ALONE = "--unshare-net"
PROBE = (*APART, ALONE, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true")
_LAST = 1 << 20


def arguments(rules: FileRules, *, cwd: str, home: str, scratch: str, network: bool) -> tuple[str, ...]:
    """How to call it. `scratch` has the folders that stand in place of the real ones
    (`scratch.py`)."""
    ordered = sorted(_mounts(rules, home, scratch), key=lambda mount: mount[:2])
    made = [word for _, _, words in ordered for word in words]
    apart = APART if network else [*APART, ALONE]
    return (*apart, *made, "--chdir", cwd)


def home_inside(rules: FileRules, home: str) -> str:
    """Where a command's home is: where the real one is, or where there is room for one."""
    if home in rules.write:
        return home
    taken = home == "/" or any(Path(home).is_relative_to(path) for path in (*rules.read, "/proc", "/dev"))
    return "/tmp" if taken else home


def _mounts(rules: FileRules, home: str, scratch: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    def mount(path: str, order: int, *words: str) -> tuple[int, int, tuple[str, ...]]:
        return (len(Path(path).parts), order, words)

    yield mount("/proc", 0, "--proc", "/proc")
    yield mount("/dev", 0, "--dev", "/dev")
    yield mount("/dev/shm", 1, "--bind", os.path.join(scratch, "shm"), "/dev/shm")
    for path in rules.read:
        if os.path.islink(path):  # such as /bin, which is a part of /usr
            yield mount(path, 0, "--symlink", os.readlink(path), path)
        else:
            yield mount(path, 0, "--ro-bind-try", path, path)
    for path in ("/tmp", "/var/tmp"):
        yield mount(path, 1, "--bind", os.path.join(scratch, "tmp"), path)
    inside = home_inside(rules, home)
    if inside == home and home not in rules.write:
        yield mount(home, 1, "--bind", os.path.join(scratch, "home"), home)
    for path in rules.write:
        yield mount(path, 2, "--bind", path, path)
    for path in rules.pinned:
        yield mount(path, 3, "--bind-try", path, path)
    for path in rules.fixed:
        yield mount(path, 4, "--ro-bind-try", path, path)
    for path in (*rules.sealed, *(path for path in rules.hidden if os.path.isdir(path))):
        yield mount(path, 5, "--tmpfs", path)
        yield (_LAST, 0, ("--remount-ro", path))  # when what lies deeper has its place
    for path in rules.hidden:
        if not os.path.isdir(path):
            yield mount(path, 5, "--ro-bind", "/dev/null", path)
