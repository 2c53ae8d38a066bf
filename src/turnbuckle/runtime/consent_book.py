"""The rules that people gave by allowing something for good.

Beside a journal in a folder they lie in one file of the data folder (`shared_consent` has those of a
database), which is not part of the workspace: no file tool can write there. A
rule holds for runs of the owner who gave it. Rules stand beside those of the settings, and of equally narrow
rules the strictest decides. What the settings deny is denied, however narrow a rule is that somebody gave
before.

The file changes by a rename, under a lock, so that the command line can take rules away while a server runs.
Whoever judges a call looks at the file's stamp first: a rule that was taken away holds for no later call.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import asdict

from turnbuckle.turn.consent import ConsentRule
from turnbuckle.vocab.ids import LOCAL

NAME = "allowed.json"
MOST_RULES = 500
"""Of one owner. The oldest go first, and are asked about again."""
_LARGEST = 64 << 20

Rules = tuple["GivenRule", ...]
Change = Callable[[Rules], Rules]
log = logging.getLogger("turnbuckle.consent")


class GivenRule(ConsentRule, frozen=True, omit_defaults=True):
    """A rule with who gave it, and when."""

    owner: str = LOCAL
    at: float = 0.0

    @property
    def id(self) -> str:
        """The same for the same rule of the same owner, however often it was given."""
        named = "\0".join((self.owner, self.tool, self.rule, self.pattern))
        return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:12]


class OwnersRules(Protocol):
    """What one owner has allowed, for one run of theirs."""

    def __call__(self) -> Rules:
        """As it is at this moment, or was with the last look."""
        ...

    async def look(self) -> None:
        """Find out what holds, before a call is judged by it. If nobody can tell, nothing holds."""
        ...


class RuleBook(Protocol):
    """The rules of all owners."""

    def for_run(self, owner: str) -> OwnersRules: ...

    async def listed(self, owner: str | None) -> Rules:
        """What this owner has allowed, or all have; the oldest first. Raises StorageError."""
        ...

    async def add(self, owner: str, rules: tuple[ConsentRule, ...], at: float | None = None) -> None:
        """From here on these hold for this owner, too. Does not raise if they cannot be stored."""
        ...

    async def remove(self, rule: str, owner: str | None = None) -> GivenRule | None:
        """Take a rule away by its id; None if the owner has no such rule. Raises OSError and StorageError if
        that cannot be stored; the rule still holds then."""
        ...


class _RulesInFile:
    """Every look at them is one at the file's stamp."""

    def __init__(self, book: "ConsentBook", owner: str) -> None:
        self._book = book
        self._owner = owner

    def __call__(self) -> Rules:
        return self._book.of(self._owner)

    async def look(self) -> None:
        """They are looked at when they are asked for."""


class ConsentBook:
    """`file` None: they are forgotten with the process."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._changing = asyncio.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._stored: Rules = ()
        self._unstored: Rules = ()
        self._by_owner: dict[str, Rules] = {}

    def of(self, owner: str) -> Rules:
        """What this owner has allowed, the oldest first."""
        self._refresh()
        return self._by_owner.get(owner or LOCAL, ())

    def all(self) -> Rules:
        """What all owners have allowed."""
        self._refresh()
        return tuple(rule for rules in self._by_owner.values() for rule in rules)

    def for_run(self, owner: str) -> OwnersRules:
        return _RulesInFile(self, owner)

    async def listed(self, owner: str | None) -> Rules:
        return self.all() if owner is None else self.of(owner)

    async def add(self, owner: str, rules: tuple[ConsentRule, ...], at: float | None = None) -> None:
        """From here on these hold for this owner, too. If they cannot be stored they hold for this process.
        What somebody took out of the file meanwhile does not come back."""
        given = given_by(owner, rules, at)
        self._unstored = _joined(self._unstored, given)
        self._sort()
        async with self._changing:
            wanted = self._unstored
            try:
                await self._change(lambda known: _joined(known, wanted))
                self._unstored = tuple(rule for rule in self._unstored if rule not in wanted)
            except OSError as error:
                log.error("a rule cannot be stored in %s: %s", self._file, error)
            self._sort()

    async def remove(self, rule: str, owner: str | None = None) -> GivenRule | None:
        """Take a rule away by its id; None if the owner has no such rule. Raises OSError if that cannot be
        stored; the rule still holds then."""
        async with self._changing:
            found = next((one for one in self.all() if one.id == rule and owner in (None, one.owner)), None)
            if found is not None:
                if any(one.id == rule for one in self._stored):
                    await self._change(lambda known: _without(known, found))
                self._unstored = tuple(one for one in self._unstored if one != found)
                self._sort()
            return found

    async def _change(self, change: Change) -> None:
        if self._file is None:
            self._stored = change(self._stored)
        else:
            self._stored, self._stamp = await asyncio.to_thread(_changed, self._file, change)

    def _refresh(self) -> None:
        if self._file is None:
            return
        stamp = _stamp(self._file)
        if stamp != self._stamp:
            self._stamp, self._stored = stamp, read_rules(self._file)
            self._sort()

    def _sort(self) -> None:
        self._by_owner = {}
        for rule in _joined(self._stored, self._unstored):
            self._by_owner[rule.owner] = (*self._by_owner.get(rule.owner, ()), rule)


def read_rules(file: Path) -> Rules:
    """The rules of a file; none if there is no file, or nobody can read it: then people are asked again."""
    try:
        return _read(file)
    except (OSError, msgspec.DecodeError) as error:
        log.error("%s cannot be read, so nothing in it is allowed: %s", file, error)
        return ()


def given_by(owner: str, rules: tuple[ConsentRule, ...], at: float | None = None) -> Rules:
    """The rules of an owner who gives them at this moment."""
    now = time.time() if at is None else at
    return tuple(_given(rule, owner or LOCAL, now) for rule in rules)


def _given(rule: ConsentRule, owner: str, at: float) -> GivenRule:
    plain = {name: value for name, value in asdict(rule).items() if name in ConsentRule.__struct_fields__}
    return GivenRule(**plain, owner=owner, at=at)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(file)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(file: Path) -> Rules:
    try:
        with open(file, "rb") as opened:
            return msgspec.json.decode(opened.read(_LARGEST), type=tuple[GivenRule, ...])
    except FileNotFoundError:
        return ()
    except (UnicodeDecodeError, RecursionError) as error:  # letters that are none, or too many brackets
        raise msgspec.DecodeError(str(error)) from None


def _joined(known: Rules, rules: Rules) -> Rules:
    """With these behind them. One that is given again takes the place of the old one."""
    again = {rule.id for rule in rules}
    made = (*(rule for rule in known if rule.id not in again), *rules)
    crowded = {owner for owner in {rule.owner for rule in rules} if _count(made, owner) > MOST_RULES}
    for owner in crowded:
        oldest = [rule for rule in made if rule.owner == owner][:-MOST_RULES]
        made = tuple(rule for rule in made if rule not in oldest)
    return made


def _count(rules: Rules, owner: str) -> int:
    return sum(rule.owner == owner for rule in rules)


def _without(rules: Rules, gone: GivenRule) -> Rules:
    return tuple(rule for rule in rules if rule.id != gone.id)


def _changed(file: Path, change: Change) -> tuple[Rules, tuple[int, int, int] | None]:
    """The rules of the file after a change, once they are in it. A file with a mistake is kept under another
    name: somebody wrote it."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(file):
        try:
            known = _read(file)
        except msgspec.DecodeError:
            os.replace(file, file.with_suffix(".damaged"))
            known = ()
        made = change(known)
        if made != known:
            _write(file, made)
        return made, _stamp(file)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    lock = os.open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _write(file: Path, rules: Rules) -> None:
    new = file.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(rules)) + b"\n")
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(new, file)
