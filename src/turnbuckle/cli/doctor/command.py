"""`turnbuckle doctor`: is all well? The journal, what is in it, who may use the server, the disk, and the
set-up, each problem with the way to fix it."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from cyclopts import App
from msgspec import Struct

from turnbuckle.app import open_reader, processes_of, writer_of
from turnbuckle.call.loop import run as run_loop
from turnbuckle.cli.config import fail
from turnbuckle.cli.doctor.finding import Finding, all_well
from turnbuckle.cli.doctor.objects import check_objects
from turnbuckle.cli.doctor.setup import (
    check_folders,
    check_mcp,
    check_online,
    check_program,
    check_routes,
    check_rules,
    check_sandbox,
    check_secrets,
    check_server,
    check_trust,
    read_settings,
    versions,
)
from turnbuckle.cli.doctor.store import cause_of, check_store
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import FAILED, OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Flag, Json
from turnbuckle.cli.stored_keys import all_keys
from turnbuckle.config import DEFAULT, Loaded
from turnbuckle.errors import ConfigError
from turnbuckle.journal.address import is_database, shown
from turnbuckle.journal.port import InUse, JournalError, StorageError, StreamQuery, StreamRow
from turnbuckle.journal.report import JournalReport
from turnbuckle.journal.sqlite.folder import DATABASE
from turnbuckle.runtime.held_session import ACTIVE
from turnbuckle.runtime.held_session import KIND as SESSION
from turnbuckle.runtime.runs import KIND as RUN
from turnbuckle.runtime.runs import RUNNING, listed
from turnbuckle.server.http.origins import is_loopback
from turnbuckle.tools.background import BackgroundProcess
from turnbuckle.trust import is_trusted, refusal, risks_in
from turnbuckle.turn.labels import shortened
from turnbuckle.upkeep import CompactedJournal, check_journal, compact_journal, folder_size, mend_journal

app = App(name="doctor", help="Check everything: set-up, journal, sessions, keys, disk, settings.")
_LISTED = 10


class Contents(Struct, frozen=True):
    """What is in a journal. `writer` is who has it at this moment."""

    sessions: int
    waiting: int
    runs: dict[str, int]
    unfinished: tuple[StreamRow, ...]
    writer: str = ""


class DiskUse(Struct, frozen=True):
    """Bytes of the data folder, of parts of it, and what is free beside it."""

    data: int
    journal: int
    outputs: int
    free: int


class Keys(Struct, frozen=True):
    """Who may use the server: keys that were made, keys that stand in the settings."""

    good: int
    revoked: int
    settings: int


@app.default
def doctor(
    *,
    config: Config = None,
    mend: Flag = False,
    compact: Flag = False,
    online: Flag = False,
    as_json: Json = False,
) -> int:
    """Look at everything: the journal and what is in it, who may use the server, the settings in effect and
    their routes. Whatever is not well is told with what to do about it, and then the exit code is 1.

    Looking works beside a living process; mending and compacting need the journal to themselves.

    Parameters
    ----------
    mend
        Cut damage out, such as a torn tail. What is sound is kept, and the old file stays beside the new one.
    compact
        Do now what the settings say of keeping (session.keep_deltas_days, session.keep_relays_hours), and
        give the room back to the disk.
    online
        Also ask every route for a few words and one tool call.
    """
    loaded = read_settings(config)
    if isinstance(loaded, Finding):
        return _told_alone([*check_program(), loaded], as_json=as_json)
    if not is_trusted(loaded) and (mend or compact or online):
        return fail(refusal(loaded.file, risks_in(loaded)), USAGE_ERROR)
    try:
        report = run_loop(mend_journal(loaded) if mend else check_journal(loaded))
        sound = report is None or report.sound or bool(report.kept)
        if compact and not sound:
            return fail("the journal is damaged: turnbuckle doctor --mend comes first", FAILED)
        compacted = run_loop(compact_journal(loaded)) if compact else None
        if compacted is not None:
            report = run_loop(check_journal(loaded))
        contents = run_loop(_contents(loaded))
    except ConfigError as error:
        return fail(error, USAGE_ERROR)
    except InUse as error:
        return fail(f"{error}; stop it first", FAILED)
    except StorageError as error:
        return fail(cause_of(error), FAILED)
    setup = (*_setup(loaded, online=online), *check_store(Path(loaded.settings.folder)))
    found = _Found(
        loaded, report, contents, _disk(loaded, report), _keys(loaded), compacted, processes_of(loaded), setup
    )
    if as_json:
        echo_json(found.as_values())
    else:
        found.print_all(mend)
    return OK if sound and all_well(setup) else FAILED


def _setup(loaded: Loaded, *, online: bool) -> tuple[Finding, ...]:
    """Everything that can be found out about the set-up."""
    settings, environment = loaded.settings, dict(os.environ)
    routes, good = check_routes(settings, environment)
    return (
        *check_program(),
        *check_folders(settings),
        *check_trust(loaded),
        *check_rules(settings, load_modules=is_trusted(loaded)),
        *check_sandbox(loaded),
        *(run_loop(check_mcp(loaded, environment)) if is_trusted(loaded) else ()),
        *(run_loop(check_objects(settings.objects, environment)) if is_trusted(loaded) else ()),
        *routes,
        *(run_loop(check_online(good, settings)) if online else ()),
        *check_server(loaded, environment),
        *check_secrets(loaded),
    )


def _told_alone(findings: list[Finding], *, as_json: bool) -> int:
    """The settings cannot be read, so there is nothing else to look at."""
    if as_json:
        echo_json({"well": False, "findings": findings, "versions": versions()})
    else:
        _print_findings(findings)
    return FAILED


def _print_findings(findings: Iterable[Finding]) -> None:
    echo("set-up:")
    for finding in findings:
        echo(*finding.lines())


async def _contents(loaded: Loaded) -> Contents | None:
    """None if there is no journal yet, or if it is too damaged to tell."""
    try:
        async with open_reader(loaded) as reader:
            if reader is None:
                return None
            sessions, runs = (
                await listed(reader, StreamQuery(kind=SESSION)),
                await listed(reader, StreamQuery(kind=RUN)),
            )
            writer = writer_of(reader).strip()
    except JournalError:
        return None
    return Contents(
        len(sessions),
        sum(row.status == ACTIVE for row in sessions),
        dict(Counter(row.status for row in runs if row.status != RUNNING)),
        tuple(row for row in runs if row.status == RUNNING),
        writer,
    )


def _disk(loaded: Loaded, report: JournalReport | None) -> DiskUse:
    folder = Path(loaded.settings.folder)
    there = next(place for place in (folder, *folder.parents) if place.exists())
    journal = sum(file.stat().st_size for file in folder.glob(f"{DATABASE}*")) if folder.is_dir() else 0
    if is_database(loaded.settings.data) and report is not None:
        journal = report.bytes
    return DiskUse(folder_size(folder), journal, folder_size(folder / "kept"), shutil.disk_usage(there).free)


def _keys(loaded: Loaded) -> Keys | str:
    """Or why they cannot be read."""
    try:
        keys = all_keys(loaded)
    except ConfigError as error:
        return str(error)
    revoked = sum(key.revoked is not None for key in keys)
    return Keys(len(keys) - revoked, revoked, len(loaded.settings.server.api_keys))


class _Found(Struct, frozen=True):
    """All that was found."""

    loaded: Loaded
    report: JournalReport | None
    contents: Contents | None
    disk: DiskUse
    keys: Keys | str
    compacted: CompactedJournal | None
    processes: tuple[BackgroundProcess, ...] = ()
    findings: tuple[Finding, ...] = ()

    def as_values(self) -> dict[str, Any]:
        contents = self.contents
        unfinished = (
            [] if contents is None else [{"run": row.name, "task": row.title} for row in contents.unfinished]
        )
        counted = None if contents is None else {**msgspec.to_builtins(contents), "unfinished": unfinished}
        return {
            "folder": self.loaded.settings.folder,
            "place": shown(self.loaded.settings.data),
            "journal": msgspec.to_builtins(self.report),
            "sound": self.report is None or self.report.sound,
            "contents": counted,
            "keys": msgspec.to_builtins(self.keys),
            "disk": msgspec.to_builtins(self.disk),
            "compacted": msgspec.to_builtins(self.compacted),
            "processes": msgspec.to_builtins(self.processes),
            "well": (self.report is None or self.report.sound) and all_well(self.findings),
            "findings": msgspec.to_builtins(self.findings),
            "versions": versions(),
            "settings": [msgspec.to_builtins(value) for value in self.loaded.explain()],
        }

    def print_all(self, mend: bool) -> None:
        echo(f"journal: {shown(self.loaded.settings.data)}")
        self._print_report(mend)
        if self.compacted is not None:
            swept, before, after = self.compacted.swept, self.compacted.before, self.compacted.after
            did = f"{swept.merged} runs merged, {swept.deleted} deleted, outputs of {swept.outputs} removed"
            echo(f"  compacted: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after; {did}")
        if self.contents is not None:
            self._print_contents(self.contents)
        self._print_processes()
        self._print_keys()
        disk = self.disk
        parts = f"journal {disk.journal / 1e6:.1f} MB, outputs of tools {disk.outputs / 1e6:.1f} MB"
        echo(f"disk: {disk.data / 1e6:.1f} MB in all ({parts}); {disk.free / 1e9:.1f} GB free")
        self._print_settings()
        _print_findings(self.findings)

    def _print_report(self, mend: bool) -> None:
        report = self.report
        if report is None:
            echo("  there is none yet")
            return
        size = f"{report.streams:,} streams, {report.items:,} items, {report.bytes / 1e6:.1f} MB"
        echo(f"  {'sound' if report.sound else 'DAMAGED'}: {size}, format {report.format}")
        for problem in report.problems:
            where = f"stream {problem.stream or '?'}" + (
                f", from item {problem.seq} on" if problem.seq is not None else ""
            )
            lost = f"{problem.lost} items lost" if problem.lost else "lost items cannot be counted"
            echo(f"  {where}: {problem.why} ({lost})")
        for line in report.structure:
            echo(f"  the database says: {line}")
        if report.kept:
            what = (
                "what was cut out is in" if report.kept.startswith("the table") else "the old file is kept as"
            )
            echo(f"  mended; {what} {report.kept}")
        elif not report.sound and not mend:
            echo("  turnbuckle doctor --mend cuts the damage out and keeps what is sound")

    def _print_contents(self, contents: Contents) -> None:
        if contents.writer:
            echo(f"  in use by {contents.writer}")
        waiting = f", {contents.waiting} with messages that wait" if contents.waiting else ""
        echo(f"sessions: {contents.sessions:,}{waiting}")
        ended = (
            ", ".join(f"{count:,} {status}" for status, count in sorted(contents.runs.items()))
            or "none has ended"
        )
        echo(f"runs: {ended}; {len(contents.unfinished):,} without an end")
        for row in contents.unfinished[:_LISTED]:
            echo(f"  {row.name}  {shortened(row.title, 60)}".rstrip())
        if len(contents.unfinished) > _LISTED:
            echo(f"  and {len(contents.unfinished) - _LISTED:,} more: turnbuckle runs list --unfinished")
        if contents.unfinished and not contents.writer:
            echo("  turnbuckle serve takes them up; turnbuckle runs resume goes on with one")

    def _print_processes(self) -> None:
        if not self.processes:
            return
        counts = Counter(process.state for process in self.processes)
        echo(
            "background processes: "
            f"{', '.join(f'{count} {state}' for state, count in sorted(counts.items()))}"
        )
        for process in [one for one in self.processes if one.state in ("running", "lost")][:_LISTED]:
            echo(f"  {process.id}  {process.state}, pid {process.pid}: {shortened(process.command, 60)}")

    def _print_keys(self) -> None:
        keys = self.keys
        if isinstance(keys, str):
            echo(f"keys: {keys}")
        elif not keys.good and not keys.settings:
            host = self.loaded.settings.server.host
            near = "a server listens on this machine only, and asks nobody for one"
            echo(f"keys: none; {near if is_loopback(host) else f'a server on {host} needs one'}")
        else:
            revoked = f", {keys.revoked} revoked" if keys.revoked else ""
            echo(f"keys: {keys.good} made with `turnbuckle keys`{revoked}, {keys.settings} in the settings")

    def _print_settings(self) -> None:
        values = [value for value in self.loaded.explain() if value.source != DEFAULT]
        echo("settings that are not the defaults (--json lists all):" if values else "settings: all defaults")
        width = max((len(value.key) for value in values), default=0)
        for value in values:
            echo(f"  {value.key:<{width}}  {value.value}  ({value.source})")
