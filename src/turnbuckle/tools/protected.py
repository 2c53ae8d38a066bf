"""What a model may read and not change, although it lies in the workspace: whatever decides later what runs.

The settings, the files of own tools and what Python has compiled of them, the hooks and settings of version
control, those of editors and of shells. With the shell turned off, nothing that file tools can write is run
by this server after a restart, or by the tools that people open the folder with. Names are compared without
their case, since some disks do so. The path is the one that was walked, with all links followed.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from turnbuckle.tools.spec import ToolContext, ToolError

_FOLDERS = frozenset(
    ".git .hg .svn .jj .husky .githooks .vscode .idea .vs .fleet .zed .devcontainer .cursor .ssh .gnupg "
    "__pycache__".split()
)
_FILES = frozenset(
    "turnbuckle.toml .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv "
    ".zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .envrc .gitconfig .pythonrc "
    ".pythonrc.py .vimrc .exrc .nvimrc .emacs .gdbinit .lldbinit .tmux.conf sitecustomize.py "
    "usercustomize.py".split()
)
ENDINGS = (".code-workspace", ".pth")
NAMES = _FOLDERS | _FILES
"""What is protected wherever it stands in the workspace."""


def refuse_change(context: ToolContext, steps: Sequence[str]) -> None:
    """Raises ToolError if what these steps from the workspace lead to may not be changed."""
    why = _why(context, steps)
    if why:
        raise ToolError(f"{'/'.join(steps)} is protected: {why}. The user can change it.")


def _why(context: ToolContext, steps: Sequence[str]) -> str:
    names = [name.casefold() for name in steps]
    if any(name in NAMES for name in names) or names[-1].endswith(ENDINGS):
        return "what stands there decides what is run later"
    root = os.path.realpath(context.workspace)
    path = os.path.join(root, *steps)
    for kept in (*context.protected, *interpreter_in(root)):
        if Path(path).is_relative_to(kept):
            return "it is a part of this server's own set-up"
    return ""


def interpreter_in(root: str) -> tuple[str, ...]:
    """The packages that this very program is made of, where they lie in the workspace."""
    found = os.path.realpath(sys.prefix)
    return (found,) if found != root and Path(found).is_relative_to(root) else ()
