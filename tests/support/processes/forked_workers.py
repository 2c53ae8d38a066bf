"""`--workers`: tests in several processes that are forked from the one that has collected them.

Theory of operation. One process imports and collects everything, which costs as much as a thousand tests, and then forks
its workers: each begins with all of it, and shares its memory. A worker asks for tests when it is at the last one it has,
since it must know the next one before it tidies up behind this one. It sends what pytest reported of a test in one piece,
and the first process tells it to pytest as if it had run the test itself, so summaries, caches and limits of failures work
as always. A worker that dies fails the test it was at, and another is forked in its place.

Tests that wait (for processes, clocks, browsers) and those that only count go at the same time: one worker for each core
counts, goes on with what is short, and leaves the waiting to the others, so that there is always somebody who wants the
processors; when one kind is done, all do the other. Where the number of workers is left to this file, those that count step
back behind those that wait: what waits is soon over then, in the time that it needs by itself, and what is left at the end
fills all processors. The pieces get smaller towards the end, so that no worker is left alone with much. Tests that share a
fixture of their file stay together, and so do, over all files, those that share something costly of the session, which each
worker that had one of them would start. Those that are marked as `long` begin before the others.

With `--programs FILE` the programs of others that tests need are still on their way, until that file is there. Only tests
that need none are given to workers until then.
"""

import atexit
import mmap
import os
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

WAITING = 4
"""Workers beside one for each core. What waits for processes, browsers and clocks takes twenty minutes by itself, and is
to be over when the rest is."""

_NICENESS = 10
"""A worker that counts has a tenth of the weight of one that waits, and of the processes that it waits for."""

_SHARE = 4
"""A worker is given this part of what would be its share of the tests that are left."""

Kind = Literal["waits", "counts", "short"]
_WAITING_FIXTURES = {"browser", "clients", "serve", "terminal"}
_WAITING_MARKS = ("process", "realtime", "waits")

_COSTLY_FIXTURES = {"clients": 120.0}
"""Those of a session that take seconds of a processor to start, and how long the tests that have them take together: the
programs of `clients` took half of what their tests did when six workers started them."""

_ALONE = {"call", "lab", "narrate", "reply", "session", "turn", "vocab", "wire"}
"""Folders whose tests need no program of others, unless they wait."""

_LOOK = 0.1
"""Seconds between two looks at whether the programs of others are there."""


class Warned(NamedTuple):
    """A warning, as it goes to the first process."""

    message: str
    category: type[Warning]
    filename: str
    lineno: int
    when: Literal["config", "collect", "runtest"]
    location: tuple[str, int, str] | None


class Recorded(NamedTuple):
    """All that pytest said of one test."""

    nodeid: str
    location: tuple[str, int | None, str]
    reports: list[dict[str, Any]]
    warned: list[Warned]


class WorkerHooks:
    """What a plugin may do in a worker."""

    def pytest_worker_began(self, folder: Path) -> None:
        """Before its first test. The folder is the worker's own, and is gone some runs later."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(WorkerHooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("workers").addoption(
        "--workers",
        default="0",
        help=f"run the tests in this many forked processes; auto: {WAITING} more than cores",
    )
    parser.getgroup("workers").addoption(
        "--programs",
        metavar="FILE",
        help="workers get the tests that need programs of others as soon as this file is there",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    wanted = session.config.getoption("--workers")
    count = cores() + WAITING if wanted == "auto" else int(wanted)
    if not count or session.config.option.collectonly or session.testsfailed or not session.items:
        return None  # as pytest does it
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if threads:
        raise pytest.UsageError(f"importing the tests has started {threads}, which no worker would have")
    crew = _Crew(session, min(count, len(session.items)), steps_back=wanted == "auto")
    try:
        crew.run()
    finally:
        crew.close()
    return True


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Which tests are given to whom


class _File(NamedTuple):
    """Tests of one file that are of one kind."""

    kind: Kind
    is_whole: bool
    places: list[int]
    order: float = 0
    """The longest first, then those with a browser, so that they follow each other; then those that cannot be divided."""
    needs_programs: bool = True
    """Of others."""


class WorkQueue:
    """The tests that nobody has yet, by their places in the session. Those that need programs of others are held back
    until these are there."""

    def __init__(self, items: Sequence[pytest.Item], workers: int, has_programs: bool = True) -> None:
        self._workers = workers
        self._files: dict[Kind, deque[_File]] = {"waits": deque(), "counts": deque(), "short": deque()}
        files = sorted(_files_of(items), key=lambda file: file.order)
        self._held = [] if has_programs else [file for file in files if file.needs_programs]
        for file in files:
            if has_programs or not file.needs_programs:
                self._files[file.kind].append(file)

    @property
    def holds_back(self) -> bool:
        return bool(self._held)

    def release(self) -> None:
        """The programs are there."""
        for kind, files in self._files.items():
            held = [file for file in self._held if file.kind == kind]
            self._files[kind] = deque(sorted([*files, *held], key=lambda file: file.order))
        self._held = []

    def take(self, kinds: Iterable[Kind]) -> list[int]:
        """What a worker does next that would rather have the first of these kinds; nothing if there is nothing."""
        files = next((self._files[kind] for kind in kinds if self._files[kind]), None)
        if files is None:
            return []
        left = sum(len(file.places) for file in files)
        file = files[0]
        size = len(file.places) if file.is_whole else max(1, left // (self._workers * _SHARE))
        piece, rest = file.places[:size], file.places[size:]
        if rest:
            files[0] = file._replace(places=rest)
        else:
            files.popleft()
        return piece

    def has(self, kind: Kind) -> bool:
        return bool(self._files[kind]) or any(file.kind == kind for file in self._held)

    def put_back(self, places: Iterable[int]) -> None:
        if kept := list(places):
            self._files["short"].appendleft(_File("short", True, kept))


def _files_of(items: Sequence[pytest.Item]) -> Iterable[_File]:
    left = [*enumerate(items)]
    for name, seconds in _COSTLY_FIXTURES.items():
        places = [place for place, item in left if name in getattr(item, "fixturenames", ())]
        left = [(place, item) for place, item in left if name not in getattr(item, "fixturenames", ())]
        if places:
            yield _File("waits", True, places, -seconds)
    yield from _cheap_files(left)


def _cheap_files(items: Iterable[tuple[int, pytest.Item]]) -> Iterable[_File]:
    for _, tests in groupby(items, key=lambda test: test[1].path):
        together = list(tests)
        alone = [(place, item) for place, item in together if not _shares(item)]
        if sharing := [(place, item) for place, item in together if _shares(item)]:
            # It cannot be divided, so nobody may begin with it when the others are at their end.
            waits = any(kind_of(item) == "waits" for _, item in sharing)
            order = min(-seconds_of(item) or 1 for _, item in sharing)
            needs = any(_needs_programs(item) for _, item in sharing)
            yield _File("waits" if waits else "counts", True, [place for place, _ in sharing], order, needs)
        for place, item in alone:
            if seconds := seconds_of(item):
                yield _File(kind_of(item), True, [place], -seconds, _needs_programs(item))
        for kind in _RANKS:
            if places := [place for place, item in alone if kind_of(item) == kind and not seconds_of(item)]:
                first = next(item for place, item in alone if place == places[0])
                has_browser = "browser" in getattr(first, "fixturenames", ())
                yield _File(kind, False, places, 0 if has_browser else 2, _needs_programs(first))


_RANKS: tuple[Kind, ...] = ("waits", "counts", "short")


def kind_of(item: pytest.Item) -> Kind:
    names = getattr(item, "fixturenames", ())
    if any(item.get_closest_marker(mark) for mark in _WAITING_MARKS) or not _WAITING_FIXTURES.isdisjoint(
        names
    ):
        return "waits"
    return "counts" if item.get_closest_marker("exhaustive") else "short"


def seconds_of(item: pytest.Item) -> float:
    """How long a test takes that is marked as long."""
    mark = item.get_closest_marker("long")
    return float(mark.args[0]) if mark else 0.0


def _needs_programs(item: pytest.Item) -> bool:
    folder = item.nodeid.split("/")[1:2]  # below `tests`
    return kind_of(item) == "waits" or _ALONE.isdisjoint(folder)


def _shares(item: pytest.Item) -> bool:
    """Whether it has a fixture together with the other tests of its file."""
    known: dict[str, Sequence[Any]] = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    return any(definitions[-1].scope in ("class", "module", "package") for definitions in known.values())


# The first process


class _Worker:
    """A worker as the first process knows it."""

    def __init__(self, number: int, pid: int, channel: Connection, kinds: tuple[Kind, ...]) -> None:
        self.number = number
        self.pid = pid
        self.channel = channel
        self.kinds = kinds
        self.given: deque[int] = deque()
        self.is_idle = False


class _Crew:
    """The workers of a session."""

    def __init__(self, session: pytest.Session, count: int, steps_back: bool) -> None:
        self._session = session
        self._steps_back = steps_back
        self._stop = mmap.mmap(-1, 1)
        self._programs = Path(session.config.getoption("--programs") or os.devnull)
        self._queue = WorkQueue(session.items, count, self._programs.exists())
        self._hungry: list[_Worker] = []
        self._counting = min(cores(), max(count // 2, 1))
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # one for all workers
        self._workers: dict[Connection, _Worker] = {}
        for number in range(count):
            self._fork(number)

    def run(self) -> None:
        while self._workers:
            for channel in wait([*self._workers], _LOOK if self._queue.holds_back else None):
                assert isinstance(channel, Connection)
                worker = self._workers[channel]
                try:
                    said = channel.recv()
                except (EOFError, OSError):
                    self._ended(worker)
                    continue
                if isinstance(said, Recorded):
                    worker.given.popleft()
                    self._tell(said)
                elif said == "more":
                    self._give(worker)
                else:
                    worker.is_idle = True
                    self._dismiss()
            if self._queue.holds_back and (self._programs.exists() or self._stop[0]):
                self._release()
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def close(self) -> None:
        """Those that are still at work finish their test."""
        self._stop[0] = 1
        for worker in self._workers.values():
            worker.channel.close()
        for worker in self._workers.values():
            os.waitpid(worker.pid, 0)

    def _fork(self, number: int) -> None:
        ours, theirs = Pipe()
        counts = number < self._counting
        if pid := os.fork():
            theirs.close()
            kinds: tuple[Kind, ...] = ("counts", "short", "waits") if counts else _RANKS
            self._workers[ours] = _Worker(number, pid, ours, kinds)
            return
        code = 1
        try:
            if counts and self._steps_back and self._queue.has("waits"):
                os.nice(_NICENESS)
            for channel in (ours, *self._workers):
                channel.close()
            atexit._clear()  # what the first process does at its end is its own
            try:
                WorkerSession(self._session, number, theirs, self._stop).run()
            finally:
                atexit._run_exitfuncs()
            code = 0
        except KeyboardInterrupt:
            code = 130
        finally:
            if code == 1:  # nobody else would ever see why
                os.write(2, traceback.format_exc().encode())
            os._exit(code)

    def _release(self) -> None:
        self._queue.release()
        hungry, self._hungry = self._hungry, []
        for worker in hungry:
            self._give(worker)

    def _give(self, worker: _Worker) -> None:
        piece = [] if self._stop[0] else self._queue.take(worker.kinds)
        if not piece and self._queue.holds_back:
            self._hungry.append(worker)
            return
        worker.given.extend(piece)
        worker.channel.send(piece)

    def _dismiss(self) -> None:
        """Workers go together: what one of them keeps running for all is needed until the last test."""
        if all(worker.is_idle for worker in self._workers.values()):
            for channel in self._workers:
                channel.send("go")

    def _tell(self, said: Recorded) -> None:
        config = self._session.config
        hook = config.hook
        for warned in said.warned:
            told = warnings.WarningMessage(*warned[:4])
            about = {"nodeid": said.nodeid, "when": warned.when, "location": warned.location}
            hook.pytest_warning_recorded.call_historic(kwargs={"warning_message": told, **about})
        hook.pytest_runtest_logstart(nodeid=said.nodeid, location=said.location)
        for data in said.reports:
            report = hook.pytest_report_from_serializable(config=config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=said.nodeid, location=said.location)
        if self._session.shouldfail or self._session.shouldstop:
            self._stop[0] = 1

    def _ended(self, worker: _Worker) -> None:
        """A worker is gone: it had nothing more to do, or died at the first test that it did not tell of."""
        del self._workers[worker.channel]
        worker.channel.close()
        self._hungry = [other for other in self._hungry if other is not worker]
        code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.is_idle and code == 0:
            return
        if not worker.given:
            raise self._session.Interrupted(f"worker {worker.number} ended with {code}")
        item = self._session.items[worker.given.popleft()]
        why = f"the worker at this test ended with {code}"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
        self._tell(Recorded(item.nodeid, item.location, [serialized(self._session.config, report)], []))
        self._queue.put_back(worker.given)
        if not self._stop[0]:
            self._fork(worker.number)
        self._dismiss()


def serialized(config: pytest.Config, report: pytest.TestReport) -> dict[str, Any]:
    data: dict[str, Any] = config.hook.pytest_report_to_serializable(config=config, report=report)
    return data


# A worker


class _Deserted(Exception):
    """The first process listens no more."""


class _Silent:
    """In the place of the terminal's reporter: others write where it wrote, and it says nothing."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


class WorkerSession:
    """The session of pytest, as it goes on in a worker."""

    def __init__(self, session: pytest.Session, number: int, channel: Connection, stop: mmap.mmap) -> None:
        self._session = session
        self._config = session.config
        self._channel = channel
        self._stop = stop
        self._reports: list[dict[str, Any]] = []
        self._warned: list[Warned] = []
        self._take_over(number)

    def run(self) -> None:
        """Whatever ends it, what its tests keep running ends with it."""
        try:
            self._run_tests()
        except _Deserted:
            pass  # the first process was interrupted, and tells so
        finally:
            self._session._setupstate.teardown_exact(None)

    def _run_tests(self) -> None:
        items = self._session.items
        given = deque(self._more())
        while given:
            item = items[given.popleft()]
            if not given:
                given.extend(self._more())
            following = items[given[0]] if given and not self._stop[0] else None
            self._config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self._send(Recorded(item.nodeid, item.location, self._reports, self._warned))
            self._reports, self._warned = [], []
            if following is None:
                break
        self._send("idle")
        self._receive()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(serialized(self._config, report))

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: Literal["config", "collect", "runtest"],
        location: tuple[str, int, str] | None,
    ) -> None:
        what = warning_message
        self._warned.append(
            Warned(str(what.message), what.category, what.filename, what.lineno, when, location)
        )

    def _more(self) -> list[int]:
        self._send("more")
        given: list[int] = self._receive()
        return given

    def _send(self, what: object) -> None:
        try:
            self._channel.send(what)
        except OSError:
            raise _Deserted from None

    def _receive(self) -> Any:
        try:
            return self._channel.recv()
        except (EOFError, OSError):
            raise _Deserted from None

    def _take_over(self, number: int) -> None:
        """What may not be shared with the first process and the other workers: files, folders, the terminal."""
        plugins = self._config.pluginmanager
        if capture := plugins.get_plugin("capturemanager"):
            capture.stop_global_capturing()
            capture.start_global_capturing()
        if reporter := plugins.get_plugin("terminalreporter"):
            plugins.unregister(reporter)
            plugins.register(_Silent(reporter._tw), "terminalreporter")
        factory = self._config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = folder = Path(factory.getbasetemp()) / f"worker-{number}-{os.getpid()}"
        folder.mkdir(0o700)
        self._config.hook.pytest_worker_began(folder=folder)
        sys.stdin = open(os.devnull)  # noqa: SIM115 - for as long as this process lives
        plugins.register(self, "worker-session")
        self._warned = []  # those from before were told to it now, and are known
