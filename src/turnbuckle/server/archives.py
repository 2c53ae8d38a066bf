"""A session as a file: `GET /v1/sessions/{id}/export` and `POST /v1/sessions/import`.

Both are plain: a client has all of it or an error. What is larger than a body may be goes through the command line,
which has no such limit.
"""

import asyncio
import time

from turnbuckle.errors import ImportRefused, SessionUnknown
from turnbuckle.runtime.archive import Importer, exported, read_archive
from turnbuckle.server.desk import Desk
from turnbuckle.server.endpoints import Endpoint
from turnbuckle.server.http import Answer, Exchange, Problem, json_answer
from turnbuckle.server.names import public_session, session_id
from turnbuckle.server.openapi import Given, Operation, Parameter
from turnbuckle.server.problems import unknown
from turnbuckle.server.run_shapes import SESSION_ID
from turnbuckle.server.sessions import SessionView

LINES = "application/x-ndjson"
MOST = 64 << 20  # bytes of one export: it is made in memory, and is twice what a body may have by default


class ArchivesApi:
    """The handlers."""

    def __init__(self, desk: Desk, importer: Importer) -> None:
        self._desk = desk
        self._importer = importer

    async def export(self, exchange: Exchange) -> Answer:
        owner, public = exchange.caller.owner, exchange.params["session"]
        try:
            row = await self._desk.sessions.row(session_id(owner, public), owner)
        except (Problem, SessionUnknown):
            raise unknown("session", public) from None
        pieces: list[bytes] = []
        size = 0
        async for piece in exported(self._desk.journal, row, public, time.time()):
            pieces.append(piece)
            size += len(piece)
            if size > MOST:
                message = f"the session has more than {MOST >> 20} MiB; `turnbuckle sessions export` has no limit"
                raise Problem(422, message, code="session_too_large", should_retry=False)
        return Answer(200, b"".join(pieces), (), LINES)

    async def bring_in(self, exchange: Exchange) -> Answer:
        """Under the id that is asked for, or under its own, or under a new one if that is taken."""
        owner, wanted = exchange.caller.owner, exchange.query.get("id", "")
        body = await exchange.body()
        try:
            archive = await asyncio.to_thread(read_archive, body.split(b"\n"))
            exchange.forget_body()
            public = wanted or archive.head.session
            made = await self._importer.bring_in(archive, session_id(owner, public, param="id"), owner)
            if made is None and not wanted:
                public = self._desk.new_session()
                made = await self._importer.bring_in(archive, session_id(owner, public), owner)
        except ImportRefused as refused:
            raise Problem(400, str(refused), code="import_refused", should_retry=False) from None
        if made is None:
            raise Problem(409, f"there is a session {public} already", code="session_exists", should_retry=False)
        row = await self._desk.sessions.row(made.session, owner)
        shown = SessionView(public_session(owner, row.name), row.title, row.created, row.updated)
        return json_answer(shown, 201, (("location", f"/v1/sessions/{public}"),))


def archive_endpoints(api: ArchivesApi) -> tuple[Endpoint, ...]:
    """Their rows in the table."""
    given = Given("The session as lines of JSON.", {"type": "string"}, LINES)
    made = Given("The session.", SessionView, headers=("location",))
    wanted = Parameter("id", "The id that it shall have.", schema={"type": "string", "pattern": SESSION_ID})
    out = Operation(
        "exportSession", "All of a session as lines of JSON", "sessions", answers={200: (given,)}, problems=(422,)
    )
    into = Operation(
        "importSession",
        "Make a session of what was exported",
        "sessions",
        (wanted,),
        {"type": "string", "description": "The lines, as they were exported."},
        answers={201: (made,)},
        problems=(409,),
        body_type=LINES,
    )
    return (
        Endpoint("GET", "/v1/sessions/{session}/export", api.export, out),
        Endpoint("POST", "/v1/sessions/import", api.bring_in, into),
    )
