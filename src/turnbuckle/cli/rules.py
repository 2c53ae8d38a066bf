"""`turnbuckle rules`: what "always" has allowed. Works beside a running server, which notices at once."""

import time
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
from turnbuckle.cli.table import LONGEST, echo_table
from turnbuckle.errors import RuleUnknown
from turnbuckle.runtime.consent_book import NAME, ConsentBook
from turnbuckle.service.rules import RuleService
from turnbuckle.turn.labels import shortened

app = App(name="rules", help='What "always" has allowed: list, remove.')


@app.command(name="list")
def list_rules(*, server: Server = "", key: Key = "", config: Config = None, as_json: Json = False) -> int:
    """List the rules, the oldest first. Rules of the settings are not among them."""

    async def act() -> int:
        rows: list[dict[str, Any]] = (
            await remote_at(server, key).every("/v1/rules")
            if server
            else msgspec.to_builtins(_service(config).list(None))
        )
        if as_json:
            echo_json(rows, indented=True)
            return OK
        cells = [
            (row["id"], _day(row["created_at"]), row["owner"], shortened(row["text"], LONGEST))
            for row in rows
        ]
        echo_table(("rule", "given", "owner", "allows"), cells)
        if not rows:
            echo("nothing is always allowed", err=True)
        return OK

    return guarded(act)


@app.command
def remove(rule: str, /, *, server: Server = "", key: Key = "", config: Config = None) -> int:
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
                await _service(config).remove(rule, None)
            except RuleUnknown as error:
                return fail(f"{error}; `turnbuckle rules list` shows them all", USAGE_ERROR)
        echo(f"{rule} is removed", err=True)
        return OK

    return guarded(act)


def _service(config: Path | None) -> RuleService:
    return RuleService(ConsentBook(Path(load_for(config).settings.folder) / NAME))


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(moment)) if moment else ""
