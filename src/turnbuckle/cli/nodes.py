"""`turnbuckle nodes`: the servers that work on one journal."""

import time

from cyclopts import App

from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Json
from turnbuckle.cli.run import guarded
from turnbuckle.cli.table import echo_table
from turnbuckle.journal.opening import nodes_at
from turnbuckle.service.node_list import NodeView, node_view

_FOLDER = "the journal is in a folder, which has one process at most; nodes share a database (docs/scale.md)"

app = App(name="nodes")


@app.default
def nodes(
    *,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List the servers that work on the database of the settings, the oldest first."""

    async def act() -> int:
        found = await nodes_at(load_for(config).settings.data)
        if found is None:
            return fail(_FOLDER, USAGE_ERROR)
        views = [node_view(row) for row in found]
        if as_json:
            echo_json(views, indented=True)
            return OK
        echo_table(("node", "version", "up", "runs", "lag", "labels"), [_cells(view) for view in views])
        if not views:
            echo("no nodes", err=True)
        return OK

    return guarded(act)


def _cells(view: NodeView) -> tuple[str, ...]:
    runs = f"{view.runs} of {view.max_runs}" if view.max_runs else str(view.runs)
    up = max(int(time.time() - view.started), 0)
    since = f"{up // 3600}:{up // 60 % 60:02}:{up % 60:02}"
    return view.name, view.version, since, runs, f"{view.lag:.3f} s", ", ".join(view.labels)
