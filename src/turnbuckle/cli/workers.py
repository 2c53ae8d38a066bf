"""The parent of worker processes: `turnbuckle serve --workers N`.

Theory of operation. The parent locks the folder, opens the sockets and forks. It has no event loop and no
thread, so a child has nothing that a fresh process would not have; and it serves nobody, so nothing a client
sends can harm it. The first worker starts alone: if it cannot, its message is the only one, and its exit code
that of all. Each worker is a node of its own on the database, so what one drove when it died goes on in
another one before the parent has started its successor.

Between the parent and each worker is a pair of sockets. By it the worker says that it listens, and the parent
that the settings are to be read again. Its end means a stop in good order: a worker does not outlive its
parent. Signals that reach workers directly, as those of a terminal or of a supervisor do, mean the same and
can come twice; only the parent decides to leave at once.
"""

import contextlib
import gc
import logging
import os
import secrets
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnbuckle.call.loop import run as run_loop
from turnbuckle.cli.echo import echo_at_once
from turnbuckle.cli.exits import CANCELLED, FAILED, OK
from turnbuckle.cli.run import told
from turnbuckle.config import Loaded, changed_keys, merged
from turnbuckle.errors import ConfigError
from turnbuckle.hosting import open_server
from turnbuckle.journal.address import is_database
from turnbuckle.journal.sqlite.folder import FolderLock
from turnbuckle.observe.logs import open_plain_log
from turnbuckle.observe.worker_numbers import NumberSockets
from turnbuckle.server.http.listeners import Loads, open_listeners
from turnbuckle.server.http.serving import (
    FAREWELL,
    MARKING,
    RELOAD,
    ShutdownSignal,
    WorkerPlace,
    has_terminal,
    serve,
)
from turnbuckle.settings import is_reloaded, secrets_of
from turnbuckle.vocab.redaction import redactor_of

LEFT = "left at once; runs that were under way go on after the next start"
MOST_TRIES = 8
"""How often a worker that fails soon is started again before it is given up; all pauses are about a
minute."""
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
SOUND = 60.0
"""Seconds after which a worker counts as one that started well, whatever becomes of it."""
_SLACK = 10.0  # seconds beyond all that a stop in good order may take
_MOST = 65_536  # bytes of what a worker says when it listens
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

log = logging.getLogger("turnbuckle.workers")


class WorkerReady(Struct, frozen=True):
    """What a worker says when it listens: where, and whether whoever comes needs a key."""

    address: str
    needs_key: bool


class StartAgain(Struct, frozen=True):
    """Start a worker again, after a pause; it is the try of this number."""

    pause: float
    tries: int


def after_end(code: int, lived: float, tries: int) -> StartAgain | None:
    """What becomes of a worker that ended without being asked, after so many failed tries; None: it is given
    up. One that left in good order was sent away by somebody who wants a new one."""
    if code == OK:
        return StartAgain(0.0, 0)
    tries = (0 if lived >= SOUND else tries) + 1
    return (
        StartAgain(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE), tries) if tries <= MOST_TRIES else None
    )


def require_database(loaded: Loaded) -> None:
    """Raises ConfigError if several processes cannot share the journal."""
    count = loaded.settings.server.workers
    if count > 1 and not is_database(loaded.settings.data):
        raise ConfigError(
            f"{count} workers need a journal in Postgres, and data names a folder, which has one process. "
            "Set data to the address of a database, where `turnbuckle move` can copy what there is, or leave "
            "out --workers and server.workers (docs/scale.md)"
        )


class _Worker:
    """One place for a worker, whichever process has it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.link: socket.socket | None = None
        self.since = 0.0
        self.ready: WorkerReady | None = None
        self.tries = 0
        self.due: float | None = None

    def close(self) -> None:
        if self.link is not None:
            self.link.close()
        self.link, self.ready, self.pid = None, None, 0


class WorkerParent:
    """Starts workers, and starts those again that die. `announce` is called once, when all listen."""

    def __init__(
        self, loaded: Loaded, again: Callable[[], Loaded], announce: Callable[[WorkerReady], None]
    ) -> None:
        self._loaded = loaded
        self._again = again
        self._announce = announce
        self._token = secrets.token_urlsafe(32)
        server = loaded.settings.server
        self._workers = [_Worker(number) for number in range(server.workers)]
        self._is_announced = False
        self._stopping: float | None = None  # until when those that are left may take
        self._code: int | None = None
        self._had_terminal = has_terminal()
        self._process = os.getpid()

    def run(self) -> int:
        """Serve until somebody wants it to stop, and give the exit code. Raises CanNotListen, InUse and
        StorageError."""
        settings = self._loaded.settings
        server, lock = settings.server, FolderLock(Path(settings.folder))
        try:
            self._listeners = open_listeners(server.host, server.port, server.send_timeout)
            self._loads, self._numbers = Loads(server.workers), NumberSockets(server.workers)
            redactor = redactor_of(secrets_of(settings, os.environ).values)
            try:
                with open_plain_log(server.log, redactor) as self._handler, self._signals() as self._woken:
                    return self._watch()
            finally:
                self._kill()
                self._numbers.close()
                for listening in self._listeners:
                    listening.close()
        finally:
            lock.release()

    def _watch(self) -> int:
        self._workers[0].due = time.monotonic()
        while True:
            now = time.monotonic()
            for worker in self._workers:
                if worker.due is not None and worker.due <= now:
                    self._start(worker)
            if not any(worker.pid or worker.due is not None for worker in self._workers):
                return FAILED if self._code is None else self._code
            if self._stopping is not None and now >= self._stopping:
                log.error("workers that do not end are killed")
                self._kill()
            waits = [worker.due for worker in self._workers if worker.due is not None]
            if self._stopping is not None:
                waits.append(self._stopping)
            starting = {
                worker.link.fileno(): worker
                for worker in self._workers
                if worker.link is not None and not worker.ready
            }
            pause = max(min(waits) - now, 0.0) if waits else None
            ready, _, _ = select.select([self._woken, *starting], [], [], pause)
            for link in starting.keys() & ready:
                self._listen_to(starting[link])
            if self._woken in ready:
                for number in sorted(set(os.read(self._woken, 1024))):
                    self._take(number)
            self._reap()

    # Workers come and go

    def _start(self, worker: _Worker) -> None:
        worker.due = None
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            self._fork(worker)
        except OSError as error:  # no process, memory or descriptor left: that must not end those that work
            worker.close()
            self._ended(worker, f"could not be started ({error.strerror})", -1, 0.0)

    def _fork(self, worker: _Worker) -> None:
        worker.link, theirs = socket.socketpair()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            worker.pid = os.fork()
            if worker.pid == 0:
                self._become(worker, theirs)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            theirs.close()
        worker.since = time.monotonic()

    def _become(self, worker: _Worker, orders: socket.socket) -> NoReturn:
        """From here on this is a worker. What belongs to its parent is closed: whoever has the other end of a
        sibling's link would keep it from hearing that the parent is gone."""
        code = FAILED
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            os.close(self._woken)
            logging.getLogger().removeHandler(self._handler)
            for each in self._workers:
                each.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            orders.setblocking(False)
            shared = (self._listeners, self._loads, orders, self._numbers, self._token)
            place = WorkerPlace(worker.number, *shared)
            code = told(lambda: run_loop(_work(self._loaded, self._again, place)))
        except KeyboardInterrupt:
            code = CANCELLED
        except BaseException as error:
            traceback.print_exception(error)
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            if os.getppid() != self._process:
                self._numbers.close()  # the parent was killed, and left its folder behind
            os._exit(code)

    def _listen_to(self, worker: _Worker) -> None:
        assert worker.link is not None
        try:
            said = worker.link.recv(_MOST)
        except OSError:
            said = b""
        if not said:
            worker.link.close()  # it is about to end
            worker.link = None
            return
        worker.ready = msgspec.json.decode(said, type=WorkerReady)
        log.info("worker %d of %d listens, process %d", worker.number + 1, len(self._workers), worker.pid)
        if self._is_announced or self._stopping is not None:
            return
        for other in self._workers:
            if not other.pid:
                other.due = time.monotonic()
        if all(other.ready for other in self._workers):
            self._is_announced = True
            self._announce(worker.ready)

    def _reap(self) -> None:
        for worker in self._workers:
            if not worker.pid:
                continue
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                lived, was_ready = time.monotonic() - worker.since, worker.ready is not None
                worker.close()
                self._loads.forget(worker.number)
                code = os.waitstatus_to_exitcode(status)
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
                self._ended(worker, f"process {pid}, {how}", code, lived if was_ready else 0.0)

    def _ended(self, worker: _Worker, how: str, code: int, lived: float) -> None:
        named = (worker.number + 1, how)
        if self._stopping is not None:
            if code != OK and self._code == OK and lived:
                log.error("worker %d, %s instead of in good order", *named)
                self._code = FAILED
            return
        if not self._is_announced:
            if code < 0:
                log.error("worker %d, %s before it listened", *named)
            self._stop(code if code > 0 else FAILED)
            return
        again = after_end(code, lived, worker.tries)
        if again is None:
            log.error("worker %d, %s and is given up; SIGHUP tries it again", *named)
            return
        log.warning("worker %d, %s; another starts in %g s", *named, again.pause)
        worker.tries, worker.due = again.tries, time.monotonic() + again.pause

    # Signals

    @contextlib.contextmanager
    def _signals(self) -> Iterator[int]:
        """Gives a descriptor that the numbers of signals come by."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, before in self._before.items():
            if (
                number != signal.SIGHUP or before is not signal.SIG_IGN
            ):  # `nohup` wants neither of its meanings
                signal.signal(number, lambda number, frame: None)
        waked = signal.set_wakeup_fd(wake)
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(waked)
            for number, before in self._before.items():
                signal.signal(number, before)
            os.close(woken)
            os.close(wake)

    def _take(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            if self._stopping is None:
                self._stop(OK if self._is_announced else CANCELLED)
            else:
                echo_at_once(LEFT)
                self._code = CANCELLED
                self._kill()
        elif number == signal.SIGHUP and self._had_terminal and not has_terminal():
            if self._stopping is None:  # a shell and the kernel send one each
                log.info("the terminal was closed: shutting down")
                self._stop(OK)
        elif number == signal.SIGHUP:
            self._reload()

    def _stop(self, code: int) -> None:
        """Ask all that live to leave in good order, and open the port to nobody."""
        self._code = code
        server = self._loaded.settings.server
        self._stopping = time.monotonic() + server.drain + MARKING + 2 * FAREWELL + _SLACK
        for listening in self._listeners:
            listening.close()
        for worker in self._workers:
            worker.due = None
            if worker.pid:
                os.kill(worker.pid, signal.SIGTERM)
            if worker.link is not None:
                worker.link.close()
                worker.link = None

    def _kill(self) -> None:
        self._stopping = time.monotonic() + _SLACK
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, signal.SIGKILL)

    def _reload(self) -> None:
        """All workers read the settings again and tell the log; those that start later have the same."""
        with contextlib.suppress(ConfigError, OSError):
            read = self._again().settings
            taken = [key for key in changed_keys(self._loaded.settings, read) if is_reloaded(key)]
            self._loaded = replace(self._loaded, settings=merged(self._loaded.settings, read, taken))
        for worker in self._workers:
            if worker.link is not None:
                with contextlib.suppress(OSError):
                    worker.link.send(RELOAD)
            elif not worker.pid and self._is_announced and self._stopping is None:
                worker.tries, worker.due = 0, time.monotonic()


def calm_collector() -> None:
    """Python looks for cycles of garbage after every 700 new objects, and now and then at all objects there
    are. A hundred streams that begin at once make that a tenth of the work. What is there by now stays, so it
    is never looked at again, and the rest is looked at less often; that costs a few megabytes at most."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


async def _work(loaded: Loaded, again: Callable[[], Loaded], place: WorkerPlace) -> int:
    async with open_server(loaded, again=again, worker=place) as service:

        def announce(address: str) -> None:
            with contextlib.suppress(OSError):  # its end is a wish to stop, and will be heard
                place.orders.send(msgspec.json.encode(WorkerReady(address, service.app.needs_key)))

        calm_collector()
        await serve(service, ShutdownSignal(lambda: os._exit(CANCELLED)), announce, worker=place)
    # The loop is about to give its signals back, and what comes by them is done.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    return OK
