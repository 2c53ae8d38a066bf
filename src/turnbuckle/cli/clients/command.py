"""`turnbuckle clients`: the lines by which other programs find this server, printed or written."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

from cyclopts import App
from msgspec import Struct

from turnbuckle.cli.clients.merge import CannotMerge, merged
from turnbuckle.cli.clients.recipes import CONTEXT, RECIPES, ClientFile, Recipe, Setup, Target
from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json, echo_text
from turnbuckle.cli.exits import FAILED, OK, USAGE_ERROR
from turnbuckle.cli.first_screen import reachable
from turnbuckle.cli.options import Config, Flag, Json
from turnbuckle.cli.remote import Remote, ServerRefused
from turnbuckle.cli.replaced_file import replace_file
from turnbuckle.cli.stored_keys import all_keys, create_key
from turnbuckle.config import REHEARSAL, Loaded, route_name
from turnbuckle.errors import ConfigError
from turnbuckle.server.keys import OWNER
from turnbuckle.service.catalog import AGENT, Catalog
from turnbuckle.trust import require_data
from turnbuckle.vocab.ids import RouteName

ANY_KEY = "any"  # a server without keys takes every word
NO_KEY = "YOUR-KEY"

app = App(name="clients", help="Point other programs at this server: print or write their settings.")


@app.default
def clients(
    name: str | None = None,
    /,
    *,
    server: str | None = None,
    key: str | None = None,
    new_key: Flag = False,
    model: str | None = None,
    context: int | None = None,
    write: Flag = False,
    config: Config = None,
    as_json: Json = False,
) -> int:
    """Print what points a client at this server, or with --write put it where the client looks.

    Parameters
    ----------
    name
        Which client; without one they are listed.
    server
        The server's address; the one of the settings if left out.
    key
        The key that the client is to use.
    new_key
        Make a key for this client, and use that.
    model
        The model: `agent` or a route. If left out, agents with tools of their own get the first route. With
        --server, that server is asked for its models.
    context
        The model's window in tokens, for clients that must be told. 200,000 if left out.
    write
        Write the client's file. What was there is kept beside it.
    """
    if name is None:
        return _list(as_json)
    recipe = RECIPES.get(name.lower())
    if recipe is None:
        return fail(f"there is no client {name!r}; there are {', '.join(RECIPES)}", USAGE_ERROR)
    if key is not None and new_key:
        return fail("--key names a key and --new-key makes one: give one of them", USAGE_ERROR)
    try:
        loaded = load_for(config)
        address = _address(loaded, server)
        known = _models_here(loaded) if server is None else _models_at(address, key)
        relay, agent = _chosen(known, model)
        if server is not None and known.names and not (key or new_key):
            key = ANY_KEY  # it has told its models to somebody without one
        key = _new_key(loaded, recipe) if new_key else key or _key(loaded, server)
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    setup = recipe.make(Target(address, key, relay, agent, context or CONTEXT))
    if as_json:
        echo_json(_row(recipe, setup), indented=True)
    elif not write:
        _show(recipe, setup)
    if write:
        return _write(recipe, setup, is_secret=key not in (ANY_KEY, NO_KEY))
    if key == NO_KEY:
        _say(f"the server wants a key: put yours in place of {NO_KEY}, or add --new-key to make one")
    return OK


def _list(as_json: bool) -> int:
    if as_json:
        rows = [{"name": recipe.name, "title": recipe.title} for recipe in RECIPES.values()]
        echo_json(rows, indented=True)
        return OK
    for recipe in RECIPES.values():
        echo(f"{recipe.name:<14} {recipe.title}")
    return OK


class _Models(Struct, frozen=True):
    """What a server offers: all names, and those of them that are relays. Without any nobody knows."""

    names: tuple[str, ...] = ()
    relays: tuple[str, ...] = ()


def _models_here(loaded: Loaded) -> _Models:
    """The models of a server with these settings."""
    routes = [(RouteName(route_name(route)), route.model, None) for route in loaded.settings.routes]
    catalog = Catalog(routes or [(RouteName(REHEARSAL), REHEARSAL, None)])
    return _Models(tuple(catalog.names), tuple(catalog.relays))


def _models_at(address: str, key: str | None) -> _Models:
    """The models of a server elsewhere, which it alone knows."""
    try:
        found = asyncio.run(Remote(address, key or "").ask("GET", "/v1/models"))["data"]
        relays = tuple(str(one["id"]) for one in found if one.get("kind", "relay") == "relay")
        return _Models(tuple(str(one["id"]) for one in found), relays)
    except (ServerRefused, LookupError, TypeError, AttributeError) as error:
        _say(f"the server does not say which models it has, so name one with --model: {error}")
        return _Models()


def _chosen(known: _Models, wanted: str | None) -> tuple[str, str]:
    """The model for agents with tools of their own, and the one for all others. Raises ConfigError."""
    if wanted is not None:
        if known.names and wanted not in known.names:
            raise ConfigError(f"there is no model {wanted!r}; there are {', '.join(known.names)}")
        return wanted, wanted
    return (known.relays[0] if known.relays else AGENT), AGENT


def _address(loaded: Loaded, given: str | None) -> str:
    settings = loaded.settings.server
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = given or reachable(f"http://{host}:{settings.port}")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{address!r} is not an address such as http://127.0.0.1:8765")
    return address.rstrip("/").removesuffix("/v1")


def _key(loaded: Loaded, server: str | None) -> str:
    """A server without keys takes any. Which ones another server has, nobody here knows."""
    has_keys = loaded.settings.server.api_keys or all_keys(loaded)
    return NO_KEY if has_keys or server is not None else ANY_KEY


def _new_key(loaded: Loaded, recipe: Recipe) -> str:
    require_data(loaded)
    if not (all_keys(loaded) or loaded.settings.server.api_keys):
        _say("this is the first key: from now on every request needs one")
    _, token = create_key(loaded, recipe.name, OWNER)
    return token


def _show(recipe: Recipe, setup: Setup) -> None:
    if setup.file is not None:
        echo(f"# {setup.file.path}" if setup.file.format != "json" else f"// {setup.file.path}")
        echo_text(setup.file.text.rstrip("\n"))
        echo("")
    for line in setup.shell:
        echo(line)
    if setup.note:
        _say(setup.note)


def _write(recipe: Recipe, setup: Setup, *, is_secret: bool) -> int:
    file = setup.file
    if file is None:
        return fail(
            f"{recipe.title} has no file to write; `turnbuckle clients {recipe.name}` prints it", FAILED
        )
    path = Path(file.path).expanduser()
    try:
        _check_place(path, is_own=str(file.path).startswith("~"))
        text = merged(file, path.read_text(encoding="utf-8") if path.exists() else None)
        if text is None:
            _say(f"{path} is already up to date")
            return OK
        path.parent.mkdir(parents=True, exist_ok=True)
        copy = replace_file(path, text, is_secret=is_secret)
    except (CannotMerge, UnicodeDecodeError, OSError, ConfigError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        return fail(
            f"{path} was not changed: {why}. `turnbuckle clients {recipe.name}` prints the lines", FAILED
        )
    _say(f"wrote {path}" + (f"; the old version is in {copy}" if copy is not None else ""))
    for line in setup.shell:
        echo(line)
    return OK


def _check_place(path: Path, *, is_own: bool) -> None:
    """A folder may be somebody else's: no link in it leads a file of ours elsewhere, or brings what lies
    there into it. What lies at home is one's own. Raises ConfigError."""
    if path.exists() and not path.is_file():
        raise ConfigError("it is not a plain file")
    if not is_own and (path.is_symlink() or not path.parent.resolve().is_relative_to(Path.cwd().resolve())):
        raise ConfigError("a link leads out of this folder")


def _row(recipe: Recipe, setup: Setup) -> dict[str, object]:
    return {
        "name": recipe.name,
        "title": recipe.title,
        "file": None if setup.file is None else _file_row(setup.file),
        "shell": setup.shell,
        "note": setup.note,
    }


def _file_row(file: ClientFile) -> dict[str, str]:
    return {"path": str(file.path), "format": file.format, "text": file.text}


def _say(text: str) -> None:
    echo_text(text, err=True)
