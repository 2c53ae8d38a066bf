"""Whether the settings of a folder may be used: a folder may be somebody else's.

A `turnbuckle.toml` that was merely found can run code (own tools), send a key of the environment anywhere,
let a stranger's model decide what the shell runs, or open the server to others. What of it could do so is
listed by `risks_in`: every key that is not known to be harmless. Such a file is used once a person has
accepted it, at this place and with this content. The list of what was accepted lies with the user, never in
the folder.

A file that somebody names (`--config`, `Agent(config=…)`, `turnbuckle.asgi:app(…)`) is accepted by that, and
so is one that `turnbuckle init` writes.

A data folder can be somebody else's, too: a clone may bring one along. Runs in it that have no end would go
on, with its tools and its arguments; its keys would open the server. So a data folder that nobody named and
that holds something must be one that was made here: it holds a random mark, and the list of this user has
that mark with the folder's path.
"""

import contextlib
import fcntl
import os
import secrets
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from turnbuckle.call.presets import PRESETS
from turnbuckle.config import Loaded, Where, rehearses
from turnbuckle.errors import ConfigError, NotTrusted
from turnbuckle.journal.address import is_database
from turnbuckle.settings import RouteSettings, Settings
from turnbuckle.tools.mcp.listing import PREFIX
from turnbuckle.tools.mcp.settings import McpSettings
from turnbuckle.turn.consent import written
from turnbuckle.vocab.redaction import without_credentials, without_secrets_in_url

HARMLESS = frozenset(
    {
        "stall",
        "recovery",
        "turn",
        "session",
        "context",  # its route is one of the routes, which are judged by themselves
        "tools.enable",  # all are on without a word
        "tools.answer_seconds",
        *(
            f"server.{name}"
            for name in (
                "port keepalive noop hold_status send_timeout drain max_connections max_body "
                "requests_per_minute max_runs max_runs_per_owner idempotency_hours log "
                "websocket strict_relay"
            ).split()
        ),
    }
)
"""Tables and keys that a stranger may set. Whatever is not here, and has no rule below, is a risk."""
_ENV = "env:"
_FILE = "trusted.json"
_MOST = 1 << 22  # bytes of the list
_MOST_ENTRIES = 10_000
MARK = "made-here"
"""The file in a data folder that shows where it was made."""
_EMPTY = frozenset({MARK, ".gitignore", "journal.lock", "keys.lock"})  # what says nothing about anybody


class Risk(Struct, frozen=True):
    """One thing that a file sets, as it may be shown, and what that would do."""

    key: str
    value: str
    does: str


class Trusted(Struct, frozen=True):
    """A file that somebody accepted."""

    path: str
    digest: str
    accepted: float


# What a file could do


def risks_in(loaded: Loaded) -> tuple[Risk, ...]:
    """What of the file needs a person's yes."""
    written = [where for where, source in loaded.sources.items() if ", line " in source]
    values = {value.key: value.value for value in loaded.explain()}
    found: list[Risk] = []
    for where in written:
        if where[0] == "routes" or where[:2] == ("tools", "mcp"):
            continue
        if does := _does(where, loaded.settings, Path(loaded.file).parent):
            key = ".".join(map(str, where))
            found.append(Risk(key, values.get(key) or _value_above(values, key), does))
    named = {str(where[2]) for where in written if where[:2] == ("tools", "mcp") and len(where) > 2}
    for name in sorted(named & set(loaded.settings.tools.mcp)):
        found += _of_server(name, loaded.settings.tools.mcp[name])
    numbers = sorted({where[1] for where in written if where[0] == "routes" and len(where) > 1}, key=str)
    for number in numbers:
        own = {where[2] for where in written if where[:2] == ("routes", number) and len(where) > 2}
        if isinstance(number, int) and number < len(loaded.settings.routes):
            found += _of_route(
                f"routes.{number}", loaded.settings.routes[number], {str(name) for name in own}, values
            )
    return tuple(found)


def _of_server(name: str, server: McpSettings) -> Iterator[Risk]:
    """An MCP server: a program that would run, or an address that would be asked, and what it would be
    given."""
    key = f"tools.mcp.{name}"
    if server.url:
        yield Risk(key, without_secrets_in_url(server.url), "lets this address answer as a tool")
        for header, text in server.headers.items():
            if text.startswith(_ENV):
                yield Risk(f"{key}.headers.{header}", text, f"sends this variable to {_host(server.url)}")
        return
    words = without_credentials(shlex.join((server.command, *server.args)))
    where = f", in {server.cwd}" if server.cwd else ""
    network = ", with the network" if server.network else ""
    yield Risk(key, words, f"runs this program, as you{where}{network}")
    for variable, text in server.env.items():
        if text.startswith(_ENV):
            yield Risk(f"{key}.env.{variable}", text, "gives this variable to that program")


def _value_above(values: Mapping[str, str], key: str) -> str:
    while key and key not in values:
        key = key.rpartition(".")[0]
    return values.get(key, "")


def _does(where: Where, settings: Settings, home: Path) -> str:
    """What a key would do; empty if nothing."""
    key = ".".join(map(str, where[:2]))
    if where[0] in HARMLESS or key in HARMLESS:
        return ""
    match key:
        case "workspace":
            return "" if _inside(settings.workspace, home) else "lets tools act outside of this folder"
        case "data" | "files":
            near = not is_database(settings.data) and _inside(settings.data, home)
            return (
                "" if near and _inside(settings.files, home) else "keeps what is said outside of this folder"
            )
        case "server.host":
            return "" if _is_near(settings.server.host) else "lets other machines reach the server"
        case "server.api_keys":
            return "lets whoever knows these keys use the server" if settings.server.api_keys else ""
        case "server.origins":
            return "lets web pages use the server" if settings.server.origins else ""
        case "workspace_per_session":
            return ""
        case "objects.store" | "objects.endpoint":
            return "sends what is large of what is said and done there" if settings.objects.store else ""
        case "tools.modules":
            return "runs this code, as you" if settings.tools.modules else ""
        case "tools.approval":
            return _allows(settings, where)
        case "tools.network":
            return "gives commands the network" if settings.tools.network else ""
        case "tools.private_addresses":
            return "lets pages lead to private networks" if settings.tools.private_addresses else ""
        case "tools.sandbox":
            return "runs commands without a sandbox" if settings.tools.sandbox == "off" else ""
        case _:
            return "changes what is safe"


def _allows(settings: Settings, where: Where) -> str:
    """What rules of consent let happen, or the one rule at this place. A rule that allows takes the place of
    a question to the person who sits there, so it is never the folder's alone to give."""
    rules = settings.tools.approval
    own = {key: rule for key, rule in rules.items() if key in where[2:]} or rules
    allowed = [rule.tool for rule in written(own) if rule.rule == "allow"]
    if any(fnmatchcase("network", tool) for tool in allowed):
        return "gives commands the network"
    if any(tool.startswith(PREFIX) for tool in allowed):
        return "lets MCP servers be used without a question"
    return "lets tools be used without a question" if allowed else ""


def _of_route(key: str, route: RouteSettings, own: set[str], values: Mapping[str, str]) -> list[Risk]:
    """A route with a key of yours, or to a model that is not on this machine. `own` is what the file says of
    it."""
    if rehearses(route):
        return []
    preset = PRESETS.get(route.preset)
    host = _host(route.base_url or ("" if preset is None else preset.base_url))
    near = bool(host) and _is_near(host)
    address = values.get(f"{key}.base_url", "")
    found: list[Risk] = []
    headers = [(f"headers.{name}", text) for name, text in route.headers.items()]
    for name, text in (("api_key", route.api_key or ""), *headers):
        if text.startswith(_ENV):
            found.append(Risk(f"{key}.{name}", text, f"sends this variable to {host}"))
        elif text and name.partition(".")[0] not in own:
            found.append(Risk(f"{key}.base_url", address, f"sends a key of yours to {host}"))
    own_key = "" if preset is None or route.api_key is not None else preset.key
    if own_key and (route.base_url or not near):
        found.append(Risk(f"{key}.preset", route.preset, f"sends your {own_key} to {host}"))
    if not found and host and not near:
        found.append(Risk(f"{key}.base_url", address, f"lets {host} answer, and use the tools"))
    return found


def _inside(path: str, home: Path) -> bool:
    return Path(path).resolve().is_relative_to(home.resolve())


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address


def _is_near(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# Whose a data folder is


def found_data(loaded: Loaded) -> Path | None:
    """The data folder, if nobody named it: it simply lies where the program was started, or a file that was
    found says where it is."""
    is_named = bool(loaded.file) and not loaded.found
    return Path(loaded.settings.folder) if _is_written(loaded) and not is_named else None


def _is_written(loaded: Loaded) -> bool:
    """Whether a file says where the data folder is, or nobody does."""
    key = "files" if is_database(loaded.settings.data) else "data"
    source = loaded.sources.get((key,), "")
    return not source or ", line " in source


def is_data_ours(loaded: Loaded, environment: Mapping[str, str] | None = None) -> bool:
    """Whether the data folder was named, is new, or was made or accepted by this user. Where nothing can be
    remembered nothing is asked."""
    folder = found_data(loaded)
    if folder is None or _is_new(folder):
        return True
    try:
        store = TrustStore(environment)
    except ConfigError:
        return True
    mark = _mark_in(folder)
    return not store.can_remember or (bool(mark) and store.holds(folder, mark))


def require_data(loaded: Loaded, environment: Mapping[str, str] | None = None) -> None:
    """Before anything is written into the data folder: refuse that of somebody else, and remember a new one.
    Raises NotTrusted."""
    if not is_data_ours(loaded, environment):
        raise NotTrusted(data_refusal(loaded))
    # One that is made under a named file may simply be found there the next time.
    if _is_written(loaded) and _is_new(Path(loaded.settings.folder)):
        accept_data(loaded, environment)


def accept_data(loaded: Loaded, environment: Mapping[str, str] | None = None) -> None:
    """From now on this data folder is ours. What cannot be remembered is not."""
    folder = Path(loaded.settings.folder)
    mark = secrets.token_hex(16)
    with contextlib.suppress(OSError, ConfigError):  # a folder that cannot be used says so soon enough
        store = TrustStore(environment)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / MARK, mark.encode())
        store.accept(folder, mark)


def data_refusal(loaded: Loaded) -> str:
    """Why a data folder is not used, and what to do."""
    folder = loaded.settings.folder
    return (
        f"the data folder {folder} was found here, and was not made by you on this machine: "
        f"{data_holds(Path(folder))}. Runs in it would go on, with your rights. "
        "`turnbuckle trust` accepts it; to begin with an empty one, move it away, or name another "
        "with TURNBUCKLE_DATA"
    )


def data_holds(folder: Path) -> str:
    """What lies in a data folder, for people."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"it holds {', '.join(names[:8])}{more}"


def _is_new(folder: Path) -> bool:
    """Whether there is nothing in it but what is made before anything else."""
    try:
        return set(os.listdir(folder)) <= _EMPTY
    except FileNotFoundError:
        return True
    except OSError:
        return False  # what opens it says why


def _mark_in(folder: Path) -> str:
    try:
        handle = os.open(folder / MARK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        return file.read(100).decode("ascii", "replace") if stat.S_ISREG(os.fstat(handle).st_mode) else ""


# Who accepted what


def require_trust(loaded: Loaded, environment: Mapping[str, str] | None = None) -> None:
    """Refuse settings that were found, could do harm, and were accepted by nobody. Raises NotTrusted."""
    if not is_trusted(loaded, environment):
        raise NotTrusted(refusal(loaded.file, risks_in(loaded)))


def is_trusted(loaded: Loaded, environment: Mapping[str, str] | None = None) -> bool:
    """Whether it was named, can do no harm, or was accepted."""
    return (
        not loaded.found or not risks_in(loaded) or TrustStore(environment).holds(loaded.file, loaded.digest)
    )


def refusal(file: str, risks: tuple[Risk, ...]) -> str:
    """Why a file is not used, and what to do."""
    shown = "; ".join(f"{risk.key} = {risk.value} {risk.does}" for risk in risks[:5])
    more = f"; and {len(risks) - 5} more" if len(risks) > 5 else ""
    return (
        f"{file} was found here, and nobody has accepted it with this content: {shown}{more}. "
        "Read it; `turnbuckle trust` then accepts it, and --config names a file for one time"
    )


class TrustStore:
    """The files that this user accepted, in their own state folder."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        known = os.environ if environment is None else environment
        state, home = known.get("XDG_STATE_HOME", ""), known.get("HOME") or os.path.expanduser("~")
        folder = Path(state) if os.path.isabs(state) else Path(home) / ".local" / "state"
        self.file = folder / "turnbuckle" / _FILE
        if not self.file.is_absolute():  # it would lie in the very folder that is in question
            raise ConfigError("there is no home folder to remember trusted files in; set XDG_STATE_HOME")

    def holds(self, path: str | Path, digest: str) -> bool:
        """Whether this file was accepted with this content."""
        real = _real(path)
        return any(entry.path == real and entry.digest == digest for entry in self.entries())

    def entries(self) -> tuple[Trusted, ...]:
        """What was accepted, in the order of that. Raises ConfigError for a list that others may write."""
        try:
            handle = os.open(self.file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be read: {error.strerror}") from None
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
                raise ConfigError(f"{self.file} can be written by others, so it says nothing; remove it")
            text = file.read(_MOST + 1)
        try:
            return msgspec.json.decode(text, type=tuple[Trusted, ...])
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self.file} is broken ({error}); remove it, and accept your files again"
            ) from None

    def accept(self, path: str | Path, digest: str, now: float | None = None) -> None:
        """From now on this file with this content may be used, and not what it was before. Raises
        ConfigError."""
        real = _real(path)
        with self._alone():
            kept = [entry for entry in self.entries() if entry.path != real]
            if len(kept) >= _MOST_ENTRIES:
                kept = [entry for entry in kept if os.path.exists(entry.path)][-_MOST_ENTRIES:]
            self._write((*kept, Trusted(real, digest, time.time() if now is None else now)))

    def remove(self, path: str | Path) -> bool:
        """Forget a file. False if it was not accepted. Raises ConfigError."""
        real = _real(path)
        with self._alone():
            entries = self.entries()
            kept = tuple(entry for entry in entries if entry.path != real)
            if len(kept) == len(entries):
                return False
            self._write(kept)
            return True

    @property
    def can_remember(self) -> bool:
        """Whether the list can be written at all."""
        try:
            self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
        except OSError:
            return False
        return os.access(self.file.parent, os.W_OK | os.X_OK)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While the list is changed nobody else changes it. Raises ConfigError."""
        try:
            self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(self.file.with_suffix(".lock"), flags, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, entries: tuple[Trusted, ...]) -> None:
        try:
            write_private(self.file, msgspec.json.format(msgspec.json.encode(entries)))
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written: {error.strerror}") from None


def write_private(path: Path, content: bytes) -> None:
    """A file that only its owner can read, whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
