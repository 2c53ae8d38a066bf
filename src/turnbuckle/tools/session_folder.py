"""A folder of its own for each session, below the workspace."""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from turnbuckle.tools.spec import ToolError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_LOOKS = 40  # characters of a strange name that a person still sees


def folder_name(session: str) -> str:
    """What the folder of a session is called. No two sessions have the same one."""
    if _PLAIN.fullmatch(session) and not session.endswith("."):
        return session
    seen = re.sub(r"[^A-Za-z0-9]+", "-", session)[:_LOOKS].strip("-")
    return f"{seen or 'session'}={hashlib.sha256(session.encode('utf-8', 'replace')).hexdigest()[:20]}"


def session_folder(root: Path, session: str) -> Path:
    """The folder of a session, made if need be. Raises ToolError. The root is not made: where it is missing,
    the machine is the wrong one, or a share is not mounted."""
    folder = root / folder_name(session)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise ToolError(f"the folder of this session, {folder}, is a link, and is not followed")
    except OSError as error:
        raise ToolError(
            f"the folder of this session, {folder}, cannot be made here: {error.strerror}"
        ) from error
    return folder


def forget_folder(root: Path, session: str) -> None:
    """Remove the folder of a session that is gone, if there is nothing in it. What is in it is somebody's
    work, and stays."""
    folder = root / folder_name(session)
    with suppress(OSError):
        if not folder.is_symlink():
            folder.rmdir()
