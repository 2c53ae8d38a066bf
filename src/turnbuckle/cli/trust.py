"""`turnbuckle trust`: whether the settings that were found in a folder may be used."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from turnbuckle.cli.echo import echo, echo_json, echo_text, is_attended, says_yes
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.config import FILE, Loaded, load
from turnbuckle.errors import ConfigError, NotTrusted
from turnbuckle.trust import TrustStore, is_trusted, refusal, risks_in

EPILOGUE = """A folder may be somebody else's. A turnbuckle.toml that was found there, and that could run code, send a key
of yours somewhere or open the server to others, is used once you have accepted it, as it is. When it changes, you are
asked again. What you name with --config, or `turnbuckle init` wrote, needs no such yes."""  # noqa: E501

_QUESTION = "Do you know who wrote it, and accept it as it is?"

app = App(name="trust", help_epilogue=EPILOGUE)
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


@app.default
def trust(
    path: Path | None = None,
    /,
    *,
    yes: Flag = False,
    listed: Annotated[bool, Parameter(name="--list", negative="", show_default=False)] = False,
    remove: Flag = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> int:
    """Show what the settings of a folder could do, and accept them.

    Parameters
    ----------
    path
        The file, or its folder; this folder if left out.
    yes
        Accept without a question.
    listed
        List what was accepted.
    remove
        Accept it no longer.
    as_json
        As JSON, for programs.
    """
    try:
        if listed:
            return _list(as_json)
        file = _file(path)
        return _remove(file) if remove else _accept(file, yes, as_json)
    except ConfigError as error:
        echo_text(f"turnbuckle: {error}", err=True)
        return USAGE_ERROR


def ask_for_trust(loaded: Loaded) -> None:
    """Use settings that were found only if somebody accepted them, or does so now. Raises NotTrusted."""
    if is_trusted(loaded):
        return
    if not is_attended():
        raise NotTrusted(refusal(loaded.file, risks_in(loaded)))
    _show(loaded)
    if not says_yes(_QUESTION):
        raise NotTrusted("not accepted, so nothing was done")
    TrustStore().accept(loaded.file, loaded.digest)


def _file(path: Path | None) -> Path:
    place = Path.cwd() if path is None else path.expanduser()
    return place / FILE if place.is_dir() else place


def _found(file: Path) -> Loaded:
    """As a command in that folder would find it. What the environment sets is not the file's."""
    return msgspec.structs.replace(load(file, environment={}), found=True)


def _accept(file: Path, yes: bool, as_json: bool) -> int:
    loaded = _found(file)
    risks = risks_in(loaded)
    known = is_trusted(loaded)
    if not as_json and risks:
        _show(loaded)
    if risks and not known:
        if not yes and not is_attended():
            raise NotTrusted("nobody is here to ask; --yes accepts it without a question")
        if not yes and not says_yes(_QUESTION):
            raise NotTrusted("not accepted")
        TrustStore().accept(file, loaded.digest)
    if as_json:
        echo_json({"path": str(file), "trusted": True, "risks": risks})
    elif not risks:
        echo(f"{file} can do no harm, and needs no trust", err=True)
    else:
        echo(f"{file} {'was accepted before' if known else 'is accepted, until it changes'}", err=True)
    return OK


def _remove(file: Path) -> int:
    if not TrustStore().remove(file):
        raise ConfigError(f"{file} was not accepted")
    echo(f"{file} is accepted no longer", err=True)
    return OK


def _list(as_json: bool) -> int:
    entries = TrustStore().entries()
    if as_json:
        echo_json(entries, indented=True)
        return OK
    for entry in entries:
        echo(f"{entry.digest[:12]}  {entry.path}")
    if not entries:
        echo("nothing was accepted yet", err=True)
    return OK


def _show(loaded: Loaded) -> None:
    echo(f"{loaded.file} was found, and it wants this:", err=True)
    for risk in risks_in(loaded):
        echo(f"  {risk.key} = {risk.value}", f"      {risk.does}", err=True)
