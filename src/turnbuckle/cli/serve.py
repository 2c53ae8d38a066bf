"""`turnbuckle serve`: the runtime behind HTTP, until somebody stops it."""

import gc
import os
from pathlib import Path

from cyclopts import App

from turnbuckle.cli.exits import CANCELLED, OK, USAGE_ERROR
from turnbuckle.cli.run import guarded
from turnbuckle.cli.setting import fail, load_for
from turnbuckle.config import Loaded
from turnbuckle.errors import ConfigError
from turnbuckle.hosting import open_server
from turnbuckle.server.serving import Stopper, serve

EPILOGUE = """Ctrl-C or SIGTERM stops it in good order: nothing new starts, runs get a moment to end, and the others go
on after the next start. A second one leaves at once, which is as safe as a crash: nothing that was seen is lost.

Without a key it listens on this machine only. `turnbuckle keys create NAME` makes one."""

app = App(name="serve", help_epilogue=EPILOGUE)


@app.default
def serve_it(
    *,
    config: Path | None = None,
    workspace: Path | None = None,
    host: str | None = None,
    port: int | None = None,
) -> int:
    """Serve the OpenAI-compatible API, and the runs and sessions behind it.

    Parameters
    ----------
    config
        The settings; turnbuckle.toml in this folder if left out.
    workspace
        The folder in which file and shell tools act.
    host
        The address to listen on.
    port
        The port to listen on; 0 takes any free one.
    """
    try:
        loaded = load_for(config, workspace=workspace, changes={"server.host": host, "server.port": port})
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    return guarded(_serve(loaded))


async def _serve(loaded: Loaded) -> int:
    async with open_server(loaded) as service:
        _calm_collector()
        await serve(service, Stopper(_leave_at_once), _announce)
    return OK


def _calm_collector() -> None:
    """Python looks for cycles of garbage after every 700 new objects, and now and then at all objects there are. A
    hundred streams that begin at once make that a tenth of the work. What is there by now stays, so it is never looked
    at again, and the rest is looked at less often; that costs a few megabytes at most."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def _announce(address: str) -> None:
    print(f"Turnbuckle listens on {address}", flush=True)


def _leave_at_once() -> None:
    os.write(2, b"\nleft at once; runs that were under way go on after the next start\n")
    os._exit(CANCELLED)
