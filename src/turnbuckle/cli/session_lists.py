"""Sessions as `turnbuckle sessions` lists and shows them. These commands only look."""

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from turnbuckle.app import open_reader, writer_of
from turnbuckle.cli.echo import echo, echo_json, echo_text
from turnbuckle.cli.exits import OK
from turnbuckle.cli.table import LONGEST, echo_table
from turnbuckle.config import Loaded
from turnbuckle.errors import SessionUnknown
from turnbuckle.journal.port import SearchPlace, StreamRow
from turnbuckle.runtime.transcript import SessionMessage
from turnbuckle.server.api.sessions import SessionView, message_view
from turnbuckle.service.cursors import cursor, place_at, row_place_at
from turnbuckle.service.owners import LOCAL
from turnbuckle.service.run_view import line_of
from turnbuckle.service.sessions import SessionLine, SessionReader
from turnbuckle.session.commands import words_for
from turnbuckle.session.state import SessionState
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.messages import CallPart, ResultPart, text_of
from turnbuckle.vocab.tooling import FINISH_CALL, REST_OF_A_CALL


@asynccontextmanager
async def looking(loaded: Loaded) -> AsyncIterator[SessionReader]:
    """The sessions to look at, also beside a living process. Raises SessionUnknown if there are none yet."""
    async with open_reader(loaded) as reader:
        if reader is None:
            raise SessionUnknown("no sessions yet")
        writer = writer_of(reader)
        yield SessionReader(reader, writer=writer)


async def listed(loaded: Loaded, words: str, limit: int, after: str, owner: str, as_json: bool) -> int:
    lines: list[SessionLine] = []
    more: object = None
    with contextlib.suppress(SessionUnknown):  # there is no journal yet
        async with looking(loaded) as sessions:
            if words:
                found = await sessions.search(words, owner or None, limit, place_at(after, SearchPlace))
                lines, more = found.lines, found.next
            else:
                lines = await sessions.lines(owner or None, limit, row_place_at(after))
                more = (lines[-1].updated, lines[-1].name) if len(lines) == limit else None
    if as_json:
        echo_json([session_row(line) for line in lines], indented=True)
    else:
        _echo_lines(lines, more)
    if more is not None:
        echo(f"there may be more: --after {cursor(more)}", err=True)
    return OK


def _echo_lines(lines: list[SessionLine], more: object) -> None:
    rows = [
        (
            line.name,
            time.strftime("%Y-%m-%d %H:%M", time.localtime(line.updated)),
            line.status,
            shortened(line.title, LONGEST),
        )
        for line in lines
    ]
    snippets = [shortened(line.snippet, LONGEST) for line in lines]
    echo_table(("session", "last used", "status", "title"), rows, snippets)
    if not lines and more is None:
        echo("no sessions", err=True)


def session_row(line: SessionLine) -> dict[str, Any]:
    """With the names that `GET /v1/sessions` has. Of a session in a file there is more to say: whose it is,
    and whether anybody drives its run."""
    view = SessionView(
        line.name, line.title, line.created, line.updated, line.running or None, line.snippet or None
    )
    told: dict[str, Any] = msgspec.to_builtins(view)
    return {**told, "owner": line.owner, "status": line.status}


async def show_session(loaded: Loaded, text: str, as_json: bool) -> int:
    async with looking(loaded) as sessions:
        row = await sessions.guess(text)
        line, state = await sessions.line(row, None), await sessions.state(row)
        runs, said = await sessions.runs(row), await sessions.all_messages(row)
    if as_json:
        echo_json(_whole(line, state, runs, said), indented=True)
        return OK
    echo(f"{line.name}  {line.title}".rstrip(), err=True)
    facts = [
        f"owner {line.owner or LOCAL}",
        "1 run" if len(runs) == 1 else f"{len(runs)} runs",
        f"{line.status} {line.running}".rstrip(),
    ]
    if state.waiting or state.steering:
        facts.append(f"{len(state.waiting) + len(state.steering)} messages wait")
    if state.suspended is not None:
        facts.append(f"the next message starts fresh ({words_for(state.suspended.why)})")
    echo(", ".join(facts), err=True)
    for told in said:
        for part in told.message.parts:
            if isinstance(part, CallPart):
                echo(f"→ {call_words(part)}")
            elif isinstance(part, ResultPart):
                echo(f"  {'✗' if part.failed else '✓'} {shortened(text_of(part.content), 100)}")
        if words := text_of(told.message.parts):
            echo_text(f"{told.message.role}: {words}")
        if told.outcome is not None and told.outcome.kind != "completed":
            echo(f"[{told.outcome.kind}{f': {told.outcome.why}' if told.outcome.why else ''}]")
    return OK


def call_words(call: CallPart) -> str:
    """A call for people. How a draft was finished is a matter between the model and us."""
    if call.name == FINISH_CALL:
        return REST_OF_A_CALL
    return f"{call.name} {shortened(call.arguments, 100)}"


def _whole(
    line: SessionLine, state: SessionState, runs: list[StreamRow], said: list[SessionMessage]
) -> dict[str, Any]:
    return {
        **session_row(line),
        "waiting": [message.id for message in (*state.waiting, *state.steering)],
        "suspended": None if state.suspended is None else state.suspended.why,
        "counted": list(state.runs),
        "runs": [msgspec.to_builtins(line_of(row, LOCAL, None)) for row in runs],
        "messages": [msgspec.to_builtins(message_view(told)) for told in said],
    }
