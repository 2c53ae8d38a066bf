"""`turnbuckle` processes without the half second that each takes to import itself, and `llm` ones without a whole one.

Theory of operation. One process per test worker and program imports it once and then only forks: for every request it makes
a child with the wanted folder, environment, arguments and files, which runs `python -m turnbuckle.cli.main` as if it
had just been started. The request comes over a socket with its files beside it; back come the pid, and, on a pipe of
its own, how the child ended. The parent has no thread, no loop and no open file of the package, so a child has nothing
that a fresh process would not have. What was imported is frozen, and a child that has ended as a program does is not
taken apart module by module: both would copy the whole of it, in fifteen times the time that a short command takes.
What only takes effect when Python itself starts (`PYTHONPATH`, `LD_PRELOAD`) can
not be given so: `commands.start` really starts such a process, and the tests of terminals, pages and journals always do.
"""

import atexit
import gc
import io
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from types import TracebackType
from typing import IO, Self

import msgspec

_MAX_REQUEST = 1 << 20


class ForkRequest(msgspec.Struct):
    """What a child is to be."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


class ForkedProcess:
    """A child as `subprocess.Popen` shows one, as far as tests look."""

    def __init__(self, pid: int, status: int, stdout: IO[str] | None, stderr: IO[str] | None) -> None:
        self.pid = pid
        self.stdin = None
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if self._look(timeout) is None:
            raise subprocess.TimeoutExpired("turnbuckle", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it still says, and then its end."""
        said = ["", ""]

        def read(place: int, file: IO[str]) -> None:
            said[place] = file.read()

        both = enumerate((self.stdout, self.stderr))
        files = [(place, file) for place, file in both if file is not None and not file.closed]
        readers = [threading.Thread(target=read, args=one, daemon=True) for one in files]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired("turnbuckle", timeout or 0)
        self._close_files()
        self.wait(timeout)
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_files()
        self.wait()

    def _close_files(self) -> None:
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, 16)
            os.close(self._status)
            assert told, "the process that forks is gone"
            self.returncode = int(told)
        return self.returncode


class ForkServer:
    """The process that forks."""

    def __init__(self, environment: dict[str, str], program: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), program],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def start(self, request: ForkRequest, stderr: int | None = None) -> ForkedProcess:
        """A child whose output is a pipe; its errors go there too, into a second one, unless a file is given."""
        out, its_out = os.pipe()
        err, its_err = os.pipe() if stderr is None else (None, stderr)
        status, its_status = os.pipe()
        body = msgspec.json.encode(request)
        assert len(body) <= _MAX_REQUEST
        with self._lock:
            socket.send_fds(self._socket, [body], [its_out, its_err, its_status])
            pid = int(self._socket.recv(16) or 0)
        assert pid, "the process that forks is gone"
        for fd in (its_out, its_status, *([its_err] if stderr is None else [])):
            os.close(fd)
        return ForkedProcess(pid, status, _reading(out), None if err is None else _reading(err))


def _reading(fd: int) -> IO[str]:
    return io.TextIOWrapper(os.fdopen(fd, "rb"), encoding="utf-8")


@cache
def fork_server(worker: int, program: str = "turnbuckle") -> ForkServer:
    """The one of a test worker, by its process id, for a program of `_PROGRAMS`."""
    from support.processes.commands import ENVIRONMENT  # noqa: PLC0415 - it imports this module

    made = ForkServer(ENVIRONMENT, program)
    atexit.register(made.close)
    return made


# The other side

_COMMANDS = (
    "run",
    "runs",
    "serve",
    "sessions",
    "keys",
    "drafts",
    "processes",
    "chat.command",
    "doctor.command",
)
_PROGRAMS = {
    "turnbuckle": (
        "turnbuckle.cli.main",
        [
            *(f"turnbuckle.cli.{name}" for name in _COMMANDS),
            "turnbuckle.hosting",
            "genai_prices.data_snapshot",
        ],
    ),
    "llm": ("llm", ["llm.cli", "openai"]),
}
"""The module that is run, and what it imports, most of it when it is called."""


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    program = sys.argv[2]
    module, needed = _PROGRAMS[program]
    for name in needed:
        __import__(name)
    gc.collect()
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    # Whoever runs the tests with `nohup` has them ignore this signal, and every child would go on ignoring it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake)
    waiting: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
            _tell_ends(waiting)
        if requests.fileno() not in ready:
            continue
        body, fds, _, _ = socket.recv_fds(requests, _MAX_REQUEST, 3)
        if not body:
            return  # the tests are over
        if (pid := os.fork()) == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(program, module, msgspec.json.decode(body, type=ForkRequest), fds[0], fds[1])
            return
        waiting[pid] = fds[2]
        os.close(fds[0])
        os.close(fds[1])
        requests.send(str(pid).encode())


def _tell_ends(waiting: dict[int, int]) -> None:
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with os.fdopen(waiting.pop(pid), "w") as told:
            told.write(str(os.waitstatus_to_exitcode(status)))


def _become(program: str, module: str, request: ForkRequest, out: int, err: int) -> None:
    """From here on this is a process of its own, as if it had been started so."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 256)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[0] = request.folder
    sys.argv = [program, *request.arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        _leave(ended.code or 0)
    _leave(0)


def _leave(code: int) -> None:
    """All that Python does at the end of a program, up to where it takes the modules apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except OSError:
        sys.exit(code)  # whatever becomes of what nobody reads is up to Python
    os._exit(code)


if __name__ == "__main__":
    main()
