"""`turnbuckle lab`: serve scripted behaviour to anybody's client, and list what there is."""

import asyncio
import errno
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from turnbuckle.lab.provider import Provider
    from turnbuckle.lab.script import Case

FAILED = 1
USAGE_ERROR = 2
DEFAULT_PORT = 8766

app = App(name="lab", help="A provider that misbehaves on purpose.")


@app.command
def serve(
    *,
    case: str | None = None,
    script: Path | None = None,
    port: int = DEFAULT_PORT,
    host: str = "127.0.0.1",
) -> int:
    """Play a case to any client of OpenAI's or Anthropic's API. Ctrl-C stops it.

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
    except (OSError, UnicodeDecodeError) as error:
        return _fail(f"the script can not be read: {error}", USAGE_ERROR)
    try:
        asyncio.run(_serve(Provider(chosen, host=host, port=port), chosen))
    except BrokenPipeError:
        raise  # our own output, not the port
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _fail(f"port {port} is in use; choose another by --port, or --port 0 for any free one", FAILED)
        return _fail(f"can not listen on {host} port {port}: {error.strerror or error}", FAILED)
    except OverflowError:
        return _fail(f"there is no port {port}; ports go from 0 to 65535", USAGE_ERROR)
    return 0


@app.command
def cases(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> int:
    """List all cases, one line each.

    Parameters
    ----------
    as_json
        As JSON, for programs.
    """
    import msgspec

    from turnbuckle.lab.cases import CASES

    if as_json:
        listed = [
            {"name": case.name, "summary": case.summary, "model": f"lab:{case.name}", "scenarios": case.scenarios}
            for case in CASES
        ]
        print(msgspec.json.format(msgspec.json.encode(listed)).decode())
        return 0
    width = max(len(case.name) for case in CASES) + 2
    for case in CASES:
        print(f"{case.name:<{width}}{case.summary}")
    return 0


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
        print(tour(provider.url, case), flush=True)
        await stopped.wait()
    print("stopped", flush=True)


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
    print(f"turnbuckle: {message}", file=sys.stderr)
    return code
