"""`turnbuckle trust`: whether the settings that were found in a folder may be used."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from turnbuckle.cli.echo import echo, echo_json, echo_text, is_attended, says_yes
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Flag, Json
from turnbuckle.cli.table import echo_table
from turnbuckle.config import FILE, Loaded, load
from turnbuckle.errors import ConfigError, NotTrusted
from turnbuckle.trust import (
    MARK,
    TrustStore,
    accept_data,
    data_holds,
    is_data_ours,
    is_trusted,
    refusal,
    risks_in,
)

EPILOGUE = """A folder may be somebody else's. A turnbuckle.toml that was found there, and that could run code, send a key
of yours somewhere or open the server to others, is used once you have accepted it, as it is. When it changes, you are
asked again. What you name with --config, or `turnbuckle init` wrote, need not be accepted. The same goes for a data folder
that came with the folder: what lies in it was said, and begun, by somebody else."""  # noqa: E501

_DATA_QUESTION = "Do you know whose it is, and may its runs go on here?"
_QUESTION = "Do you know who wrote it, and accept it as it is?"

app = App(name="trust", help_epilogue=EPILOGUE)


@app.default
def trust(
    path: Path | None = None,
    /,
    *,
    yes: Flag = False,
    listed: Annotated[bool, Parameter(name="--list", negative="", show_default=False)] = False,
    remove: Flag = False,
    as_json: Json = False,
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
    """
    try:
        if listed:
            return _list(as_json)
        file = _file(path)
        return _remove(file) if remove else _accept(file, yes, as_json)
    except ConfigError as error:
        echo_text(f"turnbuckle: {error}", err=True)
        return USAGE_ERROR


def ask_for_trust(loaded: Loaded, *, data: bool = True) -> None:
    """Use settings that were found only if somebody accepted them, or does so now. Raises NotTrusted. With
    `data`, a data folder that was found is asked about as well; where nobody can be asked, whoever would
    write into it refuses."""
    if not is_trusted(loaded):
        if not is_attended():
            raise NotTrusted(refusal(loaded.file, risks_in(loaded)))
        _show(loaded)
        if not says_yes(_QUESTION):
            raise NotTrusted("not accepted, so nothing was done")
        TrustStore().accept(loaded.file, loaded.digest)
    if data and is_attended() and not is_data_ours(loaded):
        _show_data(loaded)
        if not says_yes(_DATA_QUESTION):
            raise NotTrusted("not accepted, so nothing was done")
        accept_data(loaded)


def _file(path: Path | None) -> Path:
    place = Path.cwd() if path is None else path.expanduser()
    return place / FILE if place.is_dir() and not (place / MARK).exists() else place


def _found(file: Path) -> Loaded:
    """As a command in that folder would find it. What the environment sets is not the file's."""
    if not file.exists() and not is_data_ours(bare := load(folder=file.parent, environment={})):
        return bare  # a data folder alone
    return msgspec.structs.replace(load(file, folder=file.parent, environment={}), found=True)


def _accept(file: Path, yes: bool, as_json: bool) -> int:
    loaded = _found(file)
    risks = risks_in(loaded)
    known, is_ours = is_trusted(loaded), is_data_ours(loaded)
    if not as_json and risks:
        _show(loaded)
    if risks and not known:
        _agree(yes, _QUESTION)
        TrustStore().accept(file, loaded.digest)
    if not is_ours:
        if not as_json:
            _show_data(loaded)
        _agree(yes, _DATA_QUESTION)
        accept_data(loaded)
    data = () if is_ours else (loaded.settings.folder,)
    if as_json:
        echo_json({"path": str(file), "trusted": True, "risks": risks, "data": data})
        return OK
    if risks:
        echo(f"{file} {'was accepted before' if known else 'is accepted, until it changes'}", err=True)
    elif loaded.file:
        echo(f"{file} can do no harm, and needs no trust", err=True)
    for folder in data:
        echo(f"{folder} is accepted", err=True)
    return OK


def _agree(yes: bool, question: str) -> None:
    """Raises NotTrusted."""
    if not yes and not is_attended():
        raise NotTrusted("nobody is here to ask; --yes accepts it without a question")
    if not yes and not says_yes(question):
        raise NotTrusted("not accepted")


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
    echo_table(("hash", "accepted"), [(entry.digest[:12], entry.path) for entry in entries])
    if not entries:
        echo("nothing was accepted yet", err=True)
    return OK


def _show_data(loaded: Loaded) -> None:
    folder = loaded.settings.folder
    echo(f"{folder} was found, and was not made by you on this machine:", err=True)
    words = "runs that have no end go on, with your rights; its keys open the server"
    echo(f"  {data_holds(Path(folder))}", f"      {words}", err=True)


def _show(loaded: Loaded) -> None:
    echo(f"{loaded.file} was found, and it wants this:", err=True)
    for risk in risks_in(loaded):
        echo(f"  {risk.key} = {risk.value}", f"      {risk.does}", err=True)
