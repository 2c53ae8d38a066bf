"""The rules that people gave by allowing something for good, where the journal is in a database.

They are rows there, for all nodes, and no node remembers any: a run asks before each round of calls that it
judges. So a rule that was taken away holds for no call that is judged later, wherever. If the database cannot
be asked, nothing holds, and a person is asked.

Rules in the file of the folder are from before: from a journal in a folder that was moved, or from a version
that had a file for each node. They are taken into the database when a process starts.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from turnbuckle.journal.port import JournalError
from turnbuckle.journal.rules import StoredRule, StoredRules
from turnbuckle.runtime.consent_book import (
    MOST_RULES,
    NAME,
    ConsentBook,
    GivenRule,
    OwnersRules,
    RuleBook,
    Rules,
    given_by,
    read_rules,
)
from turnbuckle.turn.consent import ConsentRule
from turnbuckle.vocab.ids import LOCAL

TAKEN = "allowed.taken"
"""What the file is called once its rules are in the database."""

log = logging.getLogger("turnbuckle.consent")


class SharedConsentBook:
    """The rules in a database."""

    def __init__(self, stored: StoredRules) -> None:
        self._stored = stored

    def for_run(self, owner: str) -> OwnersRules:
        return _RulesInDatabase(self, owner or LOCAL)

    async def listed(self, owner: str | None) -> Rules:
        return _read(await self._stored.listed(owner if owner is None else owner or LOCAL))

    async def add(self, owner: str, rules: tuple[ConsentRule, ...], at: float | None = None) -> None:
        """If they cannot be stored they hold in the run in which they were given, and nowhere else."""
        try:
            await self.take(given_by(owner, rules, at))
        except JournalError as error:
            log.error("a rule cannot be stored in the database, so it is asked about again: %s", error)

    async def take(self, rules: Rules) -> None:
        """Store rules that were given. Raises StorageError."""
        rows = [StoredRule(rule.id, rule.owner, rule.at, msgspec.json.encode(rule)) for rule in rules]
        await self._stored.add(rows, MOST_RULES)

    async def remove(self, rule: str, owner: str | None = None) -> GivenRule | None:
        gone = await self._stored.remove(rule, owner)
        return None if gone is None else next(iter(_read([gone])), None)


class _RulesInDatabase:
    """What an owner had allowed when a run last looked."""

    def __init__(self, book: SharedConsentBook, owner: str) -> None:
        self._book = book
        self._owner = owner
        self._rules: Rules = ()

    def __call__(self) -> Rules:
        return self._rules

    async def look(self) -> None:
        known, self._rules = self._rules, ()
        try:
            found = await self._book.listed(self._owner)
        except JournalError as error:
            log.warning("what %s has always allowed cannot be read, so it is asked: %s", self._owner, error)
            return
        self._rules = known if found == known else found


async def open_rule_book(folder: Path, stored: StoredRules | None) -> RuleBook:
    """The rules of a journal: in the file of its folder, or in its database."""
    if stored is None:
        return ConsentBook(folder / NAME)
    book = SharedConsentBook(stored)
    await _take_in(folder, book)
    return book


async def _take_in(folder: Path, book: SharedConsentBook) -> None:
    """Put the rules of a file into the database, once. The file gets another name first: if this process dies
    in between, people are asked again, and nothing comes back that was taken away meanwhile."""
    file, taken = folder / NAME, folder / TAKEN
    try:
        os.replace(file, taken)
    except FileNotFoundError:
        return
    except OSError as error:
        log.error("the rules in %s do not hold, since it cannot be renamed: %s", file, error)
        return
    rules = read_rules(taken)
    try:
        await book.take(rules)
    except JournalError as error:
        os.replace(taken, file)
        log.error("the rules in %s are not in the database yet: %s", file, error)
    else:
        log.info("%d rules of %s are in the database now, and hold at all servers", len(rules), file)


def _read(rows: Sequence[StoredRule]) -> Rules:
    """Without those that nobody can read: they are asked about."""
    found: list[GivenRule] = []
    for row in rows:
        try:
            found.append(msgspec.json.decode(row.data, type=GivenRule))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("the rule %s in the database cannot be read, so it does not hold: %s", row.id, error)
    return tuple(found)
