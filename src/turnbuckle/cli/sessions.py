"""`turnbuckle sessions`: conversations, and what can be done to one."""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from turnbuckle.cli import session_work as work
from turnbuckle.cli.exits import FAILED, OK, USAGE_ERROR
from turnbuckle.cli.remote import Remote, session_path
from turnbuckle.cli.run import Look, guarded
from turnbuckle.cli.session_work import Done, Line, Shown, Verb
from turnbuckle.cli.setting import fail, load_for
from turnbuckle.config import Loaded
from turnbuckle.errors import ConfigError, ImportRefused, SessionBusy, SessionUnknown
from turnbuckle.server.names import LOCAL
from turnbuckle.server.sessions import LONGEST_TITLE, message_view
from turnbuckle.session.commands import stopped_text, words_for
from turnbuckle.turn.labels import shortened
from turnbuckle.vocab.messages import CallPart, ResultPart, text_of

EPILOGUE = """`list`, `show`, `search` and `export` only look, and work beside a running server. The others change the
journal, which one process has at a time: beside a server, say `--server http://127.0.0.1:8765`, and the server does it.

A session is named by its id, or by any part of it that fits only one. `turnbuckle run --session ID "task"` goes on in
one."""

app = App(name="sessions", help="Conversations: list them, read them, and change them.", help_epilogue=EPILOGUE)

Config = Annotated[
    Path | None, Parameter(help="The settings; turnbuckle.toml in this folder if left out.", show_default=False)
]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="As JSON, for programs.")]
Name = Annotated[str, Parameter(help="Its id, or a part of it that fits only one.", show_default=False)]
Latest = Annotated[
    str, Parameter(help="Its id, or a part of it that fits only one; the latest if left out.", show_default=False)
]
Server = Annotated[
    str, Parameter(help="Let the server at this address do it. The id must be whole then.", show_default=False)
]
Key = Annotated[
    str, Parameter(help="The key for that server; else TURNBUCKLE_KEY in the environment.", show_default=False)
]
Owner = Annotated[str, Parameter(help="Only of this owner, as keys name them.", show_default=False)]


@app.command(name="list")
def list_sessions(*, limit: int = 50, owner: Owner = "", config: Config = None, as_json: Json = False) -> int:
    """List sessions, the last touched first: id, when, what it does, title.

    Parameters
    ----------
    limit
        How many at most.
    """
    return _carried_out(config, lambda loaded: _listed(work.lines(loaded, max(limit, 1), owner), as_json))


@app.command
def search(words: str, /, *, limit: int = 20, owner: Owner = "", config: Config = None, as_json: Json = False) -> int:
    """Find sessions in which all these words stand: in a title, a question or an answer.

    Parameters
    ----------
    words
        The words. The last one may be the beginning of one; case and accents do not matter.
    limit
        How many at most.
    """
    return _carried_out(config, lambda loaded: _listed(work.found(loaded, words, max(limit, 1), owner), as_json))


@app.command
def show(session: Latest = "", /, *, config: Config = None, as_json: Json = False) -> int:
    """Show a session: where it stands, and all that was said in it."""
    return _carried_out(config, lambda loaded: _show(loaded, session, as_json))


@app.command
def rename(
    session: Name, title: str, /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """Give a session another title.

    Parameters
    ----------
    title
        The new title, in one line.
    """
    plain = " ".join(title.split())
    if len(plain) > LONGEST_TITLE:
        return fail(f"a title has at most {LONGEST_TITLE} characters", USAGE_ERROR)

    async def act(loaded: Loaded) -> int:
        if server:
            told = await _remote(server, key).ask("PATCH", session_path(session), {"title": plain})
            return _say(f"renamed {session}", told, as_json)
        name = await work.renamed(loaded, session, plain)
        return _say(f"renamed {name}", {"id": name, "title": plain}, as_json)

    return _carried_out(config, act)


@app.command
def fork(
    session: Name,
    /,
    *,
    name: str = "",
    title: str | None = None,
    run: str | None = None,
    after: int | None = None,
    server: Server = "",
    key: Key = "",
    config: Config = None,
    as_json: Json = False,
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
        if server:
            body = {"id": name or None, "title": title, "run": run, "after": after}
            told = await _remote(server, key).ask("POST", session_path(session, "fork"), body)
            return _say(f"forked into {told['id']}", told, as_json)
        new = await work.forked(loaded, session, name, title, run, after)
        return _say(f"forked into {new}", {"id": new}, as_json)

    return _carried_out(config, act)


@app.command
def delete(
    session: Name, /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """Delete a session, its runs and the outputs that they left, for ever."""

    async def act(loaded: Loaded) -> int:
        if server:
            told = await _remote(server, key).ask("DELETE", session_path(session))
            return _say(f"deleted {session}", told, as_json)
        name = await work.deleted(loaded, session)
        return _say(f"deleted {name}", {"id": name, "deleted": True}, as_json)

    return _carried_out(config, act)


@app.command
def export(session: Latest = "", path: Path | None = None, /, *, config: Config = None) -> int:
    """Write all of a session as lines of JSON, to keep it or to take it to another machine.

    Parameters
    ----------
    path
        The file to make; stdout if left out. A file that exists is left alone.
    """

    async def act(loaded: Loaded) -> int:
        row, size = await work.export(loaded, session, path)
        if path is not None:
            print(f"wrote {row.name}, {size:,} bytes, to {path}", file=sys.stderr)
        return OK

    return _carried_out(config, act)


@app.command(name="import")
def bring_in(path: Path, /, *, name: str = "", owner: str = LOCAL, config: Config = None, as_json: Json = False) -> int:
    """Make a session of a file that `export` wrote: all of it, or nothing.

    Parameters
    ----------
    path
        The file.
    name
        The id of the session; the one it had, if left out, or a new one where that is taken.
    owner
        Whose it shall be, as keys name them.
    """

    async def act(loaded: Loaded) -> int:
        made = await work.imported(loaded, path, name, owner)
        return _say(f"imported {made.session}: {made.runs} runs", msgspec.to_builtins(made), as_json)

    return _carried_out(config, act)


@app.command
def stop(
    session: Latest = "", /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """End what runs in a session or was left without an end, and what waits. The next message begins anew."""
    return _change("stop", session, server, key, config, as_json)


@app.command
def new(
    session: Latest = "", /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """Begin a new conversation in a session. What was said is kept, but no model is told of it."""
    return _change("new", session, server, key, config, as_json)


@app.command
def reset(
    session: Latest = "", /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """The same as new, where something went wrong: that is what the model and the user are told."""
    return _change("reset", session, server, key, config, as_json)


@app.command
def undo(
    session: Latest = "", /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """Take back the last message and its answer. What tools did stays done."""
    return _change("undo", session, server, key, config, as_json)


@app.command
def retry(
    session: Latest = "",
    /,
    *,
    reasoning: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    server: Server = "",
    key: Key = "",
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Say the last message again, as if its answer had not been given, and show what comes.

    Parameters
    ----------
    reasoning
        Show the model's reasoning too, dimmed.
    """
    look = Look(as_json=as_json, reasoning=reasoning, color=True)

    async def act(loaded: Loaded) -> int:
        if server:
            told = await _remote(server, key).ask("POST", session_path(session, "retry"))
            return _done(msgspec.convert(told, Done), told, as_json)
        code = await work.retried(loaded, session, look)
        return _say("there is nothing to say again", {"did": "nothing"}, as_json) if code is None else code

    return _carried_out(config, act, session if server else "-")


def _change(verb: Verb, session: str, server: str, key: str, config: Path | None, as_json: bool) -> int:
    async def act(loaded: Loaded) -> int:
        if server:
            told = await _remote(server, key).ask("POST", session_path(session, verb))
            return _done(msgspec.convert(told, Done), told, as_json)
        done = await work.changed(loaded, session, verb)
        return _done(done, msgspec.to_builtins(done), as_json)

    return _carried_out(config, act, session if server else "-")


def _carried_out(config: Path | None, act: Callable[[Loaded], Awaitable[int]], session: str = "-") -> int:
    """Do it; what goes wrong becomes a sentence and an exit code."""
    if not session:
        return fail("with --server, name the session: GET /v1/sessions lists them", USAGE_ERROR)
    try:
        loaded = load_for(config)
    except ConfigError as error:
        return fail(error, USAGE_ERROR)

    async def guided() -> int:
        try:
            return await act(loaded)
        except (SessionUnknown, ImportRefused) as error:
            return fail(error, USAGE_ERROR)
        except SessionBusy as error:
            return fail(error, FAILED)
        except OSError as error:
            return fail(f"{error.filename or 'the file'}: {error.strerror or error}", FAILED)

    return guarded(guided())


def _remote(server: str, key: str) -> Remote:
    return Remote(server, key or os.environ.get("TURNBUCKLE_KEY", ""))


# Printing


def _say(words: str, told: dict[str, Any], as_json: bool) -> int:
    print(msgspec.json.encode(told).decode() if as_json else words)
    return OK


def _done(done: Done, told: dict[str, Any], as_json: bool) -> int:
    match done.did:
        case "stopped":
            words = stopped_text(done.run, len(done.refused))
        case "begun_anew":
            words = "The next message begins a new conversation. What was said before is kept."
        case "undone":
            words = f"Taken back: {done.run}."
        case "retried":
            words = f"Said again: {done.run} answers, and GET /v1/runs/{done.run}/events follows it."
        case _:
            words = "There was nothing to do."
    return _say(words, told, as_json)


async def _listed(making: Awaitable[list[Line]], as_json: bool) -> int:
    made = await making
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(list(work.rows_of(made)))).decode())
        return OK
    wide = max((len(line.session) for line in made), default=0)
    for line in made:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(line.updated))
        print(f"{line.session:<{wide}}  {when}  {line.status:<10} {shortened(line.title, 60)}".rstrip())
        if line.snippet:
            print(f"    {shortened(line.snippet, 100)}")
    if not made:
        print("no sessions", file=sys.stderr)
    return OK


async def _show(loaded: Loaded, text: str, as_json: bool) -> int:
    shown = await work.shown(loaded, text)
    line, state = shown.line, shown.state
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(_whole(shown))).decode())
        return OK
    print(f"{line.session}  {line.title}".rstrip(), file=sys.stderr)
    facts = [
        f"owner {line.owner or LOCAL}",
        f"{len(shown.runs)} runs",
        line.status + (f" {line.run}" if line.run else ""),
    ]
    if state.waiting or state.steering:
        facts.append(f"{len(state.waiting) + len(state.steering)} messages wait")
    if state.suspended is not None:
        facts.append(f"the next message begins anew ({words_for(state.suspended.why)})")
    print(", ".join(facts), file=sys.stderr)
    for told in shown.told:
        for part in told.message.parts:
            if isinstance(part, CallPart):
                print(f"→ {part.name} {shortened(part.arguments, 100)}")
            elif isinstance(part, ResultPart):
                print(f"  {'✗' if part.failed else '✓'} {shortened(text_of(part.content), 100)}")
        if words := text_of(told.message.parts):
            print(f"{told.message.role}: {words}")
        if told.outcome is not None and told.outcome.kind != "completed":
            print(f"[{told.outcome.kind}{f': {told.outcome.why}' if told.outcome.why else ''}]")
    return OK


def _whole(shown: Shown) -> dict[str, Any]:
    line, state = shown.line, shown.state
    suspended = None if state.suspended is None else state.suspended.why
    waiting = [message.id for message in (*state.waiting, *state.steering)]
    runs = [{"run": row.name, "status": row.status, "title": row.title, "created": row.created} for row in shown.runs]
    messages = [msgspec.to_builtins(message_view(index, told)) for index, told in enumerate(shown.told)]
    more = {"waiting": waiting, "suspended": suspended, "counted": list(state.runs), "runs": runs, "messages": messages}
    return {**next(work.rows_of([line])), **more}
