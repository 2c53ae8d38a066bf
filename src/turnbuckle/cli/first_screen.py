"""What a person sees first when the server has started: where it is, who answers, and what to look at.

Only a terminal gets more than the line with the address, since programs read that line. There the log is
quieter, too: what a browser fetches to show a page is not news.
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from textwrap import wrap
from urllib.parse import urlsplit

from turnbuckle.config import Loaded, rehearses, route_name
from turnbuckle.settings import RouteSettings

_WIDTH = 69  # what is left of a narrow terminal
_TEXT_BROWSERS = frozenset({"w3m", "lynx", "links", "links2", "elinks", "www-browser", "browsh"})


def first_screen(address: str, loaded: Loaded, *, needs_key: bool, sandbox: str) -> list[str]:
    """The lines behind the one with the address. `sandbox` says where commands run."""
    near = reachable(address)
    routes = loaded.settings.routes
    rows = [
        ("Console", f"{near}/"),
        ("API", f"{near}/v1   any OpenAI client; the model is `agent`"),
        *_model(routes),
        *(("" if place else "Sandbox", line) for place, line in enumerate(wrap(sandbox, _WIDTH))),
    ]
    if needs_key:
        rows.insert(1, ("", "It asks for a key: `turnbuckle keys create NAME` makes one."))
    if all(rehearses(route) for route in routes):
        rows.append(("Watch", f"{near}/?try=stall   a file that stalls, and heals"))
    rows.append(("Stop", "Ctrl-C"))
    return ["", *(f"  {name:<8} {text}" for name, text in rows), ""]


def _model(routes: tuple[RouteSettings, ...]) -> list[tuple[str, str]]:
    if not routes or rehearses(routes[0]):
        who = "rehearsal, a built-in fake model that needs no key and no network"
        return [("Model", who), ("", "`turnbuckle init` sets up a real one")]
    others = f", then {', '.join(route_name(route) for route in routes[1:])}" if len(routes) > 1 else ""
    return [("Model", f"{routes[0].model} ({route_name(routes[0])}){others}")]


def reachable(address: str) -> str:
    """An address that a browser on this machine can open: a server that listens everywhere is here, too."""
    parts = urlsplit(address)
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname or "")
    return address if anywhere is None else f"{parts.scheme}://{anywhere}:{parts.port}"


class Quieter(logging.Filter):
    """Leaves out requests that only looked and got what they wanted."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "event", "") != "request" or not isinstance(record.args, tuple):
            return True
        method, _, status = record.args[:3]
        return method != "GET" or not isinstance(status, int) or status >= 400


def browser_command(environment: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """How to open a page for whoever sits here; empty if there is no display, or nobody in front of it."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return []
    if platform == "darwin":
        return ["open"]
    if not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return []
    found = shutil.which("xdg-open", path=environment.get("PATH"))
    return [found] if found else []


def open_browser(address: str, environment: Mapping[str, str] | None = None) -> bool:
    """Open the console, without waiting for it and without a word if that does not work. Never a text
    browser: it would take the terminal away."""
    environment = os.environ if environment is None else environment
    command = browser_command(environment)
    if not command:
        return False
    wanted = os.path.basename(environment.get("BROWSER", "").split(os.pathsep)[0].split(" ")[0])
    graphical = {
        name: value
        for name, value in environment.items()
        if name != "BROWSER" or wanted not in _TEXT_BROWSERS
    }
    try:
        subprocess.Popen(
            [*command, address if "#" in address else f"{reachable(address)}/"],
            env=graphical,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
