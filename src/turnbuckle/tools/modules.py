"""Own tools of a server or a command: Python files and modules that the settings name.

Every `Tool` that stands at the top level of such a module is offered to the model, behind the built-in ones
and in the order of the file. A module is loaded once, at start-up, so that whatever is wrong with it is told
then, in a sentence that names the place, and not in the middle of a run. It is code of whoever wrote the
settings and is trusted like them.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from turnbuckle.errors import ConfigError
from turnbuckle.tools.builtin import BUILT_IN, FAMILIES
from turnbuckle.tools.registry import Registry
from turnbuckle.tools.spec import Tool

SETTING = "tools.modules"
_NAMED = "turnbuckle_own_tools"
_HOW = "make one with `@tool(effect=…)` from turnbuckle, at the top level"


def registry_of(
    families: Iterable[str], modules: Sequence[str] = (), own: Sequence[Tool] = (), *, told: str = ""
) -> Registry:
    """All tools of a program: the built-in families, then those of modules, then those that were handed in.
    `told` is what the model must know of the place where commands run. Raises ConfigError."""
    built_in = [_told(tool, told) for family in families for tool in FAMILIES[family]]
    sources = [("tools", own)] if own else []
    found: dict[str, tuple[Tool, str]] = {tool.name: (tool, "the built-in tools") for tool in built_in}
    for entry, tools in (*((entry, tools_in(entry)) for entry in modules), *sources):
        for tool in tools:
            _add(found, tool, entry)
    try:
        return Registry(tool for tool, _ in found.values())
    except ValueError as error:
        raise ConfigError(f"own tools: {error}") from None


def _told(tool: Tool, words: str) -> Tool:
    return replace(tool, description=f"{tool.description} {words}") if words and tool.is_command else tool


def tools_in(entry: str) -> tuple[Tool, ...]:
    """The tools of a file, given by its absolute path, or of a module. Raises ConfigError."""
    module = _from_file(Path(entry)) if os.path.isabs(entry) else _by_name(entry)
    named = {name: value for name, value in vars(module).items() if isinstance(value, Tool)}
    own = [tool for name, tool in named.items() if not name.startswith("_") and not _is_built_in(tool)]
    if not own:
        raise ConfigError(f"{SETTING}: there is no tool in {entry}; {_HOW}")
    return tuple(dict.fromkeys(own))


def files_of(modules: Sequence[str]) -> tuple[str, ...]:
    """Where own tools lie on the disk, once they are loaded: files, and whole packages of modules."""
    found: list[str] = []
    for entry in modules:
        if os.path.isabs(entry):
            found.append(entry)
            continue
        first = sys.modules.get(entry.partition(".")[0])
        places = list(getattr(first, "__path__", ())) or [getattr(first, "__file__", None)]
        found += [place for place in places if place]
    return tuple(found)


def _add(found: dict[str, tuple[Tool, str]], tool: Tool, entry: str) -> None:
    if not isinstance(tool, Tool):
        raise ConfigError(f"own tools: {tool!r} is not a tool; {_HOW}")
    other = found.setdefault(tool.name, (tool, entry))
    if other[0] is tool:  # the same one, by way of two modules
        return
    where = other[1] if other[1] != entry else "the same place"
    raise ConfigError(
        f"{SETTING if entry != 'tools' else 'own tools'}: {entry} has a tool {tool.name}, and so has {where};"
        ' give it another name, as in @tool(name="…")'
    )


def _is_built_in(tool: Tool) -> bool:
    return any(tool is known for known in BUILT_IN)


def _from_file(file: Path) -> ModuleType:
    """A file as a module of its own. It is not part of a package, so it imports only what is installed."""
    if not file.is_file():
        raise ConfigError(f"{SETTING}: there is no file {file}")
    name = f"{_NAMED}_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{SETTING}: {file} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # types that are written as text are looked up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(f"{SETTING}: {file}{_line_in(error, str(file))}: {_words(error)}") from error
    return module


def _by_name(entry: str) -> ModuleType:
    try:
        return importlib.import_module(entry)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{entry}.".startswith(f"{error.name}."):
            raise _import_failed(entry, error) from error
        raise ConfigError(
            f"{SETTING}: there is no module {entry}; install it, or write the path of a file that ends in .py"
        ) from None
    except (Exception, SystemExit) as error:
        raise _import_failed(entry, error) from error


def _import_failed(entry: str, error: BaseException) -> ConfigError:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({last[0].filename}, line {last[0].lineno})" if last else ""
    return ConfigError(f"{SETTING}: {entry} cannot be imported{where}: {_words(error)}")


def _line_in(error: BaseException, file: str) -> str:
    """The line of the file in which it went wrong."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f", line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
