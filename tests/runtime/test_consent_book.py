"""What people allow for good is kept in a file that belongs to them, too."""

import asyncio
from pathlib import Path

import pytest

from turnbuckle.runtime.consent_book import ConsentBook, read_rules
from turnbuckle.turn.consent import ConsentRule

MAKE, LIST, TEST = (ConsentRule("shell", "allow", command) for command in ("make", "ls", "make test"))


@pytest.mark.requirement("H10")
def test_a_rule_that_somebody_took_out_of_the_file_does_not_come_back_with_the_next(tmp_path: Path):
    file = tmp_path / "data" / "allowed.json"
    book = ConsentBook(file)
    asyncio.run(book.add((MAKE, LIST)))
    assert read_rules(file) == book.rules == (MAKE, LIST)
    assert file.stat().st_mode & 0o077 == 0
    file.write_text('[{"tool": "shell", "rule": "allow", "pattern": "ls"}]')
    asyncio.run(book.add((TEST,)))
    assert read_rules(file) == book.rules == (LIST, TEST)


@pytest.mark.requirement("H10")
@pytest.mark.parametrize("mistake", [b"[{", b"{}", b'[{"tool": 1}]', b"\xff", b""])
def test_a_file_with_a_mistake_allows_nothing_and_is_not_written_over(mistake: bytes, tmp_path: Path):
    file = tmp_path / "allowed.json"
    file.write_bytes(mistake)
    book = ConsentBook(file)
    assert book.rules == ()
    asyncio.run(book.add((MAKE,)))
    assert read_rules(file) == (MAKE,)
    assert (tmp_path / "allowed.damaged").read_bytes() == mistake


@pytest.mark.requirement("H10")
def test_a_rule_that_cannot_be_stored_holds_here_and_is_stored_with_the_next(tmp_path: Path):
    file = tmp_path / "data" / "allowed.json"
    (tmp_path / "data").write_text("in the way")
    book = ConsentBook(file)
    asyncio.run(book.add((MAKE,)))
    assert book.rules == (MAKE,)
    (tmp_path / "data").unlink()
    asyncio.run(book.add((LIST,)))
    assert read_rules(file) == book.rules == (MAKE, LIST)
