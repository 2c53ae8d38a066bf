"""`--cpu-report`: how much of a processor files and tests took, the processes it waited for included."""

import time
from collections import defaultdict
from collections.abc import Generator
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import pytest
from support.processes.forked_workers import cores


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("workers").addoption(
        "--cpu-report",
        type=int,
        default=0,
        metavar="N",
        help="say at the end which N files and tests took most of a processor, with the processes they started",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu-report"):
        config.pluginmanager.register(_Meter(config.getoption("--cpu-report")), "cpu-meter")


class _Meter:
    """Reads the time of processors after each phase of a test, and puts it into that phase's report."""

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._began = time.monotonic()
        self._before = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        self._before = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = cpu_seconds()
        report.cpu_seconds, self._before = now - self._before, now
        return report

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        taken: dict[str, float] = defaultdict(float)
        for reports in terminalreporter.stats.values():
            for report in reports:
                if hasattr(report, "cpu_seconds"):
                    taken[report.nodeid] += report.cpu_seconds
        files: dict[str, list[float]] = defaultdict(list)
        for test, seconds in taken.items():
            files[test.partition("::")[0]].append(seconds)
        say = terminalreporter.write_line
        terminalreporter.section("seconds of a processor")
        for file, each in sorted(files.items(), key=lambda row: -sum(row[1]))[: self._lines]:
            say(f"{sum(each):8.1f}  {file}, {len(each)} tests")
        for test, seconds in sorted(taken.items(), key=lambda row: -row[1])[: self._lines]:
            say(f"{seconds:8.1f}  {test}")
        tests, all_of_it = sum(taken.values()), cpu_seconds()
        had = cores() * (time.monotonic() - self._began)
        say(
            f"{tests:8.1f}  in {len(taken)} tests, and {all_of_it - tests:.1f} beside them; {had:.1f} were to be had"
        )


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(use.ru_utime + use.ru_stime for use in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))
