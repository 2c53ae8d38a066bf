"""`turnbuckle keys`: who may use the server. Works beside a running one, which notices at once."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.setting import fail, load_for
from turnbuckle.errors import ConfigError
from turnbuckle.server.keys import OWNER, Key, KeyFile

app = App(name="keys", help="Who may use the server: create, list and revoke keys.")
Json = Annotated[bool, Parameter(name="--json", negative="")]


@app.command
def create(name: str, /, *, owner: str = OWNER, config: Path | None = None, as_json: Json = False) -> int:
    """Make a key and print it, once: only its hash is kept.

    As soon as there is a key, the server takes no request without one.

    Parameters
    ----------
    name
        What the key is for, such as the program that will use it.
    owner
        Whose runs and sessions it opens. Keys of one owner see the same ones, and nobody else's.
    config
        The settings; turnbuckle.toml in this folder if left out.
    as_json
        As JSON, for programs.
    """
    try:
        key, token = _file(config).create(name, owner, time.time())
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    if as_json:
        print(msgspec.json.encode({**_row(key), "key": token}).decode())
        return OK
    print(token)
    print(f"{key.id}, {key.name}, owner {key.owner}. This key is not shown again.", file=sys.stderr)
    return OK


@app.command(name="list")
def list_keys(*, config: Path | None = None, as_json: Json = False) -> int:
    """List all keys, revoked ones too.

    Parameters
    ----------
    config
        The settings; turnbuckle.toml in this folder if left out.
    as_json
        As JSON, for programs.
    """
    try:
        keys = _file(config).keys()
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode([_row(key) for key in keys])).decode())
        return OK
    for key in keys:
        state = "good" if key.revoked is None else f"revoked {_day(key.revoked)}"
        print(f"{key.id}  {_day(key.created)}  {key.owner:<16} {state:<20} {key.name}")
    if not keys:
        print("no keys yet: `turnbuckle keys create NAME` makes one", file=sys.stderr)
    return OK


@app.command
def revoke(key: str, /, *, config: Path | None = None) -> int:
    """Make a key worthless, at once, also for whoever uses it now and comes back.

    Parameters
    ----------
    key
        Its id, as `turnbuckle keys list` shows it.
    config
        The settings; turnbuckle.toml in this folder if left out.
    """
    try:
        gone = _file(config).revoke(key, time.time())
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    print(f"{gone.id}, {gone.name}, is revoked", file=sys.stderr)
    return OK


def _file(config: Path | None) -> KeyFile:
    return KeyFile(Path(load_for(config).settings.data))


def _row(key: Key) -> dict[str, object]:
    return {name: getattr(key, name) for name in ("id", "name", "owner", "created", "revoked")}


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment))
