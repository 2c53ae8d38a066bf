"""`turnbuckle sessions`: conversations, and what can be done to one."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from turnbuckle.cli.backend import Fork, SessionBackend
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json, json_bytes_out
from turnbuckle.cli.exits import FAILED, OK
from turnbuckle.cli.local_backend import LocalBackend, open_local
from turnbuckle.cli.options import Config, Flag, Json, Key
from turnbuckle.cli.remote import remote_at, session_path
from turnbuckle.cli.remote_backend import RemoteBackend
from turnbuckle.cli.run import Look, driven, guarded, watched
from turnbuckle.cli.session_lists import listed, looking, session_row, show_session
from turnbuckle.config import Loaded
from turnbuckle.errors import ImportRefused
from turnbuckle.server.api.sessions import DoneView
from turnbuckle.service.owners import LOCAL
from turnbuckle.service.sessions import SessionChange, Verb, checked_title
from turnbuckle.session.commands import stopped_text
from turnbuckle.vocab.ids import RunId

EPILOGUE = """`list`, `show`, `search` and `export` only look, and work beside a running server. The others change the
journal, which one process has at a time: beside a server, say `--server http://127.0.0.1:8765`, and the server does it.

A session is named by its id, or by any part of it that fits only one. `turnbuckle run --session ID "task"` continues one."""  # noqa: E501

LONGEST_FILE = 1 << 30  # bytes of a file to import, which is read into memory; years of talk have less

app = App(
    name="sessions", help="Conversations: list them, read them, and change them.", help_epilogue=EPILOGUE
)

Name = Annotated[str, Parameter(help="Its id, or a part of it that fits only one.", show_default=False)]
Latest = Annotated[
    str,
    Parameter(help="Its id, or a part of it that fits only one; the latest if left out.", show_default=False),
]
After = Annotated[str, Parameter(help="Where the last page ended, as printed on stderr.", show_default=False)]
Owner = Annotated[str, Parameter(help="Only of this owner, as keys name them.", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class ChangeOptions:
    """The options of every command that changes a session: where it is, and how to say what was done."""

    server: Annotated[
        str,
        Parameter(
            help="Let the server at this address do it. The id must be whole then.", show_default=False
        ),
    ] = ""
    key: Key = ""
    config: Config = None
    as_json: Json = False


_HERE = ChangeOptions()


@app.command(name="list")
def list_sessions(
    *, limit: int = 50, after: After = "", owner: Owner = "", config: Config = None, as_json: Json = False
) -> int:
    """List sessions, the last used first.

    Parameters
    ----------
    limit
        How many at most.
    """
    return _carried_out(
        config, lambda loaded: listed(loaded, "", max(limit, 1), after, owner, as_json), only_looks=True
    )


@app.command
def search(
    words: str,
    /,
    *more: Annotated[str, Parameter(show_default=False)],
    limit: int = 20,
    after: After = "",
    owner: Owner = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Find sessions in which all these words stand: in a title, a question or an answer.

    Parameters
    ----------
    words
        The words. The last one may be the beginning of one; case and accents do not matter.
    more
        More of them.
    limit
        How many at most.
    """
    wanted = " ".join((words, *more))
    return _carried_out(
        config, lambda loaded: listed(loaded, wanted, max(limit, 1), after, owner, as_json), only_looks=True
    )


@app.command
def show(session: Latest = "", /, *, config: Config = None, as_json: Json = False) -> int:
    """Show a session: where it stands, and all that was said in it."""
    return _carried_out(config, lambda loaded: show_session(loaded, session, as_json), only_looks=True)


@app.command
def rename(session: Name, title: str, /, *, options: ChangeOptions = _HERE) -> int:
    """Give a session another title.

    Parameters
    ----------
    title
        The new title, in one line.
    """

    async def act(loaded: Loaded) -> int:
        plain = checked_title(title)
        async with _changing(loaded, options, f"PATCH {session_path(session)}") as place:
            line = await place.rename(await place.resolve(session), plain)
        return _say(f"renamed {line.name}", session_row(line), options.as_json)

    return _carried_out(options.config, act)


@app.command
def fork(
    session: Name,
    /,
    *,
    name: str = "",
    title: str | None = None,
    run: str | None = None,
    after: int | None = None,
    options: ChangeOptions = _HERE,
) -> int:
    """Make a new session that shares what was said so far. Nothing that ran runs again.

    Parameters
    ----------
    name
        The id of the new one; one is made if left out.
    title
        Its title; the same if left out.
    run
        Share only what was said up to this run.
    after
        And of that only up to this item, as `turnbuckle runs show --json` numbers them.
    """

    async def act(loaded: Loaded) -> int:
        async with _changing(loaded, options, f"POST {session_path(session, 'fork')}") as place:
            line = await place.fork(await place.resolve(session), Fork(name or None, title, run, after))
        return _say(f"forked into {line.name}", session_row(line), options.as_json)

    return _carried_out(options.config, act)


@app.command
def delete(session: Name, /, *, options: ChangeOptions = _HERE) -> int:
    """Delete a session, its runs and the outputs that they left, forever."""

    async def act(loaded: Loaded) -> int:
        async with _changing(loaded, options, f"DELETE {session_path(session)}") as place:
            whole = await place.resolve(session)
            await place.delete(whole)
        return _say(f"deleted {whole}", {"id": whole, "object": "session", "deleted": True}, options.as_json)

    return _carried_out(options.config, act)


@app.command
def export(session: Latest = "", path: Path | None = None, /, *, config: Config = None) -> int:
    """Write all of a session as lines of JSON, to keep it or to take it to another machine.

    Parameters
    ----------
    path
        The file to make; stdout if left out. A file that exists is left alone.
    """

    async def act(loaded: Loaded) -> int:
        async with looking(loaded) as sessions:
            row = await sessions.guess(session)
            size = await _export(sessions.export(row, row.user, time.time()), path)
        if path is not None:
            echo(f"wrote {row.name}, {size:,} bytes, to {path}", err=True)
        return OK

    return _carried_out(config, act, only_looks=True)


@app.command(name="import")
def bring_in(
    path: Path, /, *, name: str = "", owner: str = LOCAL, config: Config = None, as_json: Json = False
) -> int:
    """Make a session of a file that `export` wrote: all of it, or nothing.

    Parameters
    ----------
    path
        The file.
    name
        The id of the session; the one it had, if left out, or a new one where that is taken.
    owner
        Who owns it, as keys name them.
    """

    async def act(loaded: Loaded) -> int:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > LONGEST_FILE:
                raise ImportRefused(f"{path} has more than {LONGEST_FILE >> 30} GiB")
            async with open_local(loaded, "POST /v1/sessions/import") as place:
                sessions = place.services.sessions
                imported = await sessions.bring_in(file, owner, name)
                line = await sessions.line(await sessions.row(imported.session), None)
        view = {**session_row(line), "runs": imported.runs, "items": imported.items}
        return _say(f"imported {imported.session}: {imported.runs} runs", view, as_json)

    return _carried_out(config, act)


@app.command
def stop(session: Latest = "", /, *, options: ChangeOptions = _HERE) -> int:
    """End what runs in a session and refuse what waits, by force. The next message starts fresh."""
    return _changed("stop", session, options)


@app.command
def new(session: Latest = "", /, *, options: ChangeOptions = _HERE) -> int:
    """Begin a new conversation in a session. What was said is kept, but the model does not see it."""
    return _changed("new", session, options)


@app.command
def reset(session: Latest = "", /, *, options: ChangeOptions = _HERE) -> int:
    """The same as new; the model and the user are told that something went wrong."""
    return _changed("reset", session, options)


@app.command
def undo(session: Latest = "", /, *, options: ChangeOptions = _HERE) -> int:
    """Undo the last message and its answer. What tools did stays done."""
    return _changed("undo", session, options)


@app.command
def retry(
    session: Latest = "",
    /,
    *,
    route: str = "",
    reasoning: Flag = False,
    options: ChangeOptions = _HERE,
) -> int:
    """Retry the last message as if it had not been answered, and show the answer.

    Parameters
    ----------
    route
        The route to retry on; the one that it was asked on if left out.
    reasoning
        Show the model's reasoning too, dimmed.
    """
    return _begun("retry", session, options, reasoning=reasoning, route=route)


@app.command
def compact(
    session: Latest = "",
    /,
    *,
    keep: str = "",
    undo: Flag = False,
    options: ChangeOptions = _HERE,
) -> int:
    """Summarise a session's history for the model, to free its window. Nothing that was said is lost.

    Parameters
    ----------
    keep
        What the summary must hold, in your words.
    undo
        Undo the last compaction instead: the model gets the full history again, as far as it fits.
    """
    if undo:
        return _changed("undo_compaction", session, options)
    return _begun("compact", session, options, keep=keep)


def _changed(verb: Verb, session: str, options: ChangeOptions) -> int:
    async def act(loaded: Loaded) -> int:
        call = f"POST {session_path(session or 'ID', verb)}"
        async with _changing(loaded, options, call) as place:
            return _done(await place.change(await place.resolve(session), verb), options.as_json)

    return _carried_out(options.config, act)


def _begun(
    verb: Literal["retry", "compact"],
    session: str,
    options: ChangeOptions,
    *,
    reasoning: bool = False,
    keep: str = "",
    route: str = "",
) -> int:
    """A change that is a run: it is shown, unless a server drives it."""
    look = Look(as_json=options.as_json, reasoning=reasoning, color=True)

    async def act(loaded: Loaded) -> int:
        call = f"POST {session_path(session or 'ID', verb)}"
        attended = look.ask is not None
        async with _changing(loaded, options, call, begins=True, attended=attended) as place:
            done = await place.change(await place.resolve(session), verb, keep, route)
            if isinstance(place, LocalBackend) and done.run is not None:
                opened, run = place.opened, RunId(done.run)
                return await watched(opened, lambda: driven(opened, run), look)
        if done.run is None:
            return _say("there is nothing to retry", msgspec.to_builtins(DoneView("nothing")), look.as_json)
        return _done(done, look.as_json)

    return _carried_out(options.config, act)


def _carried_out(
    config: Path | None, act: Callable[[Loaded], Awaitable[int]], *, only_looks: bool = False
) -> int:
    """Do it; what goes wrong becomes a sentence and an exit code."""

    async def guided() -> int:
        try:
            return await act(load_for(config, only_looks=only_looks))
        except OSError as error:
            return fail(f"{error.filename or 'the file'}: {error.strerror or error}", FAILED)

    return guarded(guided)


@asynccontextmanager
async def _changing(
    loaded: Loaded,
    options: ChangeOptions,
    call: str,
    *,
    begins: bool = False,
    attended: bool = False,
) -> AsyncIterator[SessionBackend]:
    """The sessions where they are: in that server, or in this process, which then has the journal to
    itself."""
    if options.server:
        yield RemoteBackend(remote_at(options.server, options.key))
        return
    async with open_local(loaded, call, begins=begins, attended=attended) as place:
        yield place


async def _export(pieces: AsyncIterator[bytes], target: Path | None) -> int:
    """Write a session to a new file, or to stdout. Returns how many bytes that were. Raises OSError."""
    if target is None:
        return await _write(pieces, json_bytes_out())
    if target.exists():
        raise FileExistsError(f"{target} is there already, and is left alone")
    part = target.with_name(f"{target.name}.part")  # the file is whole, or not there
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            size = await _write(pieces, file)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return size


async def _write(pieces: AsyncIterator[bytes], file: IO[bytes]) -> int:
    size = 0
    async for piece in pieces:
        file.write(piece)
        size += len(piece)
    file.flush()
    return size


# Printing


def _say(words: str, view: dict[str, Any], as_json: bool) -> int:
    echo_json(view) if as_json else echo(words)
    return OK


def _done(done: SessionChange, as_json: bool) -> int:
    match done.did:
        case "stopped":
            words = stopped_text(done.run, len(done.refused))
        case "begun_anew":
            words = "The next message begins a new conversation. What was said before is kept."
        case "undone":
            words = f"Undone: {done.run}."
        case "retried":
            words = f"Retried: {done.run} answers, and GET /v1/runs/{done.run}/events follows it."
        case "compacting":
            words = f"{done.run} makes it smaller, and GET /v1/runs/{done.run}/events follows it."
        case "compaction_undone":
            words = "Undone: the model gets the full history again, as far as it fits."
        case _:
            words = "There was nothing to do."
    return _say(words, msgspec.to_builtins(DoneView(done.did, done.run, done.refused)), as_json)
