"""Run a command, in the sandbox if there is one. Without one it may do what the user may: then it is for the
approval rules to say."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from turnbuckle.tools.background import Processes
from turnbuckle.tools.confine import open_folder, place_of
from turnbuckle.tools.output import Decoded
from turnbuckle.tools.process import CommandEnd, run_command
from turnbuckle.tools.sandbox.network import has_network
from turnbuckle.tools.sandbox.port import SandboxJob, SandboxLaunch
from turnbuckle.tools.spec import ToolContext, ToolError, tool
from turnbuckle.tools.threads import in_thread
from turnbuckle.vocab.tooling import ToolOutcome, ToolStatus, finished

SECONDS = 120.0
MOST_SECONDS = 3600.0

_SHELL = next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")


def _limit(values: Mapping[str, Any]) -> float:
    asked = values.get("timeout")
    return SECONDS if asked is None else min(float(asked), MOST_SECONDS)


@tool(effect="write", timeout=_limit, subject="command", is_command=True, widens="network")
async def shell(
    command: Annotated[str, "The command, for a shell."],
    context: ToolContext,
    cwd: Annotated[str | None, "The folder to run it in; the workspace if left out."] = None,
    timeout: Annotated[float | None, "Seconds until it is killed, 120 if left out, at most 3600."] = None,
    background: Annotated[bool, "Start it and come back at once: for servers and other long work."] = False,
    network: Annotated[bool, "Whether it needs the network, which the user may have to allow."] = False,
) -> ToolOutcome:
    """Run a shell command in the workspace. Whatever it leaves running is killed when it ends. With
    background=true it goes on by itself, and read_process and stop_process work with it."""
    if background and timeout is not None:
        raise ToolError("a background process has no timeout; end it with stop_process")
    if timeout is not None and timeout <= 0:
        raise ToolError("timeout must be more than 0")
    if "\0" in command:
        raise ToolError("a command cannot hold a NUL character")
    decoded = Decoded()
    with place_of(context, cwd or ".") as place:
        folder = open_folder(place)
        where = os.path.normpath(os.path.join(os.path.realpath(context.workspace), place.shown))
    try:
        launch = await _launch(command, context, where, network=network, background=background)
        if background:
            return await _started(command, context, folder, where, launch)
        ended = await run_command(
            launch.argv,
            folder=folder,
            environment=launch.environment,
            heard=lambda data: context.publish(decoded.add(data)),
            clock=context.clock,
            plan=launch.plan,
        )
    finally:
        os.close(folder)
    context.publish(decoded.close())
    return _outcome(ended)


async def _launch(
    command: str, context: ToolContext, where: str, *, network: bool, background: bool
) -> SandboxLaunch:
    environment = {**context.child_environment, "PWD": where}
    writable = (os.path.realpath(context.workspace), os.path.realpath(context.data))
    known = has_network(command, context.network, environment.get("PATH", os.defpath), writable)
    job = SandboxJob(
        (_SHELL, "-c", command),
        where,
        environment,
        network=network or known,
        session=await context.session(),
        background=background,
    )
    return await in_thread(lambda: context.sandbox.launch(job))  # it looks through the workspace


async def _started(
    command: str, context: ToolContext, folder: int, where: str, launch: SandboxLaunch
) -> ToolOutcome:
    process = await Processes(context.data, context.clock).start(
        launch.argv,
        command,
        run=context.run,
        session=await context.session(),
        key=context.key,
        where=folder,
        folder=where,
        environment=launch.environment,
        plan=launch.plan,
    )
    return finished(f"Started in the background as process {process.id} (pid {process.pid}).")


def _outcome(ended: CommandEnd) -> ToolOutcome:
    if ended.limit:
        return ToolOutcome(
            "killed", f"It was killed: {ended.limit}.", killed=ended.killed, survivors=ended.survivors
        )
    if ended.stopped or ended.code is None:
        why = "" if ended.stopped else "Its guard was killed, so its end was not seen."
        return ToolOutcome("killed", why, killed=ended.killed, survivors=ended.survivors)
    status: ToolStatus = "finished" if ended.code == 0 else "failed"
    code = ended.code if ended.code >= 0 else 128 - ended.code  # as shells count a death by signal
    return ToolOutcome(status, exit_code=code, killed=ended.killed, survivors=ended.survivors)
