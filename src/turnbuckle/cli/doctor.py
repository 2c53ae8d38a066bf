"""`turnbuckle doctor`: is the journal sound, and which settings are in effect?"""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from turnbuckle.app import check_journal, mend_journal
from turnbuckle.cli.exits import FAILED, OK, USAGE_ERROR
from turnbuckle.cli.setting import fail, load_for
from turnbuckle.config import DEFAULT, Loaded
from turnbuckle.errors import ConfigError
from turnbuckle.journal.port import InUse, StorageError
from turnbuckle.journal.sqlite.doctor import Report

app = App(name="doctor", help="Look for damage in the journal, and show the settings in effect.")
Flag = Annotated[bool, Parameter(negative="")]


@app.default
def doctor(
    *,
    config: Path | None = None,
    mend: Flag = False,
    as_json: Annotated[bool, Parameter("--json", negative="")] = False,
) -> int:
    """Look for damage in the journal, and show where settings come from. Works beside a living process.

    Parameters
    ----------
    config
        The settings; turnbuckle.toml in this folder if left out.
    mend
        Cut damage out. What is sound is kept, and the old file stays beside the new one.
    as_json
        As JSON, for programs.
    """
    try:
        loaded = load_for(config)
        report = mend_journal(loaded) if mend else check_journal(loaded)
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    except InUse as error:
        return fail(f"{error}; stop it first", FAILED)
    except StorageError as error:
        return fail(f"the journal can not be looked at: {error}", FAILED)
    if as_json:
        settings = [msgspec.to_builtins(value) for value in loaded.explain()]
        found = {"journal": msgspec.to_builtins(report), "sound": report is None or report.sound, "settings": settings}
        print(msgspec.json.encode(found).decode())
    else:
        _print(loaded, report, mend)
    return OK if report is None or report.sound or report.kept else FAILED


def _print(loaded: Loaded, report: Report | None, mend: bool) -> None:
    print(f"journal: {Path(loaded.settings.data)}")
    if report is None:
        print("  there is none yet")
    else:
        size = f"{report.streams:,} runs, {report.items:,} items, {report.bytes / 1e6:.1f} MB, format {report.format}"
        print(f"  {'sound' if report.sound else 'DAMAGED'}: {size}")
        for problem in report.problems:
            where = f"run {problem.stream or '?'}" + (
                f", from item {problem.seq} on" if problem.seq is not None else ""
            )
            lost = f"{problem.lost} items lost" if problem.lost else "lost items can not be counted"
            print(f"  {where}: {problem.why} ({lost})")
        for line in report.structure:
            print(f"  the database says: {line}")
        if report.kept:
            print(f"  mended; the old file is kept as {report.kept}")
        elif not report.sound and not mend:
            print("  turnbuckle doctor --mend cuts the damage out and keeps what is sound")
    values = [value for value in loaded.explain() if value.source != DEFAULT]
    print("settings that are not the defaults (--json lists all):" if values else "settings: all defaults")
    width = max((len(value.key) for value in values), default=0)
    for value in values:
        print(f"  {value.key:<{width}}  {value.value}  ({value.source})")
