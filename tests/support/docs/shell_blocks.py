"""Shell blocks of the pages that can be tried: those behind a comment `<!-- try -->`, or `<!-- try: beside a server -->`.

The blocks of a page run one after another in one folder, with the rehearsal model, as a reader would type them. A block
of output behind a block of commands is compared; `…` in it stands for anything.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from support.processes.commands import ENVIRONMENT

BLOCK = re.compile(
    r"^<!-- try(?P<how>: beside a server)? -->\n```sh\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Commands of a page, the line they stand in, whether a server runs meanwhile, and what they print."""

    line: int
    code: str
    beside: bool
    output: str | None


def blocks_of(page: Path) -> list[Block]:
    """What can be tried on a page."""
    text = page.read_text("utf-8")
    return [
        Block(text.count("\n", 0, found.start()) + 3, found["code"], bool(found["how"]), found["output"])
        for found in BLOCK.finditer(text)
    ]


def tried(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Type the commands into a shell; the first that fails ends it."""
    environment = {
        **ENVIRONMENT,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **more,
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def fits(pattern: str, text: str) -> bool:
    """Whether a text is what a page shows of it."""
    return re.fullmatch(".*?".join(map(re.escape, pattern.split("…"))), text, re.DOTALL) is not None
