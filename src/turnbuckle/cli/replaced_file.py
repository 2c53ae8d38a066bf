"""Writes a file for a person: all at once, and what was there before stays beside it."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from turnbuckle.errors import ConfigError


def replace_file(
    path: Path, text: str, *, is_secret: bool = False, check: Callable[[Path], object] = lambda made: None
) -> Path | None:
    """Write the file by a rename. `check` looks at it before that, and may raise ConfigError. What was there
    is kept beside it, and its place returned. Raises ConfigError."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ConfigError(f"{path.parent} cannot be written: {error.strerror}") from None
    made = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        check(made)
        made.chmod(0o600 if is_secret else 0o644)
        copy = _copied(path)
        made.replace(path)
        return copy
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)


def _copied(path: Path) -> Path | None:
    if not path.exists():
        return None
    places = (path.with_name(f"{path.name}.{number}.old") for number in range(1, 10_000))
    copy = next(place for place in places if not place.exists())
    opened = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, path.stat().st_mode & 0o777)
    with os.fdopen(opened, "wb") as file:
        file.write(path.read_bytes())
    return copy
