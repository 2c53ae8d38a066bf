"""A session as a file: `GET /v1/sessions/{id}/export` and `POST /v1/sessions/import`.

Both are plain: a client has all of it or an error. What is larger than a body may be goes through the command
line, which has no such limit.
"""

import time
from io import BytesIO

from turnbuckle.server.api.run_shapes import SESSION_ID
from turnbuckle.server.api.sessions import SessionView
from turnbuckle.server.http.endpoints import Endpoint
from turnbuckle.server.http.exchange import Answer, Exchange, Problem, json_answer
from turnbuckle.server.http.openapi import Given, Operation, Parameter
from turnbuckle.service.owners import public_session
from turnbuckle.service.sessions import SessionService

LINES = "application/x-ndjson"
MOST = 64 << 20  # bytes of one export: it is made in memory, and is twice what a body may have by default


class ArchivesApi:
    """The handlers."""

    def __init__(self, sessions: SessionService) -> None:
        self._sessions = sessions

    async def export(self, exchange: Exchange) -> Answer:
        owner = exchange.caller.owner
        row = await self._sessions.row(exchange.params["session"], owner)
        pieces: list[bytes] = []
        size = 0
        async for piece in self._sessions.export(row, owner, time.time()):
            pieces.append(piece)
            size += len(piece)
            if size > MOST:
                message = (
                    f"the session has more than {MOST >> 20} MiB; `turnbuckle sessions export` has no limit"
                )
                raise Problem(422, message, code="session_too_large", should_retry=False)
        return Answer(200, b"".join(pieces), (), LINES)

    async def bring_in(self, exchange: Exchange) -> Answer:
        """Under the id that is asked for, or under its own, or under a new one if that is taken."""
        owner = exchange.caller.owner
        lines = BytesIO(await exchange.body())  # which is read line by line, where it holds nobody up
        exchange.forget_body()
        imported = await self._sessions.bring_in(lines, owner, exchange.query.get("id", ""))
        public = public_session(owner, imported.session)
        row = await self._sessions.row(public, owner)
        shown = SessionView(public, row.title, row.created, row.updated)
        return json_answer(shown, 201, (("location", f"/v1/sessions/{public}"),))


def archive_endpoints(api: ArchivesApi) -> tuple[Endpoint, ...]:
    """Their rows in the table."""
    given = Given("The session as lines of JSON.", {"type": "string"}, LINES)
    session = Given("The session.", SessionView, headers=("location",))
    wanted = Parameter(
        "id", "The id that the session gets.", schema={"type": "string", "pattern": SESSION_ID}
    )
    out = Operation(
        "exportSession",
        "All of a session as lines of JSON",
        "sessions",
        answers={200: (given,)},
        problems=(422,),
    )
    into = Operation(
        "importSession",
        "Make a session of what was exported",
        "sessions",
        (wanted,),
        {"type": "string", "description": "The lines, as they were exported."},
        answers={201: (session,)},
        problems=(409,),
        body_type=LINES,
    )
    return (
        Endpoint("GET", "/v1/sessions/{session}/export", api.export, out),
        Endpoint("POST", "/v1/sessions/import", api.bring_in, into),
    )
