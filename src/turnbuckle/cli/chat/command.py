"""`turnbuckle chat`: a conversation in the terminal, with the sessions of this folder or of a running
server."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from msgspec import Struct

from turnbuckle.app import open_app, process_environment
from turnbuckle.cli.backend import BackendRefused, Lost, SessionBackend
from turnbuckle.cli.chat.controller import ChatController
from turnbuckle.cli.chat.own_commands import OwnCommands, UsersMachine
from turnbuckle.cli.chat.plain import PlainFront
from turnbuckle.cli.chat.workspace_files import AttachedFiles, ChatFiles
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_at_once
from turnbuckle.cli.exits import CANCELLED, OK, USAGE_ERROR
from turnbuckle.cli.listener import serves
from turnbuckle.cli.local_backend import JournalTaken, LocalBackend
from turnbuckle.cli.options import Config
from turnbuckle.cli.remote import Remote, ServerRefused
from turnbuckle.cli.remote_backend import RemoteBackend
from turnbuckle.cli.run import guarded
from turnbuckle.cli.screen import Screen
from turnbuckle.config import Loaded
from turnbuckle.errors import BadSessionName, ConfigError
from turnbuckle.journal.port import InUse
from turnbuckle.runtime.new_names import new_name
from turnbuckle.service.owners import LOCAL, session_id
from turnbuckle.settings import secrets_of
from turnbuckle.turn.consent import written
from turnbuckle.vocab.redaction import redactor_of, without_credentials

if TYPE_CHECKING:
    from turnbuckle.cli.chat.terminal import TerminalFront

PIPE_PATIENCE = 60.0
"""Seconds for which a chat in a pipe tries to come back to its server. A person decides that for
themselves."""
Flag = Parameter(negative="", show_default=False)
Word = Parameter(show_default=False)

EPILOGUE = """Ctrl-C or Esc ends what runs and keeps the conversation, Ctrl-D leaves, Alt-Enter begins another line, Ctrl-R searches what was typed
before. `/help` lists the commands.

In a pipe each line is a message, and the exit code is that of the last turn: echo "list files" | turnbuckle chat"""  # noqa: E501

app = App(name="chat", help_epilogue=EPILOGUE)


class Wish(Struct, frozen=True):
    """What the command line says."""

    session: str
    go_on: bool
    server: str
    key: str
    reasoning: bool
    color: bool
    route: str


@app.default
def chat(
    *,
    session: Annotated[str, Word] = "",
    go_on: Annotated[bool, Parameter(name="--continue", negative="", show_default=False)] = False,
    server: Annotated[str, Word] = "",
    key: Annotated[str, Word] = "",
    config: Config = None,
    workspace: Path | None = None,
    route: str | None = None,
    model: str | None = None,
    reasoning: Annotated[bool, Flag] = False,
    no_color: Annotated[bool, Flag] = False,
) -> int:
    """Talk with the model in this terminal.

    Parameters
    ----------
    session
        Continue this session, or begin it under this name; a new one if left out.
    go_on
        Continue the latest session.
    server
        Use the sessions of the server at this address.
    key
        The key for that server; else TURNBUCKLE_KEY in the environment.
    workspace
        The folder in which file and shell tools act.
    route
        The configured route to begin with; the others stay as fallbacks.
    model
        Another model on that route.
    reasoning
        Show the model's reasoning too, dimmed.
    no_color
        No colours.
    """
    if go_on and session:
        return fail(
            "--continue takes the latest session, and --session another one: use one of them", USAGE_ERROR
        )
    if server and (route or model or workspace):
        return fail(
            "a server has its own routes, models and workspace: leave those out with --server", USAGE_ERROR
        )
    color = not no_color and not os.environ.get("NO_COLOR")
    wish = Wish(
        session, go_on, server, key or os.environ.get("TURNBUCKLE_KEY", ""), reasoning, color, route or ""
    )
    try:
        loaded = load_for(config, workspace=workspace, route=route, model=model)
        if session:
            session_id(LOCAL, session, param="the name of a session")
    except (ConfigError, BadSessionName) as error:
        return fail(error, USAGE_ERROR)
    return guarded(lambda: _chat(loaded, wish))


def has_screen() -> bool:
    """Whether there is a terminal on both sides that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


async def _chat(loaded: Loaded, wish: Wish) -> int:
    attended = sys.stdin.isatty() and sys.stderr.isatty()
    async with _place(loaded, wish, attended=attended) as place:
        session = wish.session
        if wish.go_on:
            session = await place.latest() or ""
            if not session:
                return fail("there is no session to go on with", USAGE_ERROR)
        session = session or new_name("s")
        return await (_on_screen if has_screen() else _in_lines)(loaded, place, session, wish, attended)


@asynccontextmanager
async def _place(loaded: Loaded, wish: Wish, *, attended: bool) -> AsyncIterator[SessionBackend]:
    """Where the sessions are. A journal that a running server has is used through that server."""
    async with AsyncExitStack() as stack:
        if not wish.server:
            try:
                opened = await stack.enter_async_context(open_app(loaded, attended=attended))
            except InUse as error:
                remote = await _beside(loaded, wish, error)
            else:
                if attended:
                    echo(f"sandbox: {opened.sandbox.words}", err=True)
                local = LocalBackend(opened, attended=attended)
                stack.push_async_callback(local.leave)
                yield local
                return
        else:
            remote = Remote(wish.server, wish.key)
        place = RemoteBackend(remote, attended=attended)
        try:
            await place.latest()
            holds = await place.sandbox() if attended else ""
        except (Lost, BackendRefused) as error:
            raise ServerRefused(str(error)) from None
        if holds:
            echo(f"sandbox of the server: {holds}", err=True)
        yield place


_WAY_OUT = "if it is a server, say where with --server URL; else wait until it is done"


async def _beside(loaded: Loaded, wish: Wish, error: InUse) -> Remote:
    """The server that has the journal, if it answers where the settings say. Raises JournalTaken."""
    server = loaded.settings.server
    remote = Remote(f"http://{server.host}:{server.port}", wish.key)
    try:
        await remote.ask("GET", "/healthz")
    except ServerRefused:
        raise JournalTaken(f"{error}, and nothing answers at {remote.address}: {_WAY_OUT}") from None
    if not await asyncio.to_thread(serves, server.host, server.port, Path(loaded.settings.folder)):
        raise JournalTaken(f"{error}, and {remote.address} is another turnbuckle: {_WAY_OUT}")
    echo(f"a server has the journal: this chat goes through {remote.address}", err=True)
    return remote


async def _on_screen(loaded: Loaded, place: SessionBackend, session: str, wish: Wish, attended: bool) -> int:
    from prompt_toolkit.patch_stdout import patch_stdout

    from turnbuckle.cli.chat.history import ChatHistory
    from turnbuckle.cli.chat.terminal import TerminalFront

    machine = _machine_of(loaded, wish)
    front = TerminalFront(
        place, ChatHistory(Path(loaded.settings.folder)), color=wish.color, files=machine.files
    )
    talk = ChatController(
        place,
        session,
        front,
        environment=process_environment(asyncio.sleep),
        reasoning=wish.reasoning,
        route=wish.route,
    )
    talk.machine = machine
    front.attach(talk)
    with patch_stdout(raw=True):  # what is logged stands above the line, too
        left = await _until_left(talk, front, quietly=False)
    if left == "leave":
        _leave_at_once(way_back(talk.session, wish.server))
    _farewell(talk, place, way_back(talk.session, wish.server))
    return OK


def _files_of(loaded: Loaded, wish: Wish) -> ChatFiles:
    """Those of the workspace; those of this folder for a server, which may be on another machine."""
    settings = loaded.settings
    rules = written(settings.tools.approval)
    if wish.server:
        return AttachedFiles(Path.cwd(), Path(settings.folder), rules)
    return ChatFiles(Path(settings.workspace), Path(settings.folder), rules)


def _machine_of(loaded: Loaded, wish: Wish) -> UsersMachine:
    """Commands run where the model's do, or in this folder, if that is a server's business."""
    secrets = secrets_of(loaded.settings, os.environ).values
    folder = Path.cwd() if wish.server else Path(loaded.settings.workspace)
    commands = OwnCommands(folder, lambda text: without_credentials(redactor_of(secrets).text(text)))
    return UsersMachine(commands, _files_of(loaded, wish))


async def _in_lines(loaded: Loaded, place: SessionBackend, session: str, wish: Wish, attended: bool) -> int:
    front = PlainFront(Screen(sys.stdout, sys.stderr, color=False), steps=not sys.stdin.isatty())
    patience = None if attended else PIPE_PATIENCE
    talk = ChatController(
        place,
        session,
        front,
        environment=process_environment(asyncio.sleep),
        reasoning=wish.reasoning,
        attended=attended,
        patience=patience,
        route=wish.route,
    )
    talk.machine = _machine_of(loaded, wish) if attended else None
    front.attach(talk)
    left = await _until_left(talk, front, quietly=not attended)
    if left == "leave":
        _leave_at_once(way_back(talk.session, wish.server))
    if attended:
        _farewell(talk, place, way_back(talk.session, wish.server))
    return talk.code


async def _until_left(talk: ChatController, front: "PlainFront | TerminalFront", *, quietly: bool) -> str:
    loop, leaving = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, leaving.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # the terminal was closed
        loop.add_signal_handler(signal.SIGHUP, leaving.set)
    await talk.open(quietly=quietly)
    showing, leave = asyncio.ensure_future(front.run()), asyncio.ensure_future(leaving.wait())
    try:
        first: set[asyncio.Future[Any]] = {showing, leave, talk.broken}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if talk.broken.done():
            talk.broken.result()
        return showing.result() if showing.done() else "quit"
    finally:
        for task in (last := {showing, leave}):
            task.cancel()
        await asyncio.wait(last)
        await talk.close()


def way_back(session: str, server: str) -> str:
    """The command with which the conversation goes on, from the same folder."""
    place = f"--server {shlex.quote(server)} " if server else ""
    return f"to continue: turnbuckle chat {place}--session {session}"


def _farewell(talk: ChatController, place: SessionBackend, words: str) -> None:
    if talk.view().running:
        words = (
            f"the run goes on at the server; {words}"
            if place.stays
            else f"the run is suspended, and resumes in the next chat; {words}"
        )
    with contextlib.suppress(OSError):  # the terminal is gone
        echo(words, err=True)


def _leave_at_once(words: str) -> None:
    """Everything that was shown is stored, so this is as safe as a crash; tools die with this process."""
    echo_at_once(f"left at once; {words}")
    os._exit(CANCELLED)
