"""`turnbuckle lab`: serve scripted behaviour to anybody's client, list what there is, and grade anybody's
server."""

import asyncio
import errno
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from turnbuckle.cli.echo import echo, echo_json, echo_json_lines, echo_text
from turnbuckle.cli.options import Json, JsonFlag

if TYPE_CHECKING:
    from turnbuckle.lab.provider import Provider
    from turnbuckle.lab.score.player import Scoring
    from turnbuckle.lab.score.trials import Trial
    from turnbuckle.lab.script import Case

FAILED = 1
USAGE_ERROR = 2
DEFAULT_PORT = 8766

Word = Annotated[str, Parameter(show_default=False)]

app = App(name="lab", help="A provider that misbehaves on purpose.")


@app.command
def serve(
    *,
    case: str | None = None,
    script: Path | None = None,
    port: int = DEFAULT_PORT,
    host: str = "127.0.0.1",
) -> int:
    """Play a case to any client of OpenAI's, Anthropic's or Gemini's API. Ctrl-C stops it.

    Parameters
    ----------
    case
        What to do for requests that do not pick a case themselves. `turnbuckle lab cases` lists them.
    script
        A TOML file with a script of your own, instead of a case.
    port
        Where to listen; 0 takes any free port.
    host
        The address to listen on.
    """
    from turnbuckle.lab.cases import find_case
    from turnbuckle.lab.provider import Provider
    from turnbuckle.lab.script_text import ScriptError

    if case is not None and script is not None:
        return _fail("give either --case or --script, not both", USAGE_ERROR)
    try:
        chosen = _read_script(script) if script is not None else find_case(case or "happy")
    except ScriptError as error:
        hint = "" if script is not None else " (turnbuckle lab cases lists them all)"
        return _fail(f"{error}{hint}", USAGE_ERROR)
    except OSError as error:
        return _fail(f"the script {script} cannot be read: {error.strerror or error}", USAGE_ERROR)
    except UnicodeDecodeError as error:
        return _fail(f"the script {script} cannot be read: {error}", USAGE_ERROR)
    try:
        asyncio.run(_serve(Provider(chosen, host=host, port=port), chosen))
    except BrokenPipeError:
        raise  # our own output, not the port
    except (OSError, OverflowError) as error:
        return _no_port(error, host, port, "--port")
    return 0


@app.command
def cases(*, as_json: Json = False) -> int:
    """List all cases, one line each."""

    from turnbuckle.lab.cases import CASES

    if as_json:
        listed = [
            {
                "name": case.name,
                "summary": case.summary,
                "model": f"lab:{case.name}",
                "scenarios": case.scenarios,
            }
            for case in CASES
        ]
        echo_json(listed, indented=True)
        return 0
    width = max(len(case.name) for case in CASES) + 2
    for case in CASES:
        echo(f"{case.name:<{width}}{case.summary}")
    return 0


@app.command
def score(
    *,
    server: str = "http://127.0.0.1:8765",
    provider_port: int = DEFAULT_PORT,
    provider_host: str = "127.0.0.1",
    model: Word = "",
    key: Word = "",
    cases: Word = "",
    every: Annotated[bool, Parameter(name="--all", negative="", show_default=False)] = False,
    seconds: Annotated[float, Parameter(validator=Number(gt=0))] = 60.0,
    canary: Path | None = None,
    as_json: JsonFlag = False,
) -> int:
    """Grade a server of OpenAI's API, whose provider breaks on purpose.

    Point the server at `http://127.0.0.1:8766/v1` as its provider, start it, then start this. It plays the
    provider and the client, and watches both sides. Leaves with 0 whatever the marks; with 1 if it could not
    play.

    Parameters
    ----------
    server
        The address of the server under test.
    provider_port
        Where the provider listens that the server must ask.
    provider_host
        The address that the provider listens on.
    model
        The model to ask the server for; else the first that it lists.
    key
        The key for that server; else TURNBUCKLE_KEY in the environment.
    cases
        Only these, with commas between.
    every
        All cases, also those that say less.
    seconds
        How long one answer may take. Give more than the server's own patience with a silent provider.
    canary
        A folder that the server's tools can write to, such as its workspace: a cut call must leave no trace
        there.
    as_json
        As lines of JSON, for programs.
    """
    from turnbuckle.lab.score.player import CanNotPlay, Scoring
    from turnbuckle.lab.score.trials import TRIALS, USUAL, find_trials
    from turnbuckle.lab.script_text import ScriptError

    if cases and every:
        return _fail("give either --cases or --all, not both", USAGE_ERROR)
    if not server.startswith(("http://", "https://")):
        return _fail("--server wants an address such as http://127.0.0.1:8765", USAGE_ERROR)
    if canary is not None and not canary.is_dir():
        return _fail(f"--canary: there is no folder {canary}", USAGE_ERROR)
    try:
        trials = find_trials(cases) if cases else TRIALS if every else USUAL
    except ScriptError as error:
        return _fail(str(error), USAGE_ERROR)
    key = key or os.environ.get("TURNBUCKLE_KEY", "")
    scoring = Scoring(server, secrets.token_hex(6), model, key, seconds, canary)
    try:
        asyncio.run(_score(scoring, trials, provider_host, provider_port, as_json=as_json))
    except BrokenPipeError:
        raise  # our own output, not the port
    except CanNotPlay as error:
        return _fail(str(error), FAILED)
    except (OSError, OverflowError) as error:
        return _no_port(error, provider_host, provider_port, "--provider-port")
    return 0


async def _score(
    scoring: "Scoring", trials: "tuple[Trial, ...]", host: str, port: int, *, as_json: bool
) -> None:
    from turnbuckle.lab.score import card
    from turnbuckle.lab.score.player import Scorer, ScoreRow, new_score_provider

    rows: list[ScoreRow] = []
    async with new_score_provider(host, port) as provider:
        player = Scorer(provider, scoring)
        async for row in player.rows(trials):
            if not as_json and not rows:
                echo_text(
                    f"{card.opening(scoring, provider.url, own_tools=player.own_tools)}\n\n{card.head()}"
                )
            rows.append(row)
            _tell(card.as_json(row) if as_json else card.line(row), as_json)
    _tell(card.totals_as_json(rows) if as_json else card.foot(rows), as_json)


def _tell(text: str, as_json: bool) -> None:
    if as_json:
        echo_json_lines(f"{text}\n")
    else:
        echo_text(text)


def _no_port(error: OSError | OverflowError, host: str, port: int, option: str) -> int:
    """Why nothing can listen there."""
    if isinstance(error, OverflowError):
        return _fail(f"there is no port {port}; ports go from 0 to 65535", USAGE_ERROR)
    if error.errno == errno.EADDRINUSE:
        free = "" if option == "--provider-port" else f", or {option} 0 for any free one"
        return _fail(f"port {port} is in use; choose another by {option}{free}", FAILED)
    return _fail(f"cannot listen on {host} port {port}: {error.strerror or error}", FAILED)


def _read_script(path: Path) -> "Case":
    from turnbuckle.lab.script_text import ScriptError, parse_case

    try:
        return parse_case(path.read_text("utf-8"), name=path.stem)
    except ScriptError as error:
        raise ScriptError(f"{path}: {error}") from error


async def _serve(provider: "Provider", case: "Case") -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with provider:
        echo_text(tour(provider.url, case))
        await stopped.wait()
    echo("stopped")


def tour(url: str, case: "Case") -> str:
    """What a person wants to know first, in lines of at most 80 columns."""
    chat = f"  curl -sN {url}/v1/chat/completions \\"
    return "\n".join(
        [
            f"The lab's provider listens on {url}",
            f'It plays "{case.name}":',
            f"  {case.summary}",
            "",
            "  POST /v1/chat/completions   OpenAI Chat Completions",
            "  POST /v1/responses          OpenAI Responses",
            "  POST /v1/messages           Anthropic Messages",
            "  POST /v1beta/models/…       Gemini",
            "  GET  /v1/models             one model for each case",
            "",
            "Any key will do. A model named lab:<case> picks a case. One that works:",
            "",
            chat,
            """    -d '{"model": "lab:happy", "stream": true}'""",
            "",
            "and one that breaks:",
            "",
            chat,
            """    -d '{"model": "lab:reset-in-text", "stream": true}'""",
            "",
            "All cases: turnbuckle lab cases. Ctrl-C stops.",
        ]
    )


def _fail(message: str, code: int) -> int:
    echo_text(f"turnbuckle: {message}", err=True)
    return code
