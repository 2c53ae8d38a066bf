"""Look at background processes of this session, and end one."""

import time
from typing import Annotated

from turnbuckle.tools.background import BackgroundProcess, Processes
from turnbuckle.tools.spec import ToolContext, ToolError, tool

MOST_WAIT = 60.0
LOOK = 0.2
_LINE = 120  # characters of a command in a list


@tool(effect="read", timeout=MOST_WAIT + 30.0)
async def read_process(
    context: ToolContext,
    id: Annotated[str | None, "The process; all of this session are listed if left out."] = None,
    after: Annotated[
        int | None, "Only what it printed behind so many bytes; the last of it if left out."
    ] = None,
    wait: Annotated[
        float | None, "Wait up to so many seconds, at most 60, for more output or its end."
    ] = None,
) -> str:
    """Look at a process that was started in the background: whether it runs, and what it printed."""
    processes, session = Processes(context.data, context.clock), await context.session()
    if id is None:
        found = processes.listed(session)
        return "\n".join(_line(one) for one in found) or "There are no background processes in this session."
    process = _known(processes, id, session)
    after = None if after is None else max(after, 0)
    seen = process.output_bytes if after is None else after
    until = context.clock.now() + min(max(wait or 0.0, 0.0), MOST_WAIT)
    while process.is_alive and process.output_bytes <= seen and context.clock.now() < until:
        await context.clock.sleep(LOOK)
        process = _known(processes, id, session)
    piece = processes.read(process.id, after, context.output_cap // 2)
    ends = piece.begins + len(piece.data)
    # A secret may begin before what is shown, or end behind it.
    margin = context.redactor.longest
    around = processes.read(process.id, max(piece.begins - margin, 0), len(piece.data) + 2 * margin)
    at = piece.begins - around.begins
    text = context.redactor.part(around.data, at, at + len(piece.data)).decode("utf-8", "replace")
    left_out = (
        ""
        if piece.begins == (after or 0)
        else f"[{piece.begins - (after or 0):,} bytes before this left out]\n"
    )
    more = f" There is more, up to {piece.total}." if ends < piece.total else ""
    return f"{_line(process)}\n{left_out}{text or '(no new output)'}\n[To read on: after={ends}.{more}]"


@tool(effect="idempotent", subject="id")
async def stop_process(id: Annotated[str, "The process."], context: ToolContext) -> str:
    """End a process that was started in the background, with everything that came from it."""
    processes = Processes(context.data, context.clock)
    process = _known(processes, id, await context.session())
    if not process.is_alive:
        return f"It was over already. {_line(process)}"
    over = await processes.stop(process.id)
    if over is None or over.is_alive:
        raise ToolError(f"{id} could not be ended")
    left = f" Could not be ended: {', '.join(over.survivors)}." if over.survivors else ""
    return f"{_line(over)}{left}"


def _known(processes: Processes, name: str, session: str) -> BackgroundProcess:
    found = processes.find(name, session)
    if found is None:
        raise ToolError(
            f"there is no background process {name[:40]!r} in this session; read_process lists them"
        )
    return found


def _line(process: BackgroundProcess) -> str:
    command = " ".join(process.command.split())
    shown = command if len(command) <= _LINE else f"{command[: _LINE - 1]}…"
    match process.state:
        case "ended" if process.limit:
            how = f"was ended: {process.limit}"
        case "ended":
            how = f"ended with exit code {process.exit_code}"
        case "stopped":
            how = "was stopped"
        case "lost":
            how = "is lost: it is not there any more, and nobody saw how it ended"
        case state:
            how = f"is {state} for {max(time.time() - process.started_at, 0):.0f} s, pid {process.pid}"
    return f"{process.id} {how}: {shown}"
