"""`turnbuckle runs`: what was run, how it went, and going on with what has no end."""

from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from turnbuckle.app import open_app, open_reader, writer_of
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR, exit_code
from turnbuckle.cli.follow import Follower, waste_lines
from turnbuckle.cli.options import Config, Flag, Json, JsonFlag
from turnbuckle.cli.run import Look, carried_on, draft_lines, guarded, partial_run, resumed
from turnbuckle.cli.table import LONGEST, echo_table, minute_of
from turnbuckle.config import Loaded
from turnbuckle.journal.port import Reader, StreamQuery, StreamRow
from turnbuckle.journal.tail import read_all
from turnbuckle.runtime.find_run import find_run
from turnbuckle.runtime.runs import KIND, RUNNING
from turnbuckle.server.faces.events import event_line
from turnbuckle.service.cursors import cursor, row_place_at
from turnbuckle.service.owners import LOCAL
from turnbuckle.service.run_view import line_of
from turnbuckle.turn.facts import RunEnded, decode
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.ids import SessionId

app = App(name="runs", help="What was run: list, show, and resume after a crash.")


@app.command(name="list")
def list_runs(
    *,
    unfinished: Flag = False,
    limit: int = 50,
    after: Annotated[str, Parameter(show_default=False)] = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """List runs, the latest first.

    Parameters
    ----------
    unfinished
        Only those that have no end.
    limit
        How many at most.
    after
        Where the last page ended, as printed on stderr.
    """
    return guarded(
        lambda: _list(load_for(config, only_looks=True), unfinished, max(limit, 1), after, as_json)
    )


@app.command
def show(
    run: Annotated[str, Parameter(show_default=False)] = "",
    /,
    *,
    config: Config = None,
    reasoning: Flag = False,
    as_json: JsonFlag = False,
) -> int:
    """Show a run from its journal as it was shown when it ran. The exit code is that of its outcome.

    Parameters
    ----------
    run
        Its id, or a part of it; the latest run if left out.
    reasoning
        Show the model's reasoning too.
    as_json
        Every fact as a line of JSON.
    """
    look = Look(as_json=as_json, reasoning=reasoning, color=True)
    return guarded(lambda: _show(load_for(config, only_looks=True), run, look))


@app.command
def resume(
    run: Annotated[str, Parameter(show_default=False)] = "",
    /,
    *,
    config: Config = None,
    reasoning: Flag = False,
    as_json: JsonFlag = False,
) -> int:
    """Resume a run whose process died, or that gave up (partial). What was done is not done again.

    A run that gave up stays as it is: a new run of its session does the rest, with the drafts that it
    left.

    Parameters
    ----------
    run
        Its id, or a part of it. If left out: the latest unfinished run, or the latest run if it was given up.
    reasoning
        Show the model's reasoning too.
    as_json
        Every fact as a line of JSON.
    """
    look = Look(as_json=as_json, reasoning=reasoning, color=True)
    return guarded(lambda: _resume(load_for(config), run, look))


async def _list(loaded: Loaded, unfinished: bool, limit: int, after: str, as_json: bool) -> int:
    async with open_reader(loaded) as reader:
        wanted = StreamQuery(kind=KIND, status=RUNNING) if unfinished else StreamQuery(kind=KIND)
        rows = [] if reader is None else await reader.streams(wanted, row_place_at(after), limit)
        lives = writer_of(reader) if reader is not None else ""
    if as_json:
        echo_json([_row(row, lives) for row in rows], indented=True)
    else:
        cells = [
            (row.name, minute_of(row.created), _status(row, lives), shortened(row.title, LONGEST))
            for row in rows
        ]
        echo_table(("run", "begun", "status", "task"), cells)
        if not rows:
            echo("no unfinished runs" if unfinished else "no runs yet", err=True)
    if len(rows) == limit:
        echo(f"there may be more: --after {cursor(rows[-1].place)}", err=True)
    return OK


def _status(row: StreamRow, lives: str) -> str:
    """A run without an end is only running while the living process holds it."""
    return row.status if row.status != RUNNING or (lives and row.holder.startswith(lives)) else "unfinished"


def _row(row: StreamRow, lives: str) -> dict[str, Any]:
    """With the names and words that `GET /v1/runs` has."""
    line: dict[str, Any] = msgspec.to_builtins(line_of(row, LOCAL, None))
    return {**line, "status": "running"} if _status(row, lives) == RUNNING else line


async def _latest(reader: Reader, wanted: StreamQuery) -> str:
    rows = await reader.streams(wanted, limit=1)
    return rows[0].name if rows else ""


async def _show(loaded: Loaded, text: str, look: Look) -> int:
    async with open_reader(loaded) as reader:
        name = "" if reader is None else text or await _latest(reader, StreamQuery(kind=KIND))
        if reader is None or not name:
            return fail("no runs yet", USAGE_ERROR)
        run = await find_run(reader, name)
        if look.as_json:
            async for items in read_all(reader, run):
                look.screen.raw(b"".join(map(event_line, items)).decode())
            outcome = None
            async for items in read_all(reader, run):
                last = decode(items[-1].data)
                outcome = last.outcome if isinstance(last, RunEnded) else None
            return OK if outcome is None else exit_code(outcome)
        follower = Follower(reader, run, look.screen, reasoning=look.reasoning)
        try:
            await follower.catch_up()
        finally:
            follower.close()
        look.screen.show(waste_lines(follower.wastes))
        if follower.outcome is not None:
            look.screen.show(draft_lines(run, follower.outcome))
            return exit_code(follower.outcome)
    echo("this run has no end yet", err=True)
    return OK


async def _resume(loaded: Loaded, text: str, look: Look) -> int:
    async with open_app(loaded, attended=look.ask is not None) as opened:
        unfinished = await opened.runs.unfinished()
        latest = unfinished[0] if unfinished else await opened.runs.latest()
        if not text and (latest is None or latest.status not in (RUNNING, "partial")):
            return fail("there is no unfinished run", USAGE_ERROR)
        run = await find_run(opened.journal, text or (latest.name if latest is not None else ""))
        row = (await opened.journal.streams(StreamQuery(kind=KIND, name=run), limit=1))[0]
        if row.status != "partial":
            return await resumed(opened, run, look)
        newest = await partial_run(opened, SessionId(row.parent))
        if newest is None or newest.name != run:
            later = f"the conversation went on after the run {run}"
            return fail(
                f'{later}; turnbuckle run --session {row.parent} "…" says what is still wanted', USAGE_ERROR
            )
        return await carried_on(opened, row, look)
