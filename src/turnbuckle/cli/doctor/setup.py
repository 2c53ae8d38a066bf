"""What can be wrong with a set-up, one check for each, and each with what to do about it.

Nothing here changes anything, but MCP servers are started, and ended again. Nothing asks a provider unless
`online` is wished: then every route is tried with one tiny answer and one tiny tool call.
"""

import importlib.metadata
import os
import platform
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from turnbuckle import __version__
from turnbuckle.app import consent_of, sandbox_of, servers_of, session_rules
from turnbuckle.call.pool import proxy_for
from turnbuckle.call.presets import PRESETS
from turnbuckle.call.routes import Route, RouteError, resolve
from turnbuckle.cli.doctor.finding import Finding
from turnbuckle.cli.init.search import models_of
from turnbuckle.cli.init.trial import findings, try_route
from turnbuckle.cli.listener import PortStatus, listener_at, serves
from turnbuckle.cli.stored_keys import all_keys
from turnbuckle.config import Loaded, api_keys_of, load, rehearses, route_name
from turnbuckle.errors import ConfigError
from turnbuckle.server.http.origins import Origins, is_loopback
from turnbuckle.settings import RouteSettings, Settings
from turnbuckle.tools.mcp.server import ServerState
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.tools.modules import registry_of
from turnbuckle.tools.sandbox.port import Holds
from turnbuckle.trust import is_data_ours, is_trusted, require_data, risks_in
from turnbuckle.vocab.failure import Failure
from turnbuckle.vocab.redaction import is_secret_name, secrets_in_headers

OLDEST_PYTHON = (3, 11)
ROOM_WANTED = 1_000_000_000
ROOM_NEEDED = 100_000_000
"""Bytes free on the disk of the data folder: a busy day's journal, and what a run needs to end well."""
AHEAD = 120.0
"""Seconds that a file may be in the future: file servers and this machine may differ by so much."""
BUILT = 1_767_225_600.0
"""No clock that is right is before the year in which this was written, 2026."""


def read_settings(config: Path | None) -> Loaded | Finding:
    """The settings, or what is wrong with them."""
    try:
        return load(config)
    except ConfigError as error:
        return Finding("wrong", "settings", str(error), "Fix that line; nothing starts until then.")


def check_program() -> Iterator[Finding]:
    """Python, this package, and what it needs."""
    version = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield Finding("wrong", "python", f"{version} is too old", "Use Python 3.11 or newer.")
    missing = [name for name in _needed() if not _installed(name)]
    if missing:
        yield Finding(
            "wrong", "packages", f"missing: {', '.join(missing)}", "Install the package again: pip install ."
        )
    yield Finding("ok", "program", f"turnbuckle {__version__}, python {version}, {platform.system()}")
    now = time.time()
    if now < BUILT:
        yield Finding("wrong", "clock", f"it is {time.strftime('%Y-%m-%d', time.gmtime(now))}", _SET_CLOCK)


_SET_CLOCK = "Set the clock: TLS, sessions and what is kept all depend on it."


def versions() -> dict[str, str]:
    """What is installed, for a report."""
    found = {name: _installed(name) for name in _needed()}
    return {"turnbuckle": __version__, "python": platform.python_version(), **found}


def _needed() -> list[str]:
    try:
        lines = importlib.metadata.requires("turnbuckle") or []
    except importlib.metadata.PackageNotFoundError:
        return []  # run from its sources
    plain = (line.partition(";")[0] for line in lines if "extra ==" not in line)
    return sorted({_name(line) for line in plain})


def _name(line: str) -> str:
    end = next((at for at, char in enumerate(line) if not (char.isalnum() or char in "._-")), len(line))
    return line[:end]


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def check_folders(settings: Settings) -> Iterator[Finding]:
    """The workspace, the data folder, the room on its disk, and the clock by its files."""
    workspace, data = Path(settings.workspace), Path(settings.folder)
    if not workspace.is_dir():
        yield Finding(
            "wrong",
            "workspace",
            f"{workspace} is not a folder",
            "Make it, or name another one in `workspace`.",
        )
    elif not os.access(workspace, os.W_OK | os.X_OK):
        fix = "Give yourself the right to write there, or name another folder in `workspace`."
        yield Finding("wrong", "workspace", f"{workspace} cannot be written", fix)
    there = next(place for place in (data, *data.parents) if place.exists())
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        fix = "Give yourself the right to write there, or name another folder in `data`."
        yield Finding("wrong", "data folder", f"{there} cannot be written", fix)
    elif data.is_dir():
        yield from _check_data(data)
    free = shutil.disk_usage(there).free
    if free < ROOM_WANTED:
        fix = (
            "Free some space: runs wait while the journal cannot be written. "
            "`turnbuckle doctor --compact` may help."
        )
        yield Finding(
            "wrong" if free < ROOM_NEEDED else "note", "disk", f"{free / 1e6:,.0f} MB are free", fix
        )


def _check_data(data: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(data.stat().st_mode)
    if mode & 0o077:
        words = f"others on this machine may look into {data} (mode {mode:o}), where every conversation is"
        yield Finding("note", "data folder", words, f"If you share the machine: chmod 700 {data}")
    newest = max((file.stat().st_mtime for file in data.iterdir() if file.is_file()), default=0.0)
    if newest > time.time() + AHEAD:
        ahead = (newest - time.time()) / 60
        yield Finding("wrong", "clock", f"files in {data} are {ahead:,.0f} minutes in the future", _SET_CLOCK)


def check_trust(loaded: Loaded) -> Iterator[Finding]:
    """Whether somebody has accepted the file and the data folder that were found here."""
    if not is_data_ours(loaded):
        words = f"{loaded.settings.folder} was not made by you on this machine"
        yield Finding(
            "wrong", "data folder", words, "`turnbuckle trust` accepts it. Nothing starts until then."
        )
    if is_trusted(loaded):
        return
    for risk in risks_in(loaded):
        yield Finding(
            "wrong",
            "trust",
            f"nobody has accepted this: {risk.key} = {risk.value} {risk.does}",
            "Read the file; `turnbuckle trust` accepts it as it is. Nothing starts until then.",
        )


def check_rules(settings: Settings, *, load_modules: bool = True) -> Iterator[Finding]:
    """What is read only when it is used: rules of consent and of sessions, own tools."""
    modules = settings.tools.modules if load_modules else ()
    for about, read in (
        ("tools.approval", lambda: consent_of(settings)),
        ("session", lambda: session_rules(settings, ())),
        ("tools.modules", lambda: registry_of(settings.tools.enable, modules)),
    ):
        try:
            read()
        except ConfigError as error:
            words = str(error).removeprefix(f"{about}: ")
            yield Finding("wrong", about, words, "Fix that setting; nothing starts until then.")


def check_sandbox(loaded: Loaded) -> Iterator[Finding]:
    """Where commands run, and what holds there."""
    try:
        holds = sandbox_of(loaded).holds
    except ConfigError as error:
        yield Finding("wrong", "sandbox", str(error), "Fix that setting; nothing starts until then.")
        return
    fix = "See `docs/security.md`, the sandbox." if holds.missing else ""
    if (
        not holds.is_there
        and loaded.settings.tools.sandbox == "auto"
        and (
            "shell" in loaded.settings.tools.enable
            or any(server.command for server in loaded.settings.tools.mcp.values())
        )
    ):
        fix = (
            'On Linux: apt install bubblewrap. Or put a person in front of it: tools.approval, shell = "ask".'
        )
    yield Finding("note" if holds.missing else "ok", "sandbox", holds.words, fix)


async def check_mcp(loaded: Loaded, environment: Mapping[str, str]) -> list[Finding]:
    """Start each MCP server, see what it offers, and end it again. They need a place in the data folder, so
    that must be ours, as for every start."""
    if not loaded.settings.tools.mcp or not is_data_ours(loaded):
        return []
    require_data(loaded)
    try:
        sandbox = sandbox_of(loaded, environment)
        servers = servers_of(loaded, environment, sandbox)
    except ConfigError as error:
        return [Finding("wrong", "tools.mcp", str(error), "Fix that setting; nothing starts until then.")]
    try:
        states = await servers.states()
    finally:
        await servers.close()
    return [_server_finding(state, loaded.settings.tools.mcp[state.name], sandbox.holds) for state in states]


def _server_finding(state: ServerState, settings: McpSettings, holds: Holds) -> Finding:
    about = f"MCP server {state.name}"
    if not state.is_up:
        fix = "Try its command by hand." if settings.command else "See that it runs, and check its key."
        if holds.is_there and settings.command:
            fix += (
                " In the sandbox it sees the workspace and installed programs only, and no network: see "
                f"tools.readable and tools.mcp.{state.name}.network."
            )
        return Finding("wrong", about, f"it does not start: {state.why}", fix)
    held = f"sandbox: {holds.mechanism}" if settings.command else "not on this machine"
    held += ", with the network" if holds.is_there and settings.network else ""
    count = len(state.tools)
    words = f"{count} tool{'' if count == 1 else 's'}, revision {state.version}, {held}"
    if state.left_out:
        return Finding(
            "note", about, f"{words}; not offered: {'; '.join(state.left_out[:5])}", "See docs/tools.md."
        )
    return Finding("ok", about, words)


def check_secrets(loaded: Loaded) -> Iterator[Finding]:
    """Secrets that stand in the file itself."""
    settings = loaded.settings
    named = [
        f"the key of route {route_name(one)}"
        for one in settings.routes
        if one.api_key and _is_bare(one.api_key)
    ]
    named += [
        f"a header of route {route_name(one)}"
        for one in settings.routes
        if secrets_in_headers({name: text for name, text in one.headers.items() if _is_bare(text)})
    ]
    named += [
        f"a secret of the MCP server {name}"
        for name, one in settings.tools.mcp.items()
        if any(is_secret_name(key) and _is_bare(text) for key, text in {**one.env, **one.headers}.items())
    ]
    named += ["server.api_keys"] * any(map(_is_bare, settings.server.api_keys))
    if not named or not loaded.file:
        return
    mode = stat.S_IMODE(Path(loaded.file).stat().st_mode)
    words = f"{loaded.file}{', which others may read,' if mode & 0o077 else ''} holds {' and '.join(named)}"
    fix = (
        'Put them into the environment and write `"env:NAME"` instead; else at least: chmod 600 '
        f"{loaded.file}"
    )
    yield Finding("note", "secrets", words, fix)


def _is_bare(written: str) -> bool:
    return bool(written) and not written.startswith("env:")


def check_server(loaded: Loaded, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Where the server would listen, who may use it, and whether the port is free."""
    settings, server = loaded.settings, loaded.settings.server
    keys: tuple[str, ...] = ()
    try:
        keys = api_keys_of(settings, environment)
        made = all_keys(loaded)
        Origins(server.origins, server.host, needs_key=bool(keys or made))
    except ConfigError as error:
        yield Finding(
            "wrong", "server", str(error), "Fix that setting; the server does not start until then."
        )
        return
    if not is_loopback(server.host) and not (keys or made):
        fix = "`turnbuckle keys create NAME` makes one; or let server.host be 127.0.0.1."
        yield Finding(
            "wrong", "server", f"it would listen on {server.host} for everybody, without a key", fix
        )
    elif not is_loopback(server.host):
        fix = "Put a proxy with TLS in front of it, or use it in a network that you trust only."
        yield Finding(
            "note", "server", f"it listens on {server.host} without TLS: keys can be overheard", fix
        )
    yield _check_port(server.host, server.port, Path(settings.folder))


def _check_port(host: str, port: int, data: Path) -> Finding:
    place = f"port {port} of {host}"
    match listener_at(host, port):
        case PortStatus("free"):
            return Finding("ok", "server", f"{place} is free")
        case PortStatus("turnbuckle") if serves(host, port, data):
            return Finding("ok", "server", f"a turnbuckle has this folder, and {place}")
        case PortStatus("turnbuckle", who):
            words = f"another turnbuckle listens on {place}{f' ({who})' if who else ''}"
            return Finding(
                "note", "server", words, "Use that one, or set another server.port for this folder."
            )
        case PortStatus("other", who):
            words = f"{place} is taken by {who or 'another program'}"
            return Finding("wrong", "server", words, "Set another server.port, or stop that program.")
        case PortStatus(_, _, why):
            return Finding(
                "wrong", "server", f"{place} cannot be used: {why}", "Set server.host and server.port."
            )


def check_routes(settings: Settings, environment: Mapping[str, str]) -> tuple[list[Finding], list[Route]]:
    """Each route: can it be made, is there a key, does the network know it. And the routes that can be
    asked."""
    found: list[Finding] = []
    good: list[Route] = []
    if not settings.routes:
        words = "none; `rehearsal` answers, a built-in fake model"
        found.append(Finding("note", "routes", words, "`turnbuckle init` sets up a real one."))
    for written in settings.routes:
        about = f"route {route_name(written)}"
        if rehearses(written):
            found.append(Finding("ok", about, "the rehearsal model, a script"))
            continue
        try:
            route = resolve(msgspec.to_builtins(written), environment, settings.stall)
        except RouteError as error:
            words = str(error).removeprefix(f"{about}: ")
            found.append(Finding("wrong", about, words, _route_advice(words)))
            continue
        told = _check_route(route, written)
        found.append(told)
        if told.level != "wrong":
            good.append(route)
    return found, good


def _check_route(route: Route, written: RouteSettings) -> Finding:
    about, host = f"route {route.name}", urlsplit(route.base_url).hostname or ""
    if not route.local and not route.api_key and not secrets_in_headers(route.headers):
        usual = PRESETS[written.preset].key if written.preset else ""
        fix = (
            f"Set {usual} in the environment."
            if usual
            else 'Give it `api_key = "env:NAME"`, if it wants one.'
        )
        return Finding("wrong" if usual else "note", about, f"{route.model} at {host}, without a key", fix)
    if proxy_for(route.base_url)[0] is None:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            fix = "Check the name in base_url, and that this machine has a network and a name server."
            return Finding("wrong", about, f"the network does not know {host}: {error.strerror}", fix)
    key = f"key from {_key_source(written)}" if route.api_key else "no key"
    return Finding("ok", about, f"{route.model} at {route.base_url}, {key}")


def _key_source(written: RouteSettings) -> str:
    if written.api_key:
        return written.api_key.removeprefix("env:") if written.api_key.startswith("env:") else "the file"
    return PRESETS[written.preset].key if written.preset else "nowhere"


def _route_advice(words: str) -> str:
    if "the environment has no" in words:
        return f"Set it before you start: export {words.rpartition(' ')[2]}=…"
    return "Fix the route in the settings; `turnbuckle init` writes a good one."


async def check_online(routes: list[Route], settings: Settings) -> list[Finding]:
    """Ask each route for a few words and one call."""
    written = {route_name(one): one for one in settings.routes}
    found: list[Finding] = []
    for route in routes:
        source = _key_source(written[route.name]) if route.api_key else ""
        trial = await try_route(route)
        models = (
            await models_of(route) if trial.failure is not None and trial.failure.kind == "not_found" else ()
        )
        known = () if isinstance(models, Failure) else models
        found += findings(trial, f"route {route.name}", source, known, route.model)
    return found
