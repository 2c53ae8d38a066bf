"""`turnbuckle serve`: the runtime behind HTTP, until somebody stops it."""

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from turnbuckle.app import sandbox_of
from turnbuckle.call.loop import run as run_loop
from turnbuckle.cli.config import fail, load_again, load_for
from turnbuckle.cli.echo import echo, echo_at_once
from turnbuckle.cli.exits import CANCELLED, FAILED, OK
from turnbuckle.cli.first_screen import Quieter, first_screen, open_browser, reachable
from turnbuckle.cli.listener import is_turnbuckle, serves
from turnbuckle.cli.options import Config
from turnbuckle.cli.run import told
from turnbuckle.cli.workers import LEFT, WorkerParent, WorkerReady, calm_collector, require_database
from turnbuckle.config import Loaded
from turnbuckle.errors import CanNotListen
from turnbuckle.hosting import open_server
from turnbuckle.journal.port import InUse
from turnbuckle.server.http.serving import TOKEN, ShutdownSignal, serve

EPILOGUE = """Ctrl-C or SIGTERM stops it in good order: nothing new starts, runs get a moment to end, and the others go
on after the next start. A second one leaves at once, which is as safe as a crash: nothing that was seen is lost.

SIGHUP reads the settings again: limits, budgets and rules of consent change at once, and what needs a restart is named in the log. If the terminal was closed it stops in good order instead.

Without a key it listens on this machine only. `turnbuckle keys create NAME` makes one."""  # noqa: E501

app = App(name="serve", help_epilogue=EPILOGUE)


@app.default
def serve_it(
    *,
    config: Config = None,
    workspace: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    open_page: Annotated[bool, Parameter(name="--open", show_default=False)] = False,
) -> int:
    """Serve the OpenAI-compatible API, and the runs and sessions behind it.

    Parameters
    ----------
    workspace
        The folder in which file and shell tools act.
    host
        The address to listen on.
    port
        The port to listen on; 0 takes any free one.
    workers
        Processes that share the port, each on a core of its own; more than one needs a journal in Postgres.
    open_page
        Open the console in a browser, if there is a display here and somebody in front of it.
    """
    changes = {"server.host": host, "server.port": port, "server.workers": workers}
    _share_memory_between_threads()
    again = partial(load_again, config, workspace=workspace, changes=changes)

    def serve_as_set() -> int:
        loaded = load_for(config, workspace=workspace, changes=changes)
        if loaded.settings.server.workers > 1:
            return _serve_by_workers(loaded, again=again, open_page=open_page)
        return run_loop(_serve(loaded, again=again, open_page=open_page))

    return told(serve_as_set)


def _serve_by_workers(loaded: Loaded, *, again: Callable[[], Loaded], open_page: bool) -> int:
    require_database(loaded)

    def announce(ready: WorkerReady) -> None:
        _announce(loaded, lambda: ready.needs_key, open_page, ready.address)

    try:
        return WorkerParent(loaded, again, announce).run()
    except (CanNotListen, InUse) as error:
        return _refused(error, loaded)


async def _serve(loaded: Loaded, *, again: Callable[[], Loaded], open_page: bool) -> int:
    try:
        async with open_server(loaded, again=again) as service:
            calm_collector()
            announce = partial(_announce, loaded, lambda: service.app.needs_key, open_page)
            await serve(service, ShutdownSignal(_leave_at_once), announce)
    except (CanNotListen, InUse) as error:
        return _refused(error, loaded)
    return OK


def _refused(error: CanNotListen | InUse, loaded: Loaded) -> int:
    """Say who has the port or the folder already."""
    server = loaded.settings.server
    if not is_turnbuckle(server.host, server.port):
        return fail(error, FAILED)
    near = reachable(f"http://{server.host}:{server.port}")
    if isinstance(error, InUse) and serves(server.host, server.port, Path(loaded.settings.folder)):
        return fail(f"{error}. It is a server, which listens on {near}", FAILED)
    if isinstance(error, InUse):
        return fail(f"{error}. It is not the server on {near}, which is another turnbuckle", FAILED)
    ways = "use that one, stop it, or start this one with --port 0 for any free port"
    return fail(f"another turnbuckle listens on {near} already: {ways}", FAILED)


def _share_memory_between_threads() -> None:
    """glibc gives every thread a heap of its own, up to eight for each core, and what one of them once needed
    stays with it. The journal's threads allocate pages that the loop frees, so most of that would lie idle:
    with 80 clients that do not read, 110 MB instead of 60."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's own; other C libraries do not need it
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


_M_ARENA_MAX = -8
_ARENAS = 2


def _announce(loaded: Loaded, needs_key: Callable[[], bool], open_page: bool, address: str) -> None:
    echo(f"Turnbuckle listens on {address}")
    if not sys.stdout.isatty():
        return
    if sys.stderr.isatty():
        logging.getLogger("turnbuckle.server").addFilter(Quieter())
    address, _, token = address.partition(TOKEN)
    sandbox = sandbox_of(loaded).holds.words
    echo(*first_screen(address, loaded, needs_key=needs_key(), sandbox=sandbox))
    if open_page:
        open_browser(f"{address}{TOKEN}{token}" if token else address)


def _leave_at_once() -> None:
    echo_at_once(LEFT)
    os._exit(CANCELLED)
