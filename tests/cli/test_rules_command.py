"""`turnbuckle rules`: what was always allowed is seen and taken away, without a server too."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from support.http.all_endpoints import DOCUMENT
from support.processes.commands import command

from turnbuckle.runtime.consent_book import ConsentBook
from turnbuckle.turn.consent import ConsentRule


@pytest.mark.process
@pytest.mark.requirement("H10")
def test_a_rule_is_listed_and_taken_away_by_a_command(tmp_path: Path):
    nothing = command(tmp_path, "rules", "list")
    assert (nothing.code, "nothing is always allowed" in nothing.err) == (0, True)
    book = ConsentBook(tmp_path / ".turnbuckle" / "allowed.json")
    asyncio.run(book.add("ann", (ConsentRule("shell", "allow", "make test"),)))
    (row,) = msgspec.json.decode(command(tmp_path, "rules", "list", "--json").out)
    assert (row["text"], row["owner"]) == ('"shell:make test" = "allow"', "ann")
    assert set(row) == set(DOCUMENT["components"]["schemas"]["RuleView"]["properties"])
    listed = command(tmp_path, "rules", "list").out
    assert all(word in listed for word in (row["id"], "ann", '"shell:make test" = "allow"'))
    gone = msgspec.json.decode(command(tmp_path, "rules", "remove", row["id"], "--json").out)
    assert gone == {"id": row["id"], "object": "rule", "deleted": True}
    assert book.all() == ()
    unknown = command(tmp_path, "rules", "remove", row["id"])
    assert (unknown.code, "turnbuckle rules list" in unknown.err) == (2, True)
