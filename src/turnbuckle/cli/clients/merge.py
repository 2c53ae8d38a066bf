"""Puts the lines of a recipe into a file that may be there already, or says why not. Pure.

Only a JSON object is merged: its other keys stay as they are, and ours win. Anything else that is there and
is not what we would write is somebody's work, which no program should guess its way through.
"""

import json
from typing import Any

from turnbuckle.cli.clients.recipes import ClientFile


class CannotMerge(ValueError):
    """The file is there and must be changed by hand; the message says why."""


def merged(file: ClientFile, there: str | None) -> str | None:
    """What the file is to hold; None if it holds that already. Raises CannotMerge."""
    if there is None or not there.strip():
        return file.text
    if there == file.text:
        return None
    if file.format != "json":
        raise CannotMerge("it is there already, and says something else")
    return _merged_json(file.text, there)


def _merged_json(ours: str, there: str) -> str | None:
    try:
        old = json.loads(there)
    except ValueError:
        raise CannotMerge("it is not plain JSON; comments would be lost") from None
    if not isinstance(old, dict):
        raise CannotMerge("it is not a JSON object")
    new = _over(old, json.loads(ours))
    return None if new == old else json.dumps(new, indent=2, ensure_ascii=False) + "\n"


def _over(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    joined = dict(old)
    for key, value in new.items():
        before = joined.get(key)
        joined[key] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return joined
