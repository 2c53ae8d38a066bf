"""Settings for an agent: a `turnbuckle.toml`, the environment, and what the program says itself, which
wins."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnbuckle.call.presets import PRESETS
from turnbuckle.config import REHEARSAL, Loaded, load, plain_route, route_name
from turnbuckle.errors import ConfigError
from turnbuckle.settings import RouteSettings
from turnbuckle.trust import require_trust

USUAL = "turnbuckle.toml"
SOURCE = "keyword argument"
_MODELS = (
    "a model is written as `preset/model`, such as anthropic/NAME, as the name of a route in "
    "turnbuckle.toml, as "
    "`rehearsal`, or as any name together with base_url"
)


def loaded_for(
    config: str | Path | None,
    *,
    model: str | Sequence[str] = "",
    base_url: str = "",
    api_key: str | None = None,
    changes: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Loaded:
    """The settings of an agent. `config` None: no file and no TURNBUCKLE_ variable counts. Raises
    ConfigError."""
    file = _file(config)
    known = {} if config is None else environment

    def read(more: Mapping[str, Any]) -> Loaded:
        return load(file, environment=known, changes={**changes, **more}, changed_by=SOURCE)

    loaded = read({})
    wanted = [model] if isinstance(model, str) else list(model)
    if wanted not in ([], [""]) or base_url:
        loaded = read({"routes": _routes(wanted, base_url, api_key, loaded.settings.routes)})
    elif api_key is not None:
        raise ConfigError("api_key needs a model: whose key is it?")
    require_trust(loaded)
    if not Path(loaded.settings.workspace).is_dir():
        raise ConfigError(f"the workspace {loaded.settings.workspace} is not a folder")
    return loaded


def _file(config: str | Path | None) -> Path | None:
    if config is None:
        return Path(os.devnull)  # an empty file: no settings, and none are looked for elsewhere
    return None if str(config) == USUAL else Path(config).expanduser()


def _routes(
    wanted: list[str], base_url: str, api_key: str | None, known: tuple[RouteSettings, ...]
) -> list[dict[str, Any]]:
    """The routes, in order: the first is asked first, the others are its fallbacks."""
    if base_url:
        if len(wanted) != 1 or not wanted[0]:
            raise ConfigError("base_url needs one model: the name that the server there knows it by")
        key = {"api_key": api_key} if api_key is not None else {}
        return [{"protocol": "openai_chat", "base_url": base_url, "model": wanted[0], **key}]
    named = {route_name(route): route for route in known}
    made = [_route(one, api_key, named) for one in wanted]
    if len(wanted) == 1 and wanted[0] in named:
        made += [plain_route(route) for route in known if route is not named[wanted[0]]]
    return made


def _route(model: str, api_key: str | None, named: dict[str, RouteSettings]) -> dict[str, Any]:
    key = {"api_key": api_key} if api_key is not None else {}
    if model in named:
        return {**plain_route(named[model]), **key}
    if model == REHEARSAL:
        return {"protocol": REHEARSAL}
    preset, _, name = model.partition("/")
    if name and preset in PRESETS:
        return {"name": model, "preset": preset, "model": name, **key}
    raise ConfigError(f"there is no model {model!r}: {_MODELS}; presets are {', '.join(PRESETS)}")
