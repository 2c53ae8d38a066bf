"""Which commands have the network without being asked about it."""

import shlex
import shutil
from collections.abc import Iterable
from os.path import realpath
from pathlib import Path

from turnbuckle.turn.consent import subject_of

EVERY_COMMAND = "*"


def has_network(command: str, families: Iterable[str], path: str, writable: Iterable[str]) -> bool:
    """Whether a command belongs to a family: one plain command whose first words are those of the family.
    Its program is found on the `path` of the server and lies in none of the `writable` folders: there a model
    could have put anything under that name."""
    known = [family.split() for family in families]
    if [EVERY_COMMAND] in known:
        return True
    subject = subject_of(command, "command", is_command=True)
    if not known or not subject.is_plain:
        return False
    try:
        words = shlex.split(subject.text)
    except ValueError:
        return False
    if not any(family and words[: len(family)] == family for family in known):
        return False
    program = None if "/" in words[0] else shutil.which(words[0], path=path)
    if program is None:
        return False
    real = (Path(program), Path(realpath(program)))
    return not any(one.is_relative_to(folder) for one in real for folder in writable)
