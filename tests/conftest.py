"""Settings for every test: property tests are bounded by the test's own timeout, and repeat themselves in CI."""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.processes.folder_in_memory import use_memory
from support.server.one_folder import LEFT_OUT

pytest_plugins = [
    "support.processes.forked_workers",
    "support.processes.cpu_report",
    "support.processes.stalls",
    "support.processes.left_behind",
    "support.clients.client_harness",
    "support.processes.served_folder",
    "support.browser.chromium",
    "support.terminal.tmux",
]

_person = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("person", _person)
settings.register_profile("ci", _person, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "person")

use_memory()

# Nobody's own list of trusted files, and a place for what all workers share.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="turnbuckle-state-")
os.environ["TEST_WORLDS"] = tempfile.mkdtemp(prefix="turnbuckle-worlds-")
for folder in ("XDG_STATE_HOME", "TEST_WORLDS"):
    atexit.register(shutil.rmtree, os.environ[folder], ignore_errors=True)


def pytest_worker_began(folder: Path) -> None:
    """Each worker has a list of trusted files of its own: one for all would have thousands, read by every server."""
    from support.processes.commands import ENVIRONMENT  # noqa: PLC0415 - it keeps what stands in the environment

    os.environ["XDG_STATE_HOME"] = ENVIRONMENT["XDG_STATE_HOME"] = str(folder / "state")


_COUNTED = (
    "splits tried",
    "cuts tried",
    "mutants tried",
    "worlds tried",
    "power cuts tried",
    "kills tried",
    "requests fuzzed",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]):
    """Live tests that need one folder by their nature are left out where the journal is in a database."""
    left_out = LEFT_OUT.get(os.environ.get("TURNBUCKLE_TEST_STORE", ""))
    if left_out:
        gone = [item for item in items if f"{item.path.stem}.{item.name.partition('[')[0]}" in left_out]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish():
    """Twenty thousand tests are a million objects that live to the end. No search for garbage needs to look at them."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Say how much the enumerations tried, over all workers."""
    counts = dict.fromkeys(_COUNTED, 0)
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", []):
        for name, value in getattr(report, "user_properties", []):
            if name in counts and report.when == "call":
                counts[name] += value
    if any(counts.values()):
        told = ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count)
        terminalreporter.write_line(told)
