"""What people allow for good is kept in a file that belongs to them, too."""

import asyncio
from pathlib import Path

import pytest

from turnbuckle.runtime import consent_book
from turnbuckle.runtime.consent_book import ConsentBook, GivenRule, read_rules
from turnbuckle.turn.consent import ConsentRule

MAKE, LIST, TEST = (ConsentRule("shell", "allow", command) for command in ("make", "ls", "make test"))
pytestmark = pytest.mark.requirement("H10")


def patterns(rules: tuple[GivenRule, ...]) -> list[str]:
    return [rule.pattern for rule in rules]


def add(book: ConsentBook, *rules: ConsentRule, owner: str = "local") -> None:
    asyncio.run(book.add(owner, rules))


def test_a_rule_that_somebody_took_out_of_the_file_holds_no_more_and_does_not_come_back(tmp_path: Path):
    file = tmp_path / "data" / "allowed.json"
    book = ConsentBook(file)
    add(book, MAKE, LIST)
    assert read_rules(file) == book.of("local")
    assert patterns(book.of("local")) == ["make", "ls"]
    assert file.stat().st_mode & 0o077 == 0
    file.write_text('[{"tool": "shell", "rule": "allow", "pattern": "ls"}]')
    assert patterns(book.of("local")) == ["ls"]
    add(book, TEST)
    assert patterns(read_rules(file)) == patterns(book.of("local")) == ["ls", "make test"]


@pytest.mark.parametrize(
    "mistake",
    [
        *(b"[{", b"{}", b'[{"tool": 1}]', b"\xff", b""),
        pytest.param(b'[{"tool": "\xff", "rule": "allow"}]', id="no letters"),
        pytest.param(b'[{"tool": "a", "rule": "allow", "b": ' + b"[" * 100_000, id="brackets"),
    ],
)
def test_a_file_with_a_mistake_allows_nothing_and_is_not_written_over(mistake: bytes, tmp_path: Path):
    file = tmp_path / "allowed.json"
    file.write_bytes(mistake)
    book = ConsentBook(file)
    assert book.all() == ()
    add(book, MAKE)
    assert patterns(read_rules(file)) == ["make"]
    assert (tmp_path / "allowed.damaged").read_bytes() == mistake


def test_a_rule_that_cannot_be_stored_holds_here_and_is_stored_with_the_next(tmp_path: Path):
    file = tmp_path / "data" / "allowed.json"
    (tmp_path / "data").write_text("in the way")
    book = ConsentBook(file)
    add(book, MAKE)
    assert patterns(book.of("local")) == ["make"]
    (tmp_path / "data").unlink()
    add(book, LIST)
    assert patterns(read_rules(file)) == patterns(book.of("local")) == ["make", "ls"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_rule_holds_for_the_owner_who_gave_it_and_only_that_owner_can_take_it_away(kept, tmp_path: Path):
    file = tmp_path / "allowed.json" if kept else None
    book = ConsentBook(file)
    add(book, MAKE, owner="ann")
    add(book, MAKE, LIST, owner="bob")
    assert patterns(book.of("ann")) == ["make"]
    assert patterns(book.of("bob")) == ["make", "ls"]
    assert book.of("") == book.of("local") == ()
    of_ann = book.of("ann")[0].id
    assert asyncio.run(book.remove(of_ann, "bob")) is None
    assert patterns(book.of("ann")) == ["make"]
    gone = asyncio.run(book.remove(of_ann, "ann"))
    assert gone is not None
    assert book.of("ann") == ()
    assert patterns(book.of("bob")) == ["make", "ls"]
    if file is not None:
        assert ConsentBook(file).all() == book.all()


def test_a_rule_given_again_takes_the_place_of_the_old_one(tmp_path: Path):
    book = ConsentBook(tmp_path / "allowed.json")
    old, new = (ConsentRule("mcp__notes__add", "allow", mark=mark) for mark in ("1", "2"))
    add(book, old, LIST)
    add(book, new)
    assert [(rule.tool, rule.mark) for rule in book.of("local")] == [("shell", ""), ("mcp__notes__add", "2")]


def test_what_one_process_adds_while_another_takes_away_is_not_lost(tmp_path: Path):
    file = tmp_path / "allowed.json"
    server, command = ConsentBook(file), ConsentBook(file)
    add(server, MAKE, LIST)
    asyncio.run(command.remove(command.all()[0].id))
    assert patterns(server.of("local")) == ["ls"]
    add(server, TEST)
    assert patterns(command.of("local")) == ["ls", "make test"]


def test_of_too_many_rules_of_one_owner_the_oldest_go_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(consent_book, "MOST_RULES", 2)
    book = ConsentBook(tmp_path / "allowed.json")
    add(book, MAKE, owner="ann")
    for rule in (MAKE, LIST, TEST):
        add(book, rule, owner="bob")
    assert patterns(book.of("bob")) == ["ls", "make test"]
    assert patterns(book.of("ann")) == ["make"]


def test_a_rule_that_cannot_be_taken_out_of_the_file_still_holds_and_that_is_said(tmp_path: Path):
    file = tmp_path / "data" / "allowed.json"
    book = ConsentBook(file)
    add(book, MAKE)
    lock = file.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()  # root may write anywhere, but nobody opens a folder for writing
    with pytest.raises(OSError, match="directory"):
        asyncio.run(book.remove(book.all()[0].id))
    assert patterns(book.of("local")) == ["make"]


def test_a_rule_that_was_never_stored_can_be_taken_away_where_nothing_can_be_stored(tmp_path: Path):
    (tmp_path / "data").write_text("in the way")
    book = ConsentBook(tmp_path / "data" / "allowed.json")
    add(book, MAKE, LIST)
    gone = asyncio.run(book.remove(book.all()[0].id))
    assert gone is not None
    assert patterns(book.of("local")) == ["ls"]
