"""What people allow for good holds at all nodes on a database, and at none once it is taken away."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from support.journals.postgres_bench import PostgresBench

from turnbuckle.cli import rules as commands
from turnbuckle.journal.port import StorageError
from turnbuckle.runtime import shared_consent
from turnbuckle.runtime.consent_book import ConsentBook, OwnersRules
from turnbuckle.runtime.shared_consent import TAKEN, SharedConsentBook, open_rule_book
from turnbuckle.turn.consent import ConsentRule

MAKE, LIST, TEST = (ConsentRule("shell", "allow", command) for command in ("make", "ls", "make test"))
pytestmark = [pytest.mark.requirement("H10"), pytest.mark.requirement("K7")]


def played(scene):
    """Play a scene with the books of two processes on a new database."""

    async def main():
        bench = await PostgresBench().open()
        other = await bench.another()
        try:
            async with asyncio.timeout(100):
                books = [SharedConsentBook(journal.nodes.rules) for journal in (bench.journal, other)]
                return await scene(bench, *books)
        finally:
            await other.close()
            await bench.close()

    return asyncio.run(main())


async def seen(rules: OwnersRules) -> list[str]:
    """By what a call would be judged now."""
    await rules.look()
    return [rule.pattern for rule in rules()]


def test_what_is_given_at_one_node_holds_at_the_other_until_it_is_taken_away_at_either():
    async def scene(bench, one, other):
        ann, bob = other.for_run("ann"), other.for_run("bob")
        assert await seen(ann) == []
        await one.add("ann", (MAKE,), 1.0)
        await one.add("ann", (LIST,), 2.0)
        assert (await seen(ann), await seen(bob)) == (["make", "ls"], [])
        assert await one.listed("ann") == await other.listed(None)
        known = ann()
        await ann.look()
        assert ann() is known  # nothing is made anew for each call
        make = known[0].id
        assert await one.remove(make, "bob") is None
        assert await seen(ann) == ["make", "ls"]
        assert (await one.remove(make, "ann")) == known[0]
        assert await seen(ann) == ["ls"]
        assert await other.remove(make) is None

    played(scene)


def test_nodes_that_add_at_the_same_time_lose_nothing_and_the_oldest_go_first(
    monkeypatch: pytest.MonkeyPatch,
):
    async def scene(bench, one, other):
        rules = [ConsentRule("shell", "allow", str(number)) for number in range(12)]
        await asyncio.gather(
            *((one, other)[at % 2].add("ann", (rule, MAKE), float(at)) for at, rule in enumerate(rules))
        )
        assert sorted(await seen(one.for_run("ann"))) == sorted(["make", *map(str, range(12))])
        await other.add("bob", (LIST,), 1.0)
        monkeypatch.setattr(shared_consent, "MOST_RULES", 2)
        await other.add("ann", (TEST,), 99.0)
        assert len(await seen(one.for_run("ann"))) == 2
        assert (await seen(one.for_run("ann")))[-1] == "make test"
        assert await seen(one.for_run("bob")) == ["ls"]

    played(scene)


def test_while_the_database_cannot_be_asked_nothing_holds_and_what_cannot_be_read_never_does():
    async def scene(bench, one, other):
        ann = other.for_run("ann")
        await one.add("ann", (MAKE,), 1.0)
        assert await seen(ann) == ["make"]
        bench.server.sql(f"ALTER TABLE {bench.schema}.consent_rule RENAME TO away")
        assert await seen(ann) == []
        await one.add("ann", (LIST,), 2.0)  # whoever answers is not told of it: the answer itself is stored
        with pytest.raises(StorageError):
            await one.remove("any", "ann")
        bench.server.sql(f"ALTER TABLE {bench.schema}.away RENAME TO consent_rule")
        assert await seen(ann) == ["make"]
        bench.server.sql(f"UPDATE {bench.schema}.consent_rule SET data = '\\xff'")
        assert await seen(ann) == []

    played(scene)


def test_rules_of_a_folder_are_taken_into_the_database_once(tmp_path: Path):
    async def scene(bench, one, other):
        file = tmp_path / "allowed.json"
        for at, rule in enumerate((MAKE, LIST)):
            await ConsentBook(file).add("ann", (rule,), at)
        book = await open_rule_book(tmp_path, bench.journal.nodes.rules)
        assert await seen(other.for_run("ann")) == ["make", "ls"]
        assert (file.exists(), (tmp_path / TAKEN).exists()) == (False, True)
        for rule in await book.listed("ann"):
            await book.remove(rule.id)
        await open_rule_book(tmp_path, bench.journal.nodes.rules)
        assert await seen(other.for_run("ann")) == []
        # If the database does not take them, they wait where they were.
        await ConsentBook(file).add("ann", (TEST,), 1.0)
        bench.server.sql(f"ALTER TABLE {bench.schema}.consent_rule RENAME TO away")
        await open_rule_book(tmp_path, bench.journal.nodes.rules)
        assert [rule.pattern for rule in ConsentBook(file).all()] == ["make test"]

    played(scene)


def test_the_command_shows_and_removes_rules_of_the_database_and_of_a_folder_that_is_not_taken_in_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)

    def listed() -> list[dict[str, str]]:
        assert commands.list_rules(as_json=True) == 0
        return msgspec.json.decode(capsys.readouterr().out)

    async def scene(bench, one, other):
        monkeypatch.setenv("TURNBUCKLE_DATA", bench.url)
        monkeypatch.setenv("TURNBUCKLE_FILES", str(tmp_path / "files"))
        await one.add("ann", (MAKE,), 1.0)
        await ConsentBook(tmp_path / "files" / "allowed.json").add("bob", (LIST,), 2.0)
        rows = await asyncio.to_thread(listed)
        assert [(row["owner"], row["pattern"]) for row in rows] == [("ann", "make"), ("bob", "ls")]
        for row in rows:
            assert await asyncio.to_thread(commands.remove, row["id"]) == 0
        assert await asyncio.to_thread(commands.remove, rows[0]["id"]) == 2
        assert await asyncio.to_thread(listed) == []
        assert await seen(other.for_run("ann")) == []

    played(scene)
