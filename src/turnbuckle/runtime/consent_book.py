"""The rules that people gave by allowing something for good.

They lie in one file of the data folder, which is no part of the workspace: no file tool can write there. They
stand beside those of the settings, and of equally narrow rules the strictest decides. What the settings deny
is denied, however narrow a rule is that somebody gave before. Whoever wants one no more takes it out of the
file.
"""

import asyncio
import logging
import os
from pathlib import Path

import msgspec
from msgspec.structs import replace

from turnbuckle.turn.consent import ConsentRule
from turnbuckle.turn.policy import Policy

NAME = "allowed.json"
MOST_RULES = 1_000
_LARGEST = 1 << 20

log = logging.getLogger("turnbuckle.consent")


class ConsentBook:
    """`file` None: they are forgotten with the process."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._adding = asyncio.Lock()
        self._unstored: tuple[ConsentRule, ...] = ()
        self.rules: tuple[ConsentRule, ...] = () if file is None else read_rules(file)

    def within(self, policy: Policy) -> Policy:
        """The rules of a turn, with these."""
        return replace(policy, allowed=self.rules) if self.rules else policy

    async def add(self, rules: tuple[ConsentRule, ...]) -> None:
        """From here on these hold, too. If they cannot be stored they hold for this process. What somebody
        took out of the file meanwhile does not come back."""
        async with self._adding:
            if self._file is None:
                self.rules = _joined(self.rules, rules)
                return
            self._unstored = _joined(self._unstored, rules)
            try:
                self.rules = await asyncio.to_thread(_stored, self._file, self._unstored)
                self._unstored = ()
            except OSError as error:
                self.rules = _joined(self.rules, rules)
                log.error("a rule cannot be stored in %s: %s", self._file, error)


def read_rules(file: Path) -> tuple[ConsentRule, ...]:
    """The rules of a file; none if there is no file, or nobody can read it: then people are asked again."""
    try:
        return _read(file)
    except (OSError, msgspec.DecodeError) as error:
        log.error("%s cannot be read, so nothing in it is allowed: %s", file, error)
        return ()


def _read(file: Path) -> tuple[ConsentRule, ...]:
    try:
        with open(file, "rb") as opened:
            return msgspec.json.decode(opened.read(_LARGEST), type=tuple[ConsentRule, ...])
    except FileNotFoundError:
        return ()


def _joined(known: tuple[ConsentRule, ...], rules: tuple[ConsentRule, ...]) -> tuple[ConsentRule, ...]:
    return (*known, *(rule for rule in rules if rule not in known))[-MOST_RULES:]


def _stored(file: Path, rules: tuple[ConsentRule, ...]) -> tuple[ConsentRule, ...]:
    """The rules of the file with these, once they are in it. A file with a mistake is kept under another
    name: somebody wrote it."""
    try:
        known = _read(file)
    except msgspec.DecodeError:
        os.replace(file, file.with_suffix(".damaged"))
        known = ()
    made = _joined(known, rules)
    if made != known:
        _write(file, made)
    return made


def _write(file: Path, rules: tuple[ConsentRule, ...]) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(rules)) + b"\n")
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(new, file)
