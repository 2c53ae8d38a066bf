"""`turnbuckle keys`: who may use the server. Works beside a running one, which notices at once."""

from cyclopts import App

from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Json
from turnbuckle.cli.stored_keys import all_keys, create_key, revoke_key
from turnbuckle.cli.table import day_of, echo_table
from turnbuckle.errors import ConfigError
from turnbuckle.journal.keys import Key
from turnbuckle.server.keys import OWNER
from turnbuckle.trust import require_data

app = App(name="keys", help="Who may use the server: create, list and revoke keys.")


@app.command
def create(name: str, /, *, owner: str = OWNER, config: Config = None, as_json: Json = False) -> int:
    """Make a key and print it, once: only its hash is kept.

    As soon as there is a key, the server takes no request without one.

    Parameters
    ----------
    name
        What the key is for, such as the program that will use it.
    owner
        Whose runs and sessions it opens. Keys of one owner see the same ones, and nobody else's.
    """
    try:
        loaded = load_for(config)
        require_data(loaded)
        key, token = create_key(loaded, name, owner)
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    if as_json:
        echo_json({**_row(key), "key": token})
        return OK
    echo(token)
    echo(f"{key.id}, {key.name}, owner {key.owner}. This key is not shown again.", err=True)
    return OK


@app.command(name="list")
def list_keys(*, config: Config = None, as_json: Json = False) -> int:
    """List all keys, revoked ones too."""
    try:
        keys = all_keys(load_for(config))
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    if as_json:
        echo_json([_row(key) for key in keys], indented=True)
        return OK
    states = ["good" if key.revoked is None else f"revoked {day_of(key.revoked)}" for key in keys]
    rows = [
        (key.id, day_of(key.created), key.owner, state, key.name)
        for key, state in zip(keys, states, strict=True)
    ]
    echo_table(("key", "created", "owner", "state", "name"), rows)
    if not keys:
        echo("no keys yet: `turnbuckle keys create NAME` makes one", err=True)
    return OK


@app.command
def revoke(key: str, /, *, config: Config = None, as_json: Json = False) -> int:
    """Revoke a key at once, also for clients that use it now. Servers on a database know it within half a
    second.

    Parameters
    ----------
    key
        Its id, as `turnbuckle keys list` shows it, or its name if no other good key has the same.
    """
    try:
        loaded = load_for(config)
        gone = revoke_key(loaded, _id_of(all_keys(loaded), key))
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    if as_json:
        echo_json(_row(gone))
    else:
        echo(f"{gone.id}, {gone.name}, is revoked", err=True)
    return OK


def _id_of(keys: tuple[Key, ...], text: str) -> str:
    """The id of the key with this id or name. Raises ConfigError if several good keys have the name."""
    if any(key.id == text for key in keys):
        return text
    fits = [key.id for key in keys if key.name == text and key.revoked is None]
    if len(fits) > 1:
        raise ConfigError(f"{text} is the name of {len(fits)} keys: say which by its id, {', '.join(fits)}")
    return fits[0] if fits else text


def _row(key: Key) -> dict[str, object]:
    return {name: getattr(key, name) for name in ("id", "name", "owner", "created", "revoked")}
