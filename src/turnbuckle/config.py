"""The settings: a TOML file, then the environment, then the command line. They are checked once, and each
value knows where it comes from.

`TURNBUCKLE_SERVER__PORT=9000` sets `port` in `[server]`, `TURNBUCKLE_ROUTES__0__MODEL=x` the model of the
first route. A key that nobody knows is an error that names the nearest one. Secrets are written as `env:NAME`
and looked up only when a route is made, and no print of the settings can show one.
"""

import difflib
import hashlib
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.limits import StallSettings
from turnbuckle.call.routes import Route, RouteError, looked_up, resolve
from turnbuckle.errors import ConfigError
from turnbuckle.journal.address import is_database, read_address, shown
from turnbuckle.objects.settings import ENV as _ENV
from turnbuckle.settings import RouteSettings, Settings
from turnbuckle.vocab.prices import Price
from turnbuckle.vocab.quirks import Quirks
from turnbuckle.vocab.redaction import without_credentials, without_secrets_in_url

FILE = "turnbuckle.toml"
PREFIX = "TURNBUCKLE_"
REHEARSAL = "rehearsal"
_hints_of = cache(typing.get_type_hints)

Where = tuple[str | int, ...]

_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]+)`(?: (?P<sign>[<>]=?) (?P<limit>\S+))?(?:, got `(?P<got>[^`]+)`)?$"
)
_LIMITS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


DEFAULT = "default"
"""The source of a setting that nobody set."""


class Value(Struct, frozen=True):
    """One effective setting, for a person to read."""

    key: str
    value: str
    source: str


class Loaded(Struct, frozen=True):
    """Settings and where each of them comes from. `file` is empty if there is none; `found`: nobody named
    it; `digest` is that of its content."""

    settings: Settings
    sources: dict[Where, str] = {}
    file: str = ""
    found: bool = False
    digest: str = ""

    def explain(self) -> tuple[Value, ...]:
        """Every effective value with its source."""
        return tuple(
            Value(_dotted(where), _shown(where, value), self._source(where))
            for where, value in _leaves(self.settings)
        )

    def _source(self, where: Where) -> str:
        inherited = (self.sources.get(where[:length]) for length in range(len(where), 0, -1))
        within = (
            source for place, source in self.sources.items() if place[: len(where)] == where
        )  # parts of a table
        return next((source for source in (*inherited, *within) if source), DEFAULT)


def load(
    file: Path | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    changed_by: str = "command line",
) -> Loaded:
    """Read the settings. `file` must be there if it is given; else `turnbuckle.toml` in `folder` is taken, if
    it is there. `changes` are dotted keys with values from a command line, or from elsewhere. Raises
    ConfigError."""
    folder = folder or Path.cwd()
    environment = os.environ if environment is None else environment
    path = file or folder / FILE
    text = _text_of(path, must=file is not None)
    given = _parsed(path, text)
    name = str(path) if text else ""
    _check(given, Settings, (), lambda where: f"{name}, line {_line_of(text, where)}")
    sources = {where: f"{path.name}, line {_line_of(text, where)}" for where in _written(given)}
    for variable, where, raw in _variables(environment):
        _set(given, where, _from_text(variable, where, raw))
        _sourced(sources, where, f"environment, {variable}")
    for key, value in (changes or {}).items():
        where = _where(key)
        _check(_nested(where, value), Settings, (), lambda _: changed_by)
        _set(given, where, value)
        _sourced(sources, where, changed_by)
    settings = _converted(given, sources)
    home = path.parent if text else folder
    whole = _with_absolute_paths(settings, home.resolve(), sources, folder.resolve())
    digest = hashlib.sha256(text.encode()).hexdigest() if text else ""
    return Loaded(whole, sources, name, bool(text) and file is None, digest)


def _sourced(sources: dict[Where, str], where: Where, source: str) -> None:
    """A key has a new source, and so has all that was written inside of it."""
    for inner in [place for place in sources if place[: len(where)] == where]:
        del sources[inner]
    sources[where] = source


def routes_of(settings: Settings, environment: Mapping[str, str]) -> tuple[Route, ...]:
    """The real routes, keys looked up. The rehearsal route is none of them. Raises ConfigError."""
    live = [route for route in settings.routes if not rehearses(route)]
    try:
        made = [resolve(plain_route(route), environment, settings.stall) for route in live]
    except RouteError as error:
        raise ConfigError(str(error)) from None
    return tuple(made)


def api_keys_of(settings: Settings, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The keys that clients of the server may show, looked up. Raises ConfigError."""
    try:
        found = [looked_up(key, environment, "server.api_keys") for key in settings.server.api_keys]
    except RouteError as error:
        raise ConfigError(str(error)) from None
    if any(not key or not key.isascii() or " " in key for key in found):
        raise ConfigError("server.api_keys: a key has only ASCII characters, no spaces, and is not empty")
    return tuple(found)


def server_variables_of(settings: Settings, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The variables of each MCP server, or the headers of one that is reached by HTTP, looked up. Raises
    ConfigError."""
    try:
        return {
            name: {
                key: looked_up(text, environment, f"tools.mcp.{name}, {key}")
                for key, text in (server.headers if server.url else server.env).items()
            }
            for name, server in settings.tools.mcp.items()
        }
    except RouteError as error:
        raise ConfigError(str(error)) from None


def rehearses(route: RouteSettings) -> bool:
    """Whether this is the embedded model, which needs no key and no network."""
    return route.protocol == REHEARSAL


def route_name(route: RouteSettings) -> str:
    """What a route is called if it has no name of its own."""
    return route.name or route.preset or (REHEARSAL if rehearses(route) else route.model)


def plain_route(route: RouteSettings) -> dict[str, Any]:
    table: dict[str, Any] = msgspec.to_builtins(route)
    return table


# The file


def _text_of(path: Path, *, must: bool) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        if must:
            raise ConfigError(f"there is no file {path}") from None
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def _line_of(text: str, where: Where) -> int:
    """The line in which a key is set, as well as can be told without a parser that counts."""
    *tables, last = where
    header, wanted = [str(step) for step in tables if isinstance(step, str)], str(last)
    number = next((step for step in tables if isinstance(step, int)), 0)
    seen, here = -1, [] if header else header
    for at, line in enumerate(text.splitlines(), 1):
        if table := re.match(r"\s*\[+\s*([\w.\"-]+)\s*\]+", line):
            here = table.group(1).replace('"', "").split(".")
            seen += line.strip().startswith("[[") and here == header
            if ".".join(here) == ".".join([*header, wanted]):
                return at
        elif (
            here == header and seen in (-1, number) and re.match(rf'\s*"?{re.escape(wanted)}"?\s*[=.]', line)
        ):
            return at
    return _line_of(text, where[:-1]) if tables else 1


def _written(given: Any, where: Where = ()) -> Iterator[Where]:
    if isinstance(given, dict):
        for key, value in given.items():
            yield from _written(value, (*where, key))
    elif isinstance(given, list) and given and isinstance(given[0], dict):
        for number, value in enumerate(given):
            yield from _written(value, (*where, number))
    else:
        yield where


# The environment


def _variables(environment: Mapping[str, str]) -> Iterator[tuple[str, Where, str]]:
    for variable, raw in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        steps = variable.removeprefix(PREFIX).lower().split("__")
        if len(steps) == 1 and steps[0] not in Settings.__struct_fields__:
            continue  # another use of our name, such as a key that a setting refers to
        where: Where = tuple(int(step) if step.isdigit() else step for step in steps)
        _check(_nested(where, raw), Settings, (), lambda _, name=variable: f"the environment variable {name}")
        yield variable, where, raw


def _nested(where: Where, value: Any) -> Any:
    for step in reversed(where):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _from_text(variable: str, where: Where, raw: str) -> Any:
    """A value from its text, as the type of its key reads it; a list or a table is written as in TOML."""
    kind = _type_at(where)
    try:
        return msgspec.to_builtins(msgspec.convert(raw, kind, strict=False))
    except msgspec.ValidationError as problem:
        try:
            return tomllib.loads(f"value = {raw}")["value"]
        except tomllib.TOMLDecodeError:
            raise ConfigError(
                f"the environment variable {variable}: {_plainly(str(problem), kind)}"
            ) from None


def _set(given: dict[str, Any], where: Where, value: Any) -> None:
    *steps, last = where
    at: Any = given
    for step, following in zip(steps, where[1:], strict=True):
        empty: Any = [] if isinstance(following, int) else {}
        at = _slot(at, step, empty) if isinstance(at, list) else at.setdefault(step, empty)
    if isinstance(at, list):
        _slot(at, last, value)
        at[int(last)] = value
    else:
        at[last] = value


def _slot(row: list[Any], number: str | int, empty: Any) -> Any:
    if int(number) > len(row):
        raise ConfigError(f"there is no number {number} yet: the next one is {len(row)}")
    if int(number) == len(row):
        row.append(empty)
    return row[int(number)]


def _where(key: str) -> Where:
    return tuple(int(step) if step.isdigit() else step for step in key.split("."))


# Checks


def _check(given: Any, kind: Any, where: Where, place: Any) -> None:
    """Unknown keys, before anything else: what is wrong with a value is told by the conversion."""
    fields = _fields_of(kind)
    if fields is None:
        inner = typing.get_args(kind)
        if isinstance(given, list) and inner and _fields_of(inner[0]) is not None:
            for number, item in enumerate(given):
                _check(item, inner[0], (*where, number), place)
        if isinstance(given, dict) and len(inner) == 2 and _fields_of(inner[1]) is not None:
            for name, item in given.items():
                _check(item, inner[1], (*where, name), place)
        return
    if not isinstance(given, dict):
        return
    for key, value in given.items():
        here = (*where, key)
        if key not in fields:
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(fields)}"
            raise ConfigError(f"{place(here)}: {_dotted(here)} is not known; {hint}")
        _check(value, fields[key], here, place)
    _check_open(given, kind, where, place)


def _check_open(given: dict[str, Any], kind: Any, where: Where, place: Any) -> None:
    """The tables of a route that are kept as they are written, since the route's own maker reads them."""
    if kind is RouteSettings:
        for key, shape in (("quirks", Quirks), ("stall", StallSettings), ("price", Price)):
            if key in given:
                _check(given[key], shape, (*where, key), place)


def _fields_of(kind: Any) -> Mapping[str, Any] | None:
    return _hints_of(kind) if isinstance(kind, type) and issubclass(kind, Struct) else None


def _type_at(where: Where) -> Any:
    kind: Any = Settings
    for step in where:
        fields = _fields_of(kind)
        inner = typing.get_args(kind)
        if fields is not None:
            kind = fields[str(step)]
        elif isinstance(step, int) and inner:
            kind = inner[0]
        else:
            kind = inner[-1] if len(inner) == 2 and not isinstance(kind, types.UnionType) else Any
    return kind


def _converted(given: dict[str, Any], sources: dict[Where, str]) -> Settings:
    try:
        return msgspec.convert(given, Settings)
    except msgspec.ValidationError as error:
        words, _, at = str(error).partition(" - at ")
        key = at.strip("`").removeprefix("$.").replace("[", ".").replace("]", "")
        where = _where(key) if key and "..." not in key else _faulty(key, given)
        key = _dotted(where) if where else key
        source = next(
            (sources[where[:size]] for size in range(len(where), 0, -1) if where[:size] in sources), ""
        )
        told = _plainly(words, _type_at(where))
        raise ConfigError(f"{key or 'settings'}: {told}{f' ({source})' if source else ''}") from None


def _faulty(key: str, given: dict[str, Any]) -> Where:
    """Where a key is that was told without the name of its table, as in `tools.mcp[...].url`."""
    before, _, after = key.partition(".....")
    where, tables = _where(before), given
    for step in where:
        tables = tables[step]  # type: ignore[index]
    for name, table in tables.items():
        try:
            msgspec.convert(table, _type_at((*where, name)))
        except msgspec.ValidationError:
            return (*where, name, *_where(after))
    return ()


def _plainly(words: str, kind: Any) -> str:
    """What msgspec says of a value, for a person who writes settings and no Python."""
    if words.startswith("Invalid enum value ") and (choices := _choices(kind)):
        return f"{words.removeprefix('Invalid enum value ')} is not one of {', '.join(choices)}"
    if (found := _EXPECTED.match(words)) is None:
        return words
    kinds = [_KINDS.get(name, name) for name in found["kinds"].split(" | ") if name != "null"]
    limit = f" {_LIMITS[found['sign']]} {found['limit'].removesuffix('.0')}" if found["sign"] else ""
    got = f", and this is {_KINDS.get(found['got'], found['got'])}" if found["got"] else ""
    return f"{' or '.join(kinds)}{limit} is wanted{got}"


def _choices(kind: Any) -> list[str]:
    if typing.get_origin(kind) is typing.Literal:
        return [str(choice) for choice in typing.get_args(kind)]
    number = ["a number"] if kind in (int, float) else []
    return number + [choice for part in typing.get_args(kind) for choice in _choices(part)]


def _with_absolute_paths(settings: Settings, home: Path, sources: dict[Where, str], folder: Path) -> Settings:
    """Paths in the file are relative to it, all others to the folder where the command was given."""

    def absolute(written: str, *where: str) -> str:
        from_file = ", line " in sources.get(where, "")
        return str((home if from_file else folder) / Path(written).expanduser())

    modules = tuple(
        absolute(entry, "tools", "modules") if entry.endswith(".py") or "/" in entry else entry
        for entry in settings.tools.modules
    )
    servers = {
        name: msgspec.structs.replace(
            server,
            command=absolute(server.command, "tools", "mcp", name, "command")
            if "/" in server.command
            else server.command,
            cwd=absolute(server.cwd, "tools", "mcp", name, "cwd") if server.cwd else "",
        )
        for name, server in settings.tools.mcp.items()
    }
    return msgspec.structs.replace(
        settings,
        workspace=absolute(settings.workspace, "workspace"),
        data=_checked_address(settings.data)
        if is_database(settings.data)
        else absolute(settings.data, "data"),
        files=absolute(settings.files, "files"),
        tools=msgspec.structs.replace(settings.tools, modules=modules, mcp=servers),
        objects=msgspec.structs.replace(objects, store=absolute(objects.store, "objects", "store"))
        if (objects := settings.objects).store and "://" not in objects.store
        else settings.objects,
    )


def _checked_address(place: str) -> str:
    try:
        read_address(place)
    except ValueError as error:
        raise ConfigError(f"data: {error}") from None
    return place


# Printing


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """The keys whose values differ, of routes and MCP servers as a whole."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    differ = [where for where in {**old, **new} if old.get(where, _NONE) != new.get(where, _NONE)]
    return list(dict.fromkeys(_dotted(where[:1] if where[0] == "routes" else where) for where in differ))


def merged(before: Settings, after: Settings, keys: Iterable[str]) -> Settings:
    """The settings with these keys, each `table.name`, of the others."""
    for table, _, name in (key.partition(".") for key in keys):
        value = getattr(getattr(after, table), name)
        before = replace(before, **{table: replace(getattr(before, table), **{name: value})})
    return before


_NONE = object()


def _leaves(value: Any, where: Where = ()) -> Iterator[tuple[Where, Any]]:
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _leaves(getattr(value, name), (*where, name))
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for number, item in enumerate(value):
            yield from _leaves(item, (*where, number))
    elif isinstance(value, dict) and value and isinstance(next(iter(value.values())), Struct):
        for name, item in value.items():
            yield from _leaves(item, (*where, name))
    else:
        yield where, value


def _shown(where: Where, value: Any) -> str:
    if where[-1] == "api_key" and value is not None:
        return _without_secret(value)
    if where[-1] == "api_keys":
        return ", ".join(map(_without_secret, value)) or "none"
    if where == ("data",):
        return msgspec.json.encode(shown(value)).decode()
    if where[-1] == "base_url":
        return msgspec.json.encode(without_secrets_in_url(value)).decode()
    if where[-1] == "extra":
        return ", ".join(f"{name}: (hidden)" for name in value) or "none"
    if where[-1] == "args":
        return without_credentials(msgspec.json.encode(value).decode())
    if where[-1] == "url":
        return msgspec.json.encode(without_secrets_in_url(value)).decode()
    if where[-1] in ("headers", "env"):
        return ", ".join(f"{name}: {_without_secret(text)}" for name, text in value.items()) or "none"
    return msgspec.json.encode(value).decode()


def _without_secret(written: str) -> str:
    return written if written.startswith(_ENV) else "(hidden)"


def _dotted(where: Where) -> str:
    return ".".join(map(str, where)) or "settings"
