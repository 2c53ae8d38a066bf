"""Write every made part of every page again. `--check` only says which pages differ, and leaves with 1 if any
does."""

import sys
from pathlib import Path

from support.http.all_endpoints import DOCUMENT

from pages import http_part, scorecard, settings_part
from pages.parts import ROOT, filled, pages
from pages.recording import FOLDER, SCORECARD


def parts() -> dict[str, str]:
    """Everything that is made, by its name."""
    recorded = {
        f"recorded-{file.stem}": f"```text\n{file.read_text('utf-8').rstrip()}\n```"
        for file in sorted(FOLDER.glob("*.txt"))
    }
    return {
        "settings": settings_part.tables(),
        "presets": settings_part.presets(),
        "http": http_part.page(DOCUMENT),
        "scorecard": scorecard.tables(scorecard.read((FOLDER / SCORECARD).read_text("utf-8"))),
        **recorded,
    }


def main(*, check: bool, root: Path = ROOT) -> int:
    """Write the pages, or only compare them."""
    made = parts()
    changed = [
        page for page in pages(root) if filled(page.read_text("utf-8"), made) != page.read_text("utf-8")
    ]
    for page in changed:
        if check:
            print(f"{page.relative_to(root)} is not what the code says: make reference")
        else:
            page.write_text(filled(page.read_text("utf-8"), made), "utf-8")
            print(f"written: {page.relative_to(root)}")
    return 1 if changed and check else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
