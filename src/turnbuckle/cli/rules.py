"""`turnbuckle rules`: what "always" has allowed. Works beside running servers, which notice at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from cyclopts import App

from turnbuckle.cli.config import fail, load_for
from turnbuckle.cli.echo import echo, echo_json
from turnbuckle.cli.exits import OK, USAGE_ERROR
from turnbuckle.cli.options import Config, Json, Key, Server
from turnbuckle.cli.remote import remote_at
from turnbuckle.cli.run import guarded
from turnbuckle.cli.table import LONGEST, day_of, echo_table
from turnbuckle.errors import RuleUnknown
from turnbuckle.journal.opening import rules_at
from turnbuckle.runtime.consent_book import NAME, ConsentBook
from turnbuckle.runtime.shared_consent import SharedConsentBook
from turnbuckle.service.rules import RuleService, RuleView
from turnbuckle.turn.labels import shortened

app = App(name="rules", help='What "always" has allowed: list, remove.')


@app.command(name="list")
def list_rules(*, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False) -> int:
    """List the rules, the oldest first. Rules of the settings are not among them."""

    async def act() -> int:
        rows: list[dict[str, Any]] = (
            await remote_at(server, key).every("/v1/rules")
            if server
            else msgspec.to_builtins(await _listed(config))
        )
        if as_json:
            echo_json(rows, indented=True)
            return OK
        cells = [
            (row["id"], day_of(row["created_at"]), row["owner"], shortened(row["text"], LONGEST))
            for row in rows
        ]
        echo_table(("rule", "given", "owner", "allows"), cells)
        if not rows:
            echo("nothing is always allowed", err=True)
        return OK

    return guarded(act)


@app.command
def remove(
    rule: str, /, *, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False
) -> int:
    """Remove a rule. The next call that it would have allowed asks first.

    Parameters
    ----------
    rule
        Its id as the list shows it.
    """

    async def act() -> int:
        if server:
            await remote_at(server, key).ask("DELETE", f"/v1/rules/{quote(rule, safe='')}")
        else:
            try:
                await _removed(config, rule)
            except RuleUnknown as error:
                return fail(f"{error}; `turnbuckle rules list` shows them all", USAGE_ERROR)
        if as_json:
            echo_json({"id": rule, "object": "rule", "deleted": True})
        else:
            echo(f"{rule} is removed", err=True)
        return OK

    return guarded(act)


async def _listed(config: Path | None) -> list[RuleView]:
    async with _services(config) as services:
        return [rule for service in services for rule in await service.list(None)]


async def _removed(config: Path | None, rule: str) -> None:
    async with _services(config) as services:
        gone = [service for service in services if any(one.id == rule for one in await service.list(None))]
        for service in gone or services[:1]:  # the first one says that there is none
            await service.remove(rule, None)


@asynccontextmanager
async def _services(config: Path | None) -> AsyncIterator[list[RuleService]]:
    """The rules of the folder, and those of a database. Where there is one, the folder's are taken into it
    when a server starts next."""
    settings = load_for(config).settings
    services = [RuleService(ConsentBook(Path(settings.folder) / NAME))]
    stored = await rules_at(settings.data)
    if stored is None:
        yield services
        return
    try:
        yield [RuleService(SharedConsentBook(stored)), *services]
    finally:
        await stored.close()
