"""`turnbuckle run`: carry out one task, and show it as it happens."""

import asyncio
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from msgspec.structs import replace

from turnbuckle.app import App as Opened
from turnbuckle.app import open_app, services_of
from turnbuckle.call.loop import run as run_loop
from turnbuckle.cli.approvals import answer_all, ask_on_terminal
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_at_once
from turnbuckle.cli.exits import (
    CANCELLED,
    FAILED,
    NOT_ASKED,
    PARTIAL,
    UNFINISHED,
    USAGE_ERROR,
    USAGE_ERRORS,
    exit_code,
)
from turnbuckle.cli.follow import Follower, waste_lines
from turnbuckle.cli.options import Config, JsonFlag
from turnbuckle.cli.pieces import Line, Piece
from turnbuckle.cli.screen import Screen
from turnbuckle.config import Loaded
from turnbuckle.errors import TurnbuckleError
from turnbuckle.journal.port import Damaged, InUse, Journal, JournalError, StreamQuery, StreamRow
from turnbuckle.runtime.context import task_message
from turnbuckle.runtime.conversation import fold_run
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.new_names import new_name
from turnbuckle.runtime.running import Running
from turnbuckle.runtime.runs import KIND, NewRun
from turnbuckle.service import store_words
from turnbuckle.service.owners import LOCAL, session_id
from turnbuckle.service.services import Services
from turnbuckle.turn import prompts
from turnbuckle.turn.consent import asks_first
from turnbuckle.vocab.ids import RouteName, RunId, SessionId
from turnbuckle.vocab.outcome import Outcome
from turnbuckle.vocab.request import RunOptions

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_LOOK_EACH = 0.5
_STORE_PATIENCE = 10.0
"""Seconds for which a command waits for a store that fails. A server waits as long as it takes."""
Flag = Parameter(negative="", show_default=False)

EPILOGUE = """Ctrl-C interrupts the run and keeps its conversation; a second Ctrl-C leaves at once.

The answer goes to stdout, everything else to stderr. Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 partial (it
gave up, and what it has is kept), 4 unfinished, 5 a call needed approval and nobody could be asked, 130
cancelled. `turnbuckle runs resume` continues after 3 and 4.

Without a configured route `rehearsal` answers, a built-in fake model that needs no key and no network."""  # noqa: E501

app = App(name="run", help_epilogue=EPILOGUE)


class Look:
    """How a run is shown."""

    def __init__(self, *, as_json: bool, reasoning: bool, color: bool) -> None:
        self.as_json = as_json
        self.reasoning = reasoning
        color = color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.screen = Screen(sys.stdout, sys.stderr, color=color)
        self.ask = None if as_json else ask_on_terminal(self.screen)


@app.default
def run(
    task: Annotated[str, Parameter(show_default=False, allow_leading_hyphen=True)] = "",
    /,
    *more: Annotated[str, Parameter(show_default=False, allow_leading_hyphen=True)],
    config: Config = None,
    workspace: Path | None = None,
    route: str | None = None,
    model: str | None = None,
    go_on: Annotated[bool, Parameter(name="--continue", negative="", show_default=False)] = False,
    session: Annotated[str, Parameter(show_default=False)] = "",
    reasoning: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
    no_color: Annotated[bool, Flag] = False,
    max_calls: int | None = None,
    max_seconds: float | None = None,
) -> int:
    """Carry out a task and show it as it happens.

    Parameters
    ----------
    task
        What to do. `-` is what comes from stdin, alone or after words of yours: git diff | turnbuckle run
        "Review this:" - . A pipe without a task is read, too.
    more
        More words of the task.
    workspace
        The folder in which file and shell tools act.
    route
        The configured route to begin with; the others stay as fallbacks.
    model
        Another model on that route.
    go_on
        Continue the latest session: finish its run if it has no end, then do the task. Without a task, resume
        a run that gave up.
    session
        Continue this session, or begin it under this name.
    reasoning
        Show the model's reasoning too, dimmed.
    as_json
        Print every fact of the run as a line of JSON.
    no_color
        No colours.
    max_calls
        The most model calls of this run.
    max_seconds
        The longest time of this run.
    """
    for word in (task, *more):
        if word.startswith("-") and word != "-" and len(word.split()) == 1:
            return fail(f"there is no option {word}; `turnbuckle run --help` lists them", USAGE_ERROR)
    session = typed_words(session)
    given = ("-",) if _is_piped(task, go_on, session) else (task, *more)
    if given.count("-") > 1:
        return fail("stdin can be read only once: give one -", USAGE_ERROR)
    words = _with_stdin(given) if "-" in given else typed_words(*given)
    if go_on and session:
        return fail(
            "--continue takes the latest session, and --session another one: use one of them", USAGE_ERROR
        )
    if not words.strip() and not go_on and not session:
        return fail('give a task, such as: turnbuckle run "write hello.txt"', USAGE_ERROR)
    look = Look(as_json=as_json, reasoning=reasoning, color=not no_color)
    changes = {"turn.max_calls": max_calls, "turn.max_seconds": max_seconds}

    def work() -> "Awaitable[int]":
        loaded = load_for(config, workspace=workspace, route=route, model=model, changes=changes)
        return _run(loaded, look, words, go_on, session, RunOptions(route=RouteName(route or "")))

    return guarded(work)


def typed_words(*words: str) -> str:
    """Words of the command line as one text. Bytes that are not UTF-8 become signs that can be stored."""
    return os.fsencode(" ".join(words)).decode("utf-8", "replace")


def _with_stdin(given: tuple[str, ...]) -> str:
    """The words, with what comes from stdin in the place of `-`. What is read stands in paragraphs of its
    own, so that nobody takes it for a part of a sentence."""
    at = given.index("-")
    parts = (typed_words(*given[:at]), sys.stdin.read(), typed_words(*given[at + 1 :]))
    return parts[1] if len(given) == 1 else "\n\n".join(part for part in parts if part.strip())


def _is_piped(task: str, go_on: bool, session: str) -> bool:
    """Whether the task comes by a pipe or from a file, since there is none in the arguments and something has
    to be done."""
    if task or go_on or session or sys.stdin.isatty():
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def guarded(work: "Callable[[], Awaitable[int]]") -> int:
    """Run a command to its exit code; what it raises, on its way to its coroutine too, becomes a sentence
    and an exit code."""

    async def main() -> int:
        return await work()

    return told(lambda: run_loop(main()))


def told(work: "Callable[[], int]") -> int:
    """The same for a command that has no loop of its own."""
    try:
        return work()
    except USAGE_ERRORS as error:
        return fail(error, USAGE_ERROR)
    except InUse as error:
        return fail(f"{error}. If it is a server, `turnbuckle chat` talks to it", FAILED)
    except Damaged as error:
        return fail(f"{error}. `turnbuckle doctor` says more, and with --mend it keeps what is sound", FAILED)
    except (TurnbuckleError, JournalError) as error:
        return fail(error, FAILED)


async def _run(loaded: Loaded, look: Look, task: str, go_on: bool, wanted: str, options: RunOptions) -> int:
    async with open_app(loaded, attended=look.ask is not None) as opened:
        services = services_of(opened)
        row = await _chosen(opened, go_on, wanted)
        if go_on and row is None:
            return fail("there is no session to go on with", USAGE_ERROR)
        name = (
            SessionId(row.parent or row.name)
            if row is not None
            else session_id(LOCAL, wanted or new_name("s"), param="the name of a session")
        )
        left = await services.stores.sessions.running(name)
        if left is not None:
            code = await resumed(opened, left, look)
            if code not in (0, PARTIAL, NOT_ASKED) or not task.strip():
                return code
        elif not task.strip():
            given_up = await partial_run(opened, name)
            if given_up is None:
                return fail("the latest run has ended; give a task to go on with", USAGE_ERROR)
            return await carried_on(opened, given_up, look, options)
        user = (row.user if row is not None else "") or LOCAL
        new = NewRun((task_message(task),), name, user=user, options=_asking(options, look))
        return await _said(opened, services, new, look)


async def partial_run(opened: Opened, session: SessionId) -> StreamRow | None:
    """The last run of a session, if it was given up with something to show for it."""
    rows = await opened.journal.streams(StreamQuery(kind=KIND, parent=session), limit=1)
    return rows[0] if rows and rows[0].status == "partial" else None


async def carried_on(
    opened: Opened, given_up: StreamRow, look: Look, options: RunOptions | None = None
) -> int:
    """Have a task that was given up carried to its end, by a new run that knows what is there already."""
    turn = await fold_run(opened.journal, RunId(given_up.name), opened.runs.policy)
    words = prompts.go_on(turn.outcome.why if turn.outcome is not None else "")
    user, session = given_up.user or LOCAL, SessionId(given_up.parent)
    services = services_of(opened)
    await services.stores.sessions.create(session, user, given_up.title)
    new = NewRun((words,), session, user=user, options=_asking(options or RunOptions(), look))
    return await _said(opened, services, new, look)


def _asking(options: RunOptions, look: Look) -> RunOptions:
    """Where a person sits, what no rule speaks of is asked first."""
    return replace(options, ask_first=asks_first("terminal", look.ask is not None))


async def _chosen(opened: Opened, go_on: bool, wanted: str) -> StreamRow | None:
    """The session that was asked for, or the run that says which one; None for a new one."""
    if wanted:
        found = await opened.journal.streams(StreamQuery(kind=SESSION, name=wanted), limit=1)
        return found[0] if found else None
    return await opened.runs.latest() if go_on else None


async def _said(opened: Opened, services: Services, new: NewRun, look: Look) -> int:
    """Say it in its session, and show what comes of it."""
    try:
        begun = await services.runs.begin(new, first=(), busy="queue", commands=False)
        if begun.origin.queued:
            echo("messages wait in this session, and are answered first", err=True)
        return await watched(opened, lambda: driven(opened, begun.run), look)
    finally:
        await services.stores.manager.close()


class NotBegun(TurnbuckleError):
    """The store fails, and what was said waits in its session."""


async def driven(opened: Opened, run_id: RunId) -> Running:
    """A run that was promised, as soon as it is there. Raises NotBegun if the store fails for too long."""
    waiting = asyncio.create_task(opened.journal.wait(run_id, 0))
    failing = asyncio.create_task(_store_fails(opened.journal))
    try:
        await asyncio.wait({waiting, failing}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            what = "What was said is stored, and answered when somebody goes on in its session"
            raise NotBegun(f"{failing.result()}. The run has not begun. {what}")
        waiting.result()
    finally:
        waiting.cancel()
        failing.cancel()
        await asyncio.wait({waiting, failing})
    return opened.runs.live(run_id) or await opened.runs.resume(run_id)


async def resumed(opened: Opened, run_id: RunId, look: Look) -> int:
    """Take up a run again and show what comes from there on."""
    after = await opened.journal.head(run_id)
    return await watched(opened, lambda: opened.runs.resume(run_id), look, after)


async def watched(
    opened: Opened, begin: "Callable[[], Awaitable[Running]]", look: Look, after: int = 0
) -> int:
    """Drive a run and show it; Ctrl-C asks it to stop."""
    try:
        running = await begin()
    except NotBegun as error:
        return fail(error, UNFINISHED)
    follower = Follower(
        opened.journal, running.run, look.screen, reasoning=look.reasoning, as_json=look.as_json
    )
    _listen_for_signals(running)
    await follower.skip(0, after)
    model = opened.runs.policy.routes[0].model
    await follower.say([Line(f"run {running.run}, {model}")])
    following = asyncio.create_task(follower.follow(after))
    ending = asyncio.create_task(running.outcome())
    failing = asyncio.create_task(_store_fails(opened.journal))
    asking = (
        None
        if look.ask is None
        else asyncio.create_task(answer_all(opened.journal, running, look.ask, after, look.screen.show))
    )
    try:
        await asyncio.wait({following, ending, failing}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done() and not ending.done():
            await running.abandon()
            return fail(
                f"{failing.result()}. The run is unfinished: turnbuckle runs resume {running.run}", UNFINISHED
            )
        if not ending.done() and following.done() and following.exception() is not None:
            running.stop("closed output")  # nobody reads any more, as behind `head`
        outcome = await ending
        if await opened.journal.head(running.run) > after:  # else it had ended before we came
            await following
    except (TurnbuckleError, JournalError) as error:
        return fail(f"{error}. The run is unfinished: turnbuckle runs resume {running.run}", UNFINISHED)
    finally:
        last = {following, failing} if asking is None else {following, failing, asking}
        for task in last:
            task.cancel()
        await asyncio.wait(last)
        follower.close()
    _last_lines(follower, look, running.run, outcome)
    return exit_code(outcome)


async def _store_fails(journal: Journal) -> str:
    """Ends when the store has failed for so long that somebody must see to it; says what is wrong with it."""
    told: float | None = None
    while True:
        await asyncio.sleep(_LOOK_EACH)
        trouble = journal.trouble()
        if trouble is None:
            told = None
            continue
        if told != trouble.since:
            told = trouble.since
            echo(f"waiting for storage: {store_words.words(trouble.fault)}", err=True)
        if time.time() - trouble.since >= _STORE_PATIENCE:
            return store_words.words(trouble.fault)


def _last_lines(follower: Follower, look: Look, run_id: str, outcome: Outcome) -> None:
    if look.as_json:
        return
    pieces: list[Piece] = waste_lines(follower.wastes)
    pieces += draft_lines(run_id, outcome)
    if follower.outcome is None:
        pieces.append(Line(f"the run had ended already: {outcome.kind}"))
    look.screen.show(pieces)


def draft_lines(run_id: str, outcome: Outcome) -> list[Piece]:
    """What is kept of calls that were never finished, and how to read it."""
    return [
        Line(f"draft kept: turnbuckle drafts show {run_id}:{draft}", "notice") for draft in outcome.drafts
    ]


def _listen_for_signals(running: Running) -> None:
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            # Everything that was shown is stored, so this is as safe as a crash; tools die with this process.
            echo_at_once(f"left at once; to continue: turnbuckle runs resume {running.run}")
            os._exit(CANCELLED)
        running.stop("user", keeps=True)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
