"""`turnbuckle drafts`: what arrived of calls that were cut and never finished."""

import os
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App
from msgspec import Struct

from turnbuckle.app import open_reader
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json, echo_whole
from turnbuckle.cli.exits import FAILED, OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Json, JsonFlag
from turnbuckle.cli.run import guarded
from turnbuckle.cli.table import echo_table
from turnbuckle.config import Loaded
from turnbuckle.journal.port import Reader, StreamQuery
from turnbuckle.reply.draft import Draft
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.find_run import find_run
from turnbuckle.runtime.runs import KIND, READING, listed
from turnbuckle.service.run_view import draft_of
from turnbuckle.vocab.ids import RunId

app = App(name="drafts", help="What is kept of calls that were cut: list, show, save.")


class RunDraft(Struct, frozen=True):
    """A draft and the run that it belongs to. `name` is what the commands take."""

    run: RunId
    draft: Draft

    @property
    def name(self) -> str:
        return f"{self.run}:{self.draft.id}"

    @property
    def target(self) -> str:
        path = self.draft.settled.get("path")
        return path if isinstance(path, str) else ""


@app.command(name="list")
def list_drafts(*, config: Config = None, as_json: Json = False) -> int:
    """List open drafts, those of the latest run first."""
    return guarded(lambda: _list(load_for(config, only_looks=True), as_json))


@app.command
def show(draft: str, /, *, config: Config = None, as_json: JsonFlag = False) -> int:
    """Print the text of a draft.

    Parameters
    ----------
    draft
        Its id as the list shows it, or a part of it that fits only one.
    as_json
        With all that is known of it, as JSON.
    """
    return guarded(lambda: _show(load_for(config, only_looks=True), draft, as_json))


@app.command
def save(draft: str, path: Path, /, *, config: Config = None, as_json: JsonFlag = False) -> int:
    """Write the text of a draft to a new file.

    Parameters
    ----------
    draft
        Its id as the list shows it, or a part of it that fits only one.
    path
        The file to make. One that exists is left alone.
    as_json
        Say as JSON what was written.
    """
    return guarded(lambda: _save(load_for(config), draft, path, as_json))


async def _list(loaded: Loaded, as_json: bool) -> int:
    found = await _all(loaded)
    if as_json:
        echo_json([_row(kept) for kept in found], indented=True)
        return OK
    rows = [(kept.name, kept.draft.tool, f"{len(kept.draft.text):,}", kept.target) for kept in found]
    echo_table(("draft", "tool", "characters", "file"), rows)
    if not found:
        echo("no open drafts", err=True)
    return OK


async def _show(loaded: Loaded, text: str, as_json: bool) -> int:
    kept = await _one(loaded, text)
    if isinstance(kept, str):
        return fail(kept, USAGE_ERROR)
    if as_json:
        echo_json(_row(kept, with_text=True))
    else:
        echo_whole(kept.draft.text)
    return OK


async def _save(loaded: Loaded, text: str, path: Path, as_json: bool) -> int:
    kept = await _one(loaded, text)
    if isinstance(kept, str):
        return fail(kept, USAGE_ERROR)
    try:
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8"
        ) as file:
            file.write(kept.draft.text)
    except OSError as error:
        return fail(f"{path} cannot be written: {error.strerror}", FAILED)
    if as_json:
        echo_json({**_row(kept), "path": str(path)})
    else:
        echo(f"wrote {len(kept.draft.text):,} characters to {path}", err=True)
    return OK


def _row(kept: RunDraft, *, with_text: bool = False) -> dict[str, Any]:
    """As `GET /v1/runs/{run}/drafts` has it. `name` is what the commands take."""
    view: dict[str, Any] = msgspec.to_builtins(draft_of(kept.run, kept.draft, with_text=with_text))
    return {"name": kept.name, **view}


async def _all(loaded: Loaded) -> list[RunDraft]:
    async with open_reader(loaded) as reader:
        if reader is None:
            return []
        rows = await listed(reader, StreamQuery(kind=KIND))
        return [kept for row in rows for kept in await _of_run(reader, RunId(row.name))]


async def _of_run(reader: Reader, run: RunId) -> list[RunDraft]:
    turn = await fold_run(reader, run, READING)
    return [RunDraft(run, draft) for draft in turn.drafts.values()]


async def _one(loaded: Loaded, text: str) -> RunDraft | str:
    """The draft of this id, or a sentence that says why there is none."""
    run_text, colon, draft_id = text.rpartition(":")
    async with open_reader(loaded) as reader:
        if reader is None:
            return "no open drafts"
        if colon:
            runs = [await find_run(reader, run_text)]
        else:
            runs = [RunId(row.name) for row in await listed(reader, StreamQuery(kind=KIND))]
        found = [kept for run in runs for kept in await _of_run(reader, run)]
    fits = [kept for kept in found if kept.draft.id == draft_id]
    if len(fits) == 1:
        return fits[0]
    if fits:
        return f"{text} fits {len(fits)} drafts: {', '.join(kept.name for kept in fits[:5])}"
    return f"there is no open draft {text}; `turnbuckle drafts list` shows them all"
