"""`turnbuckle processes`: what runs goes on in the background, and can be ended, with or without a session.

A process has a keeper that is not a child of any server, so all of this works beside a living one and without
one."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from cyclopts import App

from turnbuckle.app import background_of
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Json, Key, Server
from turnbuckle.cli.remote import remote_at
from turnbuckle.cli.run import guarded
from turnbuckle.cli.table import LONGEST, echo_table
from turnbuckle.server.api.sessions import process_view
from turnbuckle.tools.background import BackgroundProcess
from turnbuckle.turn.labels import shortened

app = App(name="processes", help="What runs in the background: list, stop.")


@app.command(name="list")
def list_processes(
    *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """List background processes, oldest first."""

    async def act() -> int:
        missing: set[str] = set()
        rows = await _rows(server, key, config, missing)
        if missing:
            echo(f"not in this list: what is on {', '.join(sorted(missing))}, without an answer", err=True)
        if as_json:
            echo_json(rows, indented=True)
            return OK
        cells = [(row["id"], row["state"], row["run"], shortened(row["command"], LONGEST)) for row in rows]
        echo_table(("process", "state", "run", "command"), cells)
        if not rows and not missing:
            echo("no background processes", err=True)
        return OK

    return guarded(act)


@app.command
def stop(
    process: str, /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """End a background process with all that came from it.

    Parameters
    ----------
    process
        Its id as the list shows it.
    """

    async def act() -> int:
        if server:
            path = f"/v1/processes/{quote(process, safe='')}/stop"
            row = await remote_at(server, key).ask("POST", path, {})
        else:
            background = background_of(load_for(config))
            if process not in [one.id for one in background.listed()]:
                return fail(f"there is no background process {process}", USAGE_ERROR)
            found = await background.stop(process)
            row = {} if found is None else _row(found)
        if as_json:
            echo_json(row)
        else:
            echo(f"{process}: {row.get('state', 'gone')}")
        return OK

    return guarded(act)


async def _rows(server: str, key: str, config: Path | None, missing: set[str]) -> list[dict[str, Any]]:
    if server:
        return await remote_at(server, key).every("/v1/processes", missing)
    return [_row(one) for one in background_of(load_for(config)).listed()]


def _row(process: BackgroundProcess) -> dict[str, Any]:
    """As `GET /v1/processes` has it, and whose session it belongs to."""
    told: dict[str, Any] = msgspec.to_builtins(process_view(process))
    return {**told, "session": process.session}
