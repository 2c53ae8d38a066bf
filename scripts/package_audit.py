"""Whether what is installed is what was locked, as far as that can be seen without a network."""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
FLOORS = {"aiohttp": ("3.14.1", "earlier ones follow redirects into private networks")}
"""The first version without a hole that concerns us, and what the hole was."""


def locked(text: str) -> dict[str, str]:
    """Versions by names. Raises ValueError for a line that is no plain pin."""
    pins: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"([a-z0-9][a-z0-9.-]*)==([0-9A-Za-z.+!]+)", line)
        if found is None:
            raise ValueError(f"requirements.lock, line {number}: {line!r} is no plain pin")
        pins[found[1]] = found[2]
    return pins


def complaints(pins: dict[str, str], wanted: list[str], installed: dict[str, str]) -> list[str]:
    """What is wrong: not locked, out of its range, below a floor, or installed in another version."""
    told: list[str] = []
    for line in wanted:
        need = Requirement(line)
        name = need.name.lower().replace("_", "-")
        if need.url:
            told.append(f"{name} comes from an address")
        elif name not in pins:
            told.append(f"{name} is not in requirements.lock")
        elif not need.specifier.contains(pins[name]):
            told.append(f"{name} {pins[name]} is locked, and pyproject.toml wants {need.specifier}")
    for name, (floor, why) in FLOORS.items():
        if name in pins and Version(pins[name]) < Version(floor):
            told.append(f"{name} {pins[name]}: at least {floor} is needed, {why}")
    for name, version in installed.items():
        if pins.get(name, version) != version:
            told.append(f"{name} {version} is installed, and {pins[name]} is locked")
    return told


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    found = importlib.metadata.distributions()
    installed = {one.metadata["Name"].lower().replace("_", "-"): one.version for one in found}
    told = complaints(locked((ROOT / "requirements.lock").read_text("utf-8")), wanted, installed)
    for line in told:
        print(f"audit: {line}", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
