"""Settings for a command: the file, the environment, and what the command line says."""

from pathlib import Path
from typing import Any

import msgspec

from turnbuckle.cli.echo import echo_text
from turnbuckle.cli.trust import ask_for_trust
from turnbuckle.config import Loaded, load, route_name
from turnbuckle.errors import ConfigError
from turnbuckle.trust import require_trust


def load_for(
    config: Path | None,
    *,
    workspace: Path | None = None,
    route: str | None = None,
    model: str | None = None,
    changes: dict[str, Any] | None = None,
    only_looks: bool = False,
) -> Loaded:
    """The settings with the command line's own on top. `only_looks`: the command uses nothing of the data
    folder, so it may be anybody's. Raises ConfigError."""
    loaded = _loaded(config, workspace, changes)
    ask_for_trust(loaded, data=not only_looks)
    if not Path(loaded.settings.workspace).is_dir():
        raise ConfigError(f"the workspace {loaded.settings.workspace} is not a folder")
    return _chosen(loaded, route, model)


def load_again(
    config: Path | None, *, workspace: Path | None = None, changes: dict[str, Any] | None = None
) -> Loaded:
    """The same settings once more, for a process that runs already: nobody is asked anything. Raises
    ConfigError."""
    loaded = _loaded(config, workspace, changes)
    require_trust(loaded)
    return loaded


def _loaded(config: Path | None, workspace: Path | None, changes: dict[str, Any] | None) -> Loaded:
    given = {key: value for key, value in (changes or {}).items() if value is not None}
    if workspace is not None:
        given["workspace"] = str(workspace)
    return load(config, changes=given)


def _chosen(loaded: Loaded, wanted: str | None, model: str | None) -> Loaded:
    """The wanted route first, the others behind it as fallbacks, and the wanted model on the first."""
    routes = list(loaded.settings.routes)
    if wanted is not None:
        names = [route_name(route) for route in routes]
        if wanted not in names:
            there = (
                f"there are: {', '.join(names)}" if names else "none is set up; `turnbuckle init` does that"
            )
            raise ConfigError(f"there is no route {wanted}; {there}")
        routes.insert(0, routes.pop(names.index(wanted)))
    if model is not None:
        if not routes:
            raise ConfigError("--model needs a route in turnbuckle.toml; a preset is enough of one")
        routes[0] = msgspec.structs.replace(routes[0], model=model)
    settings = msgspec.structs.replace(loaded.settings, routes=tuple(routes))
    return msgspec.structs.replace(loaded, settings=settings)


def fail(message: object, code: int) -> int:
    """Say what went wrong, and the exit code that says the same."""
    echo_text(f"turnbuckle: {message}", err=True)
    return code
