"""Folders and files that only their owner can look into."""

import os
from pathlib import Path


def private_folder(folder: Path, inside: Path) -> None:
    """Make a folder below `inside`, with those on the way; what was there before is closed, too."""
    steps = folder.relative_to(inside).parts
    at = inside
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    for step in steps:
        at = at / step
        at.mkdir(mode=0o700, exist_ok=True)
        if at.stat().st_mode & 0o077:
            os.chmod(at, 0o700)


def private_file(path: Path, data: bytes) -> None:
    """Write a file. What a link leads to is left alone. Raises OSError."""
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(opened, "wb") as file:
        file.write(data)
