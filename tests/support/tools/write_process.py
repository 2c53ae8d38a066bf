"""A process that changes one file many times with the file tools, and says how often it was told that it did.

Run as a program: `file_writer.py FOLDER NAME TOOL COUNT`. It begins when a line comes in.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from turnbuckle.lab.clock import RealClock
from turnbuckle.reply.verdict import SoundCall
from turnbuckle.tools.builtin import BUILT_IN
from turnbuckle.tools.dispatch import Dispatcher
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import ToolContext


def arguments(tool: str, writer: str, number: int) -> dict[str, Any]:
    """The change with this number. An edit fills in a place that nobody else has."""
    mark = f"<{writer}:{number}>"
    if tool == "edit_file":
        return {"old": f"[{writer}:{number}]", "new": mark}
    return {"content": mark + "\n"}


async def main(folder: Path, writer: str, tool: str, count: int) -> None:
    data = folder / f"data-{writer}"
    data.mkdir()
    context = ToolContext(workspace=folder / "workspace", data=data, clock=RealClock(), run=writer)
    dispatcher = Dispatcher(Registry(BUILT_IN))
    sys.stdin.readline()
    for number in range(count):
        call = SoundCall(f"call_{number}", tool, {"path": "a.txt", **arguments(tool, writer, number)})
        outcome = await dispatcher.run(call, context)
        print(
            f"<{writer}:{number}>" if outcome.status == "finished" else f"failed {outcome.text}", flush=True
        )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
