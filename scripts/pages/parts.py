"""The made parts of a page: where they are, and how they are replaced."""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
_PART = re.compile(r"(<!-- made: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)


def pages(root: Path = ROOT) -> list[Path]:
    """Every page of the project that may hold made parts."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").glob("*.md"))]


def names_in(page: str) -> list[str]:
    """The parts that a page wants, in order."""
    return [found["name"] for found in _PART.finditer(page)]


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The page with every made part written again. Raises KeyError for a part that nobody makes."""

    def one(found: re.Match[str]) -> str:
        return f"{found[1]}{parts[found['name']].strip()}\n{found[4]}"

    return _PART.sub(one, page)
