"""What a sandbox adds to the start of a command: `python benchmarks/sandbox.py`. The median of some starts of
`true`, side by side, in one run."""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from turnbuckle.call.clock import SystemClock
from turnbuckle.tools.builtin.shell import shell
from turnbuckle.tools.sandbox.choose import SandboxRules, SandboxTools, choose, sandbox_tools
from turnbuckle.tools.sandbox.files import visible
from turnbuckle.tools.sandbox.port import NoSandbox, Sandbox
from turnbuckle.tools.spec import ToolContext

ROUNDS = 40


def sandboxes(folder: Path) -> dict[str, Sandbox]:
    found = sandbox_tools()
    seen = visible(
        folder / "workspace",
        folder / "data",
        os.environ,
        prefixes=(sys.prefix, sys.base_prefix),
        is_root=os.getuid() == 0,
    )
    rules = SandboxRules("auto", seen, processes=1000, file_size=1 << 30)
    alone = SandboxTools("", found.abi, found.machine)
    made = {"none": NoSandbox(), "bubblewrap": choose(rules, found), "landlock": choose(rules, alone)}
    return {name: one for name, one in made.items() if name in ("none", one.holds.mechanism)}


async def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for part in ("workspace", "data"):
            (folder / part).mkdir()
        found = sandboxes(folder)
        took: dict[str, list[float]] = {name: [] for name in found}
        for _ in range(ROUNDS):
            for name, sandbox in found.items():
                context = ToolContext(
                    workspace=folder / "workspace", data=folder / "data", clock=SystemClock(), sandbox=sandbox
                )
                began = time.perf_counter()
                await shell("true", context)
                took[name].append(time.perf_counter() - began)
    plain = median(took["none"])
    for name, times in took.items():
        print(f"{name:<11} {median(times) * 1000:6.1f} ms   {(median(times) - plain) * 1000:+6.1f} ms")


asyncio.run(main())
