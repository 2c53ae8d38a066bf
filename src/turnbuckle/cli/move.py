"""`turnbuckle move`: a journal from a folder into a database, or back."""

import os
import sys

import msgspec
from cyclopts import App

from turnbuckle.cli.config import fail
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Json
from turnbuckle.cli.run import guarded
from turnbuckle.journal.address import is_database, shown
from turnbuckle.journal.moving import Moved
from turnbuckle.journal.opening import move_journal

_EVERY = 1000

app = App(name="move")


@app.default
def move(source: str, target: str, /, *, as_json: Json = False) -> int:
    """Copy a whole journal to another place: from a folder to a database, from a database to a folder, or to
    another one of the same kind. Nothing may write to either meanwhile.

    Every item is compared when all is written, and only then the copy becomes a journal. A move that was
    broken off goes on when it is started again. The source stays as it is. Files beside the journal (keys,
    long outputs, background processes) are not moved: they belong to the folder. Rules of "always" in the
    folder are taken into the database when a server starts with that folder as `files`. Keys and rules that
    are in a database stay there.

    Parameters
    ----------
    source
        The folder, or the address of the database, that has the journal.
    target
        The folder, or the address of the database, that gets it. It has none yet.
    """
    if _plain(source) == _plain(target):
        return fail("source and target are the same place", USAGE_ERROR)
    return guarded(lambda: _move(source, target, as_json))


async def _move(source: str, target: str, as_json: bool) -> int:
    moved = await move_journal(source, target, _tell)
    if as_json:
        echo_json({"target": shown(target), **msgspec.to_builtins(moved)})
        return OK
    counts = f"{moved.streams:,} streams, {moved.items:,} items, {moved.words:,} texts to search"
    echo(f"moved to {shown(target)}: {counts}; all compared, {moved.written:,} written this time")
    if is_database(target):
        folder = "" if is_database(source) else f', and files = "{source}" for what stays in that folder'
        echo(f'Set data = "{shown(target)}"{folder}.')
    else:
        echo(f'Set data = "{target}". Files beside the journal (keys, long outputs) are where they were.')
    if is_database(source):
        echo('API keys and rules of "always" in the database are not moved: they stay there.')
    return OK


def _tell(moved: Moved) -> None:
    if sys.stderr.isatty() and moved.streams % _EVERY == 0:
        echo(f"{moved.streams:,} streams, {moved.items:,} items", err=True)


def _plain(place: str) -> str:
    return place if is_database(place) else os.path.realpath(place)
