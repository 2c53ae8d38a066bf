"""Tests leave nothing in the project, nor do the programs that they start: a data folder there would be taken for somebody
else's by whoever starts the server next. A run that leaves something fails, and says what."""

import os

import pytest

_CACHES = {".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__", "build"}
_before = pytest.StashKey[set[str]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[_before] = set(os.listdir(session.config.rootpath))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if left_behind(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := left_behind(config):
        terminalreporter.section("left in the project")
        terminalreporter.write_line(" ".join(left))


def left_behind(config: pytest.Config) -> list[str]:
    """What was not there when the tests began."""
    before = config.stash[_before]
    return sorted(set(os.listdir(config.rootpath)) - before - _CACHES)
