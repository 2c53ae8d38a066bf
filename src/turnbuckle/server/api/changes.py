"""What a run did to files, over HTTP: whole diffs, undo, and drafts that are saved to their paths."""

from typing import Any

from msgspec import Struct

from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, json_answer
from turnbuckle.server.http.openapi import Given, Operation
from turnbuckle.server.http.pages import AFTER, SHORT_LIMIT, Page, part_of
from turnbuckle.service.changed_files import ChangedFile
from turnbuckle.service.changes import ChangeService, FileDiff, SavedDraft


class UndoBody(Struct, frozen=True):
    """`path` is one of those that `changes` lists."""

    path: str


class SaveBody(Struct, frozen=True):
    """`path`: target, relative to the workspace; default: the path of the cut call."""

    path: str = ""


class ChangesApi:
    """The handlers."""

    def __init__(self, changes: ChangeService) -> None:
        self._changes = changes

    async def list(self, exchange: Exchange) -> Answer:
        found = await self._changes.diffs(exchange.params["run"], exchange.caller.owner)
        return json_answer(part_of(found, lambda one: one.path, exchange.query))

    async def undo(self, exchange: Exchange) -> Answer:
        caller, run = exchange.caller, exchange.params["run"]
        await self._changes.known(run, caller.owner)  # that there is none is said first
        body = await exchange.read(UndoBody)
        return json_answer(await self._changes.undo(run, body.path, caller.owner, caller.by))

    async def save(self, exchange: Exchange) -> Answer:
        owner, params = exchange.caller.owner, exchange.params
        await self._changes.known(params["run"], owner)
        body = await exchange.read(SaveBody)
        return json_answer(await self._changes.save_draft(params["run"], params["draft"], body.path, owner))


def change_endpoints(api: ChangesApi) -> tuple[Endpoint, ...]:
    """The rows of the table."""
    path, tag = "/v1/runs/{run}", "runs"
    diffs: Any = Page[FileDiff]
    listed = Operation(
        "listChanges",
        "The files that the run changed, each with its whole diff",
        tag,
        (SHORT_LIMIT, AFTER),
        answers={200: (Given("The files.", diffs),)},
    )
    undone = Operation(
        "undoChange",
        "Make a file what it was before the run",
        tag,
        body=UndoBody,
        answers={200: (Given("It is undone.", ChangedFile),)},
        problems=(409,),
    )
    saved = Operation(
        "saveDraft",
        "Write a draft to its path; a file that is there is left alone",
        tag,
        body=SaveBody,
        answers={200: (Given("It is there.", SavedDraft),)},
        problems=(409,),
    )
    return (
        Endpoint("GET", f"{path}/changes", api.list, listed),
        Endpoint("POST", f"{path}/changes/undo", api.undo, undone),
        Endpoint("POST", f"{path}/drafts/{{draft}}/save", api.save, saved),
    )
